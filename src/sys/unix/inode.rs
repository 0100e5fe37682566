//! Entries as they are to be known again: all that the system says of one, and when it was made.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use rustix::fs::AtFlags;

use crate::sys::stat::Inode;
#[cfg(target_os = "linux")]
use crate::sys::stat::{Identity, Stat, Time};
use crate::sys::unix::dir::Dir;
#[cfg(target_os = "linux")]
use crate::sys::unix::dir::kind_of;

impl Dir {
    /// What the system says of `name`, not following links, and when that was made.
    pub fn inode(&self, name: &OsStr) -> io::Result<Inode> {
        #[cfg(target_os = "linux")]
        if let Ok(inode) = inode_at(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            return Ok(inode);
        }
        Ok(Inode { stat: self.stat(name, false)?, birth: None })
    }

    /// What the system says of an open file, and when that was made.
    pub fn inode_of(file: &File) -> io::Result<Inode> {
        #[cfg(target_os = "linux")]
        if let Ok(inode) = inode_at(file, OsStr::new(""), AtFlags::EMPTY_PATH) {
            return Ok(inode);
        }
        Ok(Inode { stat: Self::stat_file(file)?, birth: None })
    }
}

/// All that the system says of an entry in one call, which kernels before 4.11 do not have.
#[cfg(target_os = "linux")]
fn inode_at(dir: impl AsFd, name: &OsStr, how: AtFlags) -> io::Result<Inode> {
    use rustix::fs::StatxFlags;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let told = rustix::fs::statx(dir, name, how, wanted)?;
    let has = |what: StatxFlags| told.stx_mask & what.bits() == what.bits();
    if !has(StatxFlags::BASIC_STATS) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let time = |time: rustix::fs::StatxTimestamp| Time { secs: time.tv_sec, nanos: time.tv_nsec };
    let stat = Stat {
        kind: kind_of(told.stx_mode.into()),
        size: told.stx_size,
        allocated: told.stx_blocks * 512,
        mtime: time(told.stx_mtime),
        ctime: time(told.stx_ctime),
        id: Identity {
            dev: rustix::fs::makedev(told.stx_dev_major, told.stx_dev_minor),
            ino: told.stx_ino,
        },
        links: told.stx_nlink.into(),
        mode: u32::from(told.stx_mode) & 0o7777,
        uid: told.stx_uid,
        gid: told.stx_gid,
    };
    let birth = has(StatxFlags::BTIME).then(|| time(told.stx_btime));
    Ok(Inode { stat, birth })
}
