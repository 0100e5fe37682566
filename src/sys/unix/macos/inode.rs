//! Entries as they are to be known again, and when they were made.

use std::{ffi::OsStr, fs::File, io, os::fd::AsFd};

use rustix::fs::AtFlags;

use crate::sys::stat::{Inode, Stat, Time};
use crate::sys::unix::{dir::Dir, dir::stat_from};

impl Dir {
    /// The metadata of `name`, not following links, and the time of its making.
    pub fn inode(&self, name: &OsStr) -> io::Result<Inode> {
        let told = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Inode { stat: stat_from(&told), birth: birth_in(&told) })
    }

    /// The metadata of an open file, and the time of its making.
    pub fn inode_of(file: &File) -> io::Result<Inode> {
        let told = rustix::fs::fstat(file)?;
        Ok(Inode { stat: stat_from(&told), birth: birth_in(&told) })
    }

    /// When an open entry was made, where the system tells.
    pub fn birth_of(entry: impl AsFd) -> Option<Time> {
        birth_in(&rustix::fs::fstat(entry).ok()?)
    }

    /// The metadata of an open file.
    pub fn stat_file_anew(file: &File) -> io::Result<Stat> {
        Self::stat_file(file)
    }
}

/// When an entry was made. A file system that does not note it says 0.
#[cfg(target_os = "macos")]
fn birth_in(told: &rustix::fs::Stat) -> Option<Time> {
    let birth = Time { secs: told.st_birthtime, nanos: told.st_birthtime_nsec as u32 };
    Some(birth).filter(|birth| birth.secs > 0)
}

/// Linux tells by a call of its own.
#[cfg(not(target_os = "macos"))]
fn birth_in(_: &rustix::fs::Stat) -> Option<Time> {
    None
}
