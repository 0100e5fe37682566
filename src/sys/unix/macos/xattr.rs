//! Extended attributes, and the access list, which is none of them here and is shown as one, as its text
//! (acl_to_text(3)).

use std::{
    ffi::CStr, ffi::CString, ffi::c_char, ffi::c_int, ffi::c_void, io, os::fd::AsRawFd,
    os::fd::BorrowedFd,
};

use rustix::{fs::XattrFlags, io::Errno, io::Result};

use crate::sys::unix::volume::is_unsupported;

/// The name that the access list goes by. An attribute that is called so is refused.
pub const ACCESS_LIST: &CStr = c"dircopy.access_list";

/// The same list says what new entries in a directory get.
pub const INHERITED_LIST: &CStr = ACCESS_LIST;

/// The error that says that there is no such attribute.
pub const NONE: Errno = Errno::NOATTR;

/// The names of an entry's attributes, or how long they are together.
pub fn list(of: BorrowedFd<'_>, room: Option<&mut [u8]>) -> Result<usize> {
    let own = ACCESS_LIST.to_bytes_with_nul();
    let has_list = read_list(of)?.is_some();
    let Some(room) = room else {
        return Ok(rustix::fs::flistxattr_query(of)? + own.len());
    };
    let taken = rustix::fs::flistxattr(of, &mut *room)?;
    if !has_list {
        return Ok(taken);
    }
    let end = taken + own.len();
    room.get_mut(taken..end).ok_or(Errno::RANGE)?.copy_from_slice(own);
    Ok(end)
}

/// The value of one, or how long it is.
pub fn get(of: BorrowedFd<'_>, name: &CStr, room: Option<&mut [u8]>) -> Result<usize> {
    if name == ACCESS_LIST {
        let list = read_list(of)?.ok_or(NONE)?;
        if let Some(room) = room {
            room.get_mut(..list.len()).ok_or(Errno::RANGE)?.copy_from_slice(&list);
        }
        return Ok(list.len());
    }
    match room {
        Some(room) => rustix::fs::fgetxattr(of, name, room),
        None => rustix::fs::fgetxattr_query(of, name),
    }
}

/// Sets one.
pub fn set(of: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> Result<()> {
    if name == ACCESS_LIST {
        return set_list(of, Some(value));
    }
    rustix::fs::fsetxattr(of, name, value, XattrFlags::empty())
}

/// Removes one.
pub fn remove(of: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    if name == ACCESS_LIST {
        return if read_list(of)?.is_some() { set_list(of, None) } else { Err(NONE) };
    }
    rustix::fs::fremovexattr(of, name)
}

/// True for attributes that give nobody rights.
pub fn is_users(name: &[u8]) -> bool {
    name != ACCESS_LIST.to_bytes()
}

/// True for attributes that belong to the data, and not to what the system notes of an entry for itself.
pub fn is_copied(name: &[u8]) -> bool {
    !matches!(name, b"com.apple.provenance" | b"com.apple.lastuseddate#PS")
}

/// Not known of a list, which is not taken apart here.
pub fn denies(_: &[u8]) -> Option<bool> {
    None
}

/// The most permissions of an entry that has not its access list: those of its owner, as that may keep out anybody.
pub fn permitted_without(_: &[u8]) -> u32 {
    0o7700
}

/// The permissions that the entry's group, and another, have for sure: none, as a list may keep them out.
pub fn of_groups(_: &[u8], _: u32) -> [u32; 2] {
    [0; 2]
}

/// A list as it is: setting it changes no permissions here.
pub fn limited_to(list: &[u8], _: u32) -> Vec<u8> {
    list.to_vec()
}

/// A list as it is: there are no masks here.
pub fn without_mask(list: &[u8]) -> &[u8] {
    list
}

// The calls for access lists, as sys/acl.h declares them. What they return is the caller's, to be freed.
//
// SAFETY: as that header declares them.
unsafe extern "C" {
    fn acl_init(count: c_int) -> *mut c_void;
    fn acl_get_fd_np(fd: c_int, kind: c_int) -> *mut c_void;
    fn acl_set_fd_np(fd: c_int, list: *mut c_void, kind: c_int) -> c_int;
    fn acl_to_text(list: *mut c_void, len: *mut isize) -> *mut c_char;
    fn acl_from_text(text: *const c_char) -> *mut c_void;
    fn acl_free(list: *mut c_void) -> c_int;
}

/// The kind of list (`ACL_TYPE_EXTENDED`).
const EXTENDED: c_int = 0x100;

/// The last error of a call.
fn failed() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The access list of an open entry, if it has one.
fn read_list(of: BorrowedFd<'_>) -> Result<Option<Vec<u8>>> {
    // SAFETY: an open descriptor. The list is there until it is freed, and so is its text, which ends with a 0.
    unsafe {
        let list = acl_get_fd_np(of.as_raw_fd(), EXTENDED);
        if list.is_null() {
            return match failed() {
                Errno::NOENT => Ok(None),
                error if is_unsupported(error) => Ok(None),
                error => Err(error),
            };
        }
        let text = acl_to_text(list, std::ptr::null_mut());
        let read = if text.is_null() {
            Err(failed())
        } else {
            Ok(CStr::from_ptr(text).to_bytes().to_vec())
        };
        acl_free(text.cast());
        acl_free(list);
        read.map(Some)
    }
}

/// Gives an open entry the access list of this text, or one that says nothing.
fn set_list(of: BorrowedFd<'_>, text: Option<&[u8]>) -> Result<()> {
    let text = text.map(CString::new).transpose().map_err(|_| Errno::INVAL)?;
    // SAFETY: a text that ends with a 0 and is only read, an open descriptor, and a list that is there until freed.
    unsafe {
        let list = match &text {
            Some(text) => acl_from_text(text.as_ptr()),
            None => acl_init(1),
        };
        if list.is_null() {
            return Err(failed());
        }
        let set = acl_set_fd_np(of.as_raw_fd(), list, EXTENDED);
        let error = failed();
        acl_free(list);
        if set == 0 { Ok(()) } else { Err(error) }
    }
}
