//! What NTFS keeps of a file besides content and label: further streams ("alternate data streams"), and an access list
//! that was set on the file itself.
//!
//! None of it was ever tried on Windows, and Wine has no streams: what reads and writes them is tried with ordinary
//! files in their place, and lists with those that Wine makes of Linux' permissions.

use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::{fmt, fs::File, io, io::Read, io::Write, ptr::null_mut, slice};

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_NON_DIRECTORY_FILE, FILE_OPEN, FILE_OPEN_REPARSE_POINT, FILE_OVERWRITE_IF,
    FILE_STREAM_INFORMATION, FileStreamInformation,
};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_HANDLE_EOF, ERROR_INSUFFICIENT_BUFFER, ERROR_MORE_DATA,
    ERROR_SUCCESS, LocalFree,
};
use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetKernelObjectSecurity, INHERITED_ACE,
    PROTECTED_DACL_SECURITY_INFORMATION, SE_DACL_AUTO_INHERITED, SE_DACL_PROTECTED,
    UNPROTECTED_DACL_SECURITY_INFORMATION,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_GENERIC_READ, FILE_GENERIC_WRITE, READ_CONTROL, WRITE_DAC,
};
use windows_sys::{
    Win32::Security::Authorization::ConvertSecurityDescriptorToStringSecurityDescriptorW,
    Win32::Security::Authorization::SDDL_REVISION_1,
    Win32::Security::Authorization::SE_FILE_OBJECT,
    Win32::Security::Authorization::SetSecurityInfo,
    Win32::System::SystemServices::ACCESS_DENIED_ACE_TYPE,
};

use crate::{
    path::Shown, sys::windows::nt, sys::windows::nt::OpenHow, sys::windows::nt::SHARE_ALL,
    sys::windows::nt::SHARE_READ,
};

/// More is not copied of a stream, in bytes: it is in memory, as attributes are on Linux. Most hold where a file was
/// downloaded from, or a small picture of it.
const MOST: u64 = 1 << 20;

/// A stream besides the content.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Its name, `:NAME:$DATA`.
    name: Vec<u16>,
    /// What is in it, if it was read.
    content: Option<Vec<u8>>,
}

impl Stream {
    /// One of this name, which was not read.
    #[cfg(test)]
    pub fn named(name: &str) -> Self {
        Self { name: name.encode_utf16().collect(), content: None }
    }

    /// Its name, in a form for people.
    pub fn shown(&self) -> String {
        let name = String::from_utf16_lossy(&self.name);
        let short = name.strip_suffix(":$DATA").unwrap_or(&name);
        Shown::bytes(short.as_bytes()).to_string()
    }

    /// True if what is in it is known.
    pub fn is_read(&self) -> bool {
        self.content.is_some()
    }

    /// Reads it, if it can be read and is not too long; `open` opens it.
    pub fn read(&mut self, open: impl FnOnce(&[u16], OpenHow) -> io::Result<File>) {
        let (access, share, disposition) = (FILE_GENERIC_READ, SHARE_READ, FILE_OPEN);
        let how = OpenHow { access, share, disposition, options: FILE_NON_DIRECTORY_FILE };
        let mut content = Vec::new();
        let read = open(&self.name, how)
            .and_then(|stream| stream.take(MOST + 1).read_to_end(&mut content));
        self.content = read.is_ok_and(|read| read as u64 <= MOST).then_some(content);
    }

    /// Writes what was read into the stream of this name that `open` opens; `None` if nothing was.
    pub fn write(
        &self,
        open: impl FnOnce(&[u16], OpenHow) -> io::Result<File>,
    ) -> Option<io::Result<()>> {
        let content = self.content.as_ref()?;
        let (access, share, disposition) = (FILE_GENERIC_WRITE, SHARE_READ, FILE_OVERWRITE_IF);
        let how = OpenHow { access, share, disposition, options: FILE_NON_DIRECTORY_FILE };
        Some(open(&self.name, how).and_then(|mut stream| stream.write_all(content)))
    }
}

