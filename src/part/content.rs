//! The content of a part file while it grows: bytes, holes, and what the kernel moved there.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use crate::io::zero_runs::{Segment, segments};
use crate::part::method::Method;
use crate::sys::{self, CachePolicy, OutputPages, ResidentBytes};

/// The open part file, and what is known of the content up to its position.
pub struct PartContent {
    file: File,
    /// Whether the content ends in a hole, so that the length must be set.
    open_end: bool,
    /// Whether the length was set before the content came.
    has_length: bool,
    /// Whether zeros are to become holes.
    makes_holes: bool,
    /// Its pages in the system's cache.
    pages: OutputPages,
    /// How these are spared.
    cache: CachePolicy,
    /// How the content came.
    method: Method,
}

impl PartContent {
    /// No content yet, in an open file.
    pub fn new(file: File, makes_holes: bool) -> Self {
        Self {
            file,
            open_end: false,
            has_length: false,
            makes_holes,
            pages: OutputPages::default(),
            cache: CachePolicy::default(),
            method: Method::default(),
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file, to be closed.
    pub fn into_file(self) -> File {
        self.file
    }

    /// How the content came.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The content came by `method`. A clone has its content: what is written to it from then on is
    /// there already, and is only passed through.
    pub fn set_method(&mut self, method: Method) {
        self.method = method;
    }

    /// Whether zeros are to become holes, so that the bytes must be looked at.
    pub fn makes_holes(&self) -> bool {
        self.makes_holes
    }

    /// Spares the pages of what is to come in this way.
    pub fn spare(&mut self, cache: CachePolicy) {
        self.cache = cache;
        self.pages = OutputPages::new(cache);
    }

    /// The content up to `offset` is there already.
    pub fn begin_at(&mut self, offset: u64) {
        self.pages.skipped(offset);
    }

    /// Sets the length before the content comes; `makes_holes` says whether zeros are to become holes.
    pub fn set_length(&mut self, size: u64, makes_holes: bool) -> io::Result<()> {
        self.file.set_len(size)?;
        (self.has_length, self.makes_holes) = (true, makes_holes);
        Ok(())
    }

    /// From now on zeros become holes.
    pub fn make_holes(&mut self) {
        self.makes_holes = true;
    }

    /// Removes all of it.
    pub fn clear(&mut self) -> io::Result<()> {
        self.open_end = false;
        self.spare(self.cache);
        self.file.set_len(0)?;
        self.file.rewind()
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match (self.method, self.makes_holes) {
            (Method::Clone, _) => Ok(()),
            (_, true) => self.write_with_holes(bytes),
            (_, false) => self.append(bytes),
        }
    }

    /// Appends bytes, leaving a hole for every aligned run of 4096 zero bytes.
    fn write_with_holes(&mut self, bytes: &[u8]) -> io::Result<()> {
        segments(bytes).try_for_each(|segment| match segment {
            Segment::Zeros(len) => self.skip(len as u64),
            Segment::Data(bytes) => self.append(bytes),
        })
    }

    /// Appends a hole of `len` bytes.
    pub fn skip(&mut self, len: u64) -> io::Result<()> {
        if self.method == Method::Clone {
            return Ok(());
        }
        self.open_end = true;
        self.pages.skipped(len);
        sys::allow_holes(&self.file);
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        sys::uninterrupted(|| self.file.seek(SeekFrom::Current(len))).map(drop)
    }

    /// How many bytes may be moved there before [`moved`](Self::moved) is told.
    pub fn before_move(&self) -> u64 {
        self.pages.before_move()
    }

    /// The kernel moved so many bytes there.
    pub fn moved(&mut self, bytes: u64) -> io::Result<()> {
        self.open_end = false;
        self.pages.moved(&self.file, bytes)
    }

    /// Makes the file at least as long as the content, which may end in a hole.
    pub fn cover_position(&mut self) -> io::Result<()> {
        let at = self.file.stream_position()?;
        if self.file.metadata()?.len() < at { self.file.set_len(at) } else { Ok(()) }
    }

    /// The content is complete. A hole at the end needs the length set; so does what ends before the
    /// length that was set for it, because the stated size of a file whose content is made up as it is
    /// read means nothing.
    pub fn end(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.open_end) && !self.has_length {
            return Ok(());
        }
        let end = self.file.stream_position()?;
        self.file.set_len(end)
    }

    /// Writes out what is spared, or all of it if it `hurries`; what stays in memory.
    pub fn write_out(&mut self, hurries: bool) -> io::Result<ResidentBytes> {
        self.pages.finish(&self.file, hurries)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open_end = false;
        self.pages.write_all(&self.file, bytes)
    }
}
