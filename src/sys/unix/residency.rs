//! What the kernel holds of a file in memory, and asking it to let go.
//!
//! Of files that the caller neither owns nor may write the kernel does not tell what is in memory
//! (it would tell what others read): `cachestat` refuses, and `mincore` says that everything is.

use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsRawFd;

use rustix::fs::Advice;

/// The size of a page; bytes.
fn page() -> u64 {
    rustix::param::page_size() as u64
}

/// What the kernel holds of a stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedBytes {
    /// Bytes in memory; where that is not told apart, all or none.
    pub bytes: u64,
    /// Of these, what may not be on the device yet, by the same rule.
    pub dirty: u64,
}

/// What the kernel holds of `range`; where it does not tell, everything.
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

/// Asks the kernel to drop what it holds of `range` and what is on the device already; to the end
/// of the file if the range has no end. It need not heed it.
pub fn drop_pages(file: &File, from: u64, len: Option<NonZeroU64>) {
    let _ = rustix::fs::fadvise(file, from, len, Advice::DontNeed);
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

/// Whether anything of the stretch is in memory, by mapping it piece by piece.
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
