//! A file read at many places, by many threads, mostly in order.
//!
//! A thread that asks for the line at an offset mostly asks for one nearby soon after, and each thread is at
//! a place of its own. So some stretches of the file are kept, each under a lock, and most lines cost a
//! search in memory and no system call.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memchr;

use crate::manifest::read::scan::MAX_LINE;
use crate::sys::FileRange;

/// A file is cut into stretches of so many bytes, which are read at a time.
const STRETCH: u64 = 8 * 1024;

/// So much more is read, so that the last line of a stretch is mostly whole; bytes.
const TAIL: u64 = 1024;

/// How many stretches are kept, each in the place that its number gives. With one for all, two workers
/// in different directories took it from each other: 71,600 reads where one worker had made 12,200. With 16 of
/// 32 KiB ten workers still did: they read 330 MB of a file of 7 MB.
const KEPT: usize = 64;

/// A file and the stretches of it that were read last.
#[derive(Debug)]
pub struct Window {
    file: File,
    kept: [Mutex<HeldWindow>; KEPT],
}

#[derive(Debug, Default)]
struct HeldWindow {
    /// `buffer[..len]` is the file from `offset` on.
    buffer: Vec<u8>,
    offset: u64,
}

impl Window {
    /// Takes over a file opened for reading; its position no longer matters.
    pub fn new(file: File) -> Self {
        Self { file, kept: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Gives the line that starts at `offset`, without its LF, to `see`, under the lock. `None` if
    /// no line of up to [`MAX_LINE`] bytes with an LF is there.
    pub fn with_line<T>(&self, offset: u64, see: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        let number = offset / STRETCH;
        let mut held = held(&self.kept[number as usize % KEPT]);
        if held.line(offset).is_none() {
            held.load(&self.file, number * STRETCH, STRETCH + TAIL)?;
        }
        if held.line(offset).is_none() {
            held.load(&self.file, offset, MAX_LINE as u64 + 1)?;
        }
        Ok(held.line(offset).map(see))
    }

    /// Reads the bytes from `from` up to `to`, past the stretch that is kept.
    pub fn range(&self, from: u64, to: u64) -> FileRange<'_> {
        FileRange::new(&self.file, from, to)
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is held is right after every step, so a panic elsewhere leaves nothing half done.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeldWindow {
    fn line(&self, offset: u64) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let rest = self.buffer.get(at..)?;
        Some(&rest[..memchr(b'\n', rest)?])
    }

    fn load(&mut self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.buffer.clear();
        // A long line is rare: do not keep its memory.
        self.buffer.shrink_to((STRETCH + TAIL) as usize);
        self.buffer.reserve_exact(len as usize);
        self.offset = offset;
        FileRange::new(file, offset, offset.saturating_add(len)).read_to_end(&mut self.buffer)?;
        Ok(())
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
    fn threads_at_places_of_their_own_do_not_take_them_from_each_other() {
        let window = window(&b"line\n".repeat(200_000));
        let places: Vec<u64> = (0..8).map(|i| i * (STRETCH + 3) / 5 * 5).collect();
        let lines = || places.iter().map(|at| line(&window, *at));
        assert!(lines().all(|line| line.is_some_and(|line| line == b"line")));
        // What is still known now was not read again.
        window.file.set_len(0).unwrap();
        assert!(lines().all(|line| line.is_some_and(|line| line == b"line")));
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
