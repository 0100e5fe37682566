//! The directory that was opened last stays open, because paths come in the order of a walk: the next one
//! is mostly in the same directory.

use std::io;

use crate::path::RelPath;
use crate::sys::stat::Stat;
use crate::sys::{self, Dir};

/// Opens directories below one root, and keeps the last of them open.
#[derive(Debug, Default)]
pub struct LastDir(Option<(RelPath, Dir)>);

impl LastDir {
    /// The directory `path` below `root`, which must be the same root at each call. No symbolic link is
    /// followed.
    ///
    /// # Errors
    /// It cannot be opened; what was open before is closed.
    pub fn enter(&mut self, root: &Dir, path: &RelPath) -> io::Result<&Dir> {
        let opened = match self.0.take() {
            Some((last, dir)) if last == *path => (last, dir),
            _ => (path.clone(), root.open_below(path)?),
        };
        Ok(&self.0.insert(opened).1)
    }

    /// What is at `path` below `root`; of what a link there points to, if it is to `follow` it.
    ///
    /// # Errors
    /// The system's; [`NotFound`](io::ErrorKind::NotFound) for the root itself.
    pub fn stat(&mut self, root: &Dir, path: &RelPath, follow: bool) -> io::Result<Stat> {
        let Some((above, name)) = path.split() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let name = sys::name_from_bytes(name)?;
        self.enter(root, &above)?.stat(name, follow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_directory_after_the_other() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("a/b")).unwrap();
        for name in ["one", "a/two", "a/b/three"] {
            std::fs::write(temp.path().join(name), name).unwrap();
        }
        let (root, mut last) = (Dir::open(temp.path()).unwrap(), LastDir::default());
        let mut size = |path: &str| {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            last.stat(&root, &path, false).map(|stat| stat.size).ok()
        };
        let paths = ["one", "a/two", "a/two", "gone/x", "a/b/three", "a/b/gone", "one"];
        let sizes = [Some(3), Some(5), Some(5), None, Some(9), None, Some(3)];
        assert_eq!(paths.map(&mut size), sizes);
        assert!(last.stat(&root, &RelPath::root(), false).is_err());
    }
}
