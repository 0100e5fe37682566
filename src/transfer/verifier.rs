//! Reading a copy back: what was made durable in a part file is read from its medium before it gets its
//! final name. Where that is asked for, the source's file is then read a second time, too: what a cable, a card reader
//! or memory did to the first reading, seconds or minutes ago, is not likely to happen to it again.
//!
//! A copy that is not there as it was written, or cannot be read, is put away and named, and the file
//! is copied once more. Once: a device that fails twice in a row does not get better by writing on. So is one whose
//! source is something else when it is read again.

use std::{io, sync::Arc, sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed};

use crate::{
    error::Cause, error::Deed, error::Error, error::Result, hash::Algorithm, hash::Chain,
    io::BlockPool, io::HashedFrom, io::ReadBack, part, part::Transfer, staged::SWAPPED, sys,
    sys::Dir, sys::Medium, sys::stat::Stat, transfer, transfer::Context, transfer::Outcome,
    transfer::PendingPublish, transfer::prepare::ChainedCopy, transfer::prepare::CheckControl,
    transfer::small_file::copy_small,
};

/// Why what is copied so could not be read back and compared.
pub fn unverifiable(sync: bool, algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        _ if !sync => Some(
            "with --no-sync nothing need be on the disk that could be read back; \
             leave out --verify or --no-sync",
        ),
        Algorithm::None => Some(
            "with --hash none there is no digest that what is read back could be compared with; \
             leave out --verify or --hash none",
        ),
        _ => None,
    }
}

/// The result of reading back.
#[derive(Debug)]
pub enum ReadBackVerdict {
    /// The copy is what was read from the source.
    Good(HashedFrom, SecondReading),
    /// It is not, also when copied once more; what there was of it is put away.
    Bad(Error),
    /// It is, but the source is something else when it is read again, also when copied once more. It is put away.
    Unlike(Error),
    /// It could not be looked at, for want of descriptors, memory or permission, and may be good or bad. It
    /// is removed.
    Failed(Error),
    /// The run was told to stop before it was known; nothing of the copy is left.
    Abandoned,
}

/// What a second reading of the source's file came to.
#[derive(Debug)]
pub enum SecondReading {
    NotAsked,
    /// It is what was copied.
    Agrees(HashedFrom),
    /// It could not be read again: what is copied is what was read first.
    Failed(Error),
}

/// A copy that was read back.
#[derive(Debug)]
pub struct CheckedCopy {
    /// The copy: another one than before if it was copied once more.
    pub file: PendingPublish,
    /// The verdict.
    pub verdict: ReadBackVerdict,
    /// Further messages.
    pub warnings: Vec<Error>,
}

/// The means of a thread to read copies back.
pub struct ReadBackVerifier<'a> {
    context: &'a Context<'a>,
    read_back: ReadBack,
    /// The chain of what is read back, if that is not in the run's side file.
    chain: Option<&'a Chain>,
    /// One block, for copying once more.
    pool: BlockPool,
}

impl<'a> ReadBackVerifier<'a> {
    /// One that has read nothing yet.
    pub fn new(context: &'a Context<'a>) -> Self {
        let pool = BlockPool::new(1, context.options.block_size);
        Self { context, read_back: ReadBack::new(), chain: None, pool }
    }

    /// For a content that has this chain.
    pub fn knowing(mut self, chain: Option<&'a Chain>) -> Self {
        self.chain = chain;
        self
    }

    /// Reads a copy back; if it is bad, makes another and reads that back.
    pub fn verify(&mut self, mut file: PendingPublish) -> CheckedCopy {
        let mut warnings = Vec::new();
        let mut verdict = self.check(&file, &mut warnings);
        if file.source.is_some()
            && let ReadBackVerdict::Bad(error) | ReadBackVerdict::Unlike(error) = verdict
        {
            verdict = match self.copy_again(&mut file, &mut warnings) {
                // The first one was bad.
                Ok(ReadBackVerdict::Failed(error)) | Err(error) => ReadBackVerdict::Bad(error),
                Ok(verdict) => verdict,
            };
            let note = match verdict {
                ReadBackVerdict::Good(..) => {
                    "; it was copied once more, and now it is there as written"
                }
                ReadBackVerdict::Bad(_)
                | ReadBackVerdict::Unlike(_)
                | ReadBackVerdict::Failed(_) => "; it was copied once more",
                ReadBackVerdict::Abandoned => {
                    "; it was not copied once more, for the run was to stop"
                }
            };
            warnings.push(error.with_note(note));
        }
        CheckedCopy { file, verdict, warnings }
    }

    /// Reads a copy back, and removes it unless it is good.
    fn check(&mut self, file: &PendingPublish, warnings: &mut Vec<Error>) -> ReadBackVerdict {
        match self.read_back(file) {
            Ok(Some(proof)) if self.context.options.asked.verify_source => {
                self.read_source_again(file, proof, warnings)
            }
            Ok(Some(proof)) => ReadBackVerdict::Good(proof, SecondReading::NotAsked),
            Ok(None) => abandon(file, warnings),
            Err(error) if matches!(error.cause(), Cause::Io(io) if sys::is_for_want_of_means(io)) => {
                ReadBackVerdict::Failed(file.discard(error))
            }
            Err(error) => ReadBackVerdict::Bad(file.discard(error)),
        }
    }

