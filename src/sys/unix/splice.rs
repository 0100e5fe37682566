//! Pipes whose bytes the kernel moves: splice(2) hands pages on where read(2) and write(2) copy them
//! twice, and tee(2) lets two pipes have the same pages.
//!
//! Neither waits here, so that a signal is seen: a tenth of a second at most, for whichever of the two
//! has nothing or no room.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::sys::types::Spliced;
use crate::sys::unix::process::{wait_readable, wait_writable};

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

/// How many bytes a pipe can hold; 0 if it is none.
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
