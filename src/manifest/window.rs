//! A file read at many places, by many threads, mostly in order.
//!
//! Whoever asks for the line at an offset mostly asks for one nearby soon after. So a stretch of the
//! file is kept under a lock, and most lines cost a search in memory and no system call.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memchr;

use super::scan::MAX_LINE;

/// How much is read at a time, in bytes, unless a line needs more.
const STRETCH: u64 = 64 * 1024;

/// How much of a stretch lies before the line that was asked for: lines are asked for by several
/// threads, so slightly out of order.
const BEFORE: u64 = STRETCH / 4;

/// A file and the stretch of it that was read last.
#[derive(Debug)]
pub struct Window(Mutex<Held>);

#[derive(Debug)]
struct Held {
    file: File,
    /// `buffer[..len]` is the file from `offset` on.
    buffer: Vec<u8>,
    offset: u64,
}

impl Window {
    /// Takes over a file opened for reading; its position no longer matters.
    pub fn new(file: File) -> Self {
        Self(Mutex::new(Held { file, buffer: Vec::new(), offset: 0 }))
    }

    /// The length of the file in bytes, as it is now.
    pub fn file_len(&self) -> io::Result<u64> {
        Ok(self.held().file.metadata()?.len())
    }

    /// Gives the line that starts at `offset`, without its LF, to `see`, under the lock. `None` if
    /// no line of up to [`MAX_LINE`] bytes with an LF is there.
    pub fn with_line<T>(&self, offset: u64, see: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        let mut held = self.held();
        if held.line(offset).is_none() {
            held.load(offset.saturating_sub(BEFORE), STRETCH)?;
        }
        if held.line(offset).is_none() {
            held.load(offset, MAX_LINE as u64 + 1)?;
        }
        Ok(held.line(offset).map(see))
    }

    /// Reads the bytes from `from` up to `to`, past the stretch that is kept.
    pub fn range(&self, from: u64, to: u64) -> RangeReader<'_> {
        RangeReader { window: self, from, to }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // What is held is right after every step, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn line(&self, offset: u64) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let rest = self.buffer.get(at..)?;
        Some(&rest[..memchr(b'\n', rest)?])
    }

    fn load(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.buffer.clear();
        // A long line is rare: do not keep its memory.
        self.buffer.shrink_to(STRETCH as usize);
        self.buffer.reserve_exact(len as usize);
        self.offset = offset;
        self.file.seek(SeekFrom::Start(offset))?;
        (&self.file).take(len).read_to_end(&mut self.buffer)?;
        Ok(())
    }
}

/// Reads a range of a [`Window`]'s file, whatever others read meanwhile.
#[derive(Debug)]
pub struct RangeReader<'a> {
    window: &'a Window,
    from: u64,
    to: u64,
}

impl Read for RangeReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.to.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let now = buffer.len().min(left);
        let mut held = self.window.held();
        held.file.seek(SeekFrom::Start(self.from))?;
        let got = held.file.read(&mut buffer[..now])?;
        self.from += got as u64;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn window(bytes: &[u8]) -> Window {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Window::new(file)
    }

    fn line(window: &Window, offset: u64) -> Option<Vec<u8>> {
        window.with_line(offset, <[u8]>::to_vec).unwrap()
    }

    #[test]
    fn finds_lines_wherever_they_are() {
        let mut bytes = Vec::new();
        let mut lines = Vec::new();
        for len in (0..4000).map(|i| i % 97).chain([100_000, MAX_LINE, 3]) {
            let text = vec![b'a' + (len % 26) as u8; len];
            lines.push((bytes.len() as u64, text.clone()));
            bytes.extend_from_slice(&text);
            bytes.push(b'\n');
        }
        let window = window(&bytes);
        for step in [1, 7, lines.len() - 1, 1999] {
            for at in (0..lines.len()).map(|i| i * step % lines.len()) {
                assert_eq!(line(&window, lines[at].0).as_ref(), Some(&lines[at].1), "line {at}");
            }
        }
        let mut read = Vec::new();
        window.range(3, 200_000).read_to_end(&mut read).unwrap();
        assert!(read == bytes[3..200_000]);
    }

    #[test]
    fn a_line_without_an_end_is_none() {
        let too_long = vec![b'x'; MAX_LINE + 1];
        let window = window(&[b"whole\n", &too_long[..], b"\ntorn"].concat());
        assert_eq!(line(&window, 0).as_deref(), Some(&b"whole"[..]));
        assert_eq!(line(&window, 6), None);
        let torn = 6 + too_long.len() as u64 + 1;
        assert_eq!(line(&window, torn), None);
        assert_eq!(line(&window, torn + 1000), None);
        assert_eq!(line(&window, u64::from(u32::MAX) * 4), None);
    }
}
