//! The space check before anything is touched: what the run needs against what the output has free.
//!
//! Its walk costs about as much as finding the files does. It is saved where space is ample: the output has twice
//! what the source's whole file system uses. Where earlier runs were it waits until something is to be made: mostly
//! nothing is. The estimate is low: holes do not count, nor do directories, the manifest
//! and what the file system packs. So no run is refused that would have fitted. Where the estimate was too low (an
//! output that is not packed as the source is, hard links that become files of their own), or another program takes
//! the space, a disk that fills up is still an error of each file.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::copy::before::prepare::Prepared;
use crate::copy::before::reservation::{Certainty, Claim, Reservations};
use crate::error::{Error, Result};
use crate::event::{Progress, Stop};
use crate::manifest::index::NextLine;
use crate::path::Shown;
use crate::state::knowledge::Knowledge;
use crate::state::row::Trace;
use crate::sys::stat::Stat;
use crate::sys::{self, DirReader, FreeSpace, Place, UsedSpace};
use crate::transfer::renamed::tree::RenamedFiles;
use crate::tree::dirs::OutputDir;
use crate::tree::found::{SourceEntry, WalkEvent, WalkItem};
use crate::tree::overwrite::{
    Decision, DestinationStat, Policy, SourceStat, decide, leave_large, refuse_large,
};
use crate::tree::walk::Walk;
use crate::volume::times::TimeMatch;

/// What a run needs.
#[derive(Clone, Debug, Default)]
struct Need {
    /// In whole blocks of the output, less what gives way; bytes.
    bytes: u64,
    /// Files that are not there yet.
    files: u64,
    /// What part files of a killed run take, which are removed or gone on with; bytes.
    parts: u64,
    /// Files that are too large for the output, …
    too_large: u64,
    /// … and the paths of the first of them.
    examples: Vec<PathBuf>,
}

/// A file, and what is at the output under its name.
struct OneFile<'a> {
    entry: &'a SourceEntry,
    there: Option<&'a Stat>,
}

/// So many files that are too large are named, of how many there may be.
const MOST_EXAMPLES: usize = 5;

/// What the space of an output is looked at with.
pub struct SpaceCheck<'a> {
    /// A dry walk of the source.
    pub walk: &'a Walk<'a>,
    /// How many threads stat files beside that walk; asked only if the walk is made.
    pub stat_workers: &'a (dyn Fn(&Prepared) -> usize + Sync),
    /// What happens to files that are there already.
    pub policy: Policy,
    /// Larger files are left; bytes.
    pub max_size: Option<u64>,
    /// Whether the walk may wait until something is to be made.
    pub may_wait: bool,
    /// What has another name at the source now, where new names share data.
    pub renamed: Option<&'a RenamedFiles<'a>>,
    /// What is known of a new snapshot: files that are recorded as the source has them are not looked at.
    pub snapshot: Option<&'a Knowledge>,
    /// What other outputs of the run reserve.
    pub reservations: &'a Reservations,
    /// Has its final totals afterwards, if the walk is made.
    pub progress: &'a Progress,
    pub stop: &'a Stop,
}

/// What came of a look that refused nothing.
pub enum SpaceAnswer {
    /// There is space, as far as that can be told.
    Fits {
        /// What is to be told of files that are too large for the output's file system, whatever space it has.
        too_large: Option<Error>,
    },
    /// It is to be looked at when something is to be made.
    Later,
}

