//! What a run is about to move into the trash: `departing` in the private directory.
//!
//! The lines of these files are in no manifest any more when they are moved. Should the run not come to its end,
//! this file tells the next one that they were listed, and are no files of others.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, BufWriter, Write};

use crate::path::RelPath;
use crate::state::private_dir::PrivateDir;
use crate::sys::Uninterrupted;

const FILE: &str = "departing";

/// Longer paths are not believed.
const MOST_PATH: u64 = 1 << 20;

/// What an earlier run was about to move, and may not have moved.
#[derive(Debug, Default)]
pub struct Departing {
    hasher: RandomState,
    paths: HashSet<u64>,
}

impl Departing {
    /// Reads what is noted; nothing if that cannot be read.
    pub fn read(private: &PrivateDir) -> Self {
        let mut departing = Self::default();
        let Ok(Some((file, _))) = private.dir().open_ours(FILE.as_ref()) else { return departing };
        let mark = private.mark().of_file(&file);
        let (mut reader, mut path) = (BufReader::new(Uninterrupted(file)), Vec::new());
        // The first says of which output, and which making of the file, the others are.
        let mut is_first = true;
        loop {
            path.clear();
            let read = io::Read::take(&mut reader, MOST_PATH).read_until(0, &mut path);
            // It appeared whole: what does not end was not written by a run.
            if read.is_err() || path.pop() != Some(0) {
                return departing;
            }
            if std::mem::take(&mut is_first) {
                if path != mark.text().as_bytes() {
                    return departing;
                }
                continue;
            }
            let hash = departing.hasher.hash_one(&path);
            departing.paths.insert(hash);
        }
    }

    /// Whether the file at `path`, or a directory above it, was about to be moved.
    pub fn covers(&self, path: &[u8]) -> bool {
        if self.paths.is_empty() {
            return false;
        }
        let ends = memchr::memchr_iter(b'/', path).chain([path.len()]);
        let mut above = ends.filter_map(|end| path.get(..end));
        above.any(|path| self.paths.contains(&self.hasher.hash_one(path.to_vec())))
    }

    /// Notes these paths in place of what was noted.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(private: &PrivateDir, paths: impl Iterator<Item = RelPath>) -> io::Result<()> {
        private.write(FILE.as_ref(), true, |file| {
            let mark = private.mark().of_file(file);
            let mut writer = BufWriter::new(Uninterrupted(file));
            writer.write_all(mark.text().as_bytes())?;
            writer.write_all(b"\0")?;
            for path in paths {
                writer.write_all(path.as_bytes())?;
                writer.write_all(b"\0")?;
            }
            writer.flush()
        })
    }

    /// All of it was moved.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn forget(private: &PrivateDir) -> io::Result<()> {
        private.forget(FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn what_was_noted_is_covered() {
        let (_root, _, private) = scratch();
        assert!(!Departing::read(&private).covers(b"a"));
        let paths = ["a/b", "c\nd"].map(|path| RelPath::parse(path.as_bytes()).unwrap());
        Departing::write(&private, paths.into_iter()).unwrap();
        let departing = Departing::read(&private);
        for (path, covered) in
            [("a/b", true), ("a/b/c", true), ("a", false), ("a/bc", false), ("c\nd", true)]
        {
            assert_eq!(departing.covers(path.as_bytes()), covered, "{path}");
        }
        Departing::forget(&private).unwrap();
        Departing::forget(&private).unwrap();
        assert!(!Departing::read(&private).covers(b"a/b"));
    }
}
