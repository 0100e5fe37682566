//! What is not told here as Linux tells it: when an entry was made, who has a file open or locked, and where the bytes
//! that are read come from.

use std::{ffi::OsStr, fs::File, io, os::fd::AsFd, os::unix::net::SocketAddr};

use rustix::{fs::AtFlags, fs::OFlags, time::ClockId};

use crate::sys::stat::{Inode, Stat, Time};
use crate::{
    path::RelPath, sys::interrupted::uninterrupted, sys::types::LockHolder, sys::unix::dir::Dir,
    sys::unix::dir::stat_from, sys::unix::plain::read_at,
};

// Entries as they are to be known again, and when they were made.

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

// What no call tells of processes here.

/// A file that is opened has a new access time.
pub const UNNOTICED: OFlags = OFlags::empty();

/// Nor is a directory opened for going through it alone.
pub const ONLY_THROUGH: OFlags = OFlags::empty();

/// So much earlier than now a change may be dated that is made now, by a clock that moves in steps; nanoseconds.
const STEP: u32 = 20_000_000;

/// The time of now, or a little earlier, as the kernel would give it to a file that is changed.
pub fn time_of_change() -> Time {
    let now = rustix::time::clock_gettime(ClockId::Realtime);
    let (secs, nanos) = (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0));
    match nanos.checked_sub(STEP) {
        Some(nanos) => Time { secs, nanos },
        None => Time { secs: secs.saturating_sub(1), nanos: nanos + 1_000_000_000 - STEP },
    }
}

/// Not told.
pub fn lock_holder(_: &Dir) -> Option<LockHolder> {
    None
}

/// Not told: it may be.
pub fn is_open_for_writing(_: &File) -> bool {
    true
}

/// Not told, so not asked.
pub fn may_be_written_to(_: &File) -> bool {
    false
}

/// There are no such names here.
pub fn abstract_address(_: &[u8]) -> Option<SocketAddr> {
    None
}

impl Dir {
    /// A path is opened component by component here.
    pub(in crate::sys::unix) fn open_at_once(&self, _: &RelPath, _: OFlags) -> Option<Dir> {
        None
    }
}

// Reading a file without knowing where its bytes come from: nothing proves that memory holds none of it.

/// The number of bytes at which reads are cut.
pub const ALIGNMENT: usize = 4096;

/// A file being read.
pub struct Medium<'a>(&'a File);

impl<'a> Medium<'a> {
    /// Reads `file` without asking where from.
    pub fn any(file: &'a File) -> Self {
        Self(file)
    }

    /// Reads `file`, and on macOS lets nothing of it into memory that is not there (`F_NOCACHE`).
    ///
    /// # Errors
    /// None.
    pub fn of(file: &'a File, _: &Stat) -> io::Result<Self> {
        #[cfg(target_os = "macos")]
        {
            use std::os::fd::AsRawFd;
            // SAFETY: an open descriptor, and a command that takes a number. It is a hint.
            let _ = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_NOCACHE, 1) };
        }
        Ok(Self(file))
    }

    /// Nothing is let go of here.
    pub fn staying(self, _: bool) -> Self {
        self
    }

    /// The next bytes; none at the end.
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| io::Read::read(&mut self.0, room))
    }

    /// Fills `room` with what is at `at`, as far as the file goes.
    pub fn fill_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            match read_at(self.0, &mut room[filled..], at + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// No read goes around the system's cache for certain.
    pub fn is_direct(&self) -> bool {
        false
    }

    /// Not all bytes are known to have come from the device.
    pub fn finish(self) -> bool {
        false
    }
}