/// The streams of an open file besides its content, in the order of their names.
pub fn streams_of(file: BorrowedHandle<'_>) -> io::Result<Vec<Stream>> {
    // Nearly every file has none, or one that tells where it was downloaded from.
    let mut room = [0u64; 128];
    // What does not fit is left out, so there must have been room for one more: a name has at most
    // 255 units and what stands around them, and there are 24 bytes before it.
    const ONE_MORE: usize = 24 + 2 * (255 + 8) + 8;
    match nt::query_into(file, FileStreamInformation, &mut room) {
        Ok(len) if len < size_of_val(&room) - ONE_MORE => Ok(names(nt::bytes_of(&room, len))),
        // A directory without streams is the end of file at once.
        Err(error) if nt::is_one_of(&error, &[ERROR_HANDLE_EOF]) => Ok(Vec::new()),
        Err(error) if nt::is_unsupported(&error) => Ok(Vec::new()),
        Err(error) if !nt::is_one_of(&error, &[ERROR_MORE_DATA]) => Err(error),
        _ => {
            let mut room = vec![0u64; 8192];
            let len = nt::query_into(file, FileStreamInformation, &mut room)?;
            let mut streams = names(nt::bytes_of(&room, len));
            if len >= size_of_val(&*room) - ONE_MORE {
                // There are more, which cannot be copied.
                streams.push(Stream { name: "…".encode_utf16().collect(), content: None });
            }
            Ok(streams)
        }
    }
}

/// The names in a list of FILE_STREAM_INFORMATION (ntifs.h), the content's own left out.
fn names(mut bytes: &[u8]) -> Vec<Stream> {
    const LEN: usize = std::mem::offset_of!(FILE_STREAM_INFORMATION, StreamNameLength);
    const NAME: usize = std::mem::offset_of!(FILE_STREAM_INFORMATION, StreamName);
    let mut names = Vec::new();
    let number = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    while let (Some(next), Some(len)) = (number(bytes, 0), number(bytes, LEN))
        && let Some(name) = bytes.get(NAME..NAME + len)
    {
        let units: Vec<u16> =
            name.chunks_exact(2).map(|unit| u16::from_ne_bytes([unit[0], unit[1]])).collect();
        if !units.is_empty() && !units.iter().copied().eq("::$DATA".encode_utf16()) {
            names.push(Stream { name: units, content: None });
        }
        if next == 0 {
            break;
        }
        bytes = bytes.get(next..).unwrap_or_default();
    }
    names.sort_by(|one, other| one.name.cmp(&other.name));
    names
}

// Access lists that were set on a file itself. A copy gets what its directory at the output hands down; what is lost is
// told in the notation of Windows (SDDL), so that it can be set again.

/// As much of a list is told. One of a hundred entries has it.
const LONGEST: usize = 4096;

/// An access list of which some was set on the entry itself.
#[derive(Debug)]
pub struct OwnList {
    /// All of it, in words.
    words: String,
    /// The list of what was set there, as the system has it (ACL, winnt.h), and whether it keeps out what the directory
    /// hands down; nothing if it could not be read.
    set: Option<(Vec<u64>, bool)>,
    is_to_be_set: bool,
}

impl OwnList {
    /// One that is only told.
    pub fn told(words: String) -> Self {
        Self { words, set: None, is_to_be_set: false }
    }

    /// The same, to be given to a copy, if it was read.
    pub fn given_on(self) -> Self {
        Self { is_to_be_set: self.set.is_some(), ..self }
    }

    /// True if the same was set there, whatever their directories hand down.
    pub fn is_same(&self, there: &Self) -> bool {
        self.set.is_some() && self.set == there.set
    }

    /// True if a copy is to get it.
    pub fn is_to_be_set(&self) -> bool {
        self.is_to_be_set
    }

