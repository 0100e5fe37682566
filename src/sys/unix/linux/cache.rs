//! Leaving the page cache as it was found: a copy of terabytes must not push out what other programs
//! work with.
//!
//! The page cache: this copy drops again what it brings into memory, and leaves there what was there before. Large
//! files are read as they come, and what they brought in is dropped behind, window by window, with `cachestat` or
//! `mincore` and `POSIX_FADV_DONTNEED`. Files that are written go the same way, with `sync_file_range`; Linux 6.14 and
//! later do it by themselves for writes, and for reads of small files, with `RWF_DONTCACHE`, on file systems that know
//! it, but overlook some, which are looked for. What is not written yet stays within two windows a file, so that a slow
//! device shows a smooth rate and a sync finds little left to write.
//!
//! Large files are not read with `RWF_DONTCACHE`: in blocks of 256 KiB that reads a cold disk at 0.53 GB/s,
//! and plain reads with windows of 8 MiB dropped behind at 1.26, as fast as without dropping (2 GiB,
//! ext4, virtual disk, `POSIX_FADV_SEQUENTIAL`).

use std::{
    cell::Cell, fs::File, io, io::IoSlice, io::IoSliceMut, io::Read, num::NonZeroU64, ops::Range,
    os::fd::AsFd, os::fd::AsRawFd, time::Instant,
};

use rustix::{fs::Advice, io::ReadWriteFlags, io::preadv2, io::pwritev2};

use crate::{
    sys::interrupted::uninterrupted, sys::interrupted::write_all, sys::types::CachePolicy,
    sys::types::MOST_LATER, sys::types::ResidentBytes, sys::unix::kind::*,
    sys::unix::system::process::kernel_at_least, sys::unix::system::transfer::AdaptiveChunk,
};

/// The most that is on its way to the device, or looked at, at a time; bytes.
///
/// 1 GiB in four files, ext4 disk, warm, durable, medians of 3 rounds, seconds: 2 MiB: 1.49, 8 MiB: 1.36,
/// 32 MiB: 1.21; when the disk had other work 8 MiB: 2.64, 16 MiB: 2.80, 32 MiB: 2.93. What larger ones
/// gain is not certain, and they leave more unwritten.
const WINDOW: u64 = 8 << 20;

/// Number of windows that are looked at before they are read: the kernel reads ahead, up to twice what is set for the
/// device, which for a file announced as read in sequence counts double too. With the usual 8 MiB of a fast disk that
/// is 32 MiB.
const AHEAD: u64 = 4;

/// Smaller files are not written out before the sync of their group: thousands of small writes
/// would cost more than their pages are worth, which the kernel takes back first (they were used
/// once). Bytes.
///
/// 3,072 files of 128 KiB, ext4 disk, durable, medians of 3 rounds, seconds: 16 KiB: 2.53, 64 KiB: 2.14,
/// 256 KiB: 2.49, 1 MiB: 3.04.
const LEAST: u64 = 64 << 10;

/// From this size on, reading a file is announced to the kernel, and where windows are needed
/// they are used; bytes.
///
/// 768 files of 512 KiB and 384 of 2 MiB, ext4 disk, durable, medians of 2 rounds, seconds: 256 KiB: 3.41,
/// 1 MiB: 2.96, 4 MiB: 3.09.
const LARGE: u64 = 1 << 20;

/// Linux 6.14 (linux/fs.h).
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// The offset that stands for the file's own position (preadv2(2)).
const HERE: u64 = u64::MAX;

impl CachePolicy {
    /// The policy for the file system of an open file or directory.
    pub fn of(at: impl AsFd) -> Self {
        match fs_kind(at) {
            // In memory, with a cache of its own (zfs), or without telling what is in the cache of the file below
            // (overlay).
            Some(TMPFS | RAMFS | HUGETLBFS | ZFS | OVERLAY) | None => Self::None,
            Some(EXT | XFS | F2FS) if kernel_at_least(6, 14) => Self::Flag,
            Some(_) => Self::Windows,
        }
    }
}

/// The pages of a file that is read from its start to its end.
#[derive(Debug, Default)]
pub struct SourcePages {
    policy: Cell<CachePolicy>,
    is_small: bool,
    /// Where the file's position is, as far as that is known.
    at: Cell<Option<u64>>,
    window: Cell<Option<ReadWindow>>,
    /// Size of the file when it was opened; bytes.
    size: u64,
    /// Number of its bytes that were in memory before, if the kernel tells.
    before: Cell<Option<u64>>,
}

/// The window that reading is in.
#[derive(Clone, Copy, Debug)]
struct ReadWindow {
    number: u64,
    /// Bit n says whether nothing of the window n further on was in memory before.
    ours: u64,
    /// Bit 0 of the window before.
    last_ours: bool,
}

