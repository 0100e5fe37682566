//! One directory, listed from its first entry to its last.

use std::{ffi::OsStr, io, path::Path, vec};

use crate::sys::{Dir, DirReader, types::ListedEntry};

/// The entries of a directory, without `.` and `..`, in the order of the file system; after an error none.
pub struct DirListing {
    dir: Option<Dir>,
    reader: DirReader,
    batch: vec::IntoIter<ListedEntry>,
}

impl DirListing {
    /// A listing of `dir`, through a handle of its own: all who list through one handle share one position.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn of(dir: &Dir) -> io::Result<Self> {
        let dir = dir.open_dir(OsStr::new("."), false)?;
        Ok(Self { dir: Some(dir), reader: DirReader::default(), batch: Vec::new().into_iter() })
    }

    /// A listing of the directory at `path`. That of the standard library panics where a directory cannot be closed.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::of(&Dir::open(path)?)
    }

    /// True if `dir` has no entries.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn is_empty(dir: &Dir) -> io::Result<bool> {
        Self::of(dir)?.next().transpose().map(|first| first.is_none())
    }
}

impl Iterator for DirListing {
    type Item = io::Result<ListedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(entry) = self.batch.next() {
            return Some(Ok(entry));
        }
        match self.reader.next_batch(self.dir.as_ref()?) {
            Ok(batch) => {
                self.batch = batch.into_iter();
                self.batch.next().map(Ok)
            }
            Err(error) => {
                self.dir = None;
                Some(Err(error))
            }
        }
    }
}
