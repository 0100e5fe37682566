//! Extended attributes by the calls of Linux: which of them a copy takes over, and which are access lists.

use std::{ffi::CStr, os::fd::BorrowedFd};

use rustix::{fs::XattrFlags, io::Errno, io::Result};

use crate::sys::unix::process::is_root;

pub use super::access_list::ACCESS_LIST;

/// Where a directory's list is kept that new entries in it get.
pub const INHERITED_LIST: &CStr = c"system.posix_acl_default";

/// The error that says that there is no such attribute.
pub const NONE: Errno = Errno::NODATA;

/// The names of an entry's attributes, or how long they are together.
pub fn list(of: BorrowedFd<'_>, room: Option<&mut [u8]>) -> Result<usize> {
    match room {
        Some(room) => rustix::fs::flistxattr(of, room),
        None => rustix::fs::flistxattr_query(of),
    }
}

/// The value of one, or how long it is.
pub fn get(of: BorrowedFd<'_>, name: &CStr, room: Option<&mut [u8]>) -> Result<usize> {
    match room {
        Some(room) => rustix::fs::fgetxattr(of, name, room),
        None => rustix::fs::fgetxattr_query(of, name),
    }
}

/// Sets one.
pub fn set(of: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> Result<()> {
    rustix::fs::fsetxattr(of, name, value, XattrFlags::empty())
}

/// Removes one.
pub fn remove(of: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    rustix::fs::fremovexattr(of, name)
}

/// True for attributes that give nobody rights.
pub fn is_users(name: &[u8]) -> bool {
    name.starts_with(b"user.")
}

/// True for attributes that belong to the data: the user's, ACLs, and for root those of the system that other machines
/// understand. Labels of a security module belong to the machine, not to the data.
pub fn is_copied(name: &[u8]) -> bool {
    let root = is_root();
    is_users(name)
        || matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default")
        || root && name == b"security.capability"
        || root && name.starts_with(b"trusted.") && !is_form_of_another(name)
}

/// True for the attributes of an overlay's own, and for the form in which xfs keeps access lists.
fn is_form_of_another(name: &[u8]) -> bool {
    [&b"trusted.overlay."[..], b"trusted.SGI_ACL_"].iter().any(|kept| name.starts_with(kept))
}