impl SourcePages {
    /// For `file` of `size` bytes, of which these pages saw nothing read yet.
    pub fn new(policy: CachePolicy, file: &File, size: u64) -> Self {
        let is_small = size < LARGE;
        if !is_small {
            let _ = rustix::fs::fadvise(file, 0, None, Advice::Sequential);
        }
        let policy = match policy {
            CachePolicy::Flag if !is_small => CachePolicy::Windows,
            policy => policy,
        };
        let told = (policy != CachePolicy::None && !is_small).then(|| cachestat(file, &(0..size)));
        let before = Cell::new(told.flatten().map(|cached| cached.bytes));
        let (at, window) = (Cell::new(None), Cell::default());
        Self { policy: Cell::new(policy), is_small, at, window, size, before }
    }

    /// The file's position was set to `at`.
    pub fn sought(&self, at: u64) {
        self.at.set(Some(at));
    }

    /// Reads on from the file's position.
    pub fn read(&self, mut file: &File, room: &mut [u8]) -> io::Result<usize> {
        if self.policy.get() == CachePolicy::Flag {
            match read_uncached(file, room) {
                Err(error) if is_unknown(&error) => self.policy.set(CachePolicy::Windows),
                read => return read,
            }
        }
        if self.policy.get() == CachePolicy::None || self.is_small {
            return file.read(room);
        }
        let at = match self.at.get() {
            Some(at) => at,
            None => io::Seek::stream_position(&mut file)?,
        };
        let most = usize::try_from(self.before_move(file, at)).unwrap_or(usize::MAX);
        let len = room.len().min(most);
        let read = file.read(&mut room[..len])?;
        self.at.set(Some(at + read as u64));
        Ok(read)
    }

    /// The file is about to be read at `at`, by whatever way; returns how many bytes may be
    /// read before this is called again.
    pub fn before_move(&self, file: &File, at: u64) -> u64 {
        if self.policy.get() == CachePolicy::None || self.is_small {
            return u64::MAX;
        }
        // Moved by the kernel, the file's position is known to the kernel.
        self.at.set(None);
        let number = at / WINDOW;
        let is_ours = |number| {
            let (start, end) = (number * WINDOW, (number + 1) * WINDOW);
            // Behind the end nothing can be in memory.
            start >= self.size || cached(file, start..end).bytes == 0
        };
        let last = self.window.get();
        if last.is_none_or(|last| last.number != number) {
            self.let_go(file);
            let follows = last.filter(|last| last.number + 1 == number);
            let looked_at = follows.map_or(0, |_| AHEAD);
            let mut ours = follows.map_or(0, |last| last.ours >> 1);
            for n in looked_at..=AHEAD {
                ours |= u64::from(is_ours(number + n)) << n;
            }
            let last_ours = follows.is_some_and(|last| last.ours & 1 != 0);
            self.window.set(Some(ReadWindow { number, ours, last_ours }));
        }
        (number + 1) * WINDOW - at
    }

    /// Nothing more is read of the file. Tells, once, what of a large one stays in memory.
    pub fn finish(&self, file: &File) -> ResidentBytes {
        self.let_go(file);
        self.window.set(None);
        let resident = |before| {
            let of = self.size;
            let now = cachestat(file, &(0..of))?.bytes;
            Some(ResidentBytes { bytes: now.saturating_sub(before), of })
        };
        self.before.take().and_then(resident).unwrap_or_default()
    }

    /// Drops what was brought in with the window that reading leaves. What reaches over its edge (pages come in
    /// larger units too) is dropped with the next, so that one starts with the one before.
    fn let_go(&self, file: &File) {
        if let Some(ReadWindow { number, ours, last_ours }) = self.window.get()
            && ours & 1 != 0
        {
            let first = if last_ours { number - 1 } else { number };
            drop_pages(file, first * WINDOW, NonZeroU64::new((number + 1 - first) * WINDOW));
        }
    }
}

/// The pages of a file that is written from its start to its end.
#[derive(Debug)]
pub struct OutputPages {
    policy: CachePolicy,
    /// Up to here it was written, …
    at: u64,
    /// … to here its writing out was begun, …
    begun: u64,
    /// … and up to here waited for.
    settled: u64,
    chunk: AdaptiveChunk,
}

impl Default for OutputPages {
    fn default() -> Self {
        Self::new(CachePolicy::None)
    }
}

impl OutputPages {
    /// For an empty file.
    pub fn new(policy: CachePolicy) -> Self {
        Self { policy, at: 0, begun: 0, settled: 0, chunk: AdaptiveChunk::up_to(WINDOW) }
    }

