//! What was asked of a run: plain values that every room from reading on looks at, and no state.

use serde::{Deserialize, Serialize};

use crate::hash::multibuffer::Backend;
use crate::hash::{Algorithm, Algorithms, Sha256};
use crate::tree::overwrite::Policy;

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

#[cfg(test)]
mod tests {
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
