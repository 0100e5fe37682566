//! A pass over the directories of a tree, or of several trees side by side.
//!
//! Each directory is opened by its name in the one above it, so no path is resolved twice, and a link is followed only
//! in a tree in which links stand for what they point to. A tree may be of any depth: the root and the last levels are
//! held open, and one between is opened again by its name when the pass comes back to it. It must then be the directory
//! that it was.

use std::{ffi::OsStr, io, sync::Arc, vec};

use crate::sys::{Dir, DirReader, ListedEntry, stat::Identity, stat::Kind, stat::Stat};
use crate::{event::Stop, path::DirPath, path::RelPath};

/// Number of levels that are held open, besides the root. Few trees have more.
const OPEN_LEVELS: usize = 16;

/// A pass over `N` trees, the first of which is listed. `T` is what its user keeps of a directory.
pub struct TreePass<T, const N: usize = 1> {
    /// In which trees links stand for what they point to.
    follow: [bool; N],
    /// The directories on the way, from the root to where the pass is.
    way: Vec<PassDir<T, N>>,
    reader: DirReader,
    batch: vec::IntoIter<ListedEntry>,
}

/// A directory on the way of a pass.
pub struct PassDir<T, const N: usize = 1> {
    /// It in each tree that has it, while it is open.
    pub dirs: [Option<Dir>; N],
    ids: [Option<Identity>; N],
    pub name: Arc<OsStr>,
    pub rel: DirPath,
    pub state: T,
    is_listed: bool,
    /// Those in it that wait to be entered.
    pub subdirs: Vec<(Arc<OsStr>, T)>,
}

