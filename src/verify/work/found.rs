//! A listed file that was found and is open.

use std::fs::File;
use std::io;

use crate::hash::Digest;
use crate::path::RelPath;
use crate::sys::stat::Stat;
use crate::sys::{self, Dir, Medium};

/// A file that was found.
pub struct FoundFile {
    pub file: File,
    /// What it was then.
    pub stat: Stat,
    /// The name it was found by, if not the one it was looked for by.
    pub converted: Option<RelPath>,
}

impl FoundFile {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.stat.size
    }

    /// Its medium.
    ///
    /// # Errors
    /// What was in memory only could not be written.
    pub fn medium(&self) -> io::Result<Medium<'_>> {
        Medium::of(&self.file, &self.stat)
    }

    /// Whether it still has the size that it had when it was found, and no more content than that.
    pub fn is_still_as_large(&self) -> bool {
        Dir::stat_file(&self.file).is_ok_and(|now| now.size == self.stat.size)
            && sys::ends_at(&self.file, self.stat.size).unwrap_or(false)
    }
}

/// A file that was found, and what is listed of it.
#[derive(Clone, Copy)]
pub struct ListedFile<'a> {
    pub path: &'a RelPath,
    pub found: &'a FoundFile,
    /// The digest that is listed.
    pub digest: &'a Digest,
    /// Others that are listed of it.
    pub further: &'a [Digest],
}