    /// Writes on from the file's position.
    ///
    /// # Errors
    /// Also what was written before may turn out to be lost.
    pub fn write_all(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        let tiny = self.at == 0 && (bytes.len() as u64) < LEAST;
        let mut rest = bytes;
        while self.policy == CachePolicy::Flag && !tiny && !rest.is_empty() {
            match uninterrupted(|| write_uncached(file, rest)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if is_unknown(&error) => self.policy = CachePolicy::Windows,
                Err(error) => return Err(error),
            }
        }
        write_all(file, rest)?;
        self.at += bytes.len() as u64;
        self.go_on(file)
    }

    /// Number of bytes the kernel may move there before [`moved`](Self::moved) is told, which waits until such a piece
    /// is written out.
    pub fn before_move(&self) -> u64 {
        if self.policy == CachePolicy::None { u64::MAX } else { self.chunk.size() }
    }

    /// Counts bytes that the kernel moved there, which knows no flag for that.
    ///
    /// # Errors
    /// Fails if the data written before turns out to be lost.
    pub fn moved(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        if self.policy == CachePolicy::Flag {
            self.policy = CachePolicy::Windows;
        }
        self.at += bytes;
        self.go_on(file)
    }

    /// Counts bytes that were left out: a hole.
    pub fn skipped(&mut self, bytes: u64) {
        self.at += bytes;
    }

    /// The file is complete; if it `hurries` and is not large, its writing out is begun. What has been
    /// waited for is out of memory; of files that are spared by windows, all of it. Tells what of a large
    /// one stays there besides what is on its way to the device.
    ///
    /// # Errors
    /// Fails if the data written before turns out to be lost.
    pub fn finish(&mut self, file: &File, hurries: bool) -> io::Result<ResidentBytes> {
        if hurries && (1..LARGE).contains(&self.at) {
            self.sync(file, 0, self.at, libc::SYNC_FILE_RANGE_WRITE)?;
        }
        if self.policy == CachePolicy::None || self.at < LARGE {
            return Ok(ResidentBytes::default());
        }
        if matches!(self.policy, CachePolicy::Windows | CachePolicy::Later) {
            self.settle(file, self.at)?;
        }
        if self.policy == CachePolicy::Later {
            return Ok(ResidentBytes::default());
        }
        let now = cachestat(file, &(0..self.at));
        let resident = |CachedBytes { bytes, dirty }| ResidentBytes {
            bytes: bytes.saturating_sub(dirty),
            of: self.at,
        };
        Ok(now.map(resident).unwrap_or_default())
    }

    /// Begins to write out what has come together, and waits for what was begun before.
    fn go_on(&mut self, file: &File) -> io::Result<()> {
        if self.policy == CachePolicy::None || self.at - self.begun < self.chunk.size() {
            return Ok(());
        }
        if matches!(self.policy, CachePolicy::Windows | CachePolicy::Later) {
            self.sync(file, self.begun, self.at, libc::SYNC_FILE_RANGE_WRITE)?;
        }
        let started = Instant::now();
        self.settle(file, self.begun)?;
        self.chunk.took(started.elapsed());
        self.begun = self.at;
        Ok(())
    }

    /// Waits until everything up to `end` is on the device, and lets go of it.
    fn settle(&mut self, file: &File, end: u64) -> io::Result<()> {
        if end > self.settled {
            let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            self.sync(file, self.settled, end, wait)?;
            let from = match self.policy {
                CachePolicy::Later if end <= MOST_LATER => None,
                CachePolicy::Later => {
                    self.policy = CachePolicy::Windows;
                    Some(0)
                }
                // With what reached over the edge last time.
                _ => Some(self.settled.saturating_sub(WINDOW)),
            };
            if let Some(from) = from {
                drop_pages(file, from, NonZeroU64::new(end - from));
            }
            self.settled = end;
        }
        Ok(())
    }

    /// A failed write that is told here is told nowhere else: a later sync of the file says
    /// that all is well.
    fn sync(&mut self, file: &File, from: u64, to: u64, how: libc::c_uint) -> io::Result<()> {
        // SAFETY: numbers only.
        let failed = unsafe {
            libc::sync_file_range(
                file.as_raw_fd(),
                from as libc::off64_t,
                (to - from) as libc::off64_t,
                how,
            )
        } != 0;
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if !failed => Ok(()),
            Some(code) if code == libc::ESPIPE || is_unknown(&error) => {
                self.policy = CachePolicy::None;
                Ok(())
            }
            _ => Err(error),
        }
    }
}

/// True if the kernel or the file system does not know the flag, or a filter of system calls the call.
fn is_unknown(error: &io::Error) -> bool {
    const UNKNOWN: [i32; 4] = [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOSYS, libc::EPERM];
    error.raw_os_error().is_some_and(|code| UNKNOWN.contains(&code))
}

