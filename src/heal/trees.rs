//! The trees of a run: opened once, kept from other runs, with their manifests.

use std::fs::File;
use std::io::{self, Seek};
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::hash::chain::Chain;
use crate::path::RelPath;
use crate::state::opened::OpenedDir;
use crate::state::private_dir::{Missing, NAME, PrivateDir};
use crate::sys::stat::Identity;
use crate::sys::{Dir, is_on_turning_disk};
use crate::tree::lock::Patience;
use crate::verify::{ManifestLines, Target, TargetSpec};

/// A tree that gives good content, and gets it if it is to be healed.
#[derive(Debug)]
pub struct Tree {
    pub root: PathBuf,
    pub dir: Dir,
    pub id: Identity,
    /// Its manifests, as far as they can be opened.
    pub targets: Vec<Arc<Target>>,
    /// The files of these, to be read once more.
    manifests: Vec<File>,
    /// Keeps other runs out.
    private: Option<PrivateDir>,
    /// Why nothing may be written to it.
    pub barrier: Option<String>,
    /// Whether it is on a disk that turns, where one sequence of reads is fastest.
    pub turns: bool,
}

/// A manifest that is to be read.
pub struct ListedTree {
    pub target: Arc<Target>,
    pub manifest: File,
}

/// How a tree is kept from other runs.
#[derive(Clone, Copy)]
pub struct Keeping<'a> {
    pub patience: Patience<'a>,
    /// Whether the private directory is made where there is none.
    pub missing: Missing,
    /// Where private directories are, if not in the trees.
    pub state: Option<&'a std::path::Path>,
}

impl Tree {
    /// Opens a tree; what its manifests cannot be opened for is told by the check.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(root: PathBuf, specs: &[TargetSpec]) -> Result<(Self, Vec<ListedTree>)> {
        let fail = |error| Error::io("open the directory", &root, error);
        let dir = Dir::open(&root).map_err(fail)?;
        let id = dir.identity().map_err(fail)?;
        let (mut targets, mut manifests, mut listed) = (Vec::new(), Vec::new(), Vec::new());
        for opened in specs.iter().filter_map(|spec| spec.open().ok()) {
            targets.push(Arc::clone(&opened.target));
            let again = opened.manifest.try_clone();
            manifests.push(
                again.map_err(|error| {
                    Error::io("read the manifest", &opened.target.manifest, error)
                })?,
            );
            listed.push(ListedTree { target: opened.target, manifest: opened.manifest });
        }
        let turns = is_on_turning_disk(&dir);
        let (private, barrier) = (None, None);
        Ok((Self { root, dir, id, targets, manifests, private, barrier, turns }, listed))
    }

    /// Keeps other runs out until this is dropped. A tree that cannot have a private directory is not written to.
    ///
    /// # Errors
    /// Another run is at work on it.
    pub fn keep(&mut self, keeping: Keeping<'_>) -> Result<()> {
        let Keeping { patience, missing, state } = keeping;
        match PrivateDir::open(&self.dir, &self.root, state, missing) {
            Ok(Some(private)) => {
                patience.lock(&private, &self.root)?;
                self.private = Some(private);
            }
            Ok(None) => {}
            Err(error) => self.barrier = Some(error.to_string()),
        }
        Ok(())
    }

    /// Gives a directory that a killed run left writable its permissions back.
    ///
    /// # Errors
    /// They cannot be set.
    pub fn close_opened(&self) -> Result<()> {
        let Some(private) = &self.private else { return Ok(()) };
        let Some(opened) = OpenedDir::read(private) else { return Ok(()) };
        let closed = opened.close(&self.dir).and_then(|()| OpenedDir::forget(private));
        closed.map_err(|error| Error::io("close again what was opened in", &self.root, error))
    }

    /// What keeps other runs out, and notes for later ones.
    pub fn private(&self) -> Option<&PrivateDir> {
        self.private.as_ref()
    }

    /// Whether one of its manifests lists this file; so too if that cannot be found out. The manifests are read: it is
    /// for what hardly ever is the case.
    pub fn lists(&self, path: &RelPath) -> bool {
        let lists = |(target, manifest): (&Arc<Target>, &File)| -> io::Result<bool> {
            let mut manifest = manifest.try_clone()?;
            manifest.rewind()?;
            let mut lines = ManifestLines::new(target, manifest);
            while let Some(line) = lines.next_file()? {
                if line.path == *path {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        self.targets.iter().zip(&self.manifests).any(|both| lists(both).unwrap_or(true))
    }

    /// Whether the directory `dir` of this tree, or what is at `path`, is where private records are: nothing that came
    /// from elsewhere may become one.
    pub fn keeps_for_itself(&self, dir: &Dir, path: &RelPath) -> bool {
        let is_private = |name: &[u8]| name.eq_ignore_ascii_case(NAME.as_bytes());
        let private = self.private.as_ref().and_then(|private| private.dir().identity().ok());
        path.components().next().is_some_and(is_private)
            || private.is_some() && dir.identity().ok() == private
    }

    /// The chain of a content, and the size of that, if it stands beside one of the manifests.
    pub fn chain(&self, digest: &Digest) -> Option<(Chain, u64)> {
        self.targets.iter().find_map(|target| target.chain(digest))
    }
}
