//! What an earlier run of the same user left in a directory, opened with care: another user may have
//! put something else in its place.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::sys::stat::{Kind, Stat};
use crate::sys::unix::dir::Dir;
use crate::sys::unix::process::acting_as;

impl Dir {
    /// Opens the file `name` for reading and writing, if it is a regular file with one name that
    /// belongs to who this process acts as; then it is readable by its owner only from now on. `None`
    /// if there is no such file or it is anything else: it was not written to.
    pub fn open_ours(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::ACCESS) => {
                return Ok(None);
            }
            opened => File::from(opened?),
        };
        let stat = Self::stat_file(&file)?;
        if stat.kind != Kind::File || stat.links != 1 || stat.uid != acting_as().0 {
            return Ok(None);
        }
        if stat.mode & 0o077 != 0 {
            rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        }
        Ok(Some((file, stat)))
    }
}

/// Waits until a file's content, and what is needed to find it, are on the device. An error is final,
/// as with [`persist_file`](super::volume::persist_file).
pub fn persist_content(file: &File) -> io::Result<()> {
    #[cfg(not(target_vendor = "apple"))]
    return Ok(rustix::fs::fdatasync(file)?);
    #[cfg(target_vendor = "apple")]
    return Ok(rustix::fs::fsync(file)?);
}