fn read_uncached(file: &File, room: &mut [u8]) -> io::Result<usize> {
    Ok(preadv2(file, &mut [IoSliceMut::new(room)], HERE, DONTCACHE)?)
}

fn write_uncached(file: &File, bytes: &[u8]) -> io::Result<usize> {
    Ok(pwritev2(file, &[IoSlice::new(bytes)], HERE, DONTCACHE)?)
}

// The pages of a file that the kernel holds in memory, and the request to let them go.
//
// Of files that the caller neither owns nor may write the kernel does not tell what is in memory
// (it would tell what others read): `cachestat` refuses, and `mincore` says that everything is.

/// The size of a page; bytes.
fn page() -> u64 {
    rustix::param::page_size() as u64
}

/// The stretch of a file that the kernel holds in memory, by kind of page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedBytes {
    /// Bytes in memory; where that is not told apart, all or none.
    pub bytes: u64,
    /// The bytes of these that may not be on the device yet, by the same rule.
    pub dirty: u64,
}

/// The state of `range` in the kernel's memory; where it does not tell, everything is there.
pub fn cached(file: &File, range: Range<u64>) -> CachedBytes {
    let len = range.end.saturating_sub(range.start);
    if len == 0 {
        return CachedBytes { bytes: 0, dirty: 0 };
    }
    cachestat(file, &range).unwrap_or_else(|| {
        let bytes = if mincore(file, &range).unwrap_or(true) { len } else { 0 };
        CachedBytes { bytes, dirty: bytes }
    })
}

/// Asks the kernel to read of a file what is asked for, and no more: what is beside it may take minutes to fail.
pub fn read_no_more_than_asked(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
}

/// Asks the kernel to drop what it holds of `range` and what is on the device already; to the end
/// of the file if the range has no end. It need not heed it.
pub fn drop_pages(file: &File, from: u64, len: Option<NonZeroU64>) {
    let _ = rustix::fs::fadvise(file, from, len, Advice::DontNeed);
}

/// Has the system drop what it holds of a file, if that is more than it drops by itself first.
pub fn let_go(file: &File) {
    if file.metadata().is_ok_and(|it| it.len() >= LEAST) {
        drop_pages(file, 0, None);
    }
}

/// Since Linux 6.5, for files that the caller owns or may write.
pub(super) fn cachestat(file: &File, range: &Range<u64>) -> Option<CachedBytes> {
    const NUMBER: libc::c_long = 451; // on every architecture
    let range = [range.start, range.end - range.start]; // start and length
    let mut told = [0u64; 5]; // cached, dirty, being written, evicted, recently evicted
    // SAFETY: the call reads two and writes five 64-bit numbers at these places (linux/mman.h,
    // struct cachestat_range and struct cachestat) and keeps neither pointer.
    let failed =
        unsafe { libc::syscall(NUMBER, file.as_raw_fd(), range.as_ptr(), told.as_mut_ptr(), 0u32) };
    let [cached, dirty, being_written, ..] = told.map(|pages| pages.saturating_mul(page()));
    (failed == 0).then_some(CachedBytes { bytes: cached, dirty: dirty + being_written })
}

/// True if anything of the stretch is in memory, by mapping it piece by piece.
pub(super) fn mincore(file: &File, range: &Range<u64>) -> Option<bool> {
    const WINDOW: u64 = 256 << 20;
    let start = range.start - range.start % page();
    let mut states = vec![0u8; (range.end - start).min(WINDOW).div_ceil(page()) as usize];
    for offset in (start..range.end).step_by(WINDOW as usize) {
        let len = (range.end - offset).min(WINDOW) as usize;
        // SAFETY: a new mapping at an address of the kernel's choice, only asked about and never
        // read, and removed before anything else happens. `states` has a byte for each page
        // (mincore(2)).
        let resident = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset as libc::off_t,
            );
            if at == libc::MAP_FAILED {
                return None;
            }
            let told = libc::mincore(at, len, states.as_mut_ptr());
            libc::munmap(at, len);
            let pages = len.div_ceil(page() as usize);
            (told == 0).then(|| states[..pages].iter().any(|state| state & 1 != 0))
        };
        if resident? {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::FileExt;

    #[test]
    fn both_ways_to_ask_agree() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        drop_pages(&file, 0, None);
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        (&file).take(1).read_to_end(&mut Vec::new()).unwrap();
        file.read_exact_at(&mut [0; 10], 900_000).unwrap();
        for range in [0..1 << 20, 0..4096, 8192..16384, 500_000..600_000, 896_000..910_000] {
            let Some(told) = cachestat(&file, &range) else { return };
            assert_eq!(mincore(&file, &range), Some(told.bytes > 0), "{range:?}");
        }
    }
}
