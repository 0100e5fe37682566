//! By which way content goes from the source to the output: what is asked for, what turned out to
//! be possible between two file systems, and what was done in the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;

use crate::sys::stat::Stat;
use crate::sys::{CachePolicy, KernelCopy, ResidentBytes};
use crate::tree::dirs::OutputDir;

/// Whether copies share their data with the source where the file system can do that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reflink {
    /// Where it can be done and gains something.
    #[default]
    Auto,
    /// A file that cannot be cloned is a failed one.
    Always,
    /// The copy gets blocks of its own.
    Never,
}

/// What becomes of holes and zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sparse {
    /// Holes of the source are holes of the copy.
    #[default]
    Auto,
    /// Holes are written as zeros.
    Never,
    /// Aligned stretches of zeros become holes too.
    Always,
}

/// What becomes of the copy's pages in the system's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// What the copy brought into memory is let go of; what was there before stays.
    #[default]
    Drop,
    /// That is left to the system.
    Keep,
}

/// How the content of a file came to the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Its data is shared with the source.
    Clone,
    /// By the kernel, with `copy_file_range`.
    Range,
    /// By the kernel, with `sendfile`.
    Send,
    /// Read and written.
    #[default]
    ReadWrite,
}

impl Method {
    /// All of them, in the order of `as usize`.
    pub const ALL: [Self; 4] = [Self::Clone, Self::Range, Self::Send, Self::ReadWrite];
}

/// How many files came by a method, and how many bytes they have, holes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What of large files stays in memory although it was not there before, where that can be told:
/// counted when each is complete, without what is still on its way to the device.
#[derive(Debug, Default)]
pub struct Residue {
    /// Of files that were read.
    pub source: Stayed,
    /// Of files that were written.
    pub output: Stayed,
}

/// Bytes that were looked for, and those of them that were found.
#[derive(Debug, Default)]
pub struct Stayed {
    bytes: AtomicU64,
    of: AtomicU64,
}

impl Stayed {
    /// Adds a file.
    pub fn add(&self, ResidentBytes { bytes, of }: ResidentBytes) {
        if of > 0 {
            self.bytes.fetch_add(bytes, Relaxed);
            self.of.fetch_add(of, Relaxed);
        }
    }

    /// The sum.
    pub fn sum(&self) -> ResidentBytes {
        ResidentBytes { bytes: self.bytes.load(Relaxed), of: self.of.load(Relaxed) }
    }
}

/// What is known of a pair of file systems.
#[derive(Debug)]
pub struct Pair {
    /// How the page cache is spared on the source's …
    pub source: CachePolicy,
    /// … and on the output's side.
    pub output: CachePolicy,
    clones: AtomicBool,
    ranges: AtomicBool,
}

impl Pair {
    /// Cloning is not possible between the two.
    pub fn set_no_clones(&self) {
        self.clones.store(false, Relaxed);
    }

    /// `copy_file_range` is not possible between the two.
    pub fn set_no_ranges(&self) {
        self.ranges.store(false, Relaxed);
    }
}

/// Pairs that are remembered; with more (snapshots of btrfs are file systems each) all is learnt
/// again.
const MOST_PAIRS: usize = 1024;

/// The ways of a run.
#[derive(Debug, Default)]
pub struct Ways {
    /// Whether data is shared.
    pub reflink: Reflink,
    /// What becomes of holes.
    pub sparse: Sparse,
    /// What becomes of pages.
    pub cache: Cache,
    pairs: RwLock<HashMap<(u64, u64), Arc<Pair>>>,
    /// What of large files stayed in memory.
    pub residue: Residue,
}

impl Ways {
    /// What is asked for, and nothing known yet.
    pub fn new(reflink: Reflink, sparse: Sparse, cache: Cache) -> Self {
        Self { reflink, sparse, cache, ..Self::default() }
    }

    /// What is known of the file systems of a source file, which is `stat`, and an output.
    pub fn between(&self, source: &std::fs::File, stat: &Stat, output: &OutputDir) -> Arc<Pair> {
        let key = (stat.id.dev, output.dev);
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = pairs.get(&key) {
            return Arc::clone(pair);
        }
        drop(pairs);
        let (from, to) = match (self.cache, &output.handle) {
            (Cache::Drop, Some(handle)) => (CachePolicy::of(source), CachePolicy::of(handle)),
            _ => (CachePolicy::None, CachePolicy::None),
        };
        // A clone has the source's holes, and copy_file_range may make one.
        let shares = self.reflink != Reflink::Never && self.sparse == Sparse::Auto;
        let pair = Arc::new(Pair {
            source: from,
            output: to,
            clones: AtomicBool::new(shares),
            ranges: AtomicBool::new(shares),
        });
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        if pairs.len() >= MOST_PAIRS {
            pairs.clear();
        }
        Arc::clone(pairs.entry(key).or_insert(pair))
    }

    /// Whether a file is to be cloned if that turns out to be possible. `is_hashed` says that its
    /// copy will be read.
    pub fn wants_clone(&self, pair: &Pair, is_hashed: bool, is_large: bool) -> bool {
        match self.reflink {
            Reflink::Never => false,
            Reflink::Always => true,
            // The copy's content is read from the device even if the source's is in memory: for
            // small files that takes longer than writing it.
            Reflink::Auto => (is_large || !is_hashed) && pair.clones.load(Relaxed),
        }
    }

    /// The first way for the kernel to move bytes between the two.
    pub fn first_way(&self, pair: &Pair) -> KernelCopy {
        if pair.ranges.load(Relaxed) { KernelCopy::Range } else { KernelCopy::Send }
    }
}
