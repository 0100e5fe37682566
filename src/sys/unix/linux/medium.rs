//! Reading a file from its device rather than from memory.
//!
//! A check that reads the page cache proves what the memory holds. So, for each file: what is not
//! written yet is written; if then nothing of the file is in memory, it is read as usual (with the
//! kernel's reading ahead) and what was brought in is dropped again; if some of it is, others may be
//! using it, so it is left alone and the file is read around the cache with `O_DIRECT`; where that
//! cannot be relied on, the kernel is asked to drop the pages, and whether it did is checked.
//! What lies below the kernel (a controller's or a drive's own cache, the host of a virtual machine)
//! is out of sight.

use std::{
    fs::File, io, num::NonZeroU64, os::unix::fs::FileExt, sync::atomic::AtomicU64,
    sync::atomic::Ordering::Relaxed,
};

use rustix::{fs::Advice, fs::AtFlags, fs::OFlags, fs::StatxFlags};

use crate::{
    sys::interrupted::uninterrupted, sys::stat::Stat, sys::unix::kind::*,
    sys::unix::system::cache::CachedBytes, sys::unix::system::cache::cached,
    sys::unix::system::cache::drop_pages,
};

/// The number of bytes at which reads around the cache must start, in memory and in the file; every
/// device's blocks known today divide it.
pub const ALIGNMENT: usize = 4096;

/// After so many bytes what was read is dropped from memory, so that a large file does not drive out what
/// others use. What the kernel has read ahead of that stays: dropped with it, it is read twice. With a
/// `read_ahead_kb` of 8192 a check of 2 GiB on a cold disk took 3.34 s that way and takes 1.50 s (`dd` 1.56 s).
const DROP_EVERY: u64 = 16 << 20;

/// Files of btrfs up to this size may lie within its metadata, which stays in memory.
const MOST_INLINE: u64 = 4096;

/// The largest file that metadata has room for on any file system: a block of 64 KiB; bytes.
const MOST_WITHIN: u64 = 64 << 10;

/// A file being read.
pub struct Medium<'a> {
    file: &'a File,
    size: u64,
    route: ReadRoute,
    /// True if what is brought into memory stays there.
    stays: bool,
    read: u64,
    dropped: u64,
    /// Bytes that were read in no order.
    read_anywhere: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadRoute {
    /// The data as it comes.
    Any,
    /// Through the page cache, which held nothing of it.
    Emptied,
    /// Around the page cache.
    Direct,
}

impl<'a> Medium<'a> {
    /// Reads `file` without asking where from.
    pub fn any(file: &'a File) -> Self {
        let (size, route, read_anywhere) = (0, ReadRoute::Any, AtomicU64::new(0));
        Self { file, size, route, stays: false, read: 0, dropped: 0, read_anywhere }
    }

    /// The same; what is brought into memory is left to who reads it soon if it `stays`.
    pub fn staying(self, stays: bool) -> Self {
        Self { stays, ..self }
    }

    /// True if what is read is dropped.
    fn lets_go(&self) -> bool {
        self.route == ReadRoute::Emptied && !self.stays
    }

    /// Reads `file`, which is `stat`, from its device if that can be had.
    ///
    /// # Errors
    /// Fails if data that was in memory only could not be written.
    pub fn of(file: &'a File, stat: &Stat) -> io::Result<Self> {
        let mut medium = Self { size: stat.size, ..Self::any(file) };
        let Some(volume) = Volume::of(file) else { return Ok(medium) };
        if !volume.keeps_content_apart(stat) {
            return Ok(medium);
        }
        let mut now = cached(file, 0..stat.size);
        if now.dirty > 0 {
            rustix::fs::fsync(file)?;
        }
        if now.bytes > 0 && volume.reads_around_the_cache(file) {
            medium.route = ReadRoute::Direct;
            return Ok(medium);
        }
        if now.bytes > 0 {
            now = forget(file, stat.size);
        }
        if now.bytes == 0 {
            medium.route = ReadRoute::Emptied;
            let _ = rustix::fs::fadvise(file, 0, None, Advice::Sequential);
        }
        Ok(medium)
    }

