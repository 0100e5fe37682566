//! The memory and descriptors that a process may take, and the number of workers that they are enough for. Where it is
//! little, fewer workers copy as well, only slower; where it is too little for one, the run is refused before anything
//! is touched.

use std::{ops::ControlFlow, sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed};

use crossbeam_channel::Sender;
use walkdir::WalkDir;

use crate::{
    copy::CopyJob, copy::Prepared, copy::run::threads::WorkerCount, error::Error, error::Result,
    event::Progress, event::Stop, sys::DirReader, sys::address_space_left, sys::open_file_limit,
    transfer::CommitterMessage, tree::Batch, tree::Inclusion, tree::Walk, tree::WalkEvent,
    tree::WalkItem,
};

/// Address space of a thread: its stack, and the system's own part; bytes.
const THREAD: u64 = (2 << 20) + (256 << 10);

/// Threads of a worker for files of every size, …
const FULL_THREADS: u64 = 4;

/// … and those beside several: each looks at files ahead of one, or reads back.
const BESIDE: u64 = 2;

/// Threads besides: of the walk, the output, the progress and the count.
const OTHER_THREADS: u64 = 4;

/// Other memory of a run: names, groups, records and the allocator's reserve; bytes.
const OTHER_MEMORY: u64 = 12 << 20;

/// With fewer descriptors for each, outputs are written one after the other.
const LEAST_FILES: u64 = 24;

/// Other open files of a run: roots, records, lists, and pipes of its own.
const OTHER_FILES: u64 = 16;

/// With fewer for an output no batch waits, since each holds its directories open.
const SHORT: u64 = 128;

/// Descriptors of a worker for files of every size: both files, their directories, and those that come next …
const FULL_FILES: u64 = 8;

/// … and of a worker for small files.
const SMALL_FILES: u64 = 4;

/// The share of memory and descriptors for one of several outputs.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Bytes of address space; `None` without a limit.
    memory: Option<u64>,
    open_files: u64,
}

impl Means {
    /// The share of one of so many outputs.
    pub fn of_one(outputs: usize) -> Self {
        let outputs = outputs.max(1) as u64;
        Self {
            memory: address_space_left().map(|left| left / outputs),
            open_files: open_file_limit() / outputs,
        }
    }

    /// True if these jobs can run side by side.
    pub fn suffice<'a>(jobs: impl ExactSizeIterator<Item = &'a CopyJob>) -> bool {
        let means = Self::of_one(jobs.len());
        let mut jobs = jobs;
        means.open_files >= LEAST_FILES && jobs.all(|job| means.check(job).is_ok())
    }

    /// The number of workers that the means are enough for; at least one.
    pub fn suiting(self, job: &CopyJob, mut count: WorkerCount) -> WorkerCount {
        while !self.are_enough(job, count) {
            match count {
                WorkerCount { small: 1.., .. } => count.small -= 1,
                WorkerCount { paired: 1.., .. } => count.paired -= 1,
                WorkerCount { full: 2.., .. } => count.full -= 1,
                _ => break,
            }
        }
        // Small files need workers that take them.
        count.separate &= count.small > 0;
        if self.are_few() {
            count.waiting = 0;
        }
        count
    }

    /// Refuses a run for which there is not enough memory.
    ///
    /// # Errors
    /// Even one worker would take more.
    pub fn check(self, job: &CopyJob) -> Result<()> {
        let least = WorkerCount { full: 1, small: 0, paired: 0, separate: false, waiting: 0 };
        let needed = memory_of(job, least);
        let Some(left) = self.memory.filter(|left| *left < needed) else { return Ok(()) };
        let finding = format!(
            "the limit on this process's memory (ulimit -v) leaves {} MiB for it, and it takes {} MiB",
            left >> 20,
            needed.div_ceil(1 << 20)
        );
        Err(Error::finding("copy to", &job.output, finding))
    }

    /// True if descriptors are so few that none may be held for later.
    pub fn are_few(self) -> bool {
        self.open_files < SHORT
    }

    fn are_enough(self, job: &CopyJob, count: WorkerCount) -> bool {
        let files =
            FULL_FILES * (count.full + count.paired) as u64 + SMALL_FILES * count.small as u64;
        self.memory.is_none_or(|left| memory_of(job, count) <= left)
            && OTHER_FILES + files <= self.open_files
    }
}

/// Address space of so many workers, with everything beside them; bytes.
fn memory_of(job: &CopyJob, count: WorkerCount) -> u64 {
    let [full, small, paired] = [count.full, count.small, count.paired].map(|count| count as u64);
    let beside = if full + small > 1 || job.options.verify { BESIDE * (full + small) } else { 0 };
    let threads = OTHER_THREADS + FULL_THREADS * full + small + 2 * paired + beside;
    let blocks = full
        .saturating_mul(job.options.queue_size as u64)
        .saturating_mul(job.options.block_size as u64);
    let scratch = (2 * full + small).saturating_mul(job.scratch());
    OTHER_MEMORY.saturating_add(threads * THREAD).saturating_add(blocks).saturating_add(scratch)
}

