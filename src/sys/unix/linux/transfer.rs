//! Letting the kernel move the bytes: sharing them (a clone), or copying them without a detour
//! through this program.
//!
//! Each way is taken only where it says itself that it can; what is said after bytes were moved is
//! an error of the file. Which errors mean "not here", and that a first answer of 0 bytes may come
//! from a file whose content is made up as it is read, is what other copiers learnt the hard way
//! (GNU coreutils, `copy-file-data.c`).

use std::{fs::File, io, sync::OnceLock, time::Duration, time::Instant};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::sys::types::{Cloned, KernelCopy, Spliced};
use crate::{
    sys::interrupted::uninterrupted, sys::unix::dir::Dir, sys::unix::dir::PRIVATE,
    sys::unix::process::wait_readable, sys::unix::process::wait_writable,
    sys::unix::system::process::kernel_at_least,
};

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
    /// The result of cloning one file in this directory to another; `None` where it cannot be told without leaving
    /// anything there.
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

    /// The way in which it moves bytes, as far as it knows.
    pub fn way(&self) -> KernelCopy {
        self.way
    }

    /// True if `copy_file_range` turned out to be of no use between the two file systems.
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

/// True if an error before anything was moved says that this way is not for these files. EBADF is said of a file opened
/// for appending, ENOENT by CIFS, EFBIG where there is no such limit, EPERM by a filter of system calls.
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

// Pipes whose bytes the kernel moves: splice(2) hands pages on where read(2) and write(2) copy them
// twice, and tee(2) lets two pipes have the same pages.
//
// Neither waits here, so that a signal is seen: a tenth of a second at most, for whichever of the two
// has nothing or no room.

/// Makes a pipe, to be read from the first and written to the second, as large as it may be.
pub fn pipe() -> io::Result<(File, File)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let (read, write) = (File::from(read), File::from(write));
    widen(&write);
    Ok((read, write))
}

/// Lets a pipe hold as much as the system allows: fewer turns of those at its ends. Anything but a pipe
/// stays as it is, and so does a pipe whose user has too many large ones.
pub fn widen(pipe: &File) {
    if let Ok(size) = fcntl_getpipe_size(pipe)
        && size < most()
    {
        let _ = fcntl_setpipe_size(pipe, most());
    }
}

/// Number of bytes a pipe can hold; 0 if it is none.
pub fn capacity(pipe: &File) -> u64 {
    fcntl_getpipe_size(pipe).map_or(0, |size| size as u64)
}

/// `/proc/sys/fs/pipe-max-size`, which root may go beyond, but should not.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/fs/pipe-max-size");
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    })
}

/// Moves up to `most` bytes between a pipe and something else, from the positions of both on.
pub fn splice(from: &File, to: &File, most: u64) -> io::Result<Spliced> {
    let len = usize::try_from(most).unwrap_or(usize::MAX);
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    told(rustix::pipe::splice(from, None, to, None, len, flags), from, to)
}

/// Lets a pipe have up to `most` bytes of what is in another, where they stay.
pub fn tee(from: &File, to: &File, most: u64) -> io::Result<Spliced> {
    let len = usize::try_from(most).unwrap_or(usize::MAX);
    told(rustix::pipe::tee(from, to, len, SpliceFlags::NONBLOCK), from, to)
}

fn told(moved: rustix::io::Result<usize>, from: &File, to: &File) -> io::Result<Spliced> {
    match moved {
        Ok(bytes) => Ok(Spliced::Bytes(bytes as u64)),
        Err(Errno::AGAIN) => {
            // Of a file one can always read, so what has no room is waited for then.
            if wait_readable(from) {
                wait_writable(to);
            }
            Ok(Spliced::Wait)
        }
        Err(Errno::INTR) => Ok(Spliced::Wait),
        // Appended to, made up as it is read, or a device that knows only reading and writing.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => Ok(Spliced::NotHere),
        Err(other) => Err(other.into()),
    }
}

// The amount of work of one call: enough that the call costs nothing beside the work, and little enough that progress
// is counted and a request to stop is seen in time.

/// The first chunk has this size: on a device of 1 MiB/s it takes a second.
const FIRST: u64 = 1 << 20;

/// A chunk that took less than this is followed by one twice as large …
const QUICK: Duration = Duration::from_millis(50);

/// … and one that took more than this, by one half as large.
const SLOW: Duration = Duration::from_millis(250);

/// The size of the next chunk, in bytes, as the device turns out to need it.
#[derive(Debug)]
pub struct AdaptiveChunk {
    next: u64,
    most: u64,
}

impl AdaptiveChunk {
    /// Chunks of at most `most` bytes.
    pub fn up_to(most: u64) -> Self {
        Self { next: FIRST.min(most), most }
    }

    /// Number of bytes to move in the next call.
    pub fn size(&self) -> u64 {
        self.next
    }

    /// Takes in how long the last chunk took.
    pub fn took(&mut self, time: Duration) {
        if time < QUICK {
            self.next = (self.next * 2).min(self.most);
        } else if time > SLOW {
            self.next = (self.next / 2).max(FIRST.min(self.most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_device() {
        let mut chunk = AdaptiveChunk::up_to(16 << 20);
        for expected in [1, 2, 4, 8, 16, 16] {
            assert_eq!(chunk.size(), expected << 20);
            chunk.took(Duration::from_millis(1));
        }
        chunk.took(Duration::from_millis(100));
        assert_eq!(chunk.size(), 16 << 20);
        for expected in [8, 4, 2, 1, 1] {
            chunk.took(Duration::from_secs(1));
            assert_eq!(chunk.size(), expected << 20);
        }
        assert_eq!(AdaptiveChunk::up_to(100).size(), 100);
    }
}
