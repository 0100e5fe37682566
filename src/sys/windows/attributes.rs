//! The attributes that a copy takes over besides the content: read-only, hidden and the like, and the times at which
//! the content was changed and the file was made.
//!
//! A copy inherits its permissions from the directory it comes to lie in, as with every file made
//! on Windows: access control lists name the users of one machine. Those that were set on a file itself, and streams
//! besides the content ("alternate data streams", of NTFS), are not copied, and what is lost is named.

use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::{ffi::OsStr, io, ptr::null_mut, slice};

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_BASIC_INFORMATION, FILE_OPEN, FILE_OPEN_REPARSE_POINT, FILE_STREAM_INFORMATION,
    FileBasicInformation, FileStreamInformation,
};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_HANDLE_EOF, ERROR_INSUFFICIENT_BUFFER, ERROR_MORE_DATA, LocalFree,
};
use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetKernelObjectSecurity, INHERITED_ACE, SE_DACL_AUTO_INHERITED,
    SE_DACL_PROTECTED,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_ARCHIVE, FILE_ATTRIBUTE_HIDDEN, FILE_ATTRIBUTE_NORMAL,
    FILE_ATTRIBUTE_NOT_CONTENT_INDEXED, FILE_ATTRIBUTE_READONLY, FILE_ATTRIBUTE_SYSTEM,
    FILE_WRITE_ATTRIBUTES, READ_CONTROL,
};
use windows_sys::{
    Win32::Security::Authorization::ConvertSecurityDescriptorToStringSecurityDescriptorW,
    Win32::Security::Authorization::SDDL_REVISION_1,
    Win32::System::SystemServices::ACCESS_DENIED_ACE_TYPE,
};

use crate::{
    path::Shown, sys::stat::Stat, sys::windows::dir::Dir, sys::windows::nt,
    sys::windows::nt::OpenHow, sys::windows::nt::SHARE_ALL, sys::windows::stat::ticks_of,
};

/// The attributes of a file or directory beside its [`Stat`].
#[derive(Debug, Default)]
pub struct Attributes {
    /// When it was made, in units of 100 ns since 1601; 0 where that is not known.
    created: i64,
    /// The names of its streams besides the content.
    streams: Vec<String>,
    /// Its access list, if some of it was set on the entry itself.
    list: Option<String>,
}

impl Attributes {
    /// Reads them from an open file or directory. A file system without streams has none.
    pub fn read(from: impl AsHandle) -> io::Result<Self> {
        let from = from.as_handle();
        let basic: FILE_BASIC_INFORMATION = nt::query(from, FileBasicInformation)?;
        Ok(Self { created: basic.CreationTime, streams: streams_of(from)?, list: own_list(from)? })
    }

    /// Those of the link `name` in `dir`: a link has none.
    pub fn of_link(_: &Dir, _: &OsStr) -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Those of an entry that is not opened for reading: no such entry is copied here.
    pub fn of_unopened(_: &Dir, _: &OsStr) -> io::Result<Self> {
        Ok(Self::default())
    }

    /// The label that an entry which is `there`, and keeps its owner, gets from `source`.
    pub fn label_at(there: &Stat, source: &Stat) -> Stat {
        Stat { uid: there.uid, gid: there.gid, ..*source }
    }

    /// True if there are none but those of every file.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// True if these are those of another link, which have none.
    pub fn are_same(&self, other: &Self) -> bool {
        self.streams == other.streams
    }

    /// No: files have no such permissions here.
    pub fn may_be_born(&self, _: &Stat, _: u32) -> bool {
        false
    }

    /// Access lists are no part of a copy here.
    pub fn may_be_inherited_in(_: impl AsHandle) -> bool {
        false
    }

    /// Access lists are no part of a copy here.
    pub fn open_more_than(&self, _: impl AsHandle) -> bool {
        false
    }

    /// Access lists are no part of a copy here.
    pub fn deny_somebody(&self) -> bool {
        false
    }

    /// Access lists are no part of a copy here.
    pub fn deny_more_than(&self, _: &Self) -> bool {
        false
    }

    /// Access lists are no part of a copy here.
    pub fn has_access_list(&self) -> bool {
        false
    }

    /// Access lists are no part of a copy here.
    pub fn permitted(&self) -> u32 {
        u32::MAX
    }

