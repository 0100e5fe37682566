//! A file that is at the output already, with the size and time of the source's: is it kept?
//!
//! Without `--verify` that is settled, and it is only read if no earlier manifest has its digest. With it,
//! the file is read from its medium. If that is what an earlier manifest lists, the file is good; if not,
//! the source is read too, and what differs from it was damaged, or changed by a program that set the
//! time back.

use crate::error::{Error, Result};
use crate::hash::{Algorithm, Digest};
use crate::io::options::Durability;
use crate::io::read_back::{FileDigest, ReadBack};
use crate::io::watched_file::WatchedFile;
use crate::part::transfer::Transfer;
use crate::sys::{self, Medium, stat::Stat};
use crate::transfer::context::Context;
use crate::transfer::outcome::{Action, Outcome};
use crate::transfer::source;
use crate::tree::overwrite::Policy;

/// A file, and what is known of its copy.
pub struct ExistingFile<'a> {
    /// What the run shares.
    pub context: &'a Context<'a>,
    /// The file.
    pub transfer: &'a Transfer,
    /// What is at the output.
    pub there: &'a Stat,
    /// The digest that an earlier manifest has for it.
    pub known: Option<Digest>,
    /// The digest of the source's file, if that was read already.
    pub source_digest: Option<Digest>,
}

impl ExistingFile<'_> {
    /// What is to be done about it.
    ///
    /// # Errors
    /// It, or the source if that had to be asked, could not be read, or changed meanwhile.
    pub fn check(&self, read_back: &mut ReadBack) -> Result<Action> {
        let Self { context, there, known, .. } = *self;
        let (target, options) = (&self.transfer.target, &context.options);
        let verify = options.verify.is_some();
        let is_read = verify || (known.is_none() && options.algorithm != Algorithm::None);
        let Some(dir) = target.output.handle.as_ref().filter(|_| is_read) else {
            return Ok(match (known, self.source_digest) {
                (Some(known), Some(source)) if known != source => self.differs(),
                _ => Action::Settled(Outcome::Kept { digest: known, proof: None }),
            });
        };
        let path = || target.path();
        let file = WatchedFile::open(dir, &target.entry.name, false, there, &path)?;
        let medium = match verify {
            true => Medium::of(file.file(), there),
            false => Ok(Medium::any(file.file())),
        };
        let is_to_stop = || context.control.stop.is_urgent();
        let hashed =
            medium.and_then(|medium| read_back.hash(medium, options.algorithm, is_to_stop, |_| ()));
        let FileDigest { digest, bytes, hashed_from: proof } = match hashed {
            Ok(Some(hashed)) => hashed,
            Ok(None) => return Ok(Action::Settled(Outcome::Abandoned)),
            Err(error) if verify && options.policy != Policy::Never => {
                return Ok(copy_anew(file.error("read back", error)));
            }
            Err(error) => return Err(file.error("read", error)),
        };
        file.check(bytes)?;
        let source = match self.source_digest {
            None if verify && digest != known => match self.hash_source(read_back)? {
                None => return Ok(Action::Settled(Outcome::Abandoned)),
                source => source,
            },
            None => digest,
            source => source,
        };
        if source != digest {
            return Ok(self.differs());
        }
        if options.durability == (Durability::Grouped { at_once: false }) {
            // It may have come here a moment ago, and not be on the device yet.
            sys::persist_file(file.file()).map_err(|error| file.error("make durable", error))?;
        }
        let proof = verify.then_some(proof);
        Ok(Action::Settled(Outcome::Kept { digest, proof }))
    }

    /// The digest of the source's file, if not told to stop.
    fn hash_source(&self, read_back: &mut ReadBack) -> Result<Option<Digest>> {
        let hashed = source::hash(self.context, self.transfer, read_back);
        hashed.map_err(|error: Error| match self.known {
            None => error,
            Some(_) => error.with_note("; and its copy is not what an earlier manifest lists"),
        })
    }

    /// What is to be done when the content is not the source's.
    fn differs(&self) -> Action {
        if self.context.options.policy == Policy::Never {
            let why = "its content differs although size and time are the same, \
                       and nothing is to be replaced";
            return Action::Settled(Outcome::Left(why));
        }
        let finding = "its content differs although size and time are the same";
        copy_anew(Error::finding("keep", self.transfer.target.path(), finding))
    }
}

fn copy_anew(damage: Error) -> Action {
    let warning = damage.with_note("; it is copied anew");
    Action::Copy { replaces: true, warning: Some(warning) }
}
