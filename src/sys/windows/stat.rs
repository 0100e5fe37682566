//! The metadata of an open file, in the terms of [`Stat`], and of the entries that a directory lists.

use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::{ffi::OsStr, ffi::OsString, fs::File, io, mem::offset_of, os::windows::ffi::OsStringExt};

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_ALL_INFORMATION, FILE_ID_BOTH_DIR_INFORMATION, FILE_ID_INFORMATION, FileAllInformation,
    FileAttributeTagInformation, FileIdInformation,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_REPARSE_POINT,
    FILE_LIST_DIRECTORY, FILE_TYPE_CHAR, FILE_TYPE_PIPE, GetFileInformationByHandle, GetFileType,
};
use windows_sys::{
    Wdk::System::SystemServices::FILE_ATTRIBUTE_TAG_INFORMATION,
    Win32::System::SystemServices::IO_REPARSE_TAG_AF_UNIX,
};

use crate::sys::stat::{Identity, Inode, Kind, Stat, Time};
use crate::{
    sys::types::ListedEntry, sys::windows::dir::Dir, sys::windows::name::component,
    sys::windows::nt,
};

/// 100 ns from the start of 1601, where Windows counts from, to that of 1970.
const EPOCH: i64 = 116_444_736_000_000_000;

/// 100 ns in a second.
const SECOND: i64 = 10_000_000;

/// Looks at an open file or directory: at the link itself where a link is open.
pub(super) fn stat_of(file: BorrowedHandle<'_>) -> io::Result<Stat> {
    // The path at its end does not fit, and is not wanted.
    let all: FILE_ALL_INFORMATION = nt::query(file, FileAllInformation)?;
    let (basic, standard) = (&all.BasicInformation, &all.StandardInformation);
    Ok(Stat {
        kind: kind_of(basic.FileAttributes, || tag_of(file)),
        size: standard.EndOfFile as u64,
        allocated: standard.AllocationSize as u64,
        mtime: time_of(basic.LastWriteTime),
        ctime: time_of(basic.ChangeTime),
        id: identity_of(file)?,
        links: u64::from(standard.NumberOfLinks),
        mode: basic.FileAttributes,
        uid: 0,
        gid: 0,
    })
}

/// Like [`stat_of`] for a handle that came from outside, which may be a pipe or the console: of these
/// only the kind is known.
pub(super) fn stat_of_any(file: BorrowedHandle<'_>) -> io::Result<Stat> {
    stat_of(file).or_else(|error| {
        // SAFETY: an open handle.
        let kind = match unsafe { GetFileType(file.as_raw_handle()) } {
            FILE_TYPE_PIPE => Kind::Fifo,
            FILE_TYPE_CHAR => Kind::Device,
            _ => return Err(error),
        };
        let (time, id) = (Time::default(), Identity::default());
        let (size, allocated, links, mode, uid, gid) = (0, 0, 1, 0, 0, 0);
        Ok(Stat { kind, size, allocated, mtime: time, ctime: time, id, links, mode, uid, gid })
    })
}

/// The file's identity: on NTFS its number, on ReFS, where numbers have 128 bits, a mixture of both halves.
fn identity_of(file: BorrowedHandle<'_>) -> io::Result<Identity> {
    if let Ok(id) = nt::query::<FILE_ID_INFORMATION>(file, FileIdInformation)
        && id.VolumeSerialNumber != 0
    {
        let number = u128::from_le_bytes(id.FileId.Identifier);
        let (high, low) = ((number >> 64) as u64, number as u64);
        // An odd factor (that of the golden ratio) spreads the upper half over all bits.
        let ino = low ^ high.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        return Ok(Identity { dev: id.VolumeSerialNumber, ino });
    }
    // File systems and servers that know only the shorter numbers (FAT, SMB 1).
    // SAFETY: zeros are a value of this structure of numbers.
    let mut told: BY_HANDLE_FILE_INFORMATION = unsafe { std::mem::zeroed() };
    // SAFETY: an open handle, and a structure that lives through the call.
    if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut told) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let ino = u64::from(told.nFileIndexHigh) << 32 | u64::from(told.nFileIndexLow);
    Ok(Identity { dev: told.dwVolumeSerialNumber.into(), ino })
}

/// The kind of link of an open file; 0 where it cannot be told.
fn tag_of(file: BorrowedHandle<'_>) -> u32 {
    nt::query::<FILE_ATTRIBUTE_TAG_INFORMATION>(file, FileAttributeTagInformation)
        .map_or(0, |told| told.ReparseTag)
}

