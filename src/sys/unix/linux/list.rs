//! Reading a directory in bounded batches through its handle.

use std::{ffi::OsStr, io, mem::MaybeUninit, os::unix::ffi::OsStrExt};

use rustix::{fs::FileType, fs::RawDir};

use crate::sys::unix::{dir::Dir, kind::BTRFS, kind::fs_kind};
use crate::{sys::stat::Kind, sys::types::ListedEntry};

/// Room for the names of about 1,500 entries: one call for nearly every directory, and 60 calls
/// for 100,000 entries.
const BUFFER: usize = 64 * 1024;

/// The buffer that directories are listed through; one serves any number of them.
pub struct DirReader(Box<[MaybeUninit<u8>]>);

impl Default for DirReader {
    fn default() -> Self {
        Self(Box::new_uninit_slice(BUFFER))
    }
}

impl DirReader {
    /// The next entries of `dir`, without `.` and `..`; none when all were listed. The position is
    /// the handle's own, so no other thread may list through it.
    pub fn next_batch(&mut self, dir: &Dir) -> io::Result<Vec<ListedEntry>> {
        let mut batch = Vec::new();
        let mut raw = RawDir::new(dir, &mut self.0);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                batch.push(ListedEntry {
                    name: OsStr::from_bytes(name).into(),
                    kind: match entry.file_type() {
                        FileType::RegularFile => Some(Kind::File),
                        FileType::Directory => Some(Kind::Dir),
                        FileType::Symlink => Some(Kind::Symlink),
                        FileType::Fifo => Some(Kind::Fifo),
                        FileType::Socket => Some(Kind::Socket),
                        FileType::CharacterDevice | FileType::BlockDevice => Some(Kind::Device),
                        _ => None,
                    },
                    ino: entry.ino(),
                });
            }
            // A batch of nothing but the two dots is not the end.
            if raw.is_buffer_empty() && !batch.is_empty() {
                break;
            }
        }
        Ok(batch)
    }

    /// The next batch of `dir` is its first again; false where that cannot be had.
    pub fn begin_anew(dir: &Dir) -> io::Result<bool> {
        rustix::fs::seek(dir, rustix::fs::SeekFrom::Start(0))?;
        Ok(true)
    }

    /// True if a listing of `dir` passes over a file that another is renamed to meanwhile.
    pub fn passes_over(dir: &Dir) -> bool {
        fs_kind(dir) == Some(BTRFS)
    }
}

impl Dir {
    /// True if this directory folds names.
    pub fn folds_by_itself(&self) -> bool {
        // FS_CASEFOLD_FL in linux/fs.h.
        const CASEFOLD: u32 = 0x4000_0000;
        rustix::fs::ioctl_getflags(self).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
    }
}
