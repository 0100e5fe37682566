//! The worth of a sync. `fsync` hands what was written to the disk, which may keep it in its cache; `F_FULLFSYNC` has
//! the disk write that out too (fsync(2)).

use std::os::fd::AsFd;

use rustix::io::{Errno, Result};

use crate::sys::types::Durable;
use crate::sys::unix::{dir::Dir, kind::*, system::Place, volume::is_unsupported};

/// Those that order it of their disks (fcntl(2)).
const FLUSHED: [u32; 4] = [APFS, HFSPLUS, FAT, UDF];

/// Waits until what is open is on the device.
pub fn fsync(open: impl AsFd) -> Result<()> {
    let open = open.as_fd();
    match rustix::fs::fcntl_fullfsync(open) {
        // File systems that have nothing to order of a disk, above all servers'.
        Err(error) if is_unsupported(error) || matches!(error, Errno::NOTTY | Errno::INVAL) => {
            rustix::fs::fsync(open)
        }
        synced => synced,
    }
}

/// The same: there is no call for the content alone.
pub fn fdatasync(open: impl AsFd) -> Result<()> {
    fsync(open)
}

/// The worth of a sync of what is in `dir`, and in whatever is mounted below it.
pub fn durable(dir: &Dir) -> Durable {
    const NOT_KNOWN: Durable = Durable::Unknown("it is not known of its file system");
    let is_flushed =
        |dir: &Dir| is_one_of(dir, &FLUSHED) && rustix::fs::fcntl_fullfsync(dir).is_ok();
    let Some(points) = Place::mounts_below(dir).filter(|_| is_flushed(dir)) else {
        return NOT_KNOWN;
    };
    let mut below = points.iter().map(|point| Dir::open(point));
    let are_flushed = below.all(|dir| dir.is_ok_and(|dir| is_flushed(&dir)));
    if are_flushed { Durable::Device } else { NOT_KNOWN }
}
