//! A file that is there whole or not at all, filled with bytes as they come, and read back before it gets its
//! name where that is asked for.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::options::{Cache, Durability};
use crate::io::read_back::HashedFrom;
use crate::part::part_file::{self, Part};
use crate::part::publish::Complete;
use crate::part::transfer::CopyTarget;
use crate::stream::outcome::StreamContent;
use crate::stream::output::place::FilePlace;
use crate::sys::stat::Stat;
use crate::sys::{self, Attributes, CachePolicy, PartOwner, Spliced};
use crate::transfer::context::Context;
use crate::transfer::outcome::{PendingPublish, WrittenPart};
use crate::transfer::verifier::{ReadBackVerdict, ReadBackVerifier};
use crate::tree::found::SourceEntry;

/// Readable and writable by the owner only.
const PRIVATE: u32 = 0o600;

/// How a file ended of which everything came.
pub enum Completion {
    /// It stands; `Some` if it was read back.
    Stands(Option<HashedFrom>),
    /// It is not on its medium as it was written.
    Unproven(Error),
    /// The run was to stop before that was known.
    Stopped,
}

/// A file on its way.
pub struct AtomicFile<'a> {
    context: Context<'a>,
    part: Part,
    place: FilePlace,
    /// While it is open no other run takes the part file for one that was left.
    claim: Option<File>,
}

impl<'a> AtomicFile<'a> {
    /// Begins it. Without a name where that can be, because then it cannot be taken for something that a
    /// killed run left behind.
    pub fn begin(context: &Context<'a>, place: FilePlace) -> Result<Self> {
        let replaces = place.there.is_some();
        let mut context = *context;
        let dir = place.dir.handle.as_ref();
        // What is read back is opened anew.
        context.options.nameless = !replaces
            && context.options.verify.is_none()
            && dir.is_some_and(|dir| dir.can_publish_nameless(PartOwner::default()));
        // Its owner's alone until it is complete.
        let stat = Stat { mode: PRIVATE, ..place.coming };
        let mut part = Part::create_claimed(&context.options, &target_of(&place, stat))?;
        if let (Cache::Drop, Some(dir)) = (context.options.cache, dir) {
            part.spare(CachePolicy::of(dir));
        }
        let keep = |error| Error::io("keep locked the part file of", place.path(), error);
        let claim = match part.file().and_then(|file| sys::keep_locked(file).map_err(keep)) {
            Ok(claim) => claim,
            Err(error) => return Err(part.discard(error)),
        };
        Ok(Self { context, part, place, claim })
    }

    /// Where it is to be.
    pub fn place(&self) -> &FilePlace {
        &self.place
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.part.write(bytes)
    }

    /// Lets `moving` append at most `most` bytes.
    pub fn take(
        &mut self,
        most: u64,
        moving: impl FnOnce(&File, u64) -> io::Result<Spliced>,
    ) -> Result<Spliced> {
        let mut spliced = Spliced::NotHere;
        self.part.take_by(most, |part, most| {
            let moved = moving(part.file()?, most);
            spliced = moved.map_err(|error| Error::io("copy to", part.path(), error))?;
            Ok(match spliced {
                Spliced::Bytes(bytes) => Some(bytes),
                Spliced::Wait | Spliced::NotHere => None,
            })
        })?;
        Ok(spliced)
    }

    /// It is complete: makes it durable, reads it back if that is asked for, and gives it its name, `before`
    /// that being the last thing done. What could not be set of it is told in `warnings`.
    pub fn finish(
        self,
        content: Option<&StreamContent>,
        before: impl FnOnce() -> Result<()>,
        warnings: &mut Vec<Error>,
    ) -> Result<Completion> {
        let Self { context, part, place, claim } = self;
        let digest = content.map(|content| content.digests.proof);
        let chain = content.and_then(|content| content.chain.as_ref());
        // Only of what has a digest there is something to compare.
        let verify = context.options.verify.filter(|_| digest.is_some());
        // Where finishing gives it its name, this is the last moment before.
        let names = context.options.nameless || context.options.durability == Durability::Off;
        let mut before = Some(before);
        if let Some(before) = before.take_if(|_| names)
            && let Err(error) = before()
        {
            return Err(part.discard(error));
        }
        let stat = match part.stat() {
            Ok(now) => attributes(now, place.there.as_ref()),
            Err(error) => return Err(part.discard(error)),
        };
        let Context { options, control, .. } = &context;
        let target = target_of(&place, stat);
        let completed = part.finish(options, control, &target, &Attributes::default(), warnings)?;
        let mut proof = None;
        if let Complete { part: Some((part, made)), method, .. } = completed {
            let written = WrittenPart { part, made, digest, method };
            // What came cannot be had once more.
            let mut file = PendingPublish { source: None, target, written };
            if let Some(damaged) = verify {
                let checked = ReadBackVerifier::new(&context, damaged).knowing(chain).verify(file);
                warnings.extend(checked.warnings);
                match checked.verdict {
                    ReadBackVerdict::Good(good) => proof = Some(good),
                    ReadBackVerdict::Bad(error) => return Ok(Completion::Unproven(error)),
                    ReadBackVerdict::Failed(error) => return Err(error),
                    ReadBackVerdict::Abandoned => return Ok(Completion::Stopped),
                }
                file = checked.file;
            }
            let CopyTarget { output, replaces, .. } = &file.target;
            let done = before.map_or(Ok(()), |before| before());
            let done = done.and_then(|()| {
                let WrittenPart { part, made, .. } = &file.written;
                part_file::publish(output, part, made, &place.name, *replaces)
            });
            done.map_err(|error| file.discard(error))?;
        }
        drop(claim);
        if context.options.durability != Durability::Off {
            let durable = place.dir.persist();
            durable.map_err(|error| Error::io("make durable the name of", place.path(), error))?;
        }
        Ok(Completion::Stands(proof))
    }

    /// Removes it because of `error`, which is returned.
    pub fn discard(self, error: Error) -> Error {
        self.part.discard(error)
    }

    /// Removes it because the run is to stop; returns what stays behind.
    pub fn abandon(self) -> Vec<Error> {
        let mut stays = Vec::new();
        self.part.abandon(&mut stays);
        stays
    }
}

/// Where the file is to stand, with these attributes.
fn target_of(place: &FilePlace, stat: Stat) -> CopyTarget {
    let entry = SourceEntry { name: place.name.as_os_str().into(), stat };
    let (output, replaces) = (Arc::clone(&place.dir), place.there.is_some());
    CopyTarget { output, entry, replaces, labelled: true }
}

/// What the finished file is to be: as any that is made now, or like the one whose place it takes.
fn attributes(now: Stat, there: Option<&Stat>) -> Stat {
    match there {
        Some(there) if there.kind == now.kind => {
            Stat { mode: there.mode, uid: there.uid, gid: there.gid, ..now }
        }
        _ => Stat { mode: sys::new_file_mode(), ..now },
    }
}
