//! The facts about an open end of a stream, on every system.

use std::{fs::File, io};

use crate::sys::{StreamEnd, stat::Stat};

impl StreamEnd {
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    pub fn file(&self) -> &File {
        &self.file
    }

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

    /// The open file alone.
    pub fn into_file(self) -> File {
        self.file
    }
}