/// The kind of an entry with these attributes; `tag` is asked for only if they speak of a reparse point. Only some of
/// these lead elsewhere (those whose tag has the bit for it, symbolic links and junctions first of all); others are
/// files whose content is kept in another way (deduplicated, or in a cloud), and are files. One whose tag is not known
/// might lead anywhere, and counts as a link.
pub(super) fn kind_of(attributes: u32, tag: impl FnOnce() -> u32) -> Kind {
    // From ntifs.h: IsReparseTagNameSurrogate, and what the Linux subsystem makes.
    const LEADS_ELSEWHERE: u32 = 0x2000_0000;
    const LX_FIFO: u32 = 0x8000_0024;
    const LX_CHR: u32 = 0x8000_0025;
    const LX_BLK: u32 = 0x8000_0026;
    if attributes & FILE_ATTRIBUTE_REPARSE_POINT != 0 {
        match tag() {
            IO_REPARSE_TAG_AF_UNIX => return Kind::Socket,
            LX_FIFO => return Kind::Fifo,
            LX_CHR | LX_BLK => return Kind::Device,
            tag if tag == 0 || tag & LEADS_ELSEWHERE != 0 => return Kind::Symlink,
            _ => {}
        }
    }
    if attributes & FILE_ATTRIBUTE_DIRECTORY != 0 { Kind::Dir } else { Kind::File }
}

/// A time stamp of Windows: 100 ns since the start of 1601.
fn time_of(ticks: i64) -> Time {
    let since = ticks.saturating_sub(EPOCH);
    Time { secs: since.div_euclid(SECOND), nanos: since.rem_euclid(SECOND) as u32 * 100 }
}

/// The other way; what is out of Windows' range becomes its nearest. 0 would mean "leave it".
pub(super) fn ticks_of(time: Time) -> i64 {
    time.secs
        .saturating_mul(SECOND)
        .saturating_add(i64::from(time.nanos / 100))
        .saturating_add(EPOCH)
        .max(1)
}

// Entries as they are to be known again.

impl Dir {
    /// The metadata of `name`, not following links. A number of NTFS is not given twice, and a file that takes the
    /// place of another within 15 seconds is said to be as old as that: when it was made tells nothing.
    pub fn inode(&self, name: &OsStr) -> io::Result<Inode> {
        Ok(Inode { stat: self.stat(name, false)?, birth: None })
    }

    /// The same of an open file.
    pub fn inode_of(file: &File) -> io::Result<Inode> {
        Ok(Inode { stat: Self::stat_file(file)?, birth: None })
    }
}

// Reading a directory in bounded batches through its handle.

/// Room for the names of about 400 entries, in bytes; more than a server gives at once (64 KiB, SMB).
const BUFFER: usize = 64 * 1024;

/// The buffer that directories are listed through; one serves any number of them.
pub struct DirReader(Vec<u64>);

impl Default for DirReader {
    fn default() -> Self {
        Self(vec![0; BUFFER / 8])
    }
}

impl DirReader {
    /// The next entries of `dir`, without `.` and `..`; none when all were listed. The position is
    /// the handle's own, so no other thread may list through it.
    pub fn next_batch(&mut self, dir: &Dir) -> io::Result<Vec<ListedEntry>> {
        let mut batch = Vec::new();
        // A batch of nothing but the two dots is not the end.
        while batch.is_empty() {
            let len = nt::list(dir.as_handle(), None, &mut self.0)?;
            if len == 0 {
                break;
            }
            batch.extend(entries(nt::bytes_of(&self.0, len)));
        }
        Ok(batch)
    }

    /// The next batch of a directory cannot be its first again here.
    pub fn begin_anew(_: &Dir) -> io::Result<bool> {
        Ok(false)
    }

    /// No file system here is known to pass over what is renamed meanwhile.
    pub fn passes_over(_: &Dir) -> bool {
        false
    }
}

