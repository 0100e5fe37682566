//! Looking at the room before anything is touched: what the run needs against what the output has.
//!
//! The walk this takes costs about as much as finding the files does, so where the room is ample it is
//! saved: the output has more of it than the source's whole file system uses. What is needed is reckoned low (holes and what
//! the file system packs do not count, nor directories and the manifest), so that no run is refused
//! that would have fitted. Where the reckoning was too low (an output that is not packed as the source
//! is, names of one file that become files of their own), or somebody else takes the room, a disk that
//! fills up is still an error of each file.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::copy::before::prepare::Prepared;
use crate::copy::before::reservation::{Claim, Known, Rooms};
use crate::error::{Error, Result};
use crate::event::{Progress, Stop};
use crate::sys::stat::Stat;
use crate::sys::{self, DirReader, FreeSpace, Place, UsedSpace};
use crate::transfer::prepare::look;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::found::{WalkItem, Walked};
use crate::tree::overwrite::{Decision, DestinationStat, Policy, SourceStat, decide};
use crate::tree::walk::Walk;

/// What a run needs.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    /// In whole blocks of the output, less what gives way; bytes.
    bytes: u64,
    /// Files that are not there yet.
    files: u64,
    /// What part files of a killed run take, which are removed or gone on with; bytes.
    parts: u64,
}

/// Refuses a run for which the output has no room. `prepared` is what a dry run was prepared to, `walk` is dry
/// and has beside it as many threads as `stat_workers` says; `rooms` has what other outputs claim.
/// Where everything is walked, the totals of `progress` are final afterwards.
///
/// # Errors
/// There is not enough room.
pub fn check(
    prepared: Prepared,
    (walk, stat_workers): (&Walk<'_>, impl FnOnce(&Prepared) -> usize),
    policy: Policy,
    (rooms, progress): (&Rooms, &Progress),
    stop: &Stop,
) -> Result<()> {
    let Prepared { source, output, file, parent, .. } = &prepared;
    let Some(at) = output.handle.as_ref().or(parent.as_ref()) else { return Ok(()) };
    // What is packed takes less room than it has bytes.
    if Place::of(at).is_ok_and(|place| place.is_some_and(|place| place.packs())) {
        return Ok(());
    }
    // Without an answer there is nothing to go by; the copy itself will tell.
    let (Ok(room), Ok(id)) = (sys::room(at), at.identity()) else { return Ok(()) };
    let root = Arc::clone(&output.root);
    let claim = |need: Need| {
        let claim = Claim { bytes: need.taken(), files: need.files };
        rooms.claim(id.dev, room, (claim, Known::Exactly), |left| need.fits(left, &root))
    };
    let is_ample = |UsedSpace { bytes, files }: UsedSpace| {
        let twice =
            Need { bytes: bytes.saturating_mul(2), files: files.saturating_mul(2), parts: 0 };
        let fits = |left: &FreeSpace| twice.fits(left, &root);
        rooms.claim(id.dev, room, (Claim { bytes, files }, Known::AtMost), fits).is_ok()
    };
    if file.is_none()
        && !walk.classifier.follow
        && sys::most_below(&source.handle).is_some_and(is_ample)
    {
        return Ok(());
    }
    if let Some(entry) = file {
        let mut need = Need::default();
        need.add(policy, output, entry, &room);
        return claim(need);
    }
    let sum = Sum { walk, stat_workers: stat_workers(&prepared), policy, room: &room, stop };
    let Prepared { source, output, .. } = prepared;
    let (need, whole) = sum.up(source, output, |found| {
        let (entries, bytes) = match found {
            Walked::Files(run) => (run.files.len(), run.files.iter().map(|f| f.stat.size).sum()),
            Walked::Item(WalkItem::HardLink(..) | WalkItem::Symlink(..)) => (1, 0),
            _ => return,
        };
        progress.total_entries.fetch_add(entries as u64, Relaxed);
        progress.total_bytes.fetch_add(bytes, Relaxed);
    });
    progress.counted.store(whole, Relaxed);
    claim(need)
}

/// How need is summed up.
struct Sum<'a> {
    walk: &'a Walk<'a>,
    stat_workers: usize,
    policy: Policy,
    room: &'a FreeSpace,
    stop: &'a Stop,
}

