//! Access lists that were set on a file itself, and so are lost in a copy, which gets what its directory at the output
//! hands down: what is lost is told in the notation of Windows (SDDL), so that it can be set again.

use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::{io, ptr::null_mut, slice};

use windows_sys::{
    Wdk::Storage::FileSystem::FILE_OPEN, Wdk::Storage::FileSystem::FILE_OPEN_REPARSE_POINT,
    Win32::Foundation::ERROR_ACCESS_DENIED, Win32::Foundation::ERROR_INSUFFICIENT_BUFFER,
    Win32::Foundation::LocalFree,
    Win32::Security::Authorization::ConvertSecurityDescriptorToStringSecurityDescriptorW,
    Win32::Security::Authorization::SDDL_REVISION_1, Win32::Security::DACL_SECURITY_INFORMATION,
    Win32::Security::GetKernelObjectSecurity, Win32::Security::INHERITED_ACE,
    Win32::Security::SE_DACL_AUTO_INHERITED, Win32::Security::SE_DACL_PROTECTED,
    Win32::Storage::FileSystem::READ_CONTROL,
    Win32::System::SystemServices::ACCESS_DENIED_ACE_TYPE,
};

use crate::{
    path::Shown, sys::windows::nt, sys::windows::nt::OpenHow, sys::windows::nt::SHARE_ALL,
};

/// As much of a list is told. One of a hundred entries has it.
const LONGEST: usize = 4096;

/// The access list of an open file or directory, if some of it was set there. A file system without lists has none.
///
/// # Errors
/// The system's. One that may not be read is none: it is a list.
pub(super) fn own_list(of: BorrowedHandle<'_>) -> io::Result<Option<String>> {
    let mut read = descriptor_of(of);
    if denies(&read) {
        // It is held for listing only.
        let (access, share) = (READ_CONTROL, SHARE_ALL);
        let (disposition, options) = (FILE_OPEN, FILE_OPEN_REPARSE_POINT);
        let how = OpenHow { access, share, disposition, options };
        read = nt::open(Some(of), &[], how).and_then(|again| descriptor_of(again.as_handle()));
    }
    match read {
        Ok(descriptor) if is_own(nt::bytes_of(&descriptor, size_of_val(&*descriptor))) => {
            Ok(Some(text_of(descriptor)?))
        }
        Ok(_) => Ok(None),
        Err(error) if nt::is_unsupported(&error) => Ok(None),
        Err(_) if denies(&read) => Ok(Some("one that cannot be read".to_owned())),
        Err(error) => Err(error),
    }
}

fn denies<T>(read: &io::Result<T>) -> bool {
    read.as_ref().is_err_and(|error| nt::is_one_of(error, &[ERROR_ACCESS_DENIED]))
}

/// The descriptor of what is open, with its access list alone, as one piece of memory.
fn descriptor_of(file: BorrowedHandle<'_>) -> io::Result<Vec<u64>> {
    // Most have a few entries of some 40 bytes. A list has 64 KiB at most (winnt.h).
    let mut room = vec![0u64; 128];
    loop {
        let (place, len, mut told) = (room.as_mut_ptr(), size_of_val(&*room) as u32, 0);
        let (handle, what) = (file.as_raw_handle(), DACL_SECURITY_INFORMATION);
        // SAFETY: the call writes at most `len` bytes to a buffer of that size, which is aligned for what is in it.
        if unsafe { GetKernelObjectSecurity(handle, what, place.cast(), len, &mut told) } != 0 {
            return Ok(room);
        }
        let error = io::Error::last_os_error();
        if !nt::is_one_of(&error, &[ERROR_INSUFFICIENT_BUFFER]) || told <= len || told > 1 << 17 {
            return Err(error);
        }
        room = vec![0; (told as usize).div_ceil(8)];
    }
}

/// True if some of the list in a descriptor (SECURITY_DESCRIPTOR_RELATIVE, winnt.h) was set on the entry itself. A list
/// in which nothing tells of inheritance, and that denies nobody, is what file systems without lists are said to have.
fn is_own(descriptor: &[u8]) -> bool {
    let number = |at: usize, len: usize| {
        let bytes = descriptor.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte)))
    };
    let control = number(2, 2).unwrap_or(0) as u16;
    let (mut is_set, mut is_inherited, mut denies) = (false, false, false);
    if let Some(list @ 1..) = number(16, 4) {
        let mut at = list + 8;
        for _ in 0..number(list + 4, 2).unwrap_or(0) {
            let (Some(kind), Some(flags), Some(len @ 4..)) =
                (number(at, 1), number(at + 1, 1), number(at + 2, 2))
            else {
                break;
            };
            let is_from_above = flags as u32 & INHERITED_ACE != 0;
            is_inherited |= is_from_above;
            is_set |= !is_from_above;
            denies |= !is_from_above && kind as u32 == ACCESS_DENIED_ACE_TYPE;
            at += len;
        }
    }
    let knows_inheritance = is_inherited || control & SE_DACL_AUTO_INHERITED != 0;
    control & SE_DACL_PROTECTED != 0 || denies || (is_set && knows_inheritance)
}

