//! How many files are copied side by side, and by how many threads and blocks.
//!
//! Bytes of large files cost processor time, so there is a full worker (three threads) for each core. Small
//! files cost waiting for the device, one after the other. Where the device can do several things at a time,
//! further workers of one thread each take small files only. A disk that turns has one head, and two workers
//! make it go to and fro. Where threads that create files wait for each other, two workers create all small
//! files, however many cores there are.

use std::num::NonZero;
use std::thread::available_parallelism;

use crate::sys::{Dir, is_on_turning_disk, open_file_limit};
use crate::tree::dirs::OutputDir;

/// The most workers by default: with more, memory would grow past what a copy should take.
///
/// By workers, two cores, `benches/scaling.sh`, medians of 3 rounds, seconds. 1,600 files of 4 KiB, cold, on a
/// device that takes 100 µs for a request, durable: 1: 0.377, 2: 0.265, 4: 0.179, 8: 0.167. 100,000 on tmpfs,
/// where there is nothing to wait for: 1: 1.586, 2: 1.089, 4: 1.075, 8: 1.114. Large files on the same device:
/// 1: 0.677, 2: 0.696, 8: 0.720. With one head that needs 8 ms to get elsewhere, 8 × 16 MiB:
/// 1: 5.5, 2: 8.0, and 1,600 small files: 1: 1.48, 2: 11.4, 4: 9.4.
const MOST: usize = 8;

/// With fewer blocks a worker would be slower; see the table at [`BLOCK_SIZE`](crate::copy::job::BLOCK_SIZE).
const LEAST_BLOCKS: usize = 4;

/// With fewer open files allowed there are no workers for small files only: what each has in hand and on
/// its way takes a dozen.
const AMPLE: u64 = 1024;

/// Workers for small files where threads that create files wait for each other: while one creates some, the
/// other reads and hashes. [`Dir::takes_many_at_once`] has what one, two and eight workers take.
const TAKING_TURNS: usize = 2;

/// Batches that wait for each full worker, so that it never waits for the walk.
const WAITING: usize = 2;

/// How many workers there are.
#[derive(Clone, Copy, Debug)]
pub struct WorkerCount {
    /// For files of every size; at least 1.
    pub full: usize,
    /// For small files only.
    pub small: usize,
    /// So many of the full workers copy a second large file meanwhile, which their hasher takes together with
    /// the first.
    pub paired: usize,
    /// Whether the full workers leave all small files to the others.
    pub separate: bool,
    /// So many batches wait for each full worker.
    pub waiting: usize,
}

impl WorkerCount {
    /// The number `asked` for, or what suits the devices of source and output. Outputs that share their
    /// reading (`shared`) have no workers for small files only: they wait for each other as it is.
    ///
    /// Where hashers gain by it (`pairs`), they take two files together; but only beside workers for small files:
    /// where full workers take everything, further readers would be further workers for small files too.
    pub fn suiting(
        asked: Option<usize>,
        source: &Dir,
        output: Option<&Dir>,
        shared: bool,
        pairs: bool,
    ) -> Self {
        let turns = || is_on_turning_disk(source) || output.is_some_and(is_on_turning_disk);
        if asked.is_none() && turns() {
            return Self { full: 1, small: 0, paired: 0, separate: false, waiting: WAITING };
        }
        let full = most_full(asked);
        if asked.is_some() || shared || open_file_limit() < AMPLE {
            return Self { full, small: 0, paired: 0, separate: false, waiting: WAITING };
        }
        let separate = output.is_some_and(|output| !output.takes_many_at_once());
        let small = if separate { TAKING_TURNS } else { MOST - full };
        let paired = if pairs { full.min(MOST - full) } else { 0 };
        Self { full, small, paired, separate, waiting: WAITING }
    }

    /// Workers of both kinds.
    pub fn all(self) -> usize {
        self.full + self.small
    }

    /// Threads that read copies back from `output`. A disk that turns serves one of them best.
    pub fn verifiers(self, output: &OutputDir) -> usize {
        if output.handle.as_ref().is_some_and(is_on_turning_disk) { 1 } else { self.full }
    }

    /// Threads that stat files beside the walk: one for each worker, and none beside a single worker, or where nothing
    /// is to wait.
    pub fn stat_workers(self) -> usize {
        if self.all() == 1 || self.waiting == 0 { 0 } else { self.all() }
    }
}

/// The most workers for files of every size, whatever the devices are.
pub fn most_full(asked: Option<usize>) -> usize {
    let cores = || available_parallelism().map_or(1, NonZero::get).min(MOST);
    asked.unwrap_or_else(cores).max(1)
}

/// The most workers for small files only; none beside a number that was asked for.
pub fn most_small(asked: Option<usize>) -> usize {
    if asked.is_some() { 0 } else { (MOST - most_full(asked)).max(TAKING_TURNS) }
}

/// Blocks of a worker where `outputs` outputs share their reading: together they have as many as one alone,
/// unless that were too few.
pub fn blocks_each(queue_size: usize, outputs: usize) -> usize {
    (queue_size / outputs.max(1)).max(LEAST_BLOCKS.min(queue_size)).max(1)
}
