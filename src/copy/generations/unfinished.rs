//! The tree that a run fills, until it has the name of a generation.
//!
//! It begins as a snapshot of the last generation where there can be one. What another program does to the last
//! generation from then on is not in it, so the snapshot is what the source is compared with.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::copy::dated_name::DatedName;
use crate::copy::generations::set::{GenerationSet, UNFINISHED};
use crate::copy::mirror::tree_removal::TreeRemoval;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::state::private_dir::NAME;
use crate::sys::{self, Dir, DirListing};
use crate::tree::dirs::HeldTree;

/// How a tree came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// There is nothing in it.
    Empty,
    /// This run made it a snapshot of the last generation.
    Snapshot,
    /// An earlier run left it.
    LeftBehind,
}

/// A tree with an unfinished name.
pub struct UnfinishedTree {
    pub tree: HeldTree,
    pub name: String,
    pub beginning: Beginning,
}

/// The directory of all generations, for the trees of a run that begins `now`.
#[derive(Clone, Copy)]
pub struct TreePlace<'a> {
    pub root: &'a Dir,
    /// Where it is.
    pub path: &'a Path,
    pub set: &'a GenerationSet,
    /// The newest generation.
    pub last: Option<&'a HeldTree>,
    pub now: DatedName,
}

impl TreePlace<'_> {
    /// Makes a snapshot of the last generation. `None` where there can be none, and where an earlier run left a tree to
    /// go on with: then nothing was made.
    ///
    /// # Errors
    /// Something was made that cannot be used.
    pub fn snapshot(&self) -> Result<Option<UnfinishedTree>> {
        let Some(last) = self.last.filter(|_| self.set.unfinished.is_empty()) else {
            return Ok(None);
        };
        let (name, path) = self.named(self.set.next_name(self.now));
        let fail = |error| cannot_make(self.root, &name, &path, error);
        if !self.root.make_snapshot(&last.dir, name.as_ref()).map_err(fail)? {
            return Ok(None);
        }
        self.open(name, path, Beginning::Snapshot).map(Some)
    }

    /// Opens the tree that an earlier run left, or makes an empty one.
    ///
    /// # Errors
    /// It cannot be opened, or made.
    pub fn take(&self) -> Result<UnfinishedTree> {
        let left = self.set.unfinished.last().copied();
        let (name, path) = self.named(left.unwrap_or(self.set.next_name(self.now)));
        let fail = |error| cannot_make(self.root, &name, &path, error);
        if left.is_none() {
            self.root.make_tree(name.as_ref()).map_err(fail)?;
        }
        let beginning = if left.is_some() { Beginning::LeftBehind } else { Beginning::Empty };
        self.open(name, path, beginning)
    }

    /// Opens the tree of this name, once for the whole run.
    fn open(&self, name: String, path: PathBuf, beginning: Beginning) -> Result<UnfinishedTree> {
        let fail = |error| cannot_make(self.root, &name, &path, error);
        let dir = self.root.open_dir(name.as_ref(), false).map_err(fail)?;
        let is_ours = match beginning {
            Beginning::Empty => {
                dir.is_private().and_then(|it| Ok(it && DirListing::is_empty(&dir)?))
            }
            // A run may have been killed before it closed a snapshot.
            Beginning::Snapshot | Beginning::LeftBehind => {
                dir.stat_self().map(|stat| Dir::is_kept_by_us(&stat))
            }
        };
        if !is_ours.map_err(fail)? {
            let finding = "another user put a directory of his in its place; close the output to others (chmod 700)";
            return Err(Error::finding("make the tree", path, finding));
        }
        if !dir.is_private().map_err(fail)? {
            dir.unprotect();
            dir.take_over().map_err(fail)?;
        }
        Ok(UnfinishedTree { tree: HeldTree { dir: Arc::new(dir), path }, name, beginning })
    }

    fn named(&self, name: DatedName) -> (String, PathBuf) {
        let name = format!("{name}{UNFINISHED}");
        let path = self.path.join(&name);
        (name, path)
    }
}

/// What the tree `name` of `root` failed with, and what helps.
pub fn cannot_make(root: &Dir, name: &str, path: &Path, error: io::Error) -> Error {
    let note = sys::what_protects(root, name.as_ref()).unwrap_or_default();
    Error::io("make the tree", path, error).with_note(note)
}

impl UnfinishedTree {
    /// Takes from the tree itself and from what runs keep there for themselves what protects it, as all of the last
    /// generation may be protected. What cannot be done shows where it is written to.
    pub fn unprotect(&self) {
        let dir = &self.tree.dir;
        dir.unprotect();
        let Ok(private) = dir.open_dir(NAME.as_ref(), false) else { return };
        private.unprotect();
        for entry in DirListing::of(&private).into_iter().flatten().flatten() {
            private.unprotect_file(&entry.name);
        }
    }

    /// Removes it from `root` again, for a run that is refused.
    ///
    /// # Errors
    /// Something of it is left.
    pub fn discard(self, root: &Dir, stop: &Stop) -> Result<()> {
        let Self { tree: HeldTree { dir, path }, name, .. } = self;
        drop(dir);
        if root.destroy_tree(name.as_ref()) {
            return Ok(());
        }
        let mut removal = TreeRemoval { stop, enter: &|_| (), remove: &mut Dir::remove };
        match removal.run(root, name.as_ref()) {
            Err(stuck) if stuck.error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove the unfinished tree", path.join(stuck.path), stuck.error))
            }
            _ => Ok(()),
        }
    }
}
