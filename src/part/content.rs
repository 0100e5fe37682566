//! The content of a part file while it grows: bytes, holes, and what the kernel moved there.

use std::{fs::File, io, io::Seek, io::SeekFrom, path::PathBuf, sync::Arc};

use serde::Serialize;

use crate::{
    error::Error, error::Result, io::Segment, io::WatchedFile, io::hash_thread::segments,
    part::Part, path::RelPath, path::Shown, sys, sys::CachePolicy, sys::KernelCopy, sys::Mover,
    sys::OutputPages, sys::ResidentBytes, sys::stat::Stat, tree::OutputDir, tree::SourceDir,
    tree::SourceEntry,
};

/// The open part file, and what is known of the content up to its position.
pub struct PartContent {
    pub file: File,
    /// True if the content ends in a hole, so that the length must be set.
    open_end: bool,
    /// True if the length was set before the content came.
    has_length: bool,
    /// True if zeros are to become holes, so that the bytes must be looked at.
    pub makes_holes: bool,
    /// Its pages in the system's cache.
    pub pages: OutputPages,
    /// The cache policy for these.
    cache: CachePolicy,
    /// The copy method. A clone has its content: what is written to it is there already, and is only passed through.
    pub method: Method,
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

    /// Spares the pages of what is to come in this way.
    pub fn spare(&mut self, cache: CachePolicy) {
        self.cache = cache;
        self.pages = OutputPages::new(cache);
    }

    /// Sets the length before the content comes; `makes_holes` says whether zeros are to become holes.
    pub fn set_length(&mut self, size: u64, makes_holes: bool) -> io::Result<()> {
        self.file.set_len(size)?;
        (self.has_length, self.makes_holes) = (true, makes_holes);
        Ok(())
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

    /// The kernel moved so many bytes there.
    pub fn moved(&mut self, bytes: u64) -> io::Result<()> {
        self.open_end &= bytes == 0;
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
        // Nothing, where the source ends behind a hole, does not close that.
        self.open_end &= bytes.is_empty();
        self.pages.write_all(&self.file, bytes)
    }
}

// The copy methods.

/// The method by which the content of a file came to the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Its data is shared with the source.
    Clone,
    /// Its data is shared with a file at the output that had another name at the source before.
    Renamed,
    /// By the kernel, with `copy_file_range`.
    Range,
    /// By the kernel, with `sendfile`.
    Send,
    /// Read and written.
    #[default]
    ReadWrite,
}

impl Method {
    /// All of them, in the order of `as usize`.
    pub const ALL: [Self; 5] =
        [Self::Clone, Self::Renamed, Self::Range, Self::Send, Self::ReadWrite];
}

/// Number of files that came by a method, and of their bytes, holes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Files whose content moved that way.
    pub files: u64,
    /// The bytes of those files.
    pub bytes: u64,
}

// A part file that takes its content by what moves it, rather than from memory.

impl Part {
    /// Lets `mover` append what `source` has from `at` on, at most `most` bytes; 0 at the end.
    /// `None` when it has to be read and written.
    pub fn take(
        &mut self,
        mover: &mut Mover,
        source: &WatchedFile<'_>,
        at: u64,
        most: u64,
    ) -> Result<Option<u64>> {
        if mover.way() == KernelCopy::None {
            return Ok(None);
        }
        let most = most.min(source.before_move(at));
        self.take_by(most, |part, most| {
            let moved = mover.go_on(source.file(), part.file()?, most);
            moved.map_err(|error| part.or_source_error("copy", source, error))
        })
    }

    /// Lets `moving` append at most as many bytes as it is told, by a way of its own; `None` when
    /// that did nothing.
    pub fn take_by(
        &mut self,
        most: u64,
        moving: impl FnOnce(&Self, u64) -> Result<Option<u64>>,
    ) -> Result<Option<u64>> {
        let moved = moving(self, most.min(self.before_move()))?;
        if let Some(bytes) = moved {
            self.moved(bytes)?;
        }
        Ok(moved)
    }

    /// An error of a call that concerns both files: of the output if the error says so, of the source
    /// otherwise.
    pub fn or_source_error(
        &self,
        deed: &'static str,
        source: &WatchedFile<'_>,
        error: std::io::Error,
    ) -> Error {
        if sys::is_disk_full(&error) || sys::is_output_gone(&error) {
            Error::io("write", self.path(), error)
        } else {
            let path = Shown::path(&self.path()).to_string();
            source.error(deed, error).with_note(format!("; it was on its way to {path}"))
        }
    }
}

// One file that is to be copied: from where, and to where.

/// A file and the way it has to go.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The directory it comes from.
    pub source: Arc<SourceDir>,
    pub target: CopyTarget,
}

/// Where the copy of a file is to stand. It outlives the need for the source's directory, which a file
/// that is complete does not hold open.
#[derive(Clone, Debug)]
pub struct CopyTarget {
    pub output: Arc<OutputDir>,
    /// The file as it was found in the source.
    pub entry: SourceEntry,
    /// True if it replaces something at the output.
    pub replaces: bool,
    /// True if its permissions, owner and attributes could be read and set without a failure.
    pub labelled: bool,
}

impl Transfer {
    /// A file for which nothing has to give way, as far as is known.
    pub fn new(source: Arc<SourceDir>, output: Arc<OutputDir>, entry: SourceEntry) -> Self {
        Self { source, target: CopyTarget { output, entry, replaces: false, labelled: true } }
    }

    /// The file as it was found in the source.
    pub fn entry(&self) -> &SourceEntry {
        &self.target.entry
    }

    /// The full path in the source, for messages.
    pub fn source_path(&self) -> PathBuf {
        self.source.path_of(&self.target.entry.name)
    }
}

impl CopyTarget {
    /// The full path at the output, for messages.
    pub fn path(&self) -> PathBuf {
        self.output.path_of(&self.entry.name)
    }

    /// The path below the root of either side.
    pub fn rel_path(&self) -> RelPath {
        self.output.rel.join(&self.entry.name)
    }

    /// The metadata of the output's entry under the file's name.
    pub fn look(&self) -> Result<Option<Stat>> {
        self.output.look(&self.entry.name)
    }
}
