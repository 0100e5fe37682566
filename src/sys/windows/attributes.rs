//! The attributes that a copy takes over besides the content: read-only, hidden and the like, and the times at which
//! the content was changed and the file was made.
//!
//! A copy inherits its permissions from the directory it comes to lie in, as with every file made
//! on Windows: access control lists name the users of one machine. Those that were set on a file itself, and streams
//! besides the content ("alternate data streams", of NTFS), are not copied, and what is lost is named.

use std::{ffi::OsStr, io, os::windows::io::AsHandle, os::windows::io::BorrowedHandle};

use windows_sys::{
    Wdk::Storage::FileSystem::FILE_BASIC_INFORMATION, Wdk::Storage::FileSystem::FILE_OPEN,
    Wdk::Storage::FileSystem::FILE_OPEN_REPARSE_POINT,
    Wdk::Storage::FileSystem::FILE_STREAM_INFORMATION,
    Wdk::Storage::FileSystem::FileBasicInformation,
    Wdk::Storage::FileSystem::FileStreamInformation, Win32::Foundation::ERROR_ACCESS_DENIED,
    Win32::Foundation::ERROR_HANDLE_EOF, Win32::Foundation::ERROR_MORE_DATA,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_ARCHIVE,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_HIDDEN,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_NORMAL,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_NOT_CONTENT_INDEXED,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_READONLY,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_SYSTEM,
    Win32::Storage::FileSystem::FILE_WRITE_ATTRIBUTES,
};

use crate::{
    sys::stat::Stat, sys::windows::access_list::own_list, sys::windows::dir::Dir, sys::windows::nt,
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

#[cfg(test)]
mod tests {
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
