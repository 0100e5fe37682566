//! What is not opened for reading, above all symbolic links, opened as itself (`O_SYMLINK`).

use std::{
    ffi::CStr, ffi::OsStr, io, os::fd::AsFd, os::fd::OwnedFd, os::unix::fs::MetadataExt,
    path::Path, path::PathBuf,
};

use rustix::{fs::Mode, fs::OFlags, io::Result};

use super::xattr;
use crate::sys::unix::{dir::Dir, dir::owner_of, dir::times_of};
use crate::sys::{stat::Kind, stat::Stat};

/// Opens the link or file `name`. Anything else is refused: it would be opened for what it is.
pub fn open(dir: &Dir, name: &OsStr) -> io::Result<OwnedFd> {
    if !matches!(dir.stat(name, false)?.kind, Kind::Symlink | Kind::File) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // Should a FIFO have its name by now, it does not wait.
    let flags = OFlags::RDONLY | OFlags::SYMLINK | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// The owner of the symbolic link at `path`, and where it leads. No call reads one that is open before macOS 13: what
/// was exchanged meanwhile is refused if it shows.
pub fn read_link(path: &Path) -> io::Result<(u32, PathBuf)> {
    let (before, target) = (path.symlink_metadata()?, path.read_link()?);
    let now = path.symlink_metadata()?;
    if (before.uid(), before.ino(), before.ctime_nsec()) != (now.uid(), now.ino(), now.ctime_nsec())
    {
        return Err(io::Error::other("it was exchanged while it was read"));
    }
    Ok((now.uid(), target))
}

/// Links have attributes as files have.
pub fn links_have_attributes() -> bool {
    true
}

/// The names of its attributes, or how long they are together.
pub fn list(of: &OwnedFd, room: Option<&mut [u8]>) -> Result<usize> {
    xattr::list(of.as_fd(), room)
}

/// The value of one, or how long it is.
pub fn get(of: &OwnedFd, name: &CStr, room: Option<&mut [u8]>) -> Result<usize> {
    xattr::get(of.as_fd(), name, room)
}

/// Sets one.
pub fn set(of: &OwnedFd, name: &CStr, value: &[u8]) -> Result<()> {
    xattr::set(of.as_fd(), name, value)
}

/// Gives it the owner of `stat`.
pub fn set_owner(of: &OwnedFd, stat: &Stat) -> Result<()> {
    let (uid, gid) = owner_of(stat);
    rustix::fs::fchown(of, uid, gid)
}

/// Gives it the times of `stat`.
pub fn set_times(of: &OwnedFd, stat: &Stat) -> Result<()> {
    rustix::fs::futimens(of, &times_of(stat))
}
