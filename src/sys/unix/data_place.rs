//! Which data a file has: by its inode number, or by where all of it lies on the disk. Two files that share it
//! whole have the same bytes there, and reading one of them is reading both.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::sys::stat::Stat;
use crate::sys::types::DataSharing;
use crate::sys::unix::fiemap::{ExtentMap, LAST, MERGED, SHARED, SYNC};

// From linux/magic.h and the file systems' own headers.
const XFS: u32 = 0x5846_5342;
const BTRFS: u32 = 0x9123_683e;

/// File systems that give no two files the same inode number while one of them is there, nor the same change time
/// to two contents of one: ext2, ext3 and ext4, f2fs, tmpfs, zfs, bcachefs, jfs, NFS.
const LASTING: [u32; 7] =
    [0xef53, 0xf2f5_2010, 0x0102_1994, 0x2fc1_2fc1, 0xca45_1a4e, 0x3153_464a, 0x6969];

/// What tells the files of this file's file system apart.
pub fn data_sharing(file: &File) -> DataSharing {
    match rustix::fs::fstatfs(file).map(|fs| fs.f_type as u32) {
        Ok(XFS | BTRFS) => DataSharing::Extents,
        Ok(kind) if LASTING.contains(&kind) => DataSharing::Inodes,
        _ => DataSharing::Unknown,
    }
}

/// Waits until all that was written to this file's file system has its place there.
///
/// # Errors
/// Not all could be written, or the system does not let this be asked.
pub fn place_all_data(file: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

/// Files in more extents than this are not asked about to the end.
const MOST_EXTENTS: usize = 4096;

/// So many extents are asked for at a time.
const ROOM: usize = 64;

/// Where all data of a file lies, as numbers that tell it from all other data of this machine: those of the file
/// system, the size, and of each extent its place in the file, its place on the disk and its length. `None` unless
/// other files have all of it, too, which keeps the file system from writing to it in place; and where anything is not
/// written yet, lies within metadata, or is packed, so that its place does not tell which part of the packed data it
/// is.
pub fn shared_place(file: &File, stat: &Stat) -> Option<Vec<u64>> {
    let mut place = file_system(file, stat)?.to_vec();
    place.push(stat.size);
    let mut start = 0;
    while start < stat.size {
        let map = ExtentMap::<ROOM>::of(file, start..stat.size, SYNC)?;
        let told = map.extents();
        for extent in told {
            let is_shared = extent.flags & SHARED != 0 && extent.on_disk > 0 && extent.len > 0;
            if !is_shared || extent.flags & !(LAST | MERGED | SHARED) != 0 {
                return None;
            }
            place.extend([extent.in_file, extent.on_disk, extent.len]);
            start = extent.in_file.checked_add(extent.len)?;
        }
        let is_end = told.last().is_none_or(|last| last.flags & LAST != 0);
        if place.len() > 3 * MOST_EXTENTS {
            return None;
        }
        if is_end {
            break;
        }
    }
    (place.len() > 3).then_some(place)
}

/// What tells the file system from others. That of a subvolume of btrfs has a device number of its own.
fn file_system(file: &File, stat: &Stat) -> Option<[u64; 2]> {
    if rustix::fs::fstatfs(file).ok()?.f_type as u32 != BTRFS {
        return Some([stat.id.dev, 0]);
    }
    // _IOR(0x94, 31, struct btrfs_ioctl_fs_info_args) (linux/btrfs.h): 128 words, of which the third and fourth are the
    // number of the file system.
    const BTRFS_IOC_FS_INFO: u32 = 0x8400_941f;
    let mut info = [0u64; 128];
    // SAFETY: the call writes the structure, which is as large as the number of the call says, and keeps no pointer.
    let failed = unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_FS_INFO as _, &raw mut info) };
    (failed == 0).then_some([info[2], info[3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Dir;

    #[test]
    fn what_no_other_file_has_is_not_shared() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        std::fs::write(dir.path().join("file"), [1; 50_000]).unwrap();
        let file = File::open(dir.path().join("file")).unwrap();
        assert_eq!(shared_place(&file, &Dir::stat_file(&file).unwrap()), None);
    }
}
