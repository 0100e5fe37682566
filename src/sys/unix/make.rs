//! Making files and directories, also where a server in user space makes them.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::sys::unix::descriptors::patiently;
use crate::sys::unix::dir::{Dir, PRIVATE};
use crate::sys::unix::process::is_root;
use crate::sys::unix::volume::is_on_fuse;

/// How often an entry is tried that a server refuses to make, …
const TRIES: u32 = 4;

/// … and how far apart.
const PAUSE: Duration = Duration::from_millis(15);

impl Dir {
    /// Makes the new file `name` for writing, for its owner only if `private`, otherwise as the
    /// user's umask has it; an error if it exists.
    pub fn create_new(&self, name: &OsStr, private: bool) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if private { PRIVATE as _ } else { 0o666 });
        let make = || patiently(|| rustix::fs::openat(self, name, flags, mode));
        Ok(File::from(self.permitted(make)?))
    }

    /// Makes an entry, and tries it again where a server in user space says that it is not permitted: gocryptfs makes
    /// entries in the name of the user who asks, and now and then refuses one while a file is being synced.
    fn permitted<T>(&self, make: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        let mut made = make();
        for _ in 1..TRIES {
            if !matches!(made, Err(Errno::PERM)) || is_root() || !is_on_fuse(self) {
                break;
            }
            std::thread::sleep(PAUSE);
            made = make();
        }
        made
    }

    /// Makes the directory `name`: for its owner only if `private`, otherwise as the user's umask
    /// has it.
    pub fn make_dir(&self, name: &OsStr, private: bool) -> io::Result<()> {
        let mode = if private { Mode::RWXU } else { Mode::RWXU | Mode::RWXG | Mode::RWXO };
        Ok(self.permitted(|| rustix::fs::mkdirat(self, name, mode))?)
    }
}
