//! Reading and writing what is open, on every system: calls that a signal interrupted are made again, but not for ever.

use std::io::{ErrorKind, Read, Write};
use std::{fs::File, io};

use crate::sys::{StreamEnd, has_exact_sizes, read_at};

/// Number of times that a call is made again without anything coming of it. Signals come one at a time: what is
/// interrupted more often than this is interrupted by something else (a FUSE server, a filter of system calls), and
/// without an end to it a request to stop would never be seen.
const MOST: u32 = 1000;

/// Makes a call again as long as it is interrupted; after a thousand times that is its error.
///
/// # Errors
/// Those of the call.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..MOST {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
    call()
}

/// Writes all of `bytes`, as [`Write::write_all`] does, but without trying again for ever.
///
/// # Errors
/// Those of the writer, and [`WriteZero`](ErrorKind::WriteZero) if it takes nothing.
pub fn write_all(mut to: impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match uninterrupted(|| to.write(bytes))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => bytes = bytes.get(written..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// The same for readers and writers that make an interrupted call again for ever: what does not end is another
/// error to them.
///
/// # Errors
/// Those of the call.
pub(super) fn lasting<T>(call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    uninterrupted(call).map_err(|error| match error.kind() {
        ErrorKind::Interrupted => io::Error::other("each call was interrupted"),
        _ => error,
    })
}

/// A file for readers and writers that make an interrupted call again for ever, as those of the standard
/// library do: what does not end is another error to them.
#[derive(Debug)]
pub struct Uninterrupted<F>(pub F);

impl<F> Uninterrupted<F> {
    fn call<T>(&mut self, mut call: impl FnMut(&mut F) -> io::Result<T>) -> io::Result<T> {
        lasting(|| call(&mut self.0))
    }
}

impl<R: Read> Read for Uninterrupted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.call(|file| file.read(room))
    }
}

impl<W: Write> Write for Uninterrupted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call(|file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call(W::flush)
    }
}

// Part of a file, read without its position: by several threads, each at a place of its own.

/// The bytes of a file from one offset up to another.
#[derive(Debug)]
pub struct FileRange<'a> {
    file: &'a File,
    from: u64,
    to: u64,
}

impl<'a> FileRange<'a> {
    /// Those from `from` up to `to`, or to the end of the file.
    pub fn new(file: &'a File, from: u64, to: u64) -> Self {
        Self { file, from, to }
    }

    /// Number of bytes left, if the file is long enough.
    pub fn left(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// They end there from now on.
    pub fn extend_to(&mut self, to: u64) {
        self.to = to;
    }
}

/// True if the content of a file of `size` bytes ends where its size says. Where sizes are not exact, only a read
/// tells.
///
/// # Errors
/// It could not be read.
pub fn ends_at(file: &File, size: u64) -> io::Result<bool> {
    Ok(has_exact_sizes(file) || read_at(file, &mut [0], size)? == 0)
}

impl Read for FileRange<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let now = room.len().min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        let from = self.from;
        let got = lasting(|| read_at(self.file, &mut room[..now], from))?;
        self.from += got as u64;
        Ok(got)
    }
}

// The facts about an open end of a stream, on every system.

impl StreamEnd {
    /// Writes all of `bytes`; false if it was to stop before that was done, which is asked for each piece.
    pub fn write_all(&self, bytes: &[u8], is_to_stop: impl Fn() -> bool) -> io::Result<bool> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if is_to_stop() {
                return Ok(false);
            }
            match self.write(rest)? {
                None => {}
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(written) => rest = rest.get(written..).unwrap_or_default(),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes three bytes at each third call.
    struct Interrupting(u32, Vec<u8>);

    impl Write for Interrupting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            if !self.0.is_multiple_of(3) {
                return Err(ErrorKind::Interrupted.into());
            }
            let taken = bytes.len().min(3);
            self.1.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn interruptions_are_passed_over_unless_there_is_nothing_else() {
        let mut to = Interrupting(0, Vec::new());
        write_all(&mut to, b"ten bytes.").unwrap();
        assert_eq!(to.1, b"ten bytes.");
        let mut calls = 0;
        let error = uninterrupted(|| {
            calls += 1;
            Err::<(), _>(ErrorKind::Interrupted.into())
        });
        assert_eq!((error.unwrap_err().kind(), calls), (ErrorKind::Interrupted, MOST + 1));
    }
}
