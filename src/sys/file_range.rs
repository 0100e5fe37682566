//! Part of a file, read without its position: by several threads, each at a place of its own.

use std::{fs::File, io, io::Read};

use crate::sys::{has_exact_sizes, interrupted::lasting, read_at};

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
