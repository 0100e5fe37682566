//! A file read at many places, by many threads, mostly in order.
//!
//! A thread that asks for the line at an offset mostly asks for one nearby soon after, and each thread is at
//! a place of its own. So some stretches of the file are kept, a few under each lock, and most lines cost a
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

/// How many sets of stretches are kept: the number of a stretch gives the one that it belongs to.
const SETS: usize = 16;

/// How many stretches a set keeps: those that were asked last. With one for all, two workers in different
/// directories took it from each other: 71,600 reads where one worker had made 12,200. With 64 sets of one
/// stretch eight workers that met in a set still did: a later run over 500,000 files loaded 37,000 stretches of
/// a record that has 7,800, and with these 8,400.
const KEPT: usize = 4;

/// A file and the stretches of it that were read last.
#[derive(Debug)]
pub struct Window {
    file: File,
    sets: [Mutex<StretchSet>; SETS],
}

/// Stretches that share a lock; the one that was asked last comes first.
#[derive(Debug, Default)]
struct StretchSet([Stretch; KEPT]);

#[derive(Debug, Default)]
struct Stretch {
    /// It is the file from `offset` on.
    buffer: Vec<u8>,
    offset: u64,
}

impl Window {
    /// Takes over a file opened for reading; its position no longer matters.
    pub fn new(file: File) -> Self {
        Self { file, sets: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Gives the line that starts at `offset`, without its LF, to `see`, under the lock. `None` if
    /// no line of up to [`MAX_LINE`] bytes with an LF is there.
    pub fn with_line<T>(&self, offset: u64, see: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        let number = offset / STRETCH;
        let mut set = held(&self.sets[number as usize % SETS]);
        if !set.find(offset) {
            set.make_room().load(&self.file, number * STRETCH, STRETCH + TAIL)?;
        }
        let first = &mut set.0[0];
        if first.line(offset).is_none() {
            first.load(&self.file, offset, MAX_LINE as u64 + 1)?;
        }
        Ok(first.line(offset).map(see))
    }

    /// Reads the bytes from `from` up to `to`, past the stretches that are kept.
    pub fn range(&self, from: u64, to: u64) -> FileRange<'_> {
        FileRange::new(&self.file, from, to)
    }
}

impl StretchSet {
    /// Whether one of them has the line at `offset`; it is the first now.
    fn find(&mut self, offset: u64) -> bool {
        let found = self.0.iter().position(|stretch| stretch.line(offset).is_some());
        if let Some(at) = found {
            self.0[..=at].rotate_right(1);
        }
        found.is_some()
    }

    /// The one that was not asked for the longest time; it is the first now.
    fn make_room(&mut self) -> &mut Stretch {
        self.0.rotate_right(1);
        &mut self.0[0]
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is held is right after every step, so a panic elsewhere leaves nothing half done.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stretch {
    fn line(&self, offset: u64) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let rest = self.buffer.get(at..)?;
        Some(&rest[..memchr(b'\n', rest)?])
    }

    fn load(&mut self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.buffer.clear();
        // A long line is rare: do not keep its memory.
        self.buffer.shrink_to((STRETCH + TAIL) as usize);
        self.buffer.resize(len as usize, 0);
        self.offset = offset;
        let range = FileRange::new(file, offset, offset.saturating_add(len));
        let read = read_whole(range, &mut self.buffer);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

/// Fills `room` with what there is of `range`; how much that is. Mostly one call, where reading to the end
/// of a buffer that grows takes three.
fn read_whole(mut range: FileRange<'_>, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match range.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
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
        // Of these some belong to one set.
        let numbers = [0, 1, 2, 3, 16, 32, 64, 65];
        let places: Vec<u64> = numbers.map(|number| number * STRETCH / 5 * 5 + 5).to_vec();
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
