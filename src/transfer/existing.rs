//! A file that is at the output already, with the size and time of the source's: is it kept?
//!
//! Without `--verify` that is settled, and it is only read if nobody knows its digest. With it, the
//! file is read from its medium. If that is what an earlier manifest lists, the file is good; if not,
//! the source is read too, and what differs from it was damaged, or changed by somebody who set the
//! time back.

use crate::error::{Error, Result};
use crate::hash::{Algorithm, Digest};
use crate::io::options::Durability;
use crate::io::read_back::{FileDigest, ReadBack};
use crate::io::watched_file::WatchedFile;
use crate::sys::{self, Medium, stat::Stat};
use crate::transfer::context::Context;
use crate::transfer::outcome::Fate;
use crate::transfer::prepare::Next;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::overwrite::Policy;

/// A file, and what is known of its copy.
pub struct Kept<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) source: &'a SourceDir,
    pub(crate) output: &'a OutputDir,
    pub(crate) entry: &'a SourceEntry,
    /// What is at the output.
    pub there: &'a Stat,
    /// The digest that an earlier manifest has for it.
    pub known: Option<Digest>,
    /// The digest of the source's file, if that was read already.
    pub source_is: Option<Digest>,
}

impl Kept<'_> {
    /// What is to be done about it.
    ///
    /// # Errors
    /// It, or the source if that had to be asked, could not be read, or changed meanwhile.
    pub fn judge(&self, read_back: &mut ReadBack) -> Result<Next> {
        let Self { context, output, entry, there, known, .. } = *self;
        let verify = context.options.verify.is_some();
        let (Some(dir), true) = (
            &output.handle,
            verify || (known.is_none() && context.options.algorithm != Algorithm::None),
        ) else {
            return Ok(match (known, self.source_is) {
                (Some(known), Some(source)) if known != source => self.differs(),
                _ => Next::Settled(Fate::Kept { digest: known, proof: None }),
            });
        };
        let path = || output.path_of(&entry.name);
        let file = WatchedFile::open(dir, &entry.name, false, there, &path)?;
        let medium = match verify {
            true => Medium::of(file.file(), there),
            false => Ok(Medium::any(file.file())),
        };
        let is_to_stop = || context.control.stop.is_urgent();
        let hashed = medium.and_then(|medium| {
            read_back.hash(medium, context.options.algorithm, is_to_stop, |_| ())
        });
        let FileDigest { digest, bytes, hashed_from: proof } = match hashed {
            Ok(Some(hashed)) => hashed,
            Ok(None) => return Ok(Next::Settled(Fate::Abandoned)),
            Err(error) if verify && context.options.policy != Policy::Never => {
                return Ok(copy_anew(file.error("read back", error)));
            }
            Err(error) => return Err(file.error("read", error)),
        };
        file.check(bytes)?;
        let source = match self.source_is {
            None if verify && digest != known => match self.hash_source(read_back)? {
                None => return Ok(Next::Settled(Fate::Abandoned)),
                source => source,
            },
            None => digest,
            source => source,
        };
        if source != digest {
            return Ok(self.differs());
        }
        if context.options.durability == (Durability::Grouped { at_once: false }) {
            // Nobody knows how the file came here.
            sys::persist_file(file.file()).map_err(|error| file.error("make durable", error))?;
        }
        let proof = verify.then_some(proof);
        Ok(Next::Settled(Fate::Kept { digest, proof }))
    }

    /// The digest of the source's file, if not told to stop.
    fn hash_source(&self, read_back: &mut ReadBack) -> Result<Option<Digest>> {
        let hashed = hash_source(self.context, self.source, self.entry, read_back);
        hashed.map_err(|error: Error| match self.known {
            None => error,
            Some(_) => error.with_note("; and its copy is not what an earlier manifest lists"),
        })
    }

    /// What is to be done when the content is not the source's.
    fn differs(&self) -> Next {
        if self.context.options.policy == Policy::Never {
            let why = "its content differs although size and time are the same, \
                       and nothing is to be replaced";
            return Next::Settled(Fate::Left(why));
        }
        let finding = "its content differs although size and time are the same";
        copy_anew(Error::finding("keep", self.output.path_of(&self.entry.name), finding))
    }
}

/// The digest of a file in the source, if not told to stop.
pub fn hash_source(
    context: &Context<'_>,
    source: &SourceDir,
    entry: &SourceEntry,
    read_back: &mut ReadBack,
) -> Result<Option<Digest>> {
    let path = || source.path_of(&entry.name);
    let file =
        WatchedFile::open(&source.handle, &entry.name, context.options.follow, &entry.stat, &path)?;
    let medium = Medium::any(file.file());
    let is_to_stop = || context.control.stop.is_urgent();
    let pace = |read| {
        if let Some(rate) = context.control.rate {
            rate.pace(usize::try_from(read).unwrap_or(usize::MAX), context.control.stop);
        }
    };
    let hashed = read_back
        .hash(medium, context.options.algorithm, is_to_stop, pace)
        .map_err(|error| file.error("read", error))?;
    let Some(hashed) = hashed else { return Ok(None) };
    file.check(hashed.bytes)?;
    Ok(hashed.digest)
}

fn copy_anew(damage: Error) -> Next {
    let warning = damage.with_note("; it is copied anew");
    Next::Copy { replaces: true, warning: Some(warning) }
}
