//! Groups of finished files that become durable together.
//!
//! One `syncfs` for many files costs about a sixth of the flushes of an `fsync` for each. A group
//! passes two of them: after the first, the content is on the device and the part files get their
//! final names; after the second, the names are too, and the lines go into the manifest. The second
//! of one group is the first of the next.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::hash::Digest;
use crate::tree::node::{Entry, OutputDir};

/// Files of a group. Durable small files on an ext4 disk, relative to `cp -r && sync -f`: groups of
/// 64: 1.45, 512: 1.16, 4096: 1.20.
const FILES: usize = 512;

/// Bytes of a group: the most that is read again after a crash, and what bounds the time that one
/// sync takes, so that an interrupted run ends soon.
const BYTES: u64 = 256 << 20;

/// Age of a group: a slow trickle of files is recorded this often.
const AGE: Duration = Duration::from_secs(5);

/// A finished part file that waits for its final name.
#[derive(Debug)]
pub struct Waiting {
    pub output: Arc<OutputDir>,
    pub entry: Entry,
    pub part: OsString,
    pub digest: Option<Digest>,
    pub replaces: bool,
}

/// The group that is being gathered.
#[derive(Debug)]
pub struct Group {
    files: Vec<Waiting>,
    bytes: u64,
    /// Changes of directory from one file to the next: at least the number of directories held open.
    dirs: usize,
    most_dirs: usize,
    since: Option<Instant>,
}

impl Group {
    /// An empty group. `open_files` is how many files the process may have open: at most a quarter
    /// of them are directories of the group.
    pub fn new(open_files: u64) -> Self {
        let most_dirs = usize::try_from(open_files / 4).unwrap_or(FILES).clamp(1, FILES);
        Self { files: Vec::new(), bytes: 0, dirs: 0, most_dirs, since: None }
    }

    /// Adds a file.
    pub fn push(&mut self, file: Waiting) {
        if self.files.last().is_none_or(|last| !Arc::ptr_eq(&last.output, &file.output)) {
            self.dirs += 1;
        }
        self.bytes = self.bytes.saturating_add(file.entry.stat.size);
        self.since.get_or_insert_with(Instant::now);
        self.files.push(file);
    }

    /// Whether it is large enough to be committed.
    pub fn is_full(&self) -> bool {
        self.files.len() >= FILES || self.bytes >= BYTES || self.dirs >= self.most_dirs
    }

    /// When it is old enough to be committed; `None` while it is empty.
    pub fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + AGE)
    }

    /// Takes the files out; the group is empty then.
    pub fn take(&mut self) -> Vec<Waiting> {
        (self.bytes, self.dirs, self.since) = (0, 0, None);
        std::mem::take(&mut self.files)
    }
}
