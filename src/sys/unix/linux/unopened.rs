//! What is not opened for reading, above all symbolic links, opened as a path (`O_PATH`), by which no other entry that
//! takes its name meanwhile is meant.

use std::{
    ffi::CStr, ffi::OsStr, ffi::OsString, io, os::fd::AsRawFd, os::fd::OwnedFd,
    os::unix::ffi::OsStringExt, path::Path, path::PathBuf,
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags, fstat};
use rustix::io::Result;

use crate::sys::stat::Stat;
use crate::sys::unix::{dir::Dir, dir::owner_of, dir::times_of, process::is_root};

/// Opens the entry `name`, whatever it is.
pub fn open(dir: &Dir, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// The owner of the symbolic link at `path`, and where that same link leads.
pub fn read_link(path: &Path) -> io::Result<(u32, PathBuf)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let (stat, target) = (fstat(&link)?, rustix::fs::readlinkat(&link, "", Vec::new())?);
    Ok((stat.st_uid, OsString::from_vec(target.into_bytes()).into()))
}

/// The path under which the kernel shows what was opened as a path, whose attributes no call takes by the
/// descriptor. Without /proc none are read.
pub(super) fn path_of(link: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", link.as_raw_fd())
}

/// True if this user's links can have attributes: only root's can (xattr(7)).
pub fn links_have_attributes() -> bool {
    is_root()
}

/// The names of its attributes, or how long they are together.
pub fn list(of: &OwnedFd, room: Option<&mut [u8]>) -> Result<usize> {
    match room {
        Some(room) => rustix::fs::listxattr(path_of(of), room),
        None => rustix::fs::listxattr_query(path_of(of)),
    }
}

/// The value of one, or how long it is.
pub fn get(of: &OwnedFd, name: &CStr, room: Option<&mut [u8]>) -> Result<usize> {
    match room {
        Some(room) => rustix::fs::getxattr(path_of(of), name, room),
        None => rustix::fs::getxattr_query(path_of(of), name),
    }
}

/// Sets one.
pub fn set(of: &OwnedFd, name: &CStr, value: &[u8]) -> Result<()> {
    rustix::fs::setxattr(path_of(of), name, value, XattrFlags::empty())
}

/// Gives it the owner of `stat`.
pub fn set_owner(of: &OwnedFd, stat: &Stat) -> Result<()> {
    let (uid, gid) = owner_of(stat);
    rustix::fs::chownat(of, c"", uid, gid, AtFlags::EMPTY_PATH)
}

/// Gives it the times of `stat`.
pub fn set_times(of: &OwnedFd, stat: &Stat) -> Result<()> {
    rustix::fs::utimensat(of, c"", &times_of(stat), AtFlags::EMPTY_PATH)
}
