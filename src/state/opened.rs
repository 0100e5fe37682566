//! A directory that its owner may not write to, and that is made writable for a moment: `opened` in the private
//! directory.
//!
//! The note is durable before the permissions are changed, and goes when they are what they were. Should the run not
//! come to its end, it tells the next one what to give back.

use std::io::{self, Read};

use crate::path::RelPath;
use crate::state::private_dir::PrivateDir;
use crate::sys::stat::{Stat, Time};
use crate::sys::{self, Attributes, Dir, Uninterrupted};

const FILE: &str = "opened";

/// What the first line begins with.
const HEAD: &str = "dircopy opened 1";

/// Longer notes are not read.
const MOST_BYTES: u64 = 1 << 20;

/// What a directory was before it was made writable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedDir {
    path: RelPath,
    mode: u32,
    mtime: Time,
}

impl OpenedDir {
    /// The directory at `path` below the root, which is `stat`.
    pub fn new(path: &RelPath, stat: &Stat) -> Self {
        Self { path: path.clone(), mode: stat.mode, mtime: stat.mtime }
    }

    /// Notes it, on the device.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, private: &PrivateDir) -> io::Result<()> {
        let Self { path, mode, mtime: Time { secs, nanos } } = self;
        private.write(FILE.as_ref(), true, |file| {
            let mark = private.mark().of_file(file);
            let head = format!("{HEAD} {}\n{mode:o} {secs} {nanos} ", mark.text());
            sys::write_all(&*file, &[head.as_bytes(), path.as_bytes(), b"\0"].concat())
        })
    }

    /// What is noted; `None` if that is nothing that can be read.
    pub fn read(private: &PrivateDir) -> Option<Self> {
        let (file, _) = private.dir().open_ours(FILE.as_ref()).ok()??;
        let head = format!("{HEAD} {}\n", private.mark().of_file(&file).text());
        let mut text = Vec::new();
        Uninterrupted(file).take(MOST_BYTES).read_to_end(&mut text).ok()?;
        let rest = text.strip_prefix(head.as_bytes())?.strip_suffix(b"\0")?;
        let mut fields = rest.splitn(4, |&byte| byte == b' ');
        let mut field = || str::from_utf8(fields.next()?).ok();
        let mode = u32::from_str_radix(field()?, 8).ok()?;
        let mtime = Time { secs: field()?.parse().ok()?, nanos: field()?.parse().ok()? };
        let path = match fields.next()? {
            b"" => RelPath::root(),
            path => RelPath::parse(path).ok()?,
        };
        Some(Self { path, mode, mtime })
    }

    /// The directory is what it was.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn forget(private: &PrivateDir) -> io::Result<()> {
        private.forget(FILE)
    }

    /// Gives the directory below `root` back what it was, unless it was given other permissions meanwhile.
    ///
    /// # Errors
    /// It cannot be opened or changed, or may not be on the device. The note stays.
    pub fn close(&self, root: &Dir) -> io::Result<()> {
        let dir = match root.open_below(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let now = dir.stat_self()?;
        if !Dir::is_opened_up(&now, self.mode) {
            return Ok(());
        }
        let before = Stat { mode: self.mode, mtime: self.mtime, ..now };
        let mut closed = Ok(());
        Attributes::default().apply(&dir, &before, true, |_, error| closed = Err(error));
        closed.and_then(|()| dir.persist())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::Missing;

    #[test]
    fn what_is_noted_is_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open(root.path()).unwrap();
        let private = PrivateDir::open(&dir, root.path(), None, Missing::Make).unwrap().unwrap();
        assert_eq!(OpenedDir::read(&private), None);
        for path in ["a b/c\nd", "x"] {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            let mtime = Time { secs: -7, nanos: 999_999_999 };
            let opened = OpenedDir { path, mode: 0o40555, mtime };
            opened.write(&private).unwrap();
            assert_eq!(OpenedDir::read(&private), Some(opened));
        }
        let root_dir = OpenedDir::new(&RelPath::root(), &dir.stat_self().unwrap());
        root_dir.write(&private).unwrap();
        assert_eq!(OpenedDir::read(&private), Some(root_dir));
        OpenedDir::forget(&private).unwrap();
        OpenedDir::forget(&private).unwrap();
        assert_eq!(OpenedDir::read(&private), None);
    }

    #[test]
    fn what_another_made_up_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open(root.path()).unwrap();
        let private = PrivateDir::open(&dir, root.path(), None, Missing::Make).unwrap().unwrap();
        let mark = private.mark().text();
        for text in [
            String::new(),
            format!("{HEAD} {mark}\n40555 1 2 a\0"),
            format!("{HEAD} {mark}/\n40555 1 2 ../a\0"),
            "\0".repeat(100),
        ] {
            std::fs::write(private.path().join(FILE), text).unwrap();
            let read = OpenedDir::read(&private);
            // Where no file tells when it was made, the second is what a run would write.
            assert!(read.is_none_or(|read| read.path.as_bytes() == b"a"));
        }
    }
}
