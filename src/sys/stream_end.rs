//! What is known of an open end of a stream, on every system.

use std::fs::File;

use crate::sys::stat::Stat;
#[cfg(unix)]
use crate::sys::unix::StreamEnd;
#[cfg(windows)]
use crate::sys::windows::StreamEnd;

impl StreamEnd {
    /// What it is.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The open file alone.
    pub fn into_file(self) -> File {
        self.file
    }
}