impl Dir {
    /// The name by which this directory lists what it finds by `name`, which may be in other letter case, or short
    /// (8.3).
    ///
    /// # Errors
    /// There is nothing of that name, or there can be nothing ([`InvalidFilename`](io::ErrorKind::InvalidFilename)). Or
    /// the system's.
    pub fn listed_name(&self, name: &OsStr) -> io::Result<Option<OsString>> {
        const WILD: &[u8] = b"*?<>\"";
        let wanted = component(name)?;
        if name.as_encoded_bytes().iter().any(|byte| WILD.contains(byte)) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let mut room = vec![0; BUFFER / 8];
        let len =
            nt::list(self.reopen(FILE_LIST_DIRECTORY)?.as_handle(), Some(&wanted), &mut room)?;
        let found = entries(nt::bytes_of(&room, len));
        let own = found.iter().find(|it| *it.name == *name).or(found.first());
        own.map(|own| Some(own.name.to_os_string())).ok_or(io::ErrorKind::NotFound.into())
    }
}

/// All of the entries in `bytes` but the two dots.
fn entries(bytes: &[u8]) -> Vec<ListedEntry> {
    let (mut all, mut rest) = (Vec::new(), bytes);
    while let Some((listed, next)) = entry(rest) {
        all.extend(listed);
        match rest.get(next..) {
            Some(tail) if next > 0 => rest = tail,
            _ => break,
        }
    }
    all
}

/// The first of the entries in `bytes`, if it is not one of the two dots, and how far the next one is
/// (0 behind the last); `None` if there is no whole entry.
fn entry(bytes: &[u8]) -> Option<(Option<ListedEntry>, usize)> {
    const NEXT: usize = offset_of!(FILE_ID_BOTH_DIR_INFORMATION, NextEntryOffset);
    const ATTRIBUTES: usize = offset_of!(FILE_ID_BOTH_DIR_INFORMATION, FileAttributes);
    const LEN: usize = offset_of!(FILE_ID_BOTH_DIR_INFORMATION, FileNameLength);
    const TAG: usize = offset_of!(FILE_ID_BOTH_DIR_INFORMATION, EaSize);
    const ID: usize = offset_of!(FILE_ID_BOTH_DIR_INFORMATION, FileId);
    const NAME: usize = offset_of!(FILE_ID_BOTH_DIR_INFORMATION, FileName);
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let name = bytes.get(NAME..)?.get(..number(LEN)? as usize)?;
    let units: Vec<u16> = name.chunks_exact(2).map(|u| u16::from_ne_bytes([u[0], u[1]])).collect();
    let name = OsString::from_wide(&units);
    let (attributes, tag) = (number(ATTRIBUTES)?, number(TAG)?);
    let listed = ListedEntry {
        // Where there is no tag, which of the special things it is must be asked.
        kind: (attributes & FILE_ATTRIBUTE_REPARSE_POINT == 0 || tag != 0)
            .then(|| kind_of(attributes, || tag)),
        ino: u64::from(number(ID)?) | u64::from(number(ID + 4)?) << 32,
        name: name.into(),
    };
    let is_dots = [".", ".."].into_iter().any(|dots| *listed.name == *OsStr::new(dots));
    Some(((!is_dots).then_some(listed), number(NEXT)? as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_both_ways() {
        for (secs, nanos) in [(0, 0), (-1, 900), (1_700_000_000, 123_456_700), (-11_644_473_599, 0)]
        {
            let time = Time { secs, nanos };
            assert_eq!(time_of(ticks_of(time)), time);
        }
        assert_eq!(time_of(EPOCH), Time { secs: 0, nanos: 0 });
        assert_eq!(ticks_of(Time { secs: -20_000_000_000, nanos: 0 }), 1);
        assert_eq!(ticks_of(Time { secs: i64::MAX, nanos: 0 }), i64::MAX);
    }

    #[test]
    fn only_what_leads_elsewhere_is_a_link() {
        let reparse = FILE_ATTRIBUTE_REPARSE_POINT;
        let dir = reparse | FILE_ATTRIBUTE_DIRECTORY;
        for (attributes, tag, kind) in [
            (0, 0, Kind::File),
            (FILE_ATTRIBUTE_DIRECTORY, 0, Kind::Dir),
            (reparse, 0xa000_000c, Kind::Symlink), // symbolic link
            (dir, 0xa000_0003, Kind::Symlink),     // junction
            (reparse, 0xa000_001d, Kind::Symlink), // Linux subsystem
            (dir, 0x9000_101a, Kind::Dir),         // cloud
            (reparse, 0x8000_0013, Kind::File),    // deduplicated
            (reparse, 0x8000_0023, Kind::Socket),
            (reparse, 0x8000_0024, Kind::Fifo),
            (reparse, 0, Kind::Symlink),
        ] {
            assert_eq!(kind_of(attributes, || tag), kind, "{attributes:x} {tag:x}");
        }
    }
}
