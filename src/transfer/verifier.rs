//! Proving a copy: what was made durable in a part file is read back from its medium before it gets
//! its final name.
//!
//! A copy that is not there as it was written, or cannot be read, is put away and named, and the file
//! is copied once more. Once: a device that fails twice in a row does not get better by writing on.

use std::ffi::{OsStr, OsString};
use std::io;

use crate::error::{Cause, Error, Result};
use crate::hash::Algorithm;
use crate::io::block::BlockPool;
use crate::io::options::Damaged;
use crate::io::read_back::{HashedFrom, ReadBack};
use crate::part::part_file;
use crate::path::Shown;
use crate::sys::{self, Dir, Medium};
use crate::transfer::context::Context;
use crate::transfer::outcome::{Fate, Waiting};
use crate::transfer::small::Copying;

/// Why nothing could be proven of what is copied so.
pub fn unprovable(sync: bool, algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        _ if !sync => Some(
            "with --no-sync nothing need be on the disk that could be read back; \
             leave out --verify or --no-sync",
        ),
        Algorithm::None => Some(
            "with --hash none there is no digest that what is read back could be compared with; \
             leave out --verify or --hash none",
        ),
        Algorithm::Sha256 => None,
    }
}

/// What reading back came to.
#[derive(Debug)]
pub enum Verdict {
    /// The copy is what was read from the source.
    Good(HashedFrom),
    /// It is not, also when copied once more; what there was of it is put away.
    Bad(Error),
    /// It could not be looked at, for want of descriptors, memory or permission: nobody knows. It is
    /// removed.
    Failed(Error),
    /// The run was told to stop before it was known; nothing of the copy is left.
    Abandoned,
}

/// A copy that was read back.
#[derive(Debug)]
pub struct Proven {
    /// The copy: another one than before if it was copied once more.
    pub file: Waiting,
    /// What came of it.
    pub verdict: Verdict,
    /// What is to be told besides.
    pub warnings: Vec<Error>,
}

/// A thread's means to prove copies.
pub struct Prover<'a> {
    context: &'a Context<'a>,
    damaged: Damaged,
    read_back: ReadBack,
    /// One block, for copying once more.
    pool: BlockPool,
}

impl<'a> Prover<'a> {
    /// One that does so with copies that are damaged.
    pub fn new(context: &'a Context<'a>, damaged: Damaged) -> Self {
        let pool = BlockPool::new(1, context.options.block_size);
        Self { context, damaged, read_back: ReadBack::new(), pool }
    }

    /// Reads a copy back; if it is bad, makes another and reads that back.
    pub fn prove(&mut self, mut file: Waiting) -> Proven {
        let mut warnings = Vec::new();
        let mut verdict = self.judge(&file, &mut warnings);
        if file.source.is_some()
            && let Verdict::Bad(error) = verdict
        {
            verdict = match self.copy_again(&mut file, &mut warnings) {
                // The first one was bad.
                Ok(Verdict::Failed(error)) | Err(error) => Verdict::Bad(error),
                Ok(verdict) => verdict,
            };
            let note = match verdict {
                Verdict::Good(_) => "; it was copied once more, and now it is there as written",
                Verdict::Bad(_) | Verdict::Failed(_) => "; it was copied once more",
                Verdict::Abandoned => "; it was not copied once more, for the run was to stop",
            };
            warnings.push(error.with_note(note));
        }
        Proven { file, verdict, warnings }
    }

    /// Reads a copy back. Unless it is good, it is gone then.
    fn judge(&mut self, file: &Waiting, warnings: &mut Vec<Error>) -> Verdict {
        match self.read_back(file) {
            Ok(Some(proof)) => Verdict::Good(proof),
            Ok(None) => {
                part_file::abandon(&file.output, &file.part, warnings);
                Verdict::Abandoned
            }
            Err(error) if matches!(error.cause(), Cause::Io(io) if sys::is_for_want_of_means(io)) => {
                Verdict::Failed(part_file::discard(&file.output, &file.part, error))
            }
            Err(error) => Verdict::Bad(self.put_away(file, error)),
        }
    }

