//! Reading and hashing one file.

pub mod hash_thread;
pub mod link_check;
pub mod read_back;
mod watched_file;

pub use hash_thread::{
    AlignedBuffer, Block, BlockPool, FurtherDigests, Segment, SharedBlocks, is_zero,
};
pub use link_check::{ChainedContent, LinkCheck, LinkReads};
pub use read_back::{FileDigest, HashedFrom, ReadBack};
pub use watched_file::{FilesInUse, PausedFile, WatchedFile, data_in_a_hole};

use std::{sync::Mutex, sync::PoisonError, thread::sleep, time::Duration, time::Instant};

use serde::{Deserialize, Serialize};

use crate::{
    event::Gate, event::Progress, event::Stop, event::Timings, hash::Algorithm, hash::Algorithms,
    hash::Backend, hash::Sha256, io::link_check::Helpers, io::read_back::Residency,
    manifest::ListFormat, sys, sys::stat::Stat, sys::stat::Time, tree::Policy, tree::Selection,
};

// What is asked of a copy, and what that comes to at an output.

/// Size of a block in bytes, by default.
///
/// Seconds for one file of 2 GiB on tmpfs, two cores, medians of 9 alternating rounds (`cp -r` 0.84 to
/// 5.9 in the same series, so differences under a fifth are noise), by block size × blocks a worker:
/// 128K × 16: 1.61, 256K × 8: 1.62, 256K × 16: 1.59, 512K × 3: 2.11, 512K × 8: 1.89, 512K × 16: 1.66,
/// 1M × 3: 1.90, 1M × 8: 1.64.
pub const BLOCK_SIZE: usize = 256 << 10;

/// Blocks of a worker, by default; see the table at [`BLOCK_SIZE`].
pub const QUEUE_SIZE: usize = 16;

/// The most of a large file that is read again after a run was killed, in bytes, by default: a disk
/// that turns reads it in two seconds. Each half of it costs two flushes of the device; not yet measured.
pub const CHECKPOINT: u64 = 256 << 20;

/// How a copy is made, whichever its outputs, and whichever machine makes a part of it: a plan writes all of this down,
/// and each of its shards goes by it. A plan in which a field is missing, or one is unknown, is refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyOptions {
    /// Which entries of the source are copied, and as what.
    pub selection: Selection,
    /// What is computed over the bytes; with [`Algorithm::None`] there is no manifest.
    pub algorithm: Algorithm,
    /// What is computed and listed besides.
    pub further: Algorithms,
    /// The forms of the lists beside the manifest.
    pub formats: Vec<ListFormat>,
    /// Number of small files that are hashed together; what suits the machine is not written down.
    #[serde(skip, default = "Backend::best")]
    pub backend: Backend,
    /// Whether the states of large files' digests are kept beside the manifest, so that checks are faster and
    /// can say where a file is damaged.
    pub states: States,
    /// What happens to files that are there already.
    pub policy: Policy,
    /// Make everything durable before it is recorded. Without this, a power cut soon after the run
    /// may leave files that are listed and not complete.
    pub sync: bool,
    /// Refuse a run for which the output has no room, before anything is touched.
    pub check_space: bool,
    /// A source in which there is nothing to copy is as good as any other; without this its disk may not be mounted,
    /// and the run ends with [`Ending::Nothing`](crate::Ending::Nothing).
    pub allow_empty: bool,
    /// Refuse an output that does not lie on a file system of its own: with a mount point that is not `/`, and
    /// that shows it from its top.
    pub require_mount: bool,
    /// Refuse an output whose syncs are not known to reach a device of this machine.
    pub require_durable: bool,
    /// The output may be what the source is a copy of: without this such a run is refused, because the two may have
    /// been exchanged by mistake.
    pub restore: bool,
    /// What becomes of the beginning of a large file that a killed run left.
    pub resume: Resume,
    /// The most of a large file that is read again after a run was killed, and the size above which a
    /// file can be gone on with; bytes. Blocks on their way count, so much less than a hundred of them
    /// makes no sense.
    pub checkpoint: u64,
    /// Read back from the output's medium every file that is copied, before it gets its final name, and
    /// every file that is kept; copies that are not there as they were written are removed. Needs `sync` and
    /// an algorithm.
    pub verify: bool,
    /// Whether with `verify` files are read that are at the output already, or only those that the run writes.
    pub verify_which: ReadBackWhich,
    /// Read the source's file a second time when its copy was read back, from its device where that can be had: both
    /// readings must agree. Needs `verify`.
    pub verify_source: bool,
    /// Whether copies share their data with the source. [`Reflink::Always`] needs [`Sparse::Auto`].
    pub reflink: Reflink,
    /// What becomes of files that have another name at the source than at the output.
    pub renamed: Renamed,
    /// What becomes of holes and zeros.
    pub sparse: Sparse,
    /// Whether what the source's file system calls a hole is read.
    pub holes: Holes,
    /// What becomes of the copy's pages in the system's cache.
    pub cache: Cache,
    /// Blocks of a worker; at least 1.
    pub queue_size: usize,
    /// Size of a block in bytes; at least 1. Memory is workers × blocks × this, and at most 2 MiB more for each
    /// thread that copies small files.
    pub block_size: usize,
}

