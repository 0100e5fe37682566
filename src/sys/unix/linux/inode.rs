//! Entries as they are to be known again: all that the system says of one, and when it was made.

use std::{ffi::OsStr, fs::File, io, os::fd::AsFd};

use rustix::{fs::AtFlags, fs::IFlags, fs::StatxFlags};

use crate::{
    sys::stat::Identity, sys::stat::Inode, sys::stat::Stat, sys::stat::Time, sys::unix::dir::Dir,
    sys::unix::dir::kind_of,
};

impl Dir {
    /// The metadata of `name`, not following links, and the time of its making.
    pub fn inode(&self, name: &OsStr) -> io::Result<Inode> {
        if let Ok(inode) = inode_at(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            return Ok(inode);
        }
        Ok(Inode { stat: self.stat(name, false)?, birth: None })
    }

    /// The metadata of an open file, and the time of its making.
    pub fn inode_of(file: &File) -> io::Result<Inode> {
        if let Ok(inode) = inode_at(file, OsStr::new(""), AtFlags::EMPTY_PATH) {
            return Ok(inode);
        }
        Ok(Inode { stat: Self::stat_file(file)?, birth: None })
    }

    /// When an open entry was made, where the system tells.
    pub fn birth_of(entry: impl AsFd) -> Option<Time> {
        let asked = rustix::fs::statx(entry, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
        let told = asked.ok().filter(|told| told.stx_mask & StatxFlags::BTIME.bits() != 0)?;
        Some(Time { secs: told.stx_btime.tv_sec, nanos: told.stx_btime.tv_nsec })
    }

    /// The same, asked of a file system that lets the kernel answer from memory (FUSE, for a second or more).
    pub fn stat_file_anew(file: &File) -> io::Result<Stat> {
        // The answer stays in the kernel's memory, which alone is asked where there is no such call.
        let anew = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let _ = rustix::fs::statx(file, "", anew, StatxFlags::CTIME);
        Self::stat_file(file)
    }
}

/// All that the system says of an entry in one call, which kernels before 4.11 do not have.
fn inode_at(dir: impl AsFd, name: &OsStr, how: AtFlags) -> io::Result<Inode> {
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

// Entries that even their owner cannot change or remove: `chattr +i`, `chattr +a`.

/// The flags that protect an entry.
const PROTECTING: IFlags = IFlags::IMMUTABLE.union(IFlags::APPEND);

impl Dir {
    /// True if no user can change the entries of this directory, as far as is known.
    pub fn is_protected(&self) -> bool {
        rustix::fs::ioctl_getflags(self).is_ok_and(|flags| flags.intersects(PROTECTING))
    }

    /// Takes from this directory what protects it; whether something did that now does not. Only root may.
    pub fn unprotect(&self) -> bool {
        unprotect(self)
    }

    /// Takes from the file `name` what protects it; whether something did that now does not.
    pub fn unprotect_file(&self, name: &OsStr) -> bool {
        self.open_file(name, false).is_ok_and(unprotect)
    }

    /// Removes the file or link `name` like [`remove`](Self::remove), also if it or this directory is protected: for a
    /// tree that is a snapshot, and has only from what it was taken of what protects.
    pub fn remove_protected(&self, name: &OsStr) -> io::Result<()> {
        match self.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let is_free = self.unprotect_file(name);
                if self.unprotect() || is_free { self.remove(name) } else { Err(error) }
            }
            removed => removed,
        }
    }
}

fn unprotect(of: impl AsFd) -> bool {
    let of = of.as_fd();
    rustix::fs::ioctl_getflags(of).is_ok_and(|flags| {
        flags.intersects(PROTECTING) && rustix::fs::ioctl_setflags(of, flags - PROTECTING).is_ok()
    })
}

/// Why the entry `name` of `dir` cannot be removed, linked or replaced, and what helps; `None` if nothing is known to
/// protect it. To be put behind an error.
pub fn what_protects(dir: &Dir, name: &OsStr) -> Option<&'static str> {
    // STATX_ATTR_IMMUTABLE and STATX_ATTR_APPEND (linux/stat.h).
    const PROTECTED: u64 = 0x10 | 0x20;
    let is_protected = |name: &OsStr, flags| {
        let told = rustix::fs::statx(dir, name, flags, StatxFlags::empty());
        told.is_ok_and(|told| told.stx_attributes.bits() & PROTECTED != 0)
    };
    if is_protected(name, AtFlags::SYMLINK_NOFOLLOW) {
        Some("; it is protected: chattr -i -a removes that")
    } else if is_protected("".as_ref(), AtFlags::EMPTY_PATH) {
        Some("; the directory that it is in is protected: chattr -i -a removes that")
    } else {
        None
    }
}
