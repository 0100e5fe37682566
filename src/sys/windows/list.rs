//! Reading a directory in bounded batches through its handle.

use std::ffi::{OsStr, OsString};
use std::{io, mem::offset_of, os::windows::ffi::OsStringExt, os::windows::io::AsHandle};

use windows_sys::{
    Wdk::Storage::FileSystem::FILE_ID_BOTH_DIR_INFORMATION,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_REPARSE_POINT,
};

use crate::sys::{types::ListedEntry, windows::dir::Dir, windows::nt, windows::stat::kind_of};

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
            let len = nt::list(dir.as_handle(), &mut self.0)?;
            if len == 0 {
                break;
            }
            let mut rest = nt::bytes_of(&self.0, len);
            while let Some((listed, next)) = entry(rest) {
                batch.extend(listed);
                match rest.get(next..) {
                    Some(tail) if next > 0 => rest = tail,
                    _ => break,
                }
            }
        }
        Ok(batch)
    }
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
