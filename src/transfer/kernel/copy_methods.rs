//! By which way content goes from the source to the output: what is asked for, what turned out to
//! be possible between two file systems, and what was done in the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use crate::io::options::{Cache, Options, Reflink, Sparse};
use crate::sys::stat::Stat;
use crate::sys::{self, CachePolicy, KernelCopy};
use crate::tree::dirs::OutputDir;

/// What is known of a pair of file systems.
#[derive(Debug)]
pub struct FileSystemPair {
    /// How the page cache is spared on the source's …
    pub source: CachePolicy,
    /// … and on the output's side.
    pub output: CachePolicy,
    /// Whether the sizes that the source states are where its files end.
    pub has_exact_sizes: bool,
    clones: AtomicBool,
    ranges: AtomicBool,
}

impl FileSystemPair {
    /// Cloning is not possible between the two.
    pub fn set_no_clones(&self) {
        self.clones.store(false, Relaxed);
    }

    /// `copy_file_range` is not possible between the two.
    pub fn set_no_ranges(&self) {
        self.ranges.store(false, Relaxed);
    }
}

/// FileSystemPairs that are remembered; with more (snapshots of btrfs are file systems each) all is learnt
/// again.
const MOST_PAIRS: usize = 1024;

/// The ways of a run.
#[derive(Debug, Default)]
pub struct CopyMethods {
    reflink: Reflink,
    sparse: Sparse,
    cache: Cache,
    pairs: RwLock<HashMap<(u64, u64), Arc<FileSystemPair>>>,
}

impl CopyMethods {
    /// What is asked for, and nothing known yet.
    pub fn new(&Options { reflink, sparse, cache, .. }: &Options) -> Self {
        Self { reflink, sparse, cache, ..Self::default() }
    }

    /// What is known of the file systems of a source file, which is `stat`, and an output.
    pub fn between(
        &self,
        source: &std::fs::File,
        stat: &Stat,
        output: &OutputDir,
    ) -> Arc<FileSystemPair> {
        let key = (stat.id.dev, output.volume.dev);
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
        let pair = Arc::new(FileSystemPair {
            source: from,
            output: to,
            has_exact_sizes: sys::has_exact_sizes(source),
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
    pub fn wants_clone(&self, pair: &FileSystemPair, is_hashed: bool, is_large: bool) -> bool {
        match self.reflink {
            Reflink::Never => false,
            Reflink::Always => true,
            // The copy's content is read from the device even if the source's is in memory: for
            // small files that takes longer than writing it.
            Reflink::Auto => (is_large || !is_hashed) && pair.clones.load(Relaxed),
        }
    }

    /// The first way for the kernel to move bytes between the two.
    pub fn first_kernel_copy(&self, pair: &FileSystemPair) -> KernelCopy {
        if pair.ranges.load(Relaxed) { KernelCopy::Range } else { KernelCopy::Send }
    }
}