    /// The next bytes; none at the end. `room` starts and is cut at multiples of
    /// [`ALIGNMENT`].
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.route == ReadRoute::Direct {
            return self.read_direct(room);
        }
        let read = uninterrupted(|| io::Read::read(&mut self.file, room))?;
        self.read += read as u64;
        if self.lets_go() && self.read - self.dropped >= DROP_EVERY {
            drop_pages(self.file, 0, NonZeroU64::new(self.read));
            self.dropped = self.read;
        }
        Ok(read)
    }

    /// Fills `room` with what is at `at`, as far as the file goes. Both are multiples of [`ALIGNMENT`], but for
    /// the length of what is read from memory.
    pub fn fill_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            let from = at + filled as u64;
            match uninterrupted(|| self.file.read_at(&mut room[filled..], from))? {
                0 => break,
                read => filled += read,
            }
            // What is read around the cache ends so only at the end of the file, and cannot be read on from there.
            if self.is_direct() && !filled.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        let before = self.read_anywhere.fetch_add(filled as u64, Relaxed);
        let after = before + filled as u64;
        if self.lets_go() && before / DROP_EVERY != after / DROP_EVERY {
            drop_pages(self.file, 0, NonZeroU64::new(at + filled as u64));
        }
        Ok(filled)
    }

    /// True if reads go around the system's cache.
    pub fn is_direct(&self) -> bool {
        self.route == ReadRoute::Direct
    }

    /// Reads at a multiple of the alignment; what comes again after a read that was cut short
    /// is passed over.
    fn read_direct(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.read >= self.size {
            return Ok(0);
        }
        let again = self.read % ALIGNMENT as u64;
        let read = uninterrupted(|| self.file.read_at(room, self.read - again))?;
        let again = again as usize;
        let fresh = read.saturating_sub(again);
        room.copy_within(again..again + fresh, 0);
        self.read += fresh as u64;
        Ok(fresh)
    }

    /// Lets go of what was brought into memory; whether all bytes came from the device.
    pub fn finish(self) -> bool {
        if self.lets_go() && self.size > 0 {
            drop_pages(self.file, 0, None);
        }
        self.route != ReadRoute::Any
    }
}

/// The facts about the file system that a file lies on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Volume {
    /// `O_DIRECT` reads go to the device.
    Plain,
    /// They may go through the cache after all (compressed or checked content).
    Roundabout,
    Btrfs,
}

impl Volume {
    /// `None` for one that does not keep its files on a block device of this machine, or is not
    /// known to let go of its cache when asked.
    fn of(file: &File) -> Option<Self> {
        match fs_kind(file)? {
            EXT | XFS => Some(Self::Plain),
            BTRFS => Some(Self::Btrfs),
            F2FS | FAT | EXFAT | NTFS3 | ISO9660 | UDF | JFS | NILFS2 => Some(Self::Roundabout),
            _ => None,
        }
    }

    /// True if the content lies in blocks of its own, not within metadata.
    fn keeps_content_apart(self, stat: &Stat) -> bool {
        let inline = self == Self::Btrfs && stat.size <= MOST_INLINE;
        // What no metadata has room for and takes no blocks is one hole.
        let has_blocks = stat.allocated > 0 || stat.size > MOST_WITHIN;
        stat.size == 0 || !inline && (has_blocks || self == Self::Roundabout)
    }

    /// Makes reads of `file` go around the cache, where they can be relied on to.
    fn reads_around_the_cache(self, file: &File) -> bool {
        if self != Self::Plain {
            return false;
        }
        // Says 0 for a file whose direct reads would go through the cache (encrypted, verity,
        // journaled content). Before Linux 6.1 it says nothing.
        let asked = StatxFlags::DIOALIGN;
        if let Ok(told) = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, asked)
            && told.stx_mask & asked.bits() != 0
            && !(1..=ALIGNMENT as u32).contains(&told.stx_dio_offset_align)
        {
            return false;
        }
        rustix::fs::fcntl_getfl(file)
            .and_then(|flags| rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT))
            .is_ok()
    }
}

/// Asks the kernel to drop what it holds of a file, and looks whether it did.
fn forget(file: &File, size: u64) -> CachedBytes {
    drop_pages(file, 0, None);
    cached(file, 0..size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Dir;

    #[test]
    fn reading_is_whole_from_memory_and_from_the_device() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..100_001u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let read = || {
            let file = File::open(&path).unwrap();
            let stat = Dir::stat_file(&file).unwrap();
            let mut medium = Medium::of(&file, &stat).unwrap();
            let mut buffer = vec![0u8; 3 * ALIGNMENT];
            let skip = buffer.as_ptr().align_offset(ALIGNMENT);
            let mut all = Vec::new();
            loop {
                let got = medium.read(&mut buffer[skip..skip + 2 * ALIGNMENT]).unwrap();
                if got == 0 {
                    break;
                }
                all.extend_from_slice(&buffer[skip..skip + got]);
            }
            assert!(all == content, "{:?}", medium.route);
            medium.finish()
        };
        let first = read();
        drop_pages(&File::open(&path).unwrap(), 0, None);
        assert_eq!(read(), first);
    }
}
