//! What a manifest or a list is written anew with: its text as it is read, and where the new one goes.

use std::fs::File;
use std::io::{self, Read};

use crate::hash::Hasher;
use crate::manifest::lists::ListKind;
use crate::sys::{self, Uninterrupted};

/// Takes the bytes that a list is written anew with, and hashes them.
pub struct ListSink {
    pub file: File,
    pub hasher: Hasher,
}

impl ListSink {
    /// Appends bytes.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        sys::write_all(&self.file, bytes)
    }
}

/// Writes a list, or without a kind the manifest, anew from its text; false if the run is to stop.
pub type Rewrite<'a> =
    dyn FnMut(Option<ListKind>, &mut dyn Read, &mut ListSink) -> io::Result<bool> + 'a;

/// Hashes what is read of a file.
pub struct HashedReader {
    pub file: File,
    pub hasher: Hasher,
}

impl Read for HashedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = Uninterrupted(&self.file).read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
