//! Entries that even their owner cannot change or remove: `chattr +i`, `chattr +a`.

use std::ffi::OsStr;

use rustix::fs::{AtFlags, StatxFlags};

use crate::sys::unix::dir::Dir;

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