impl Default for CopyOptions {
    /// The defaults of the command line.
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            algorithm: Algorithm::default(),
            further: Algorithms::default(),
            formats: vec![ListFormat::Gnu],
            backend: Backend::default(),
            states: States::default(),
            policy: Policy::default(),
            sync: true,
            check_space: true,
            allow_empty: false,
            require_mount: false,
            require_durable: false,
            restore: false,
            resume: Resume::default(),
            checkpoint: CHECKPOINT,
            verify: false,
            verify_which: ReadBackWhich::default(),
            verify_source: false,
            reflink: Reflink::default(),
            renamed: Renamed::default(),
            sparse: Sparse::default(),
            holes: Holes::default(),
            cache: Cache::default(),
            queue_size: QUEUE_SIZE,
            block_size: BLOCK_SIZE,
        }
    }
}

/// Which files are read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadBackWhich {
    /// All that are listed.
    #[default]
    All,
    /// Those that the run writes.
    New,
}

impl CopyOptions {
    /// True if files that are at the output already are read from its medium.
    pub fn verifies_kept(&self) -> bool {
        self.verify && self.verify_which == ReadBackWhich::All
    }
}

/// What the transfers of a run go by: what was asked, and what that comes to at its output.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub asked: &'a CopyOptions,
    /// What is computed besides the digest that proves.
    pub further: Algorithms,
    /// Size of a block in bytes; at least 1.
    pub block_size: usize,
    /// Blocks of a worker; at least 1.
    pub blocks: usize,
    /// True if a symbolic link in the source stands for what it points to.
    pub follow: bool,
    /// When files get their final names.
    pub durability: Durability,
    /// True if part files may go without a name: only where they are published at once.
    pub nameless: bool,
    /// Which large files have a journal; `None` if none has.
    pub journaling: Option<Journaling>,
    /// True if histories of ASC MHL are gone on with, so that their chains are no files of the copy.
    pub histories: bool,
    /// True if what the record lists and is gone was removed on purpose before the run.
    pub pruned: bool,
    /// The output is the payload of a bag, whose record counts more than its lists: an older one would contradict them.
    pub is_payload: bool,
    /// True if what is at the output and not proven gives way, as in a snapshot that becomes a generation.
    pub prunes: bool,
    /// When the run began, as a file would show that is changed at that moment.
    pub began: Time,
}

/// When a finished part file gets its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// At once; whether it survives a power cut is left to the system.
    Off,
    /// When the group it belongs to is durable. Each file is made durable on its own unless the
    /// output's file system can do so for all at once (`at_once`).
    Grouped {
        /// True if files on the root's file system wait for the group's one call.
        at_once: bool,
    },
}

/// What becomes of the half of a large file that a killed run left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// True if what is there is read before it is gone on with.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Whether what a file system calls a hole is read: such a word was wrong more than once (OpenZFS 0.6 to 2.2), and what
/// is passed over then is zeros in the copy and in its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holes {
    /// In a file with at most [`COSTLY_HOLES`] of it.
    #[default]
    Auto,
    /// Always.
    Read,
    /// Never.
    Trust,
}

/// Holes of a file that are worth a word before they are hashed, and that are believed by default; bytes. SHA-256 of
/// 1 TiB of zeros takes 13 minutes at 1.4 GB/s (SHA instructions), and three times that without. Memory gives zeros out
/// faster than they are hashed, so below this reading them adds nothing; a network of 1 Gbit/s takes two and a half
/// hours to carry them.
pub const COSTLY_HOLES: u64 = 1 << 40;

impl Holes {
    /// True if the holes of this file are believed, and not read.
    pub fn are_believed(self, stat: &Stat) -> bool {
        match self {
            Self::Auto => stat.size.saturating_sub(stat.allocated) > COSTLY_HOLES,
            Self::Read => false,
            Self::Trust => true,
        }
    }
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

impl<'a> Options<'a> {
    /// A run that makes nothing durable and goes on with nothing, which the caller makes what it needs of.
    pub fn plain(asked: &'a CopyOptions) -> Self {
        Self {
            asked,
            further: asked.further,
            block_size: asked.block_size,
            blocks: 1,
            follow: false,
            durability: Durability::Off,
            nameless: false,
            journaling: None,
            histories: false,
            pruned: false,
            is_payload: false,
            prunes: false,
            began: sys::time_of_change(),
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

    /// Bytes to read at a time.
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
