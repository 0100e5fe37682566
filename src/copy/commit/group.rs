//! Groups of finished files that become durable together.
//!
//! One `syncfs` for many files costs about a sixth of the flushes of an `fsync` for each. A group
//! passes two of them: after the first, the content is on the device and the part files get their
//! final names; after the second, the names are too, and the lines go into the manifest. The second
//! of one group is the first of the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::transfer::outcome::PendingPublish;

/// Files of a group. Durable small files on an ext4 disk, relative to `cp -r && sync -f`: groups of
/// 64: 1.45, 512: 1.16, 4096: 1.20.
pub const FILES: usize = 512;

/// Bytes of a group: the most that is read again after a crash, and what bounds the time that one
/// sync takes, so that an interrupted run ends soon.
pub const BYTES: u64 = 256 << 20;

/// Age of a group: a slow trickle of files is recorded this often.
const AGE: Duration = Duration::from_secs(5);

/// The group that is being gathered.
#[derive(Debug)]
pub struct Group {
    files: Vec<PendingPublish>,
    bytes: u64,
    /// Changes of directory from one file to the next: at least the number of directories held open.
    dirs: usize,
    most_dirs: usize,
    since: Option<Instant>,
}

/// How many directories the files of a group may be in, for a process that may have so many files
/// open: a quarter of these are directories that the group holds. If it is `verified`, the source's are
/// held too, and those of copies that are being read back: as many as of two groups.
pub fn most_dirs(open_files: u64, verified: bool) -> usize {
    let share = if verified { 4 * 2 * 3 } else { 4 };
    usize::try_from(open_files / share).unwrap_or(FILES).clamp(1, FILES)
}

impl Group {
    /// An empty group with files of at most so many directories.
    pub fn new(most_dirs: usize) -> Self {
        Self { files: Vec::new(), bytes: 0, dirs: 0, most_dirs, since: None }
    }

    pub fn push(&mut self, file: PendingPublish) {
        if self
            .files
            .last()
            .is_none_or(|last| !Arc::ptr_eq(&last.target.output, &file.target.output))
        {
            self.dirs += 1;
        }
        self.bytes = self.bytes.saturating_add(file.target.entry.stat.size);
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
    pub fn take(&mut self) -> Vec<PendingPublish> {
        (self.bytes, self.dirs, self.since) = (0, 0, None);
        std::mem::take(&mut self.files)
    }
}
