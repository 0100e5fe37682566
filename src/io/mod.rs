//! Reading and hashing one file.

pub mod hash_thread;
pub mod link_check;
pub mod read_back;
mod watched_file;

pub use hash_thread::{AlignedBuffer, Block, BlockPool, FurtherDigests, Segment, SharedBlocks};
pub use link_check::{ChainedContent, LinkCheck, LinkReads};
pub use read_back::{FileDigest, HashedFrom, ReadBack};
pub use watched_file::{PausedFile, WatchedFile};

use std::{sync::Mutex, sync::PoisonError, thread::sleep, time::Duration, time::Instant};

use serde::{Deserialize, Serialize};

use crate::{
    event::Gate, event::Progress, event::Stop, event::Timings, hash::Algorithm, hash::Algorithms,
    hash::Backend, hash::Sha256, io::link_check::Helpers, io::read_back::Residency, tree::Policy,
};

// What was asked of a run: plain values that every room from reading on looks at, and no state.

/// What was asked of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is computed over the bytes.
    pub algorithm: Algorithm,
    /// What is computed besides.
    pub further: Algorithms,
    /// How small files are hashed: as many of them together as it takes.
    pub backend: Backend,
    /// Size of a block in bytes; at least 1.
    pub block_size: usize,
    /// Blocks of a worker; at least 1.
    pub blocks: usize,
    /// Whether a symbolic link in the source stands for what it points to.
    pub follow: bool,
    /// Larger files are left; bytes.
    pub max_size: Option<u64>,
    /// What happens to files that are there already.
    pub policy: Policy,
    /// When files get their final names.
    pub durability: Durability,
    /// Whether copies are read back from their medium, and what happens to those that are not there as
    /// they were written.
    pub verify: Option<Damaged>,
    /// Whether part files may go without a name: only where they are published at once.
    pub nameless: bool,
    /// Which large files have a journal; `None` if none has.
    pub journaling: Option<Journaling>,
    /// Whether copies share their data with the source.
    pub reflink: Reflink,
    /// What becomes of holes and zeros.
    pub sparse: Sparse,
    /// What becomes of the copy's pages in the system's cache.
    pub cache: Cache,
    /// Whether the manifest and its lists are sorted by path when the run ends.
    pub sorted: bool,
    /// Whether histories of ASC MHL are gone on with, so that their chains are no files of the copy.
    pub histories: bool,
    /// Whether what the record lists and is gone was removed on purpose before the run.
    pub pruned: bool,
    /// Whether what is at the output and not proven gives way, as in a snapshot that becomes a generation.
    pub prunes: bool,
    /// Whether a file that changed at the source after its copy is read, also where size and time are the same.
    pub asks_change_time: bool,
}

/// When a finished part file gets its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// At once; whether it survives a power cut is left to the system.
    Off,
    /// When the group it belongs to is durable. Each file is made durable on its own unless the
    /// output's file system can do so for all at once (`at_once`).
    Grouped {
        /// Whether files on the root's file system wait for the group's one call.
        at_once: bool,
    },
}

/// What happens to a copy that is not on its medium as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Damaged {
    /// It is removed, so that nothing wrong is left.
    #[default]
    Remove,
    /// It stays beside where it was to go, as `NAME.dircopy-damaged`, so that the cause can be found.
    Keep,
}

/// What becomes of the half of a large file that a killed run left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// Go on where its journal says that it is durable.
    #[default]
    Auto,
    /// The same, but read and hash first what is there.
    Verify,
    /// Begin anew, and keep no journals.
    Off,
}

/// Which large files have a journal, so that a later run can go on with them.
#[derive(Clone, Copy, Debug)]
pub struct Journaling {
    /// The most of a file that is read again, and the size above which a file has a journal; bytes.
    pub interval: u64,
    /// Whether what is there is read before it is gone on with.
    pub verify: bool,
    /// What shows that a journal is of this user's runs at this output.
    pub secret: Sha256,
}

impl Journaling {
    /// So many bytes lie between checkpoints. While one is on its way the next half is written, and
    /// what was read and not yet written, at most `queue` bytes, is read again too.
    pub fn step(self, queue: u64, block: u64) -> u64 {
        (self.interval.saturating_sub(queue) / 2).saturating_sub(block).max(block)
    }
}

/// Whether copies share their data with the source where the file system can do that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reflink {
    /// Where it can be done and gains something.
    #[default]
    Auto,
    /// A file that cannot be cloned is a failed one.
    Always,
    /// The copy gets blocks of its own.
    Never,
}

/// What becomes of a file that has another name at the source than at the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renamed {
    /// It shares its data with the file of the old name: as a clone, or where that name leaves the output or is in
    /// another generation, else as a hard link to it.
    #[default]
    Auto,
    /// … as a clone, or else always as a hard link.
    Link,
    /// … as a clone only.
    Clone,
    /// It is copied like a new one.
    Copy,
}

/// Whether the chains of large files are kept beside the manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum States {
    /// Those of files of more than one link.
    #[default]
    Auto,
    /// None: then checks are slower and do not say where a file is damaged.
    None,
}

/// What becomes of holes and zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sparse {
    /// Holes of the source are holes of the copy.
    #[default]
    Auto,
    /// Holes are written as zeros.
    Never,
    /// Aligned runs of zeros become holes too.
    Always,
}

/// What becomes of the copy's pages in the system's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cache {
    /// What the copy brought into memory is dropped; what was there before stays.
    #[default]
    Drop,
    /// That is left to the system.
    Keep,
}

