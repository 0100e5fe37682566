//! Part of a file, read without its position: by several threads, each at a place of its own.

use std::fs::File;
use std::io::{self, Read};

#[cfg(unix)]
use crate::sys::unix::read_at;
#[cfg(windows)]
use crate::sys::windows::read_at;

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

    /// How many of them are left, if the file is long enough.
    pub fn left(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// They end there from now on.
    pub fn extend_to(&mut self, to: u64) {
        self.to = to;
    }
}

impl Read for FileRange<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let now = room.len().min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        let got = read_at(self.file, &mut room[..now], self.from)?;
        self.from += got as u64;
        Ok(got)
    }
}
