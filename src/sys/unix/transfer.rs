//! Letting the kernel move the bytes: sharing them (a clone), or copying them without a detour
//! through this program.
//!
//! Each way is taken only where it says itself that it can; what is said after bytes were moved is
//! an error of the file. Which errors mean "not here", and that a first answer of 0 bytes may come
//! from a file whose content is made up as it is read, is what other copiers learnt the hard way
//! (GNU coreutils, `copy-file-data.c`).

use std::fs::File;
use std::io;
use std::time::Instant;

use rustix::io::Errno;

use crate::sys::chunk_size::AdaptiveChunk;
use crate::sys::interrupted::uninterrupted;
use crate::sys::types::{Cloned, KernelCopy};
use crate::sys::unix::dir::{Dir, PRIVATE};
use crate::sys::unix::process::kernel_at_least;

/// Makes the empty file `to` share the data of `from`, which changes nothing for either until one
/// is written to.
///
/// # Errors
/// Whatever may pass or concerns the device (EIO, ENOMEM, ENOSPC, EDQUOT …): another way must not
/// be tried then, because it is not known what the file holds.
pub fn clone_file(from: &File, to: &File) -> io::Result<Cloned> {
    let cloned = uninterrupted(|| Ok(rustix::fs::ioctl_ficlone(to, from)?));
    match cloned.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
        Ok(()) => Ok(Cloned::Yes),
        Err(no @ (Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS)) => {
            Ok(Cloned::No { cause: no.into(), ever: true })
        }
        // Of one file: in use as swap, protected, another kind of checksum, no whole blocks.
        Err(no @ (Errno::INVAL | Errno::PERM | Errno::ACCESS | Errno::TXTBSY | Errno::BADF)) => {
            Ok(Cloned::No { cause: no.into(), ever: false })
        }
        Err(other) => Err(other.into()),
    }
}

impl Dir {
    /// What comes of cloning one file in this directory to another; `None` where that cannot be told
    /// without leaving anything there.
    pub fn try_clone_within(&self) -> Option<Cloned> {
        match (self.create_nameless(PRIVATE), self.create_nameless(PRIVATE)) {
            (Ok(Some(from)), Ok(Some(to))) => clone_file(&from, &to).ok(),
            _ => None,
        }
    }
}

/// The most that is moved in one call, where it is quick; bytes. A device that was quick as long as
/// memory took everything becomes slow from one call to the next: at 20 MiB/s this takes a second.
///
/// 1 GiB in four files without a digest, medians of 3 and 4 rounds, seconds: ext4 disk 4 MiB: 0.80, 16 MiB: 0.73,
/// 64 MiB: 0.68, each within the spread of the others; tmpfs 0.85, 0.87, 1.03.
const MOST: u64 = 16 << 20;

/// Moves the content of one file into another, from both files' positions on.
#[derive(Debug)]
pub struct Mover {
    way: KernelCopy,
    moved: bool,
    chunk: AdaptiveChunk,
    no_ranges: bool,
}

impl Mover {
    /// A mover that tries `first`, then what comes after it.
    pub fn new(first: KernelCopy) -> Self {
        // Before 5.3 copy_file_range had several defects that lost data.
        let old = first == KernelCopy::Range && !has_sound_copy_file_range();
        let way = match first {
            KernelCopy::Range if old => KernelCopy::Send,
            first => first,
        };
        Self { way, moved: false, chunk: AdaptiveChunk::up_to(MOST), no_ranges: old }
    }

    /// How it moves bytes, as far as it knows.
    pub fn way(&self) -> KernelCopy {
        self.way
    }

    /// Whether `copy_file_range` turned out to be of no use between the two file systems.
    pub fn has_no_ranges(&self) -> bool {
        self.no_ranges
    }

    /// Moves at most `most` bytes, as many as do not take long; 0 at the end of `from`. `None`
    /// when they are to be read and written instead, and then nothing was moved so far.
    pub fn go_on(&mut self, from: &File, to: &File, most: u64) -> io::Result<Option<u64>> {
        loop {
            let len = usize::try_from(self.chunk.size().min(most)).unwrap_or(usize::MAX);
            let started = Instant::now();
            let moved = uninterrupted(|| match self.way {
                KernelCopy::None => Ok(None),
                KernelCopy::Range => {
                    Ok(Some(rustix::fs::copy_file_range(from, None, to, None, len)?))
                }
                KernelCopy::Send => Ok(Some(rustix::fs::sendfile(to, from, None, len)?)),
            });
            let moved = match moved {
                Ok(None) => return Ok(None),
                Ok(Some(bytes)) => Ok(bytes),
                Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            };
            match moved {
                // The stated size may mean nothing: reading will show.
                Ok(0) if !self.moved => self.way = KernelCopy::None,
                Ok(bytes) => {
                    self.moved = true;
                    self.chunk.took(started.elapsed());
                    return Ok(Some(bytes as u64));
                }
                Err(error) if !self.moved && is_not_here(error) => self.next_way(error),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn next_way(&mut self, error: Errno) {
        if self.way == KernelCopy::Range {
            self.no_ranges =
                matches!(error, Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM);
            self.way = KernelCopy::Send;
        } else {
            self.way = KernelCopy::None;
        }
    }
}

/// Whether an error before anything was moved says that this way is not for these files. EBADF is
/// said of a file opened for appending, ENOENT by CIFS, EFBIG where there is no such limit, EPERM by
/// a filter of system calls.
fn is_not_here(error: Errno) -> bool {
    matches!(
        error,
        Errno::XDEV
            | Errno::INVAL
            | Errno::OPNOTSUPP
            | Errno::NOSYS
            | Errno::PERM
            | Errno::ACCESS
            | Errno::FBIG
            | Errno::NOENT
            | Errno::TXTBSY
            | Errno::BADF
    )
}

fn has_sound_copy_file_range() -> bool {
    static SOUND: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *SOUND.get_or_init(|| kernel_at_least(5, 3))
}