    /// Where the content came from, if it is what was written; `None` if the run is to stop.
    fn read_back(&mut self, file: &PendingPublish) -> Result<Option<HashedFrom>> {
        let path = || file.target.path();
        let cannot = |error| Error::io("read back", path(), error);
        let (opened, stat) = open(file)?;
        let (algorithm, stop) = (self.context.options.asked.algorithm, self.context.control.stop);
        let is_to_stop = || stop.is_at_once();
        let progress = self.context.control.progress;
        let counted = AtomicU64::new(0);
        let told = |read| {
            counted.fetch_add(read, Relaxed);
            progress.read_back.fetch_add(read, Relaxed);
        };
        let dir = file.target.output.handle.as_ref();
        let (context, chain) = (self.context, self.chain);
        let copy = file.written.digest.as_ref().map(|digest| {
            let file = &opened;
            ChainedCopy { context, file, dir, digest, chain }
        });
        let by_links = CheckControl { is_to_stop: &is_to_stop, on_read: &told };
        let stays = context.shared.methods.stays(stat.size);
        let medium = || Medium::of(&opened, &stat).map(|medium| medium.staying(stays));
        if let Some(from) = copy.as_ref().and_then(|it| it.prove(stat.size, medium, by_links)) {
            return Ok(Some(from));
        }
        // What its links came to decides nothing unless they all hold; its bytes are counted.
        let is_counted = counted.load(Relaxed) > 0;
        let told = |read| {
            if !is_counted {
                progress.read_back.fetch_add(read, Relaxed);
            }
        };
        let medium = medium().map_err(cannot)?;
        match self.read_back.hash(medium, algorithm, is_to_stop, told).map_err(cannot)? {
            Some(hashed) if hashed.digest != file.written.digest => {
                let finding = "what the disk holds is not what was written";
                let error = Error::finding("prove", path(), finding);
                Err(match copy {
                    Some(copy) => copy.with_place(error),
                    None => error,
                })
            }
            hashed => Ok(hashed.map(|hashed| hashed.hashed_from)),
        }
    }

    /// Reads the source's file once more after its copy was read back with this `proof`, and removes the copy unless
    /// both are the same or the source cannot be read any more.
    fn read_source_again(
        &mut self,
        file: &PendingPublish,
        proof: HashedFrom,
        warnings: &mut Vec<Error>,
    ) -> ReadBackVerdict {
        let Some(source) = &file.source else {
            return ReadBackVerdict::Good(proof, SecondReading::NotAsked);
        };
        let transfer = Transfer { source: Arc::clone(source), target: file.target.clone() };
        match transfer::hash_again(self.context, &transfer, &mut self.read_back) {
            Ok(Some(read)) if read.digest == file.written.digest => {
                ReadBackVerdict::Good(proof, SecondReading::Agrees(read.hashed_from))
            }
            Ok(Some(_)) => {
                let finding = "read a second time, it is something else than what was copied";
                let error = Error::finding("prove", transfer.source_path(), finding);
                ReadBackVerdict::Unlike(file.discard(error))
            }
            Ok(None) => abandon(file, warnings),
            // What was read may be all that is ever to be had of it.
            Err(error) if matches!(error.cause(), Cause::Io(_)) => {
                let note = "; what was read the first time is at the output, and no second reading proves it";
                ReadBackVerdict::Good(proof, SecondReading::Failed(error.with_note(note)))
            }
            Err(changed) => {
                let note = "; it was read a second time, to be proven";
                ReadBackVerdict::Failed(file.discard(changed.with_note(note)))
            }
        }
    }

    /// Copies the file once more, durably, and reads that back.
    fn copy_again(
        &mut self,
        file: &mut PendingPublish,
        warnings: &mut Vec<Error>,
    ) -> Result<ReadBackVerdict> {
        let Some(source) = &file.source else { return Ok(ReadBackVerdict::Abandoned) };
        let transfer = &Transfer { source: Arc::clone(source), target: file.target.clone() };
        let (context, timings) = (self.context, self.context.control.timings);
        let mut scratch = self.pool.take(&timings.prove);
        let copied = copy_small(context, timings, transfer, false, &mut scratch, warnings);
        match copied.map_err(|failure| failure.error)? {
            Outcome::Written(written) => file.written = written,
            Outcome::Failed(error) => return Err(error),
            Outcome::Abandoned => return Ok(ReadBackVerdict::Abandoned),
            other => {
                let finding = format!("copied once more, it came to {other:?}");
                return Err(Error::finding("prove", file.target.path(), finding));
            }
        }
        // No group's sync comes that it could wait for.
        let durable = open(file).and_then(|(opened, _)| {
            sys::persist_file(&opened).deed_at("make durable", || file.target.path())
        });
        if let Err(error) = durable {
            return Err(file.discard(error));
        }
        Ok(self.check(file, warnings))
    }
}

/// Removes a copy because the run is to stop.
fn abandon(file: &PendingPublish, warnings: &mut Vec<Error>) -> ReadBackVerdict {
    part::abandon(&file.target.output, &file.written.part, warnings);
    ReadBackVerdict::Abandoned
}

/// Opens the part file; another file under its name is an error.
fn open(file: &PendingPublish) -> Result<(std::fs::File, Stat)> {
    let output = &file.target.output;
    let open = || {
        let dir = output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let opened = dir.open_file(&file.written.part.name, false)?;
        let now = Dir::inode_of(&opened)?;
        Ok((opened, now))
    };
    let opened = open().deed_at("read back", || file.target.path());
    let (opened, now) = opened?;
    match output.volume.is_same(&file.written.made.known(), &now) {
        true => Ok((opened, now.stat)),
        false => Err(Error::finding("prove", file.target.path(), SWAPPED)),
    }
}
