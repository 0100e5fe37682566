//! How many files are copied side by side, and by how many threads and blocks.
//!
//! Bytes of large files cost processor time, so there is a lane for each core. Small files cost waiting
//! for the device, one after the other, so where the device can do several things at a time there are further
//! lanes for them alone, of one thread each. A disk that turns has one head, and two lanes on it
//! make it go to and fro. Where those who make files wait for each other, two lanes make all the small ones,
//! however many cores there are.

use std::num::NonZero;
use std::thread::available_parallelism;

use crate::copy::before::prepare::Prepared;
use crate::copy::job::CopyJob;
use crate::sys::{is_on_turning_disk, open_file_limit};
use crate::tree::dirs::OutputDir;

/// The most lanes there are by default: with more, memory would grow past what a copy should take.
///
/// By lanes, two cores, `benches/scaling.sh`, medians of 3 rounds, seconds. 1,600 files of 4 KiB, cold, on a
/// device that takes 100 µs for a request, durable: 1: 0.377, 2: 0.265, 4: 0.179, 8: 0.167. 100,000 on tmpfs,
/// where there is nothing to wait for: 1: 1.586, 2: 1.089, 4: 1.075, 8: 1.114. Large files on the same device:
/// 1: 0.677, 2: 0.696, 8: 0.720. With one head that needs 8 ms to get elsewhere, 8 × 16 MiB:
/// 1: 5.5, 2: 8.0, and 1,600 small files: 1: 1.48, 2: 11.4, 4: 9.4.
const MOST: usize = 8;

/// With fewer blocks a lane would be slower; see the table at [`BLOCK_SIZE`](crate::copy::job::BLOCK_SIZE).
const LEAST_BLOCKS: usize = 4;

/// With fewer files open at a time there are no lanes for small files alone: what each has in hand and on
/// its way takes a dozen.
const AMPLE: u64 = 1024;

/// Lanes for small files where those who make them wait for each other: while one makes some, the other reads
/// and hashes. What one, two and eight lanes take stands at [`Dir::takes_many_at_once`](crate::sys::Dir::takes_many_at_once).
const TAKING_TURNS: usize = 2;

/// How many lanes there are.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// For files of every size; at least 1.
    pub whole: usize,
    /// For small files alone.
    pub small: usize,
    /// Whether these leave no small files to the others.
    pub apart: bool,
}

impl Lanes {
    /// So many as are asked for, or as suit the devices of source and output. Outputs that share their
    /// reading have no lanes for small files: they wait for each other as it is.
    pub fn suiting(job: &CopyJob, prepared: &Prepared, shares: bool) -> Self {
        let (source, output) = (&prepared.source.handle, prepared.output.handle.as_ref());
        let turns = || is_on_turning_disk(source) || output.is_some_and(is_on_turning_disk);
        if job.lanes.is_none() && turns() {
            return Self { whole: 1, small: 0, apart: false };
        }
        let whole = job.most_lanes();
        if job.lanes.is_some() || shares || open_file_limit() < AMPLE {
            return Self { whole, small: 0, apart: false };
        }
        let apart = output.is_some_and(|output| !output.takes_many_at_once());
        let small = if apart { TAKING_TURNS } else { MOST - whole };
        Self { whole, small, apart }
    }

    /// All of them.
    pub fn all(self) -> usize {
        self.whole + self.small
    }

    /// How many threads look at files beside the walk: as many as there are lanes, and none beside one.
    pub fn stat_workers(self) -> usize {
        if self.all() == 1 { 0 } else { self.all() }
    }
}

impl CopyJob {
    /// The most lanes for files of every size that there will be, whatever the devices are.
    pub fn most_lanes(&self) -> usize {
        let cores = || available_parallelism().map_or(1, NonZero::get).min(MOST);
        self.lanes.unwrap_or_else(cores).max(1)
    }

    /// The most lanes for small files alone that there will be; none besides a number that was asked for.
    fn most_small_lanes(&self) -> usize {
        self.lanes.map_or_else(|| (MOST - self.most_lanes()).max(TAKING_TURNS), |_| 0)
    }

    /// The most that blocks take, whatever the devices are; bytes.
    pub fn most_memory(&self) -> u64 {
        let blocks = self.most_lanes() * self.queue_size + self.most_small_lanes();
        blocks as u64 * self.block_size as u64
    }

    /// Blocks of a lane where so many outputs share their reading: together they have as many as one
    /// alone, unless that were too few.
    pub(crate) fn blocks(&self, among: usize) -> usize {
        (self.queue_size / among.max(1)).max(LEAST_BLOCKS.min(self.queue_size)).max(1)
    }

    /// How many threads read back what was copied. A disk that turns serves one of them best.
    pub(crate) fn provers(&self, output: &OutputDir, lanes: usize) -> usize {
        match (self.verify, &output.handle) {
            (None, _) => 0,
            (_, Some(root)) if is_on_turning_disk(root) => 1,
            _ => lanes,
        }
    }
}
