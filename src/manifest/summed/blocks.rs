//! A summed file in blocks, which are hashed as they come: all of it but the sum in its last record.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::hash::{Digest, Hasher};
use crate::manifest::summed::trailer::{MOST_TRAILER, SUM};
use crate::sys::{self, PlainUse, Uninterrupted};

/// Bytes of a block, but for the last.
pub const BLOCK: usize = 256 << 10;

/// Where the blocks of a summed file come from.
pub trait Blocks {
    /// Puts the next block in the place of one that was used; false at the end of the file.
    fn next_block(&mut self, block: &mut Vec<u8>) -> io::Result<bool>;

    /// The sum of everything before the last blank, behind which the sum is stated, once the end was reached.
    fn sum(&self) -> Option<Digest>;
}

/// A file that is read and hashed by the thread that asks for its blocks.
#[derive(Debug)]
pub struct SummedFile {
    file: Uninterrupted<File>,
    hasher: Hasher,
    /// The end of what was read, which may be that of the file.
    held: Vec<u8>,
    sum: Option<Digest>,
}

impl SummedFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// It cannot be opened, or is no plain file.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A FIFO in its place would be waited for.
        let file = Uninterrupted(sys::open_plain(path, PlainUse::Read)?);
        Ok(Self { file, hasher: SUM.start(), held: Vec::new(), sum: None })
    }

    pub fn into_file(self) -> File {
        self.file.0
    }

    /// Hashes a block but for as much of the end of all that was read as the last record may take.
    fn take(&mut self, block: &[u8]) {
        let Self { hasher, held, .. } = self;
        let known = (held.len() + block.len()).saturating_sub(MOST_TRAILER);
        let (of_held, of_block) = (known.min(held.len()), known.saturating_sub(held.len()));
        hasher.update(&held[..of_held]);
        hasher.update(&block[..of_block]);
        held.drain(..of_held);
        held.extend_from_slice(&block[of_block..]);
    }

    /// Hashes what was held back up to the sum.
    fn finish(&mut self) {
        let before_sum = memchr::memrchr(b' ', &self.held).map_or(0, |at| at + 1);
        let mut hasher = self.hasher.clone();
        hasher.update(&self.held[..before_sum]);
        self.sum = hasher.finish();
    }
}

impl Blocks for SummedFile {
    fn next_block(&mut self, block: &mut Vec<u8>) -> io::Result<bool> {
        match block.is_empty() {
            true => *block = vec![0; BLOCK],
            false => block.resize(BLOCK, 0),
        }
        let mut filled = 0;
        while filled < BLOCK {
            match self.file.read(&mut block[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        block.truncate(filled);
        match filled {
            0 => self.finish(),
            _ => self.take(block),
        }
        Ok(filled > 0)
    }

    fn sum(&self) -> Option<Digest> {
        self.sum
    }
}