impl Sum<'_> {
    /// What everything takes that the walk finds, and whether that is all there is.
    fn up(
        &self,
        source: Arc<SourceDir>,
        output: Arc<OutputDir>,
        told: impl Fn(&Walked) + Sync,
    ) -> (Need, bool) {
        let (sum, missed) = (Mutex::new(Need::default()), AtomicBool::new(false));
        let whole = self.walk.run_parallel(source, output, self.stat_workers, &|found| {
            told(&found);
            let mut need = Need::default();
            match &found {
                Walked::Files(run) => run
                    .files
                    .iter()
                    .for_each(|file| need.add(self.policy, &run.output, file, self.room)),
                Walked::Item(WalkItem::Done(output)) => {
                    need.add_parts(output, &mut DirReader::default());
                }
                Walked::Item(WalkItem::Failed(_)) => missed.store(true, Relaxed),
                _ => {}
            }
            sum.lock().unwrap_or_else(PoisonError::into_inner).join(need);
            match self.stop.is_requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let whole = whole.is_continue() && !missed.into_inner();
        (sum.into_inner().unwrap_or_else(PoisonError::into_inner), whole)
    }
}

impl Need {
    /// Adds what others need.
    fn join(&mut self, other: Need) {
        let Need { bytes, files, parts } = other;
        self.bytes = self.bytes.saturating_add(bytes);
        self.files += files;
        self.parts = self.parts.saturating_add(parts);
    }

    /// Adds what one file takes.
    fn add(&mut self, policy: Policy, output: &OutputDir, entry: &SourceEntry, room: &FreeSpace) {
        // Another file system that is mounted below the output has room of its own.
        if !output.volume.with_root {
            return;
        }
        // An entry that cannot be looked at will fail, and takes nothing.
        let Ok(there) = look(output, entry) else { return };
        match decide(policy, SourceStat(&entry.stat), there.as_ref().map(DestinationStat)) {
            Decision::Create => self.files += 1,
            Decision::Replace => {}
            Decision::Keep | Decision::Leave(_) | Decision::Refuse(_) => return,
        }
        let freed = there.map_or(0, |there| there.allocated);
        self.bytes = self.bytes.saturating_add(least(&entry.stat, room).saturating_sub(freed));
    }

    /// Adds the part files in a directory.
    fn add_parts(&mut self, output: &OutputDir, listing: &mut DirReader) {
        let Some(dir) = output.handle.as_ref().filter(|_| output.volume.with_root) else { return };
        while let Ok(batch) = listing.next_batch(dir)
            && !batch.is_empty()
        {
            for listed in batch.iter().filter(|listed| sys::is_part_name(&listed.name)) {
                let part = dir.stat(&listed.name, false);
                self.parts = self.parts.saturating_add(part.map_or(0, |part| part.allocated));
            }
        }
    }

    /// What is less there in the end; bytes.
    fn taken(self) -> u64 {
        self.bytes.saturating_sub(self.parts)
    }

    fn fits(self, room: &FreeSpace, output: &Path) -> Result<()> {
        let (bytes, files) = (self.taken(), self.files);
        let remedy = "make room, choose another output, leave files out (--exclude), or copy as \
                      much as fits (--no-space-check)";
        let finding = if bytes > room.bytes {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            format!(
                "it has {} MiB free, and the files to copy take at least {} MiB; {remedy}",
                room.bytes >> 20,
                mib(bytes)
            )
        } else if let Some(free) = room.files.filter(|free| files > *free) {
            format!("it can hold {free} more files, and there are {files} to copy; {remedy}")
        } else {
            return Ok(());
        };
        Err(Error::finding("copy to", output, finding))
    }
}

/// The least that a copy of a file takes, in bytes.
fn least(stat: &Stat, room: &FreeSpace) -> u64 {
    stat.size.min(stat.allocated).next_multiple_of(room.block.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let room = FreeSpace { bytes: 8192, block: 4096, files: Some(2) };
        let out = Path::new("/out");
        assert!(Need { bytes: 8192 + 4096, files: 2, parts: 4096 }.fits(&room, out).is_ok());
        let error =
            Need { bytes: 8193, ..Need::default() }.fits(&room, out).unwrap_err().to_string();
        assert!(error.contains("has 0 MiB free") && error.contains("at least 1 MiB"), "{error}");
        let error = Need { files: 3, ..Need::default() }.fits(&room, out).unwrap_err().to_string();
        assert!(error.contains("hold 2 more files"), "{error}");
        let unlimited = FreeSpace { files: None, ..room };
        assert!(Need { files: u64::MAX, ..Need::default() }.fits(&unlimited, out).is_ok());
    }
}