/// What a pass comes to next, and the directory that it is in.
pub enum Step<'a, T, const N: usize = 1> {
    Entry(&'a mut PassDir<T, N>, ListedEntry),
    /// There are no more entries. What waits comes next, in the order of the names.
    Listed(&'a mut PassDir<T, N>),
    /// A directory that waited: to be entered, or else it is passed over.
    Into(&'a mut PassDir<T, N>, Arc<OsStr>, T),
    /// It is done with this directory and everything below, and back in the one above.
    Left(PassDir<T, N>),
}

impl<T, const N: usize> TreePass<T, N> {
    /// A pass over these trees, each with true if links in it stand for what they point to.
    ///
    /// # Errors
    /// One cannot be opened once more: a directory that is listed has one position for all who use its handle.
    pub fn over(trees: [(&Dir, bool); N], state: T) -> io::Result<Self> {
        let (follow, batch) = (trees.map(|(_, follow)| follow), Vec::new().into_iter());
        let mut pass = Self { follow, way: Vec::new(), reader: DirReader::default(), batch };
        let mut dirs = [const { None }; N];
        for (dir, (root, _)) in dirs.iter_mut().zip(trees) {
            *dir = Some(root.open_dir(".".as_ref(), false)?);
        }
        pass.enter(OsStr::new(".").into(), dirs, state).map(|()| pass)
    }

    /// The next step; `None` at the end, and when the run is to stop.
    ///
    /// # Errors
    /// The pass cannot go on in the directory that it is in, but beside it.
    pub fn step(&mut self, stop: &Stop) -> io::Result<Option<Step<'_, T, N>>> {
        let Some(top) = self.way.last_mut().filter(|_| !stop.is_requested()) else {
            return Ok(None);
        };
        if !top.is_listed && self.batch.len() == 0 {
            top.is_listed = true;
            let batch = match &top.dirs[0] {
                Some(dir) => self.reader.next_batch(dir)?,
                None => Vec::new(),
            };
            top.is_listed = batch.is_empty();
            self.batch = batch.into_iter();
            if top.is_listed {
                top.subdirs.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
                return Ok(self.way.last_mut().map(Step::Listed));
            }
        }
        if let Some(entry) = self.batch.next() {
            return Ok(self.way.last_mut().map(|top| Step::Entry(top, entry)));
        }
        match top.subdirs.pop() {
            Some((name, state)) => Ok(Some(Step::Into(self.top()?, name, state))),
            None => Ok(self.way.pop().map(Step::Left)),
        }
    }

    /// Where the pass is.
    pub fn path(&self) -> RelPath {
        self.way.last().map_or_else(RelPath::root, |top| top.rel.path())
    }

    /// What its user keeps of the directory that the pass is in.
    pub fn state(&mut self) -> Option<&mut T> {
        self.way.last_mut().map(|top| &mut top.state)
    }

    /// The directory that the pass is in, open again if it was closed.
    ///
    /// # Errors
    /// It cannot be opened, or another directory is in its place.
    pub fn top(&mut self) -> io::Result<&mut PassDir<T, N>> {
        let last_open = self.way.iter().rposition(|dir| dir.dirs[0].is_some()).unwrap_or(0);
        for at in last_open + 1..self.way.len() {
            let dirs = self.open(at - 1, &self.way[at].name)?;
            for (dir, id) in dirs.iter().zip(self.way[at].ids) {
                if dir.as_ref().map(Dir::identity).transpose()? != id {
                    return Err(io::Error::other("another directory took its place meanwhile"));
                }
            }
            self.way[at].dirs = dirs;
            self.close_above(at);
        }
        self.way.last_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Enters the directory `name`, which is open as `dirs`.
    ///
    /// # Errors
    /// It cannot be looked at, or is one that the pass is in already, by way of a link.
    pub fn enter(&mut self, name: Arc<OsStr>, dirs: [Option<Dir>; N], state: T) -> io::Result<()> {
        let rel = self.way.last().map_or(DirPath::root(), |top| top.rel.below(&name));
        let mut ids = [None; N];
        for (id, dir) in ids.iter_mut().zip(&dirs) {
            *id = dir.as_ref().map(Dir::identity).transpose()?;
        }
        if self.follow[0] && self.way.iter().any(|above| above.ids[0] == ids[0]) {
            return Err(io::Error::other("it leads back to a directory above it"));
        }
        let (is_listed, subdirs) = (false, Vec::new());
        self.way.push(PassDir { dirs, ids, name, rel, state, is_listed, subdirs });
        self.close_above(self.way.len() - 1);
        Ok(())
    }

    /// Enters the directory `name` in each tree that has the one that the pass is in.
    ///
    /// # Errors
    /// One cannot be opened, or as [`enter`](Self::enter) says.
    pub fn enter_all(&mut self, name: Arc<OsStr>, state: T) -> io::Result<()> {
        let dirs = self.open(self.way.len().saturating_sub(1), &name)?;
        self.enter(name, dirs, state)
    }

    /// Opens what is called `name` in the directory at this level.
    fn open(&self, level: usize, name: &OsStr) -> io::Result<[Option<Dir>; N]> {
        let mut dirs = [const { None }; N];
        for ((dir, above), follow) in dirs.iter_mut().zip(&self.way[level].dirs).zip(self.follow) {
            *dir = above.as_ref().map(|above| above.open_dir(name, follow)).transpose()?;
        }
        Ok(dirs)
    }

    /// Closes the directory that is too far above this level to stay open.
    fn close_above(&mut self, level: usize) {
        if level > OPEN_LEVELS {
            self.way[level - OPEN_LEVELS].dirs = [const { None }; N];
        }
    }
}

/// An entry below a directory that is looked through.
pub struct EntryBelow<'a> {
    /// The directory that it is in, …
    pub dir: &'a Dir,
    /// … and where that is.
    pub above: &'a DirPath,
    pub name: &'a OsStr,
    pub path: RelPath,
    pub kind: Kind,
}

/// A directory that cannot be looked through, and why.
pub type Unlisted = (RelPath, io::Error);

type Seen<'a> = Result<EntryBelow<'a>, Unlisted>;

impl EntryBelow<'_> {
    /// Its metadata.
    ///
    /// # Errors
    /// It cannot be looked at, so its directory cannot.
    pub fn stat(&self) -> Result<Stat, Unlisted> {
        self.dir.stat(self.name, false).map_err(|error| (self.above.path(), error))
    }
}

