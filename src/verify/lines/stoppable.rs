//! A list that is read with a look for a request to stop.

use std::fs::File;
use std::io::{self, Read};

use crate::event::Stop;
use crate::hash::{Hasher, Sha256};
use crate::sys::{self, Uninterrupted};

/// Reads a file and looks for a request to stop while it waits: a pipe may be silent for ever.
pub struct StoppableReader<'a> {
    pub file: File,
    pub stop: &'a Stop,
    /// Takes all that is read, if its digest is wanted.
    pub hasher: Option<Hasher>,
}

impl StoppableReader<'_> {
    /// The digest of the whole file, what was not asked for among it.
    pub fn sum(mut self) -> Option<Sha256> {
        self.hasher.as_ref()?;
        io::copy(&mut self, &mut io::sink()).ok()?;
        self.hasher?.finish()?.as_sha256()
    }
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while !sys::wait_readable(&self.file) {
            if self.stop.is_requested() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let read = Uninterrupted(&self.file).read(room)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&room[..read]);
        }
        Ok(read)
    }
}
