//! Entries that even their owner cannot change or remove: `chattr +i`, `chattr +a`.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, IFlags, StatxFlags};

use crate::sys::unix::dir::Dir;

/// What protects an entry.
const PROTECTING: IFlags = IFlags::IMMUTABLE.union(IFlags::APPEND);

impl Dir {
    /// Whether no user can change what is in this directory, as far as is known.
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
