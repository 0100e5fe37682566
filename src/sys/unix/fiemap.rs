//! Where the data of a file lies on its disk, as the file system tells (`FS_IOC_FIEMAP`, linux/fiemap.h).

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// What waits to be written is given its place first (`FIEMAP_FLAG_SYNC`).
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

/// What is asked and answered (`struct fiemap`), with room for so many extents.
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

    /// As many of them as there was room for.
    pub fn extents(&self) -> &[MappedExtent] {
        self.extents.get(..self.told as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!((size_of::<MappedExtent>(), size_of::<ExtentMap<64>>()), (56, 32 + 56 * 64));
    }
}
