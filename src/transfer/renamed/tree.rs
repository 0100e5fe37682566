//! The tree in which files are looked for that have another name at the source now: the output itself, or the last
//! generation.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use crate::event::Stop;
use crate::hash::{Algorithm, Digest};
use crate::path::RelPath;
use crate::state::knowledge::Knowledge;
use crate::state::private_dir::{Missing, PrivateDir};
use crate::state::recorded_at::RecordedAt;
use crate::state::row::Row;
use crate::sys::stat::Stat;
use crate::sys::{self, Dir};
use crate::transfer::renamed::gone::GoneFiles;
use crate::tree::dirs::{HeldTree, SourceDir, open_source_below};

/// What of a run's output, or of the last generation, can be shared under another name.
#[derive(Debug)]
pub struct RenamedFiles<'a> {
    source: Arc<SourceDir>,
    /// Whether links in the source stand for what they point to.
    follow: bool,
    tree: RecordedTree<'a>,
    stop: &'a Stop,
    gone: OnceLock<GoneFiles>,
    pub clones: Usable,
    pub links: Usable,
    /// Whether a hard link was made.
    linked: AtomicBool,
}

/// Whether something is of use, as far as is known.
#[derive(Debug)]
pub struct Usable(AtomicBool);

impl Usable {
    pub fn new(is_wanted: bool) -> Self {
        Self(AtomicBool::new(is_wanted))
    }

    pub fn is_it(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// The file system cannot do it.
    pub fn is_not(&self) {
        self.0.store(false, Relaxed);
    }
}

/// A tree, and what is recorded of it.
#[derive(Debug)]
pub enum RecordedTree<'a> {
    /// The output, whose root is this.
    Output(Dir, &'a Knowledge),
    Other(OtherTree),
}

/// Another tree than the output, whose record is read when it is first asked for.
#[derive(Debug)]
pub struct OtherTree {
    pub root: Dir,
    pub path: PathBuf,
    /// By which algorithm the run proves.
    pub proof: Algorithm,
    known: OnceLock<Knowledge>,
}

impl OtherTree {
    /// The tree that is held.
    ///
    /// # Errors
    /// There is no descriptor left for it.
    pub fn of(held: &HeldTree, proof: Algorithm) -> io::Result<Self> {
        let HeldTree { dir, path } = held;
        Ok(Self { root: dir.try_clone()?, path: path.clone(), proof, known: OnceLock::new() })
    }

    fn known(&self, stop: &Stop) -> &Knowledge {
        self.known.get_or_init(|| {
            // What cannot be read is as good as none; who shared with this tree before told of it.
            let private = PrivateDir::open(&self.root, &self.path, None, Missing::Leave);
            let (private, is_to_stop) = (private.ok().flatten(), || stop.is_requested());
            let (root, path) = (&self.root, &self.path);
            let known = Knowledge::load(private.as_ref(), root, path, &|_| false, &is_to_stop).0;
            known.proving_with(self.proof)
        })
    }
}

/// A file of the tree that has left the source.
pub struct FormerFile<'a> {
    pub path: RelPath,
    pub row: Row,
    /// Takes it for one new name alone; false if another has it.
    pub take: &'a dyn Fn() -> bool,
}

impl<'a> RenamedFiles<'a> {
    /// Those of `tree` that have left `source`.
    pub fn new(
        source: Arc<SourceDir>,
        follow: bool,
        tree: RecordedTree<'a>,
        stop: &'a Stop,
    ) -> Self {
        Self {
            source,
            follow,
            tree,
            stop,
            gone: OnceLock::new(),
            clones: Usable::new(true),
            links: Usable::new(true),
            linked: AtomicBool::new(false),
        }
    }

    /// The root of the tree.
    pub fn root(&self) -> &Dir {
        match &self.tree {
            RecordedTree::Output(root, _) => root,
            RecordedTree::Other(tree) => &tree.root,
        }
    }

    /// Whether a file that looked like this one may have left the source.
    pub fn may_have(&self, stat: &Stat) -> bool {
        stat.size > 0 && self.gone().may_have(stat.size, stat.mtime, |at| self.has_left(at))
    }

    /// What `share` makes of the first file that it can share, of those that looked like this one, have this digest and
    /// left the source.
    pub fn find<T>(
        &self,
        stat: &Stat,
        digest: &Digest,
        mut share: impl FnMut(FormerFile<'_>) -> Option<T>,
    ) -> Option<T> {
        let has_left = |at| self.has_left(at);
        self.gone().find(stat.size, stat.mtime, digest, has_left, |found| {
            let (path, row) = self.known().recorded(found.at)?;
            let is_it = row.digest == *digest
                && row.trace.size == stat.size
                && stat.mtime == row.given.unwrap_or(row.trace.mtime);
            let take = &|| found.take();
            is_it.then(|| share(FormerFile { path, row, take })).flatten()
        })
    }

    /// A hard link was made.
    pub fn note_link(&self) {
        self.linked.store(true, Relaxed);
    }

    /// Whether there are hard links now that were not there before.
    pub fn has_linked(&self) -> bool {
        self.linked.load(Relaxed)
    }

    fn known(&self) -> &Knowledge {
        match &self.tree {
            RecordedTree::Output(_, known) => known,
            RecordedTree::Other(tree) => tree.known(self.stop),
        }
    }

    fn gone(&self) -> &GoneFiles {
        self.gone.get_or_init(|| GoneFiles::of(self.known(), &|| self.stop.is_requested()))
    }

    /// Whether the source has nothing of that name any more.
    fn has_left(&self, at: RecordedAt) -> bool {
        let Some((path, _)) = self.known().recorded(at) else { return false };
        let Some((above, name)) = path.split() else { return false };
        let looked = open_source_below(&self.source.handle, &above, self.follow)
            .and_then(|dir| dir.stat(sys::name_from_bytes(name)?, self.follow));
        let is_gone = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        looked.err().as_ref().is_some_and(is_gone)
    }
}
