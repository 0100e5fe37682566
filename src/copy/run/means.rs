//! What a process may take of memory and descriptors, and how many workers that is enough for. Where it is little,
//! fewer workers copy as well, only slower; where it is too little for one, the run is refused before anything is
//! touched.

use crate::copy::job::CopyJob;
use crate::copy::run::workers::WorkerCount;
use crate::error::{Error, Result};
use crate::sys::{address_space_left, open_file_limit};

/// What a thread takes of the address space: its stack, and what the system adds to it; bytes.
const THREAD: u64 = (2 << 20) + (256 << 10);

/// Threads of a worker for files of every size, …
const FULL_THREADS: u64 = 4;

/// … and those beside several: each looks at files ahead of one, or reads back.
const BESIDE: u64 = 2;

/// Threads besides: of the walk, the output, the progress and the count.
const OTHER_THREADS: u64 = 4;

/// What else a run takes: names, groups, records and what the allocator keeps; bytes.
const OTHER_MEMORY: u64 = 12 << 20;

/// With fewer descriptors for each, outputs are written one after the other.
const LEAST_FILES: u64 = 24;

/// What a run has open itself: roots, records, lists, and pipes of its own.
const OTHER_FILES: u64 = 16;

/// With fewer for an output no batch waits, since each holds its directories open.
const SHORT: u64 = 128;

/// Descriptors of a worker for files of every size: both files, their directories, and those that come next …
const FULL_FILES: u64 = 8;

/// … and of a worker for small files.
const SMALL_FILES: u64 = 4;

/// What one of several outputs may take.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Of the address space, in bytes; `None` without a limit.
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

    /// Whether these jobs can run side by side.
    pub fn suffice<'a>(jobs: impl ExactSizeIterator<Item = &'a CopyJob>) -> bool {
        let means = Self::of_one(jobs.len());
        let mut jobs = jobs;
        means.open_files >= LEAST_FILES && jobs.all(|job| means.check(job).is_ok())
    }

    /// As many workers as that is enough for; at least one.
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

    /// Whether descriptors are so few that none may be held for later.
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

/// What so many workers take of the address space, with all that is beside them; bytes.
fn memory_of(job: &CopyJob, count: WorkerCount) -> u64 {
    let [full, small, paired] = [count.full, count.small, count.paired].map(|count| count as u64);
    let beside = if full + small > 1 || job.verify.is_some() { BESIDE * (full + small) } else { 0 };
    let threads = OTHER_THREADS + FULL_THREADS * full + small + 2 * paired + beside;
    let blocks = full.saturating_mul(job.queue_size as u64).saturating_mul(job.block_size as u64);
    let scratch = (2 * full + small).saturating_mul(job.scratch());
    OTHER_MEMORY.saturating_add(threads * THREAD).saturating_add(blocks).saturating_add(scratch)
}