/// The list in a descriptor, in words.
fn text_of(mut descriptor: Vec<u64>) -> io::Result<String> {
    let (mut text, mut len) = (null_mut(), 0);
    let (from, what) = (descriptor.as_mut_ptr().cast(), DACL_SECURITY_INFORMATION);
    // SAFETY: a descriptor that the system wrote, or one whose bytes it looks through before it believes them, and room
    // for a pointer and a number. What it gives has `len` units, its end among them, until it is given back.
    unsafe {
        let revision = SDDL_REVISION_1;
        if ConvertSecurityDescriptorToStringSecurityDescriptorW(
            from, revision, what, &mut text, &mut len,
        ) == 0
        {
            return Err(io::Error::last_os_error());
        }
        let words = String::from_utf16_lossy(slice::from_raw_parts(text, len as usize));
        LocalFree(text.cast());
        // A condition in it is text that its author chose.
        let words: String = words.trim_end_matches('\0').chars().take(LONGEST).collect();
        Ok(Shown::bytes(words.as_bytes()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor with these flags and entries: kind and flags of each.
    fn descriptor(control: u16, entries: &[(u8, u8)]) -> Vec<u8> {
        // An entry of 20 bytes: its head, the rights (to read), and "everyone".
        let everyone = [1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let mut bytes = vec![1, 0];
        bytes.extend_from_slice(&(control | 0x8004).to_le_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&20u32.to_le_bytes());
        bytes.extend_from_slice(&[2, 0]);
        bytes.extend_from_slice(&(8 + 20 * entries.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        for &(kind, flags) in entries {
            bytes.extend_from_slice(&[kind, flags, 20, 0]);
            bytes.extend_from_slice(&0x0012_0089u32.to_le_bytes());
            bytes.extend_from_slice(&everyone);
        }
        bytes
    }

    #[test]
    fn what_was_set_on_the_entry_is_its_own() {
        let (allow, deny) = (0, 1);
        let (set, inherited) = (0, 0x10);
        let is = |control, entries: &[_]| is_own(&descriptor(control, entries));
        // As an ordinary file has it, and with an entry more, and cut off from what is above.
        assert!(!is(SE_DACL_AUTO_INHERITED, &[(allow, inherited), (deny, inherited)]));
        assert!(is(SE_DACL_AUTO_INHERITED, &[(allow, set), (allow, inherited)]));
        assert!(is(SE_DACL_AUTO_INHERITED, &[(allow, set)]));
        assert!(is(SE_DACL_PROTECTED, &[(allow, inherited)]));
        // As FAT has it, and where that denies something.
        assert!(!is(0, &[(allow, set)]));
        assert!(is(0, &[(deny, set), (allow, set)]));
        // None, and what is no descriptor.
        assert!(!is(0, &[]));
        assert!(!is_own(&[]));
        let whole = descriptor(0, &[(allow, inherited), (allow, set)]);
        for len in 0..whole.len() {
            is_own(&whole[..len]);
        }
    }

    #[test]
    fn a_list_is_told_in_words() {
        let mut bytes = descriptor(SE_DACL_PROTECTED, &[(1, 0), (0, 0x10)]);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let units = bytes.chunks_exact(8).map(|unit| u64::from_ne_bytes(unit.try_into().unwrap()));
        assert_eq!(text_of(units.collect()).unwrap(), "D:P(D;;FR;;;WD)(A;ID;FR;;;WD)");
    }

    #[test]
    fn files_just_made_have_no_list_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "abc").unwrap();
        let file = std::fs::File::open(dir.path().join("a")).unwrap();
        assert_eq!(own_list(file.as_handle()).unwrap(), None);
        let read = descriptor_of(file.as_handle());
        assert!(read.is_ok() || read.is_err_and(|error| nt::is_unsupported(&error)));
    }
}
