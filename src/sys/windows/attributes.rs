//! The attributes that a copy takes over besides the content: read-only, hidden and the like, and the times at which
//! the content was changed and the file was made.
//!
//! A copy inherits its permissions from the directory it comes to lie in, as with every file made
//! on Windows: access control lists name the users of one machine. Those that were set on a file itself, and streams
//! besides the content ("alternate data streams", of NTFS), are copied where that is [asked for](Attributes::read_all),
//! and what is lost is named.

use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::{ffi::OsStr, io};

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_BASIC_INFORMATION, FILE_OPEN, FILE_OPEN_REPARSE_POINT, FileBasicInformation,
};
use windows_sys::Win32::Foundation::ERROR_ACCESS_DENIED;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_ARCHIVE, FILE_ATTRIBUTE_HIDDEN, FILE_ATTRIBUTE_NORMAL,
    FILE_ATTRIBUTE_NOT_CONTENT_INDEXED, FILE_ATTRIBUTE_READONLY, FILE_ATTRIBUTE_SYSTEM,
    FILE_WRITE_ATTRIBUTES,
};

use crate::{
    sys::stat::Stat, sys::windows::dir::Dir, sys::windows::further, sys::windows::further::OwnList,
    sys::windows::further::Stream, sys::windows::nt, sys::windows::nt::OpenHow,
    sys::windows::nt::SHARE_ALL, sys::windows::stat::ticks_of,
};

/// The attributes of a file or directory beside its [`Stat`].
#[derive(Debug, Default)]
pub struct Attributes {
    /// When it was made, in units of 100 ns since 1601; 0 where that is not known.
    created: i64,
    /// Its streams besides the content.
    streams: Vec<Stream>,
    /// Its access list, if some of it was set on the entry itself.
    list: Option<OwnList>,
}

impl Attributes {
    /// Reads them from an open file or directory. A file system without streams has none.
    pub fn read(from: impl AsHandle) -> io::Result<Self> {
        let from = from.as_handle();
        let basic: FILE_BASIC_INFORMATION = nt::query(from, FileBasicInformation)?;
        let (streams, list) = (further::streams_of(from)?, further::own_list(from)?);
        Ok(Self { created: basic.CreationTime, streams, list })
    }

    /// True if there is more than labels here that [can be copied](Self::read_all).
    pub const HAVE_MORE: bool = true;

    /// The same, and if they are all to go over, the content of streams and the entries of the access list, which are
    /// given on then. What cannot be read of a stream is told as lost.
    pub fn read_all(from: impl AsHandle, are_all: bool) -> io::Result<Self> {
        let read = Self::read(&from)?;
        Ok(if are_all { read.with_all(from) } else { read })
    }

    fn with_all(mut self, from: impl AsHandle) -> Self {
        let from = from.as_handle();
        self.streams
            .iter_mut()
            .for_each(|stream| stream.read(|name, how| stream_at(from, name, how)));
        self.list = self.list.map(OwnList::given_on);
        self
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
    pub fn open_more_than_those(&self, _: &Self) -> bool {
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
        // First: writing to a stream moves the file's time, and one that is read-only takes none.
        self.write_streams(to.as_handle(), &mut failed);
        if let Err(error) = set_open(to.as_handle(), source.mode, self.created, source) {
            failed("set the attributes and times of", error);
        }
        // Last: where the file system has permissions in place of lists, the attributes change these.
        self.set_list(to.as_handle(), &mut failed);
    }

    /// Gives what is open the streams, as far as they were [asked for](Self::read_all).
    fn write_streams(
        &self,
        to: BorrowedHandle<'_>,
        failed: &mut impl FnMut(&'static str, io::Error),
    ) {
        let mut left = Vec::new();
        for stream in &self.streams {
            match stream.write(|name, how| stream_at(to, name, how)) {
                Some(Ok(())) => {}
                Some(Err(error)) => failed("copy an alternate data stream of", error),
                None => left.push(stream.shown()),
            }
        }
        if !left.is_empty() {
            let streams = left.join(" ");
            let text =
                format!("only the content is copied, not the alternate data streams {streams}");
            failed("copy all of", lost(text));
        }
    }

    /// Gives what is open the access list, if that was asked for.
    fn set_list(&self, to: BorrowedHandle<'_>, failed: &mut impl FnMut(&'static str, io::Error)) {
        match self.list.as_ref().map(|list| (list, list.set(to))) {
            None | Some((_, Some(Ok(())))) => {}
            Some((_, Some(Err(error)))) => failed("copy the access list of", error),
            Some((list, None)) => {
                let text = format!("a copy has what its directory hands down, not {list}");
                failed("copy the access list of", lost(text));
            }
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
            && Self::read(&to).is_ok_and(|there| {
                there.created == self.created && self.are_all_in(&there.with_all(&to))
            })
    }

    /// True if `there` are the same streams and the same list, and none of these is lost.
    fn are_all_in(&self, there: &Self) -> bool {
        self.streams.iter().all(Stream::is_read)
            && self.list.as_ref().is_none_or(OwnList::is_to_be_set)
            && self.streams.iter().all(|stream| there.streams.contains(stream))
            && self
                .list
                .as_ref()
                .is_none_or(|list| there.list.as_ref().is_some_and(|there| list.is_same(there)))
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

/// The error about what a copy has not, which no later run can do better.
fn lost(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Opens a stream of what is open, by the name that is relative to that.
fn stream_at(of: BorrowedHandle<'_>, name: &[u16], how: OpenHow) -> io::Result<std::fs::File> {
    nt::open(Some(of), name, how).map(std::fs::File::from)
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
mod attributes_tests {
    use super::*;
    use crate::sys::windows::further::{OwnList, Stream};
    use crate::sys::windows::stat::stat_of;

    #[test]
    fn what_is_lost_is_told_each_time() {
        let file = tempfile::tempfile().unwrap();
        let source = stat_of(file.as_handle()).unwrap();
        let said = |streams: &[&str], list: Option<&str>| {
            let streams = streams.iter().map(|name| Stream::named(name)).collect();
            let list = list.map(|words| OwnList::told(words.to_owned()));
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