// Counting what there is to do, beside the copy, so that progress has a total.
//
// Only a hint: it walks by path, ignores errors, and is given up when the run stops. The copy's
// own walk never depends on it.
//
// It runs only where the space check made no walk, which counts the total too, so no run has both. System calls for
// 5,000 files of 4 KiB on tmpfs: 66,285 with neither, 71,381 with this count, 71,626 with the space check's walk,
// 71,601 where both were asked for. This one costs as much, but beside the copy and only where progress is shown or
// asked for by a signal; the other stats the output as well, and refuses before anything is touched.

/// Adds up the files and links of `job` into the totals of `progress`.
pub fn count(job: &CopyJob, progress: &Progress, stop: &Stop) {
    if progress.counting.swap(true, Relaxed) {
        return;
    }
    let (root, filter) = (&job.source, &job.options.selection.filter);
    // What was said of the directories from the root down to the current one.
    let mut above = vec![filter.root()];
    let walk = WalkDir::new(root).follow_links(job.options.selection.follow_links).min_depth(1);
    let mut walk = walk.same_file_system(job.options.selection.one_file_system).into_iter();
    while let Some(entry) = walk.next() {
        if stop.is_requested() {
            return;
        }
        let Ok(entry) = entry else { continue };
        above.truncate(entry.depth());
        let parent = above.last().copied().unwrap_or(Inclusion::In);
        let kind = entry.file_type();
        let below = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let below: Vec<&[u8]> =
            below.iter().map(|component| component.as_encoded_bytes()).collect();
        let verdict = filter.judge(&below.join(&b'/'), kind.is_dir(), parent);
        if kind.is_dir() {
            above.push(verdict);
            if verdict == Inclusion::Out {
                walk.skip_current_dir();
            }
        } else if verdict != Inclusion::Out && (kind.is_file() || kind.is_symlink()) {
            progress.total_entries.fetch_add(1, Relaxed);
            if kind.is_file()
                && let Ok(metadata) = entry.metadata()
            {
                progress.total_bytes.fetch_add(metadata.len(), Relaxed);
            }
        }
    }
    progress.counted.store(true, Relaxed);
}

// The walk's thread: what it and the stat workers beside it find goes to the workers and to the committer.

/// Where everything goes that is found.
pub struct WalkSink<'a> {
    /// Takes files; false if there is no worker left to copy them.
    pub to_workers: &'a (dyn Fn(Batch) -> bool + Sync),
    pub to_committer: Sender<CommitterMessage>,
    /// Counts the entries that are to be accounted for.
    pub found: &'a AtomicU64,
    pub stop: &'a Stop,
}

/// Walks the source, or takes its only file: files go to the workers, everything else to the committer. Up to
/// `stat_workers` threads stat files beside the walk.
pub fn walk_all(walk: &Walk<'_>, outlet: &WalkSink<'_>, prepared: Prepared, stat_workers: usize) {
    let Prepared { source, output, file, .. } = prepared;
    if let Some(entry) = file {
        // Beginnings of other files stay: these files are not this run's.
        let tell = &mut |found| outlet.hand_on(found);
        let _ = walk.clean_up(&source, &output, &mut DirReader::default(), tell);
        let _ = walk.tell_unknown(&source, &output, tell);
        output.announce(1);
        // Fails only if the workers are gone, and then the entry is missed in the account.
        let _ = outlet.hand_on(WalkEvent::Files(Batch { source, output, files: vec![entry] }));
        return;
    }
    let _ = walk.run_parallel(source, output, stat_workers, &|found| outlet.tell(found));
}

impl WalkSink<'_> {
    /// Hands on what was found, unless the run is to stop.
    fn tell(&self, found: WalkEvent) -> ControlFlow<()> {
        if self.stop.is_requested() { ControlFlow::Break(()) } else { self.hand_on(found) }
    }

    fn hand_on(&self, found: WalkEvent) -> ControlFlow<()> {
        let entries = match &found {
            WalkEvent::Files(batch) => batch.files.len(),
            WalkEvent::Item(
                WalkItem::HardLink(..)
                | WalkItem::Symlink(..)
                | WalkItem::Failed(_)
                | WalkItem::Left(..),
            ) => 1,
            WalkEvent::Item(_) => 0,
        };
        self.found.fetch_add(entries as u64, Relaxed);
        let sent = match found {
            WalkEvent::Files(batch) => (self.to_workers)(batch),
            WalkEvent::Item(item) => self.to_committer.send(CommitterMessage::Walked(item)).is_ok(),
        };
        if sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
