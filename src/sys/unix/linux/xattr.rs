//! Extended attributes by the calls of Linux: which of them a copy takes over, and which are access lists.

use std::{ffi::CStr, os::fd::BorrowedFd};

use rustix::{fs::XattrFlags, io::Errno, io::Result};

use crate::sys::unix::process::is_root;

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

// An access list as the kernel keeps it (linux/posix_acl_xattr.h): a version, and of each entry its tag, permissions
// and number. Who is kept out by one, and how open an entry may be without it.

/// True if an access list keeps its group, or a user or group that it names, from reading or entering. `None` if it
/// cannot be taken apart.
pub fn denies(list: &[u8]) -> Option<bool> {
    let limited = |(_, given)| given & 0o5 != 0o5;
    Some(given_by(list)?.any(limited))
}

/// The most permissions of an entry that has not its access list. The bits of the group are those of the list's mask,
/// which may be wider than what the group has; and whoever is named in it comes as one of the group, or as all others.
pub fn permitted_without(list: &[u8]) -> u32 {
    let Some(given) = given_by(list) else { return 0o7700 };
    let (mut named, mut group) = (0o7, 0o7);
    for (tag, given) in given {
        *(if tag == GROUP_OBJ { &mut group } else { &mut named }) &= u32::from(given);
    }
    0o7700 | (group & named) << 3 | named
}

/// The permissions that a list gives, within its mask, to the entry's group and to the group `gid`; all to one that it
/// does not name. None if it cannot be taken apart.
pub fn of_groups(list: &[u8], gid: u32) -> [u32; 2] {
    let of_group = given_by(list).and_then(|mut given| given.find(|(tag, _)| *tag == GROUP_OBJ));
    let entries = list.get(4..).unwrap_or_default().as_chunks::<8>().0;
    let id = [&GROUP.to_le_bytes()[..], &gid.to_le_bytes()];
    let named = entries.iter().find(|entry| [&entry[..2], &entry[4..]] == id);
    let of_named = named.map_or(0o7, |entry| entry[2].into());
    of_group.map_or([0; 2], |(_, given)| [given.into(), of_named])
}

/// The list, giving no more than an entry with the permissions `mode` may: setting it sets those, too.
pub fn limited_to(list: &[u8], mode: u32) -> Vec<u8> {
    let mut limited = list.to_vec();
    for entry in limited.get_mut(4..).unwrap_or_default().as_chunks_mut::<8>().0 {
        entry[2] &= match u16::from_le_bytes([entry[0], entry[1]]) {
            MASK => (mode >> 3) as u8,
            OTHER => mode as u8,
            _ => continue,
        };
    }
    limited
}

/// Where the kernel keeps one.
pub const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// The tags of entries in access lists.
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// An access list but for its mask, and what it gives to all others: the permissions show these.
pub fn without_mask(list: &[u8]) -> Vec<[u8; 8]> {
    let entries = list.get(4..).unwrap_or_default().as_chunks::<8>().0.iter().copied();
    let is_shown =
        |entry: &[u8; 8]| [MASK, OTHER].contains(&u16::from_le_bytes([entry[0], entry[1]]));
    entries.filter(|entry| !is_shown(entry)).collect()
}

/// The permissions that a list gives, within its mask, to its group (`GROUP_OBJ`) and to whom it names.
fn given_by(list: &[u8]) -> Option<impl Iterator<Item = (u16, u16)>> {
    let entries = entries_of(list)?;
    let mask = entries.clone().find(|(tag, _)| *tag == MASK).map_or(0o7, |(_, mask)| mask);
    let of_others = entries.filter(|(tag, _)| [USER, GROUP_OBJ, GROUP].contains(tag));
    Some(of_others.map(move |(tag, given)| (tag, given & mask)))
}

/// The tags of a list's entries, and what each gives.
fn entries_of(list: &[u8]) -> Option<impl Iterator<Item = (u16, u16)> + Clone> {
    let (version, entries) = list.split_first_chunk()?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != 2 || !rest.is_empty() {
        return None;
    }
    Some(entries.iter().map(|&[tag, tag_high, given, given_high, ..]| {
        (u16::from_le_bytes([tag, tag_high]), u16::from_le_bytes([given, given_high]))
    }))
}
