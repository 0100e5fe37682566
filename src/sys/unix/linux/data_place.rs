//! The data of a file: known by its inode number, or by where all of it lies on the disk. Two files that share it whole
//! have the same bytes there, and reading one of them is reading both.

use std::{fs::File, io, ops::Range, os::fd::AsRawFd};

use crate::{sys::stat::Stat, sys::types::DataSharing, sys::unix::kind::*};

/// File systems that give no two files the same inode number while one of them is there, nor the same change time
/// to two contents of one.
const LASTING: [u32; 7] = [EXT, F2FS, TMPFS, ZFS, BCACHEFS, JFS, NFS];

/// The key that tells the files of this file's file system apart.
pub fn data_sharing(file: &File) -> DataSharing {
    match fs_kind(file) {
        Some(XFS | BTRFS) => DataSharing::Extents,
        Some(kind) if LASTING.contains(&kind) => DataSharing::Inodes,
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

/// Number of extents that are asked for at a time.
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

/// The key that tells the file system from others. That of a subvolume of btrfs has a device number of its own.
fn file_system(file: &File, stat: &Stat) -> Option<[u64; 2]> {
    if fs_kind(file)? != BTRFS {
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

// Where the data of a file lies on its disk, as the file system tells (`FS_IOC_FIEMAP`, linux/fiemap.h).

/// The flag that data waiting to be written is given its place first (`FIEMAP_FLAG_SYNC`).
pub const SYNC: u32 = 1;

/// An extent is the last of its file (`FIEMAP_EXTENT_LAST`), …
pub const LAST: u32 = 1;

/// … was put together for the answer (`_MERGED`), …
pub const MERGED: u32 = 0x1000;

/// … and other files have it, too (`_SHARED`).
pub const SHARED: u32 = 0x2000;

/// An extent of a file (`struct fiemap_extent`); bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MappedExtent {
    pub in_file: u64,
    pub on_disk: u64,
    pub len: u64,
    reserved: [u64; 2],
    pub flags: u32,
    more: [u32; 3],
}

/// The question and the answer (`struct fiemap`), with room for so many extents.
#[repr(C)]
pub struct ExtentMap<const ROOM: usize> {
    start: u64,
    len: u64,
    flags: u32,
    told: u32,
    room: u32,
    reserved: u32,
    extents: [MappedExtent; ROOM],
}

impl<const ROOM: usize> ExtentMap<ROOM> {
    /// Asks for the extents that have these bytes of `file`, as `flags` say. `None` if the file system does not tell.
    pub fn of(file: &File, bytes: Range<u64>, flags: u32) -> Option<Self> {
        // _IOWR('f', 11, struct fiemap) (linux/fs.h).
        const FS_IOC_FIEMAP: u32 = 0xc020_660b;
        let (start, len) = (bytes.start, bytes.end.saturating_sub(bytes.start));
        let (room, extents) = (ROOM as u32, [MappedExtent::default(); ROOM]);
        let mut map = Self { start, len, flags, told: 0, room, reserved: 0, extents };
        // SAFETY: the call reads and writes the structure, in which there is room for as many extents as
        // it is told, and keeps no pointer.
        let failed = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) };
        (failed == 0 && map.told <= room).then_some(map)
    }

    /// The extents, as many as there was room for.
    pub fn extents(&self) -> &[MappedExtent] {
        self.extents.get(..self.told as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod data_place_tests {
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

#[cfg(test)]
mod fiemap_tests {
    use super::*;

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!((size_of::<MappedExtent>(), size_of::<ExtentMap<64>>()), (56, 32 + 56 * 64));
    }
}
