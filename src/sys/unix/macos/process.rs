//! What no call tells of processes here.

use std::{fs::File, io, os::unix::net::SocketAddr};

use rustix::{fs::OFlags, time::ClockId};

use crate::{path::RelPath, sys::stat::Time, sys::types::LockHolder, sys::unix::dir::Dir};

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
///
/// # Errors
/// None.
pub fn is_open_for_writing(_: &File) -> io::Result<bool> {
    Ok(true)
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
