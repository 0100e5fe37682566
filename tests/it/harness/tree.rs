//! Making trees. Names are bytes everywhere, and every step says what it could not do.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, XattrFlags};

/// `len` bytes with a period of 251, so that no block of a power of two looks like another.
pub fn content(len: usize) -> Vec<u8> {
    let period: Vec<u8> = (0..251).collect();
    // Not byte by byte, which takes long where nothing is optimised.
    let mut all = period.repeat(len / period.len() + 1);
    all.truncate(len);
    all
}

/// The path of the entry `name` below `root`.
pub fn path(root: &Path, name: impl AsRef<[u8]>) -> PathBuf {
    root.join(OsStr::from_bytes(name.as_ref()))
}

/// A directory that is filled step by step.
#[derive(Clone, Debug)]
pub struct Tree(PathBuf);

impl Tree {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let tree = Self(root.into());
        fs::create_dir_all(&tree.0).unwrap();
        tree
    }

    /// One that is there already, or is not: nothing is made.
    pub fn of(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    pub fn path(&self, name: impl AsRef<[u8]>) -> PathBuf {
        path(&self.0, name)
    }

    fn place(&self, name: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// A regular file; its directories are made as needed.
    pub fn file(&self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.place(name);
        fs::write(&path, content).unwrap_or_else(|e| panic!("cannot write {path:?}: {e}"));
        self
    }

    pub fn dir(&self, name: impl AsRef<[u8]>) -> &Self {
        fs::create_dir_all(self.path(name)).unwrap();
        self
    }

    /// A file of `len` bytes that has data only in `islands` (offset, length).
    pub fn sparse(&self, name: impl AsRef<[u8]>, len: u64, islands: &[(u64, usize)]) -> &Self {
        let file = File::create(self.place(name)).unwrap();
        file.set_len(len).unwrap();
        for &(offset, island) in islands {
            file.write_all_at(&content(island), offset).unwrap();
        }
        self
    }

    pub fn symlink(&self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> &Self {
        symlink(OsStr::from_bytes(target.as_ref()), self.place(name)).unwrap();
        self
    }

    pub fn hard_link(&self, name: impl AsRef<[u8]>, existing: impl AsRef<[u8]>) -> &Self {
        fs::hard_link(self.path(existing), self.place(name)).unwrap();
        self
    }

    pub fn fifo(&self, name: impl AsRef<[u8]>) -> &Self {
        rustix::fs::mknodat(CWD, self.place(name), FileType::Fifo, Mode::from_raw_mode(0o644), 0)
            .unwrap();
        self
    }

    pub fn socket(&self, name: impl AsRef<[u8]>) -> &Self {
        // The listener is closed at once; the socket file stays.
        drop(UnixListener::bind(self.place(name)).unwrap());
        self
    }

    /// The character device that `/dev/null` is.
    pub fn device(&self, name: impl AsRef<[u8]>) -> &Self {
        rustix::fs::mknodat(
            CWD,
            self.place(name),
            FileType::CharacterDevice,
            Mode::from_raw_mode(0o666),
            rustix::fs::makedev(1, 3),
        )
        .unwrap();
        self
    }

    pub fn mode(&self, name: impl AsRef<[u8]>, mode: u32) -> &Self {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    pub fn owner(&self, name: impl AsRef<[u8]>, uid: u32, gid: u32) -> &Self {
        std::os::unix::fs::lchown(self.path(name), Some(uid), Some(gid)).unwrap();
        self
    }

    pub fn mtime(&self, name: impl AsRef<[u8]>, seconds: u64, nanos: u32) -> &Self {
        let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        File::open(self.path(name))
            .unwrap()
            .set_times(FileTimes::new().set_modified(time))
            .unwrap();
        self
    }

    pub fn xattr(&self, name: impl AsRef<[u8]>, key: &str, value: &[u8]) -> &Self {
        rustix::fs::lsetxattr(self.path(name), key, value, XattrFlags::empty()).unwrap();
        self
    }

    pub fn append(&self, name: impl AsRef<[u8]>, more: &[u8]) -> &Self {
        use std::io::Write;
        OpenOptions::new().append(true).open(self.path(name)).unwrap().write_all(more).unwrap();
        self
    }

    pub fn remove(&self, name: impl AsRef<[u8]>) -> &Self {
        fs::remove_file(self.path(name)).unwrap();
        self
    }

    pub fn read(&self, name: impl AsRef<[u8]>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|e| panic!("cannot read {path:?}: {e}"))
    }

    pub fn stat(&self, name: impl AsRef<[u8]>) -> rustix::fs::Stat {
        let path = self.path(name);
        rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW)
            .unwrap_or_else(|e| panic!("cannot stat {path:?}: {e}"))
    }

    /// Whether an entry of any kind has this name.
    pub fn has(&self, name: impl AsRef<[u8]>) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    pub fn inode(&self, name: impl AsRef<[u8]>) -> u64 {
        fs::symlink_metadata(self.path(name)).unwrap().ino()
    }
}