    /// Gives what is open this list, and what its directory hands down unless the list keeps that out; `None` if that
    /// is not to be.
    pub fn set(&self, to: BorrowedHandle<'_>) -> Option<io::Result<()>> {
        let (list, is_protected) = self.set.as_ref().filter(|_| self.is_to_be_set)?;
        let set = || {
            let (access, share) = (READ_CONTROL | WRITE_DAC, SHARE_ALL);
            let (disposition, options) = (FILE_OPEN, FILE_OPEN_REPARSE_POINT);
            let at = nt::open(Some(to), &[], OpenHow { access, share, disposition, options })?;
            let inherits = match is_protected {
                true => PROTECTED_DACL_SECURITY_INFORMATION,
                false => UNPROTECTED_DACL_SECURITY_INFORMATION,
            };
            let (handle, what) = (at.as_raw_handle(), DACL_SECURITY_INFORMATION | inherits);
            let (kind, list) = (SE_FILE_OBJECT, list.as_ptr().cast());
            // SAFETY: an open handle, nothing for owner and group, and a list that lives through the call, of as many
            // bytes as its head says: `own_entries` made it.
            let error = unsafe {
                SetSecurityInfo(handle, kind, what, null_mut(), null_mut(), list, null_mut())
            };
            match error {
                ERROR_SUCCESS => Ok(()),
                error => Err(io::Error::from_raw_os_error(error as i32)),
            }
        };
        Some(set())
    }
}

impl fmt::Display for OwnList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.words)
    }
}

/// The access list of an open file or directory, if some of it was set there. A file system without lists has none.
///
/// # Errors
/// The system's. One that may not be read is none: it is a list.
pub fn own_list(of: BorrowedHandle<'_>) -> io::Result<Option<OwnList>> {
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
            let set = own_entries(nt::bytes_of(&descriptor, size_of_val(&*descriptor)));
            Ok(Some(OwnList { words: text_of(descriptor)?, set, is_to_be_set: false }))
        }
        Ok(_) => Ok(None),
        Err(error) if nt::is_unsupported(&error) => Ok(None),
        Err(_) if denies(&read) => Ok(Some(OwnList::told("one that cannot be read".to_owned()))),
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

/// A number of so many bytes there, lowest first, as all are in what follows.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(len)?)?;
    Some(bytes.iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte)))
}

/// The flags of a descriptor (SECURITY_DESCRIPTOR_RELATIVE, winnt.h), and where the entries of its list are.
fn entries_of(descriptor: &[u8]) -> (u16, Vec<&[u8]>) {
    let control = number(descriptor, 2, 2).unwrap_or(0) as u16;
    let mut entries = Vec::new();
    if let Some(list @ 1..) = number(descriptor, 16, 4) {
        let mut at = list + 8;
        for _ in 0..number(descriptor, list + 4, 2).unwrap_or(0) {
            let len = number(descriptor, at + 2, 2).filter(|len| *len >= 4);
            let Some(entry) = len.and_then(|len| descriptor.get(at..at + len)) else { break };
            entries.push(entry);
            at += entry.len();
        }
    }
    (control, entries)
}

/// True if an entry was handed down by the directory.
fn is_inherited(entry: &[u8]) -> bool {
    u32::from(entry[1]) & INHERITED_ACE != 0
}

/// True if some of the list in a descriptor was set on the entry itself. A list in which nothing tells of inheritance,
/// and that denies nobody, is what file systems without lists are said to have.
fn is_own(descriptor: &[u8]) -> bool {
    let (control, entries) = entries_of(descriptor);
    let (inherited, set): (Vec<&[u8]>, Vec<_>) =
        entries.into_iter().partition(|entry| is_inherited(entry));
    let denies = set.iter().any(|entry| u32::from(entry[0]) == ACCESS_DENIED_ACE_TYPE);
    let knows_inheritance = !inherited.is_empty() || control & SE_DACL_AUTO_INHERITED != 0;
    control & SE_DACL_PROTECTED != 0 || denies || (!set.is_empty() && knows_inheritance)
}

