//! The sizes that a tree's files have on record: a file of another size is something else, and is not read to know it.
//!
//! Who may write to a tree can put a file of holes of any size into the place of another, and reading that takes as
//! long as he pleases.

use std::{path::Path, sync::OnceLock};

use crate::{
    hash::Digest, state::Knowledge, state::Missing, state::PrivateDir, sys::Dir, sys::stat::Stat,
};

/// A smaller file is read sooner than the record is.
const LEAST: u64 = 1 << 20;

/// The record of a tree, read when a large file is first asked for.
#[derive(Debug, Default)]
pub struct RecordedSizes(OnceLock<Option<Knowledge>>);

/// The tree whose files are asked for.
#[derive(Clone, Copy)]
pub struct RecordedTree<'a> {
    pub root: &'a Dir,
    /// Where it is.
    pub path: &'a Path,
    /// Where private directories are kept, if not in it.
    pub state: Option<&'a Path>,
    /// True if it is a bag, whose payload is asked for.
    pub is_bag: bool,
}

impl RecordedSizes {
    /// All that is on record. `tree` is asked once.
    pub fn known<'a>(&self, tree: impl FnOnce() -> Option<RecordedTree<'a>>) -> Option<&Knowledge> {
        self.0.get_or_init(|| tree()?.load()).as_ref()
    }

    /// The size on record of the content with this digest at `path`. `tree` is asked once.
    pub fn size_of<'a>(
        &self,
        path: &[u8],
        digest: &Digest,
        tree: impl FnOnce() -> Option<RecordedTree<'a>>,
    ) -> Option<u64> {
        self.known(tree)?.size_of(path, digest)
    }

    /// The same, if a file of this size is something else. Of a small one nothing is asked.
    pub fn other_than<'a>(
        &self,
        size: u64,
        path: &[u8],
        digest: &Digest,
        tree: impl FnOnce() -> Option<RecordedTree<'a>>,
    ) -> Option<u64> {
        let asked = (size >= LEAST).then(|| self.size_of(path, digest, tree));
        asked.flatten().filter(|recorded| *recorded != size)
    }

    /// True if the file at `path`, which is `there`, has the size and the time on record of the content with this
    /// digest. `tree` is asked once.
    pub fn is_as_left<'a>(
        &self,
        path: &[u8],
        digest: &Digest,
        there: &Stat,
        tree: impl FnOnce() -> Option<RecordedTree<'a>>,
    ) -> bool {
        let trace = self.known(tree).and_then(|known| known.trace_of(path, digest));
        trace.is_some_and(|trace| (trace.size, trace.mtime) == (there.size, there.mtime))
    }
}

impl RecordedTree<'_> {
    /// What is recorded of it.
    fn load(&self) -> Option<Knowledge> {
        let Self { root, path, state, is_bag } = *self;
        let private = PrivateDir::open(root, path, state, Missing::Leave).ok()??;
        if !is_bag {
            return Some(Knowledge::of_records(&private, root, &|| false));
        }
        Some(private.payload(root, path)?.known(&|| false))
    }
}
