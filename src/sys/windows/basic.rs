//! The attributes and times that Windows keeps of every file, set in one call.

use std::io;
use std::os::windows::io::BorrowedHandle;

use windows_sys::Wdk::Storage::FileSystem::{FILE_BASIC_INFORMATION, FileBasicInformation};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_ARCHIVE, FILE_ATTRIBUTE_HIDDEN, FILE_ATTRIBUTE_NORMAL,
    FILE_ATTRIBUTE_NOT_CONTENT_INDEXED, FILE_ATTRIBUTE_READONLY, FILE_ATTRIBUTE_SYSTEM,
};

use crate::sys::windows::nt;

/// The attributes that a copy gets. Others tell how the content is kept (compressed, encrypted,
/// sparse), or what kind of thing it is.
pub(super) const COPIED: u32 = FILE_ATTRIBUTE_READONLY
    | FILE_ATTRIBUTE_HIDDEN
    | FILE_ATTRIBUTE_SYSTEM
    | FILE_ATTRIBUTE_ARCHIVE
    | FILE_ATTRIBUTE_NOT_CONTENT_INDEXED;

/// Sets attributes and times of an open file; a time of 0 stays as it is.
pub(super) fn set_basic(
    to: BorrowedHandle<'_>,
    attributes: u32,
    created: i64,
    mtime: i64,
) -> io::Result<()> {
    let info = FILE_BASIC_INFORMATION {
        CreationTime: created,
        LastAccessTime: 0,
        LastWriteTime: mtime,
        ChangeTime: 0,
        // 0 would leave them as they are.
        FileAttributes: if attributes == 0 { FILE_ATTRIBUTE_NORMAL } else { attributes },
    };
    nt::set(to, FileBasicInformation, &info)
}
