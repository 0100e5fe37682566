//! The metadata of an open file, in the terms of [`Stat`].

use std::{
    ffi::OsStr, fs::File, io, os::windows::io::AsRawHandle, os::windows::io::BorrowedHandle,
};

use windows_sys::{
    Wdk::Storage::FileSystem::FILE_ALL_INFORMATION, Wdk::Storage::FileSystem::FILE_ID_INFORMATION,
    Wdk::Storage::FileSystem::FileAllInformation,
    Wdk::Storage::FileSystem::FileAttributeTagInformation,
    Wdk::Storage::FileSystem::FileIdInformation,
    Wdk::System::SystemServices::FILE_ATTRIBUTE_TAG_INFORMATION,
    Win32::Storage::FileSystem::BY_HANDLE_FILE_INFORMATION,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_DIRECTORY,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_REPARSE_POINT,
    Win32::Storage::FileSystem::FILE_TYPE_CHAR, Win32::Storage::FileSystem::FILE_TYPE_PIPE,
    Win32::Storage::FileSystem::GetFileInformationByHandle,
    Win32::Storage::FileSystem::GetFileType, Win32::System::SystemServices::IO_REPARSE_TAG_AF_UNIX,
};

use crate::sys::stat::{Identity, Inode, Kind, Stat, Time};
use crate::{sys::windows::dir::Dir, sys::windows::nt};

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