impl SpaceCheck<'_> {
    /// Refuses a run for which the output has no space. `prepared` is what a dry run was prepared to.
    ///
    /// # Errors
    /// There is not enough space.
    pub fn run(&self, prepared: Prepared) -> Result<SpaceAnswer> {
        let fits = Ok(SpaceAnswer::Fits { too_large: None });
        let Prepared { source, output, file, parent, .. } = &prepared;
        let Some(at) = output.handle.as_ref().or(parent.as_ref()) else { return fits };
        // What is packed takes less space than it has bytes.
        if Place::of(at).is_ok_and(|place| place.is_some_and(|place| place.packs())) {
            return fits;
        }
        // Without an answer there is nothing to go by; the copy itself will tell.
        let (Ok(free), Ok(id)) = (sys::room(at), at.identity()) else { return fits };
        let root = Arc::clone(&output.root);
        let reserve = |need: &Need, certainty, claim: Claim| {
            let fits = |left: &FreeSpace| need.fits(left, &root);
            self.reservations.reserve(id.dev, free, Claim { certainty, ..claim }, fits)
        };
        let is_ample = |UsedSpace { bytes, files }: UsedSpace| {
            let (bytes_twice, files_twice) = (bytes.saturating_mul(2), files.saturating_mul(2));
            let twice = Need { bytes: bytes_twice, files: files_twice, ..Need::default() };
            reserve(&twice, Certainty::AtMost, Claim::new(bytes, files)).is_ok()
        };
        // Elsewhere there may be files to name that are too large.
        let holds_any = file.is_none() && output.largest_file().is_none() && !output.is_fat();
        if holds_any
            && !self.walk.classifier.follow
            && sys::most_below(&source.handle).is_some_and(is_ample)
        {
            return fits;
        }
        if holds_any && self.may_wait {
            return Ok(SpaceAnswer::Later);
        }
        let need = match file {
            Some(entry) => {
                let mut need = Need::default();
                self.add(&mut need, output, entry, &free);
                need
            }
            None => self.sum(prepared, &free),
        };
        reserve(&need, Certainty::Exactly, Claim::new(need.taken(), need.files))?;
        Ok(SpaceAnswer::Fits { too_large: need.too_large(&root) })
    }

    /// What everything takes that the walk finds.
    fn sum(&self, prepared: Prepared, free: &FreeSpace) -> Need {
        let stat_workers = (self.stat_workers)(&prepared);
        let Prepared { source, output, .. } = prepared;
        let (sum, missed) = (Mutex::new(Need::default()), AtomicBool::new(false));
        let walked = self.walk.run_parallel(source, output, stat_workers, &|found| {
            let mut need = Need::default();
            match &found {
                WalkEvent::Files(batch) => {
                    let size = |file: &SourceEntry| file.stat.size;
                    self.count(batch.files.len(), batch.files.iter().map(size).sum());
                    for file in &batch.files {
                        self.add(&mut need, &batch.output, file, free);
                    }
                }
                WalkEvent::Item(WalkItem::HardLink(..) | WalkItem::Symlink(..)) => self.count(1, 0),
                WalkEvent::Item(WalkItem::Done(output)) => {
                    need.add_parts(output, &mut DirReader::default());
                }
                WalkEvent::Item(WalkItem::Failed(_)) => missed.store(true, Relaxed),
                WalkEvent::Item(_) => {}
            }
            sum.lock().unwrap_or_else(PoisonError::into_inner).join(need);
            match self.stop.is_requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let whole = walked.is_continue() && !missed.into_inner();
        self.progress.counted.store(whole, Relaxed);
        sum.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what one file takes.
    fn add(&self, need: &mut Need, output: &OutputDir, entry: &SourceEntry, free: &FreeSpace) {
        if leave_large(self.max_size, SourceStat(&entry.stat)).is_some()
            || self.is_recorded(output, entry)
        {
            return;
        }
        // An entry that cannot be looked at will fail, and takes nothing.
        let Ok(there) = output.look(&entry.name) else { return };
        // It is taken for what it looks like: if it is not that, the disk may fill up.
        let is_renamed = |renamed: &RenamedFiles<'_>| renamed.may_have(&entry.stat);
        if there.is_none() && self.renamed.is_some_and(is_renamed) {
            need.files += 1;
            return;
        }
        need.add(self.policy, output, OneFile { entry, there: there.as_ref() }, free);
    }

    /// Whether a snapshot should have the file as it is in the source, so that it takes nothing.
    fn is_recorded(&self, output: &OutputDir, entry: &SourceEntry) -> bool {
        let stat = &entry.stat;
        let is_as = |trace: Trace| {
            (trace.size, trace.mtime) == (stat.size, stat.mtime) && stat.ctime < trace.ctime
        };
        self.snapshot.is_some_and(|known| {
            let path = output.rel.join(&entry.name);
            known.recorded_trace(path.as_bytes(), &mut NextLine::default()).is_some_and(is_as)
        })
    }

    fn count(&self, entries: usize, bytes: u64) {
        self.progress.total_entries.fetch_add(entries as u64, Relaxed);
        self.progress.total_bytes.fetch_add(bytes, Relaxed);
    }
}

impl Need {
    /// Adds what others need.
    fn join(&mut self, other: Need) {
        let Need { bytes, files, parts, too_large, examples } = other;
        self.bytes = self.bytes.saturating_add(bytes);
        self.files += files;
        self.parts = self.parts.saturating_add(parts);
        self.too_large += too_large;
        let room = MOST_EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(examples.into_iter().take(room));
    }

    /// Adds what one file takes.
    fn add(&mut self, policy: Policy, output: &OutputDir, file: OneFile<'_>, free: &FreeSpace) {
        let OneFile { entry, there } = file;
        let source = SourceStat(&entry.stat);
        // What may be the same mostly is.
        let destination = there.map(|stat| {
            let compared = output.compare_times(entry.stat.mtime, stat.mtime, None);
            DestinationStat { stat, same_time: compared != TimeMatch::Other }
        });
        let decision = decide(policy, source, destination);
        if !matches!(decision, Decision::Create | Decision::Replace) {
            return;
        }
        if refuse_large(output.largest_file(), source).is_some() {
            self.too_large += 1;
            if self.examples.len() < MOST_EXAMPLES {
                self.examples.push(output.path_of(&entry.name));
            }
            return;
        }
        // Another file system that is mounted below the output has space of its own.
        if !output.volume.with_root {
            return;
        }
        self.files += u64::from(decision == Decision::Create);
        let freed = there.map_or(0, |there| there.allocated);
        self.bytes = self
            .bytes
            .saturating_add(least(&entry.stat, free, !output.is_fat()).saturating_sub(freed));
    }

    /// Adds the part files in a directory.
    fn add_parts(&mut self, output: &OutputDir, listing: &mut DirReader) {
        let Some(dir) = output.handle.as_ref().filter(|_| output.volume.with_root) else { return };
        while let Ok(batch) = listing.next_batch(dir)
            && !batch.is_empty()
        {
            let tag = output.volume.parts.output;
            let is_removed = |name: &OsStr| tag.is_some_and(|tag| tag.is_in(name));
            for listed in batch.iter().filter(|listed| is_removed(&listed.name)) {
                let part = dir.stat(&listed.name, false);
                self.parts = self.parts.saturating_add(part.map_or(0, |part| part.allocated));
            }
        }
    }

    /// What is less there in the end; bytes.
    fn taken(&self) -> u64 {
        self.bytes.saturating_sub(self.parts)
    }

    /// What is to be told of files that are too large.
    fn too_large(&self, output: &Path) -> Option<Error> {
        let examples = self.examples.iter().map(|path| Shown::path(path));
        let names = Shown::first_of(self.too_large, examples);
        let finding = format!(
            "its file system is FAT, where no file can have 4 GiB: {names} cannot be copied; exFAT can hold \
             them, and --exclude or --max-size leave them out"
        );
        (self.too_large > 0).then(|| Error::finding("copy everything to", output, finding))
    }

    fn fits(&self, free: &FreeSpace, output: &Path) -> Result<()> {
        let (bytes, files) = (self.taken(), self.files);
        let remedy = "make room, choose another output, leave files out (--exclude), or copy as \
                      much as fits (--no-space-check)";
        let finding = if bytes > free.bytes {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            format!(
                "it has {} MiB free, and the files to copy take at least {} MiB; {remedy}",
                free.bytes >> 20,
                mib(bytes)
            )
        } else if let Some(most) = free.files.filter(|most| files > *most) {
            format!("it can hold {most} more files, and there are {files} to copy; {remedy}")
        } else {
            return Ok(());
        };
        Err(Error::finding("copy to", output, finding))
    }
}

/// The least that a copy of a file takes, in bytes.
fn least(stat: &Stat, free: &FreeSpace, has_holes: bool) -> u64 {
    let filled = if has_holes { stat.size.min(stat.allocated) } else { stat.size };
    filled.next_multiple_of(free.block.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let room = FreeSpace { bytes: 8192, block: 4096, files: Some(2) };
        let out = Path::new("/out");
        assert!(
            Need { bytes: 8192 + 4096, files: 2, parts: 4096, ..Need::default() }
                .fits(&room, out)
                .is_ok()
        );
        let error =
            Need { bytes: 8193, ..Need::default() }.fits(&room, out).unwrap_err().to_string();
        assert!(error.contains("has 0 MiB free") && error.contains("at least 1 MiB"), "{error}");
        let error = Need { files: 3, ..Need::default() }.fits(&room, out).unwrap_err().to_string();
        assert!(error.contains("hold 2 more files"), "{error}");
        let unlimited = FreeSpace { files: None, ..room };
        assert!(Need { files: u64::MAX, ..Need::default() }.fits(&unlimited, out).is_ok());
    }
}