    /// No attribute here gives rights.
    pub fn keep_rights_of(&mut self, _: &Self) -> (bool, u32) {
        (false, u32::MAX)
    }

    /// Access lists are no part of a copy here.
    pub fn lack_rights_of(&self, _: impl AsHandle) -> bool {
        false
    }

    /// Access lists are no part of a copy here.
    pub fn shed_lists(&self, _: impl AsHandle) -> io::Result<()> {
        Ok(())
    }

    /// Gives an open file or directory `source`'s attributes and modification time, and the time at
    /// which it was made. What could not be set, and what is lost, is handed to `failed` with the deed.
    pub fn apply(
        &self,
        to: impl AsHandle,
        source: &Stat,
        _owned: bool,
        mut failed: impl FnMut(&'static str, io::Error),
    ) {
        if let Err(error) = set_open(to.as_handle(), source.mode, self.created, source) {
            failed("set the attributes and times of", error);
        }
        // No later run can do better.
        let lost = |text| io::Error::new(io::ErrorKind::Unsupported, text);
        if !self.streams.is_empty() {
            let streams = self.streams.join(" ");
            let text =
                format!("only the content is copied, not the alternate data streams {streams}");
            failed("copy all of", lost(text));
        }
        if let Some(list) = &self.list {
            let text = format!("a copy has what its directory hands down, not {list}");
            failed("copy the access list of", lost(text));
        }
    }

    /// Gives an open file, which is `there`, `source`'s modification time and nothing else.
    pub fn set_time(to: impl AsHandle, there: &Stat, source: &Stat) -> io::Result<()> {
        set_open(to.as_handle(), there.mode, 0, source)
    }

    /// True if an open entry would be given more than it has. Attributes here say nothing of who may use a file.
    pub fn widen(&self, _there: &Stat, _at: impl AsHandle, _source: &Stat) -> bool {
        false
    }

    /// No: attributes here say nothing of who may use a file.
    pub fn leave_open(&self, _there: &Stat, _at: impl AsHandle, _source: &Stat) -> bool {
        false
    }

    /// The narrower metadata for a file, so that it has no permission that `source` does not give: permissions here are
    /// access lists, which are not copied.
    pub fn narrowed(_there: &Stat, _source: &Stat) -> Option<Stat> {
        None
    }

    /// Like [`apply`](Self::apply) for an entry that was there.
    pub fn apply_to_kept(
        &self,
        to: impl AsHandle,
        source: &Stat,
        owned: bool,
        failed: impl FnMut(&'static str, io::Error),
    ) {
        self.apply(to, source, owned, failed);
    }

    /// Like [`apply`](Self::apply) for an entry just made.
    pub fn apply_to_new(
        &self,
        to: impl AsHandle,
        source: &Stat,
        _dir_gid: u32,
        _born: Option<u32>,
        failed: impl FnMut(&'static str, io::Error),
    ) {
        self.apply(to, source, true, failed);
    }

    /// The same for a file whose content was just written.
    ///
    /// # Errors
    /// None: labels tell nothing of the content here.
    pub fn apply_to_written(
        &self,
        to: impl AsHandle,
        source: &Stat,
        dir_gid: u32,
        born: Option<u32>,
        failed: impl FnMut(&'static str, io::Error),
    ) -> io::Result<()> {
        self.apply_to_new(to, source, dir_gid, born, failed);
        Ok(())
    }

    /// True if `there` has `source`'s attributes.
    pub fn are_labelled(there: &Stat, source: &Stat) -> bool {
        !Self::may_differ(there, source)
    }

    /// True if `there` may lack something of `source`'s attributes, as far as that can be told without a look at it.
    pub fn may_differ(there: &Stat, source: &Stat) -> bool {
        (source.mode ^ there.mode) & COPIED != 0
    }

    /// True if an entry that is `there` already has `source`'s attributes and a time that may be `source`'s, and no
    /// stream or access list is lost: then there is nothing to do and nothing to say.
    pub fn are_at(&self, there: &Stat, to: impl AsHandle, source: &Stat) -> bool {
        (source.mode ^ there.mode) & COPIED == 0
            && source.mtime.may_be_stored_as(there.mtime)
            && self.streams.is_empty()
            && self.list.is_none()
            && Self::read(to).is_ok_and(|there| there.created == self.created)
    }

    /// The same as `are_at`: nothing else is kept of an entry here.
    pub fn are_all_at(&self, there: &Stat, to: impl AsHandle, source: &Stat) -> bool {
        self.are_at(there, to, source)
    }

    /// There is nothing that could be taken.
    pub fn shed_others(&self, _: impl AsHandle) -> io::Result<()> {
        Ok(())
    }
}

/// Gives what is open the attributes in `mode`, the time at which it was `created` (0 leaves that), and
/// `source`'s modification time.
fn set_open(to: BorrowedHandle<'_>, mode: u32, created: i64, source: &Stat) -> io::Result<()> {
    let set = |to| set_basic(to, mode & COPIED, created, ticks_of(source.mtime));
    match set(to) {
        // It is held for listing or reading only.
        Err(error) if nt::is_one_of(&error, &[ERROR_ACCESS_DENIED]) => {
            let (access, share) = (FILE_WRITE_ATTRIBUTES, SHARE_ALL);
            let (disposition, options) = (FILE_OPEN, FILE_OPEN_REPARSE_POINT);
            let how = OpenHow { access, share, disposition, options };
            set(nt::open(Some(to), &[], how)?.as_handle())
        }
        set => set,
    }
}

/// The names of the streams of an open file besides its content, in a form for people.
fn streams_of(file: BorrowedHandle<'_>) -> io::Result<Vec<String>> {
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
            // As many as fit: the names are for a message.
            let mut room = vec![0u64; 8192];
            let len = nt::query_into(file, FileStreamInformation, &mut room)?;
            Ok(names(nt::bytes_of(&room, len)))
        }
    }
}

/// The names in a list of FILE_STREAM_INFORMATION (ntifs.h), the content's own left out.
fn names(mut bytes: &[u8]) -> Vec<String> {
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
        let name = String::from_utf16_lossy(&units);
        if name != "::$DATA" && !name.is_empty() {
            let short = name.strip_suffix(":$DATA").unwrap_or(&name);
            names.push(crate::path::Shown::bytes(short.as_bytes()).to_string());
        }
        if next == 0 {
            break;
        }
        bytes = bytes.get(next..).unwrap_or_default();
    }
    names
}

// The attributes and times that Windows keeps of every file, set in one call.

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

// Access lists that were set on a file itself, and so are lost in a copy, which gets what its directory at the output
// hands down: what is lost is told in the notation of Windows (SDDL), so that it can be set again.

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
mod attributes_tests {
    use super::*;
    use crate::sys::windows::stat::stat_of;

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
        assert_eq!(names(&list(&["::$DATA"])), Vec::<String>::new());
        let two = list(&["::$DATA", ":Zone.Identifier:$DATA", ":a\nb:$DATA"]);
        assert_eq!(names(&two), [":Zone.Identifier", "\":a\\nb\""]);
        assert_eq!(names(&two[..60]), Vec::<String>::new());
        assert_eq!(names(&[]), Vec::<String>::new());
    }

    #[test]
    fn what_is_lost_is_told_each_time() {
        let file = tempfile::tempfile().unwrap();
        let source = stat_of(file.as_handle()).unwrap();
        let said = |streams: &[&str], list: Option<&str>| {
            let streams = streams.iter().map(|&name| name.to_owned()).collect();
            let list = list.map(str::to_owned);
            let attributes = Attributes { streams, list, ..Attributes::read(&file).unwrap() };
            let mut said = Vec::new();
            attributes.apply(&file, &source, true, |deed, error| {
                said.push(format!("{deed}: {error}"));
            });
            (said.join("; "), attributes.are_at(&source, &file, &source))
        };
        assert_eq!(said(&[], None), (String::new(), true));
        let (streams, nothing_to_say) = said(&[":Zone.Identifier", ":extra"], None);
        assert!(!nothing_to_say);
        assert!(streams.ends_with("streams :Zone.Identifier :extra"), "{streams}");
        let (list, nothing_to_say) = said(&[], Some("D:(D;;FR;;;WD)"));
        assert!(!nothing_to_say);
        assert!(list.starts_with("copy the access list of") && list.ends_with("WD)"), "{list}");
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