    /// Where the content came from, if it is what was written; `None` if the run is to stop.
    fn read_back(&mut self, file: &Waiting) -> Result<Option<HashedFrom>> {
        let path = || file.output.path_of(&file.entry.name);
        let cannot = |error| Error::io("read back", path(), error);
        let (opened, stat) = open(file).map_err(cannot)?;
        let medium = Medium::of(&opened, &stat).map_err(cannot)?;
        let (algorithm, stop) = (self.context.options.algorithm, self.context.control.stop);
        let is_to_stop = || stop.is_at_once();
        match self.read_back.hash(medium, algorithm, is_to_stop, |_| ()).map_err(cannot)? {
            Some(hashed) if hashed.digest != file.digest => {
                let finding = "what the disk holds is not what was written";
                Err(Error::finding("prove", path(), finding))
            }
            hashed => Ok(hashed.map(|hashed| hashed.hashed_from)),
        }
    }

    /// Copies the file once more, durably, and reads that back.
    fn copy_again(&mut self, file: &mut Waiting, warnings: &mut Vec<Error>) -> Result<Verdict> {
        let Waiting { source: Some(source), output, entry, replaces, .. } = &*file else {
            return Ok(Verdict::Abandoned);
        };
        let clocks = self.context.control.clocks;
        let copying =
            Copying { context: self.context, clocks, entry, replaces: *replaces, is_shared: false };
        let mut scratch = self.pool.take(&clocks.prove);
        match copying.copy(source, output, &mut scratch, warnings)? {
            Fate::Written { part, digest, method, .. } => {
                (file.part, file.digest, file.method) = (part, digest, method);
            }
            Fate::Failed(error) => return Err(error),
            Fate::Abandoned => return Ok(Verdict::Abandoned),
            fate => {
                let finding = format!("copied once more, it came to {fate:?}");
                return Err(Error::finding("prove", output.path_of(&entry.name), finding));
            }
        }
        // No group's sync comes that it could wait for.
        if let Err(error) = open(file).and_then(|(opened, _)| sys::persist_file(&opened)) {
            let path = file.output.path_of(&file.entry.name);
            let error = Error::io("make durable", path, error);
            return Err(part_file::discard(&file.output, &file.part, error));
        }
        Ok(self.judge(file, warnings))
    }

    /// Removes a damaged copy, or keeps it aside.
    fn put_away(&self, file: &Waiting, error: Error) -> Error {
        let error = match self.damaged {
            Damaged::Remove => error,
            Damaged::Keep => match set_aside(file) {
                Ok(name) => {
                    let path = file.output.path_of(&name);
                    let error =
                        error.with_note(format!("; that copy is kept as {}", Shown::path(&path)));
                    return match part_file::forget_journal(&file.output, &file.part) {
                        Some(stays) => error.with_note(format!("; {stays}")),
                        None => error,
                    };
                }
                Err(cause) => error.with_note(format!("; it cannot be kept ({cause})")),
            },
        };
        part_file::discard(&file.output, &file.part, error)
    }
}

fn open(file: &Waiting) -> io::Result<(std::fs::File, sys::stat::Stat)> {
    let dir = file.output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
    let opened = dir.open_file(&file.part.name, false)?;
    let stat = Dir::stat_file(&opened)?;
    Ok((opened, stat))
}

/// Gives a damaged copy a name that says so and that neither side has. Returns the name.
fn set_aside(file: &Waiting) -> io::Result<OsString> {
    /// So many names are tried.
    const MOST: u32 = 1000;
    let dir = file.output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
    let in_source =
        |name: &OsStr| file.source.as_ref().is_some_and(|dir| dir.handle.stat(name, false).is_ok());
    // A name that is too long already cannot be made longer.
    for stem in [&file.entry.name, OsStr::new("long-name")] {
        for number in 1..=MOST {
            let mut name = stem.to_os_string();
            name.push(".dircopy-damaged");
            if number > 1 {
                name.push(format!("-{number}"));
            }
            if in_source(&name) {
                continue;
            }
            match dir.publish(&file.part.name, &name, false) {
                Ok(()) => return Ok(name),
                Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {}
                Err(long) if long.kind() == io::ErrorKind::InvalidFilename => break,
                Err(other) => return Err(other),
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