#[cfg(test)]
impl Options {
    /// A plain copy with a digest, through blocks of one byte, that a test makes what it needs of.
    pub fn plain() -> Self {
        Self {
            algorithm: Algorithm::Sha256,
            further: Algorithms::default(),
            backend: Backend::One,
            block_size: 1,
            blocks: 1,
            follow: false,
            max_size: None,
            policy: Policy::Default,
            durability: Durability::Off,
            verify: None,
            nameless: false,
            journaling: None,
            reflink: Reflink::Auto,
            sparse: Sparse::Auto,
            cache: Cache::Drop,
            sorted: false,
            histories: false,
            pruned: false,
            prunes: false,
            asks_change_time: false,
        }
    }
}

// How fast the source may be read: one account of time for all workers.
//
// Every byte read moves the time up to which the account is paid. A worker that is ahead of that time
// by more than [`PORTION`] waits. Unused time is kept for [`KEPT`] only, so that no rush follows a pause.

/// Unused time that is kept. Long enough that a machine whose threads wake late loses nothing, short
/// enough that ten seconds are right to two in a hundred.
const KEPT: Duration = Duration::from_millis(200);

/// Reads are cut so that each takes about this long: smooth to watch.
const PORTION: Duration = Duration::from_millis(50);

/// The smallest portion, in bytes: with smaller ones the calls would be what takes the time.
const LEAST_PORTION: u64 = 4096;

/// A waiting thread checks this often whether the run is to stop.
const NAP: Duration = Duration::from_millis(20);

/// A rate that all workers of a run keep together.
#[derive(Debug)]
pub struct RateLimit {
    /// Bytes in a second; at least 1.
    bytes: u64,
    /// Up to when everything that was read is paid for.
    paid: Mutex<Instant>,
}

impl RateLimit {
    /// At most so many bytes in a second; 0 counts as 1.
    pub fn new(bytes: u64) -> Self {
        Self { bytes: bytes.max(1), paid: Mutex::new(Instant::now()) }
    }

    /// How many bytes to read at a time.
    pub fn portion(&self) -> usize {
        let bytes = self.bytes / (1000 / PORTION.as_millis() as u64);
        usize::try_from(bytes.max(LEAST_PORTION)).unwrap_or(usize::MAX)
    }

    /// Waits until `read` bytes more are due, or the run is to stop at once.
    pub fn pace(&self, read: usize, stop: &Stop) {
        let until = self.book(read, Instant::now());
        while !stop.is_urgent() {
            match until.checked_duration_since(Instant::now()) {
                None | Some(Duration::ZERO) => return,
                Some(rest) => sleep(rest.min(NAP)),
            }
        }
    }

    /// Adds bytes to the account; returns the time at which they are paid for.
    fn book(&self, read: usize, now: Instant) -> Instant {
        let cost = Duration::from_secs_f64(read as f64 / self.bytes as f64);
        // The mutex holds one value, so a panic elsewhere leaves nothing half done.
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = now.checked_sub(KEPT).unwrap_or(now);
        *paid = (*paid).max(kept) + cost;
        *paid
    }
}

// What steers the threads of a run while they read and write, and where they count what they do.

/// The controls and counters that the threads of a run share.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    /// How far the run is.
    pub progress: &'a Progress,
    /// Whether it is to stop.
    pub stop: &'a Stop,
    /// How fast the source may be read.
    pub rate: Option<&'a RateLimit>,
    /// Where its time goes.
    pub timings: &'a Timings,
    /// How much of large files stays in memory.
    pub resident: &'a Residency,
    /// Threads that may help to check a large copy.
    pub helpers: &'a Helpers,
    /// Asked before anything is made or changed at the output.
    pub gate: &'a Gate<'a>,
}

#[cfg(test)]
mod options_tests {
    use super::*;

    #[test]
    fn an_interval_is_the_most_that_is_read_again() {
        let (mib, secret) = (1 << 20, Sha256([0; Sha256::LEN]));
        for (interval, queue, block) in [(256 * mib, 4 * mib, mib / 4), (mib, 4096, 4096)] {
            let step = Journaling { interval, verify: false, secret }.step(queue, block);
            // The checkpoint that is due is not noted, and the one before is the last that is.
            assert!(2 * (step + block) + queue <= interval);
            assert!(step > interval / 3);
        }
        assert_eq!(Journaling { interval: 1, verify: false, secret }.step(1 << 30, 4096), 4096);
    }
}

#[cfg(test)]
mod rate_limit_tests {
    use super::*;

    #[test]
    fn ten_seconds_hold_what_ten_seconds_may() {
        let rate = RateLimit::new(1_000_000);
        let start = Instant::now();
        let (mut now, mut bytes) = (start, 0u64);
        while now - start < Duration::from_secs(10) {
            bytes += 50_000;
            // Threads wake up to 30 ms late.
            now = rate.book(50_000, now).max(now) + Duration::from_millis(bytes % 30);
        }
        assert!((9_500_000..=10_500_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_pause_gains_little() {
        let rate = RateLimit::new(1000);
        let later = Instant::now() + Duration::from_secs(100);
        assert_eq!(rate.book(1000, later), later - KEPT + Duration::from_secs(1));
    }

    #[test]
    fn a_run_that_is_to_stop_does_not_wait() {
        let (rate, stop) = (RateLimit::new(1), Stop::default());
        stop.request(1);
        rate.pace(1_000_000, &stop);
        assert!(
            RateLimit::new(1).portion() == 4096 && RateLimit::new(u64::MAX).portion() > 1 << 40
        );
    }
}