/// Hands `see` everything below `root`, also what cannot be looked through, and goes into the directories for which it
/// says so. No symbolic link is followed. False if the run is to stop.
///
/// # Errors
/// What `see` failed with.
pub fn each_below<E>(
    root: &Dir,
    stop: &Stop,
    see: &mut dyn FnMut(Seen<'_>) -> Result<bool, E>,
) -> Result<bool, E> {
    let mut pass = match TreePass::over([(root, false)], ()) {
        Ok(pass) => pass,
        Err(error) => return see(Err((RelPath::root(), error))),
    };
    loop {
        let failed = match pass.step(stop) {
            Ok(None) => return Ok(!stop.is_requested()),
            Ok(Some(Step::Entry(top, listed))) => {
                let PassDir { dirs: [Some(dir)], rel, subdirs, .. } = top else { continue };
                let (kind, name) = (listed.kind_in(dir), listed.name);
                let entry = kind.map_err(|error| (rel.path(), error)).map(|kind| {
                    let path = rel.join(&name);
                    EntryBelow { dir, above: rel, name: &name, path, kind }
                });
                if see(entry)? {
                    subdirs.push((name, ()));
                }
                continue;
            }
            Ok(Some(Step::Into(top, name, ()))) => {
                let path = top.rel.join(&name);
                pass.enter_all(name, ()).err().map(|error| (path, error))
            }
            Ok(Some(_)) => None,
            Err(error) => Some((pass.path(), error)),
        };
        failed.map_or(Ok(true), |failed| see(Err(failed)))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    /// Goes through `tree`, in which each directory has two, and calls `at` at each level that it comes back to.
    fn names(tree: &Path, mut at: impl FnMut(&RelPath)) -> io::Result<Vec<RelPath>> {
        let (root, mut names) = (Dir::open(tree)?, Vec::new());
        let mut pass = TreePass::over([(&root, false), (&root, true)], ())?;
        while let Some(step) = pass.step(&Stop::default())? {
            match step {
                Step::Entry(top, ListedEntry { name, .. }) => {
                    names.push(top.rel.join(&name));
                    top.subdirs.push((name, ()));
                }
                Step::Into(_, name, ()) => pass.enter_all(name, ())?,
                Step::Left(left) => at(&left.rel.path()),
                Step::Listed(_) => {}
            }
            let open = pass.way.iter().filter(|dir| dir.dirs[0].is_some()).count();
            assert!(open <= OPEN_LEVELS + 1, "{open} are open");
        }
        Ok(names)
    }

    fn dig(levels: usize) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for level in 0..levels {
            let dir = tree.path().join("a/".repeat(level));
            ["a", "b"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        }
        tree
    }

    #[test]
    fn a_deep_tree_is_gone_through_with_few_open_directories() {
        let names = names(dig(200).path(), |_| ()).unwrap();
        assert_eq!(names.len(), 400);
        assert!(
            names.iter().any(|name| name.as_bytes() == format!("{}b", "a/".repeat(199)).as_bytes())
        );
    }

    // On Windows a directory cannot be renamed while one below it is open.
    #[cfg(unix)]
    #[test]
    fn a_directory_that_was_exchanged_meanwhile_is_refused() {
        let tree = dig(60);
        let exchange = |left: &RelPath| {
            let is_at_the_end = left.components().count() == 60;
            let moved = tree.path().join("a/moved");
            if is_at_the_end && !moved.exists() {
                fs::rename(tree.path().join("a/a"), &moved).unwrap();
                fs::create_dir_all(tree.path().join("a/a/b")).unwrap();
            }
        };
        let error = names(tree.path(), exchange).unwrap_err();
        assert!(error.to_string().contains("another directory"), "{error}");
    }
}