/// The list of what was set on the entry itself, or all of one that keeps out what the directory hands down, as the
/// system has lists; and whether it does that.
fn own_entries(descriptor: &[u8]) -> Option<(Vec<u64>, bool)> {
    let (control, entries) = entries_of(descriptor);
    let is_protected = control & SE_DACL_PROTECTED != 0;
    if number(descriptor, number(descriptor, 16, 4)? + 4, 2)? != entries.len() {
        return None;
    }
    let kept = entries.into_iter().filter(|entry| is_protected || !is_inherited(entry));
    let kept: Vec<&[u8]> = kept.collect();
    let len = kept.iter().fold(8, |len, entry| len + entry.len());
    let at = number(descriptor, 16, 4).filter(|at| *at > 0)?;
    let revision = *descriptor.get(at)?;
    let mut list = vec![revision, 0];
    list.extend_from_slice(&u16::try_from(len).ok()?.to_le_bytes());
    list.extend_from_slice(&u16::try_from(kept.len()).ok()?.to_le_bytes());
    list.extend_from_slice(&[0; 2]);
    list.extend(kept.concat());
    list.resize(len.next_multiple_of(8), 0);
    let words = list
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)));
    Some((words.collect(), is_protected))
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
mod streams_tests {
    use super::*;

    #[test]
    fn streams_are_named_and_the_content_is_none() {
        let list = |streams: &[&str]| {
            let mut bytes = Vec::new();
            for (i, name) in streams.iter().enumerate() {
                let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_ne_bytes).collect();
                let len = (24 + units.len()).next_multiple_of(8);
                let next = if i + 1 == streams.len() { 0 } else { len as u32 };
                bytes.extend_from_slice(&next.to_ne_bytes());
                bytes.extend_from_slice(&(units.len() as u32).to_ne_bytes());
                bytes.extend_from_slice(&[0; 16]);
                bytes.extend_from_slice(&units);
                bytes.resize(bytes.len().next_multiple_of(8), 0);
            }
            bytes
        };
        let shown = |bytes: &[u8]| names(bytes).iter().map(Stream::shown).collect::<Vec<_>>();
        assert_eq!(shown(&list(&["::$DATA"])), Vec::<String>::new());
        let two = list(&["::$DATA", ":Zone.Identifier:$DATA", ":a\nb:$DATA"]);
        assert_eq!(shown(&two), [":Zone.Identifier", "\":a\\nb\""]);
        assert_eq!(shown(&two[..60]), Vec::<String>::new());
        assert_eq!(shown(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_stream_is_read_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mut stream = Stream::named(":a:$DATA");
        stream.read(|_, _| File::open(at("none")));
        assert!(!stream.is_read() && stream.write(|_, _| File::create(at("new"))).is_none());
        for (len, is_whole) in [(0, true), (MOST, true), (MOST + 1, false)] {
            std::fs::write(at("from"), vec![7; len as usize]).unwrap();
            stream.read(|_, _| File::open(at("from")));
            assert_eq!(stream.is_read(), is_whole, "{len}");
            if is_whole {
                stream.write(|_, _| File::create(at("to"))).unwrap().unwrap();
                assert_eq!(std::fs::read(at("to")).unwrap().len() as u64, len);
            }
        }
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        stream.content = Some(Vec::new());
        assert!(stream.write(|_, _| Err(denied())).unwrap().is_err());
    }
}

#[cfg(test)]
mod access_list_tests {
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
    fn a_copy_gets_what_was_set_there() {
        let (list, is_protected) =
            own_entries(&descriptor(0, &[(1, 0), (0, 0x10), (0, 0)])).unwrap();
        let bytes = nt::bytes_of(&list, size_of_val(&*list));
        assert!(!is_protected);
        assert_eq!(bytes[..8], [2, 0, 48, 0, 2, 0, 0, 0]);
        assert_eq!((bytes[8], bytes[28], bytes.len()), (1, 0, 48));
        let (list, is_protected) =
            own_entries(&descriptor(SE_DACL_PROTECTED, &[(0, 0x10)])).unwrap();
        assert!(is_protected && nt::bytes_of(&list, 6)[4] == 1);
        assert!(own_entries(&[]).is_none());
        assert!(!OwnList::told("D:".into()).given_on().is_to_be_set());
        // Without a list everybody may do everything: that is no list without entries.
        let mut none = descriptor(SE_DACL_PROTECTED, &[]);
        none[16] = 0;
        assert!(own_entries(&none).is_none());
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
        assert!(own_list(file.as_handle()).unwrap().is_none());
        let read = descriptor_of(file.as_handle());
        assert!(read.is_ok() || read.is_err_and(|error| nt::is_unsupported(&error)));
    }
}
