//! Counters of a run that another thread may read while it goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crate::event::timing::Timings;

/// How far a run is. Read it from any thread, at any time.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of files that were read and written, holes and files already there included.
    pub bytes: AtomicU64,
    /// How many of these were neither read nor written by this run: files and beginnings of files
    /// that were there already. A rate is of the others.
    pub skipped: AtomicU64,
    /// Bytes of copies that were read back from their medium.
    pub read_back: AtomicU64,
    /// Files and links that are done, whatever became of them.
    pub entries: AtomicU64,
    /// The same, and files that are written and wait to become durable and get their names: thousands of small ones
    /// become durable at once.
    pub handled: AtomicU64,
    /// Entries that failed.
    pub failed: AtomicU64,
    /// Bytes that there are to do, as far as counted.
    pub total_bytes: AtomicU64,
    /// Entries that there are to do, as far as counted.
    pub total_entries: AtomicU64,
    /// Whether the two totals are final.
    pub counted: AtomicBool,
    /// Whether a thread counts the totals, or has: a second would add the same once more.
    pub(crate) counting: AtomicBool,
    /// Whether a program shows the progress; otherwise no file in hand is kept, and no total is counted for it.
    pub watched: AtomicBool,
    /// Where the time goes, as far as it is measured.
    pub(crate) timings: Timings,
    in_hand: Mutex<Weak<FileInHand>>,
    ended: OnceLock<RunEnd>,
}

/// A file that is being worked on.
#[derive(Debug)]
pub struct FileInHand {
    /// Its path below the root.
    pub path: Vec<u8>,
    /// Its size in bytes; 0 if it is one of many small ones, whose own progress is not counted.
    pub size: u64,
    /// How much of it was read; bytes.
    pub done: AtomicU64,
}

/// How a run to one of several outputs ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// What is at the output.
    pub state: EndState,
    /// How long the run to it took.
    pub elapsed: Duration,
}

/// What is at an output when its run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    /// Nothing new: the run to it was refused.
    Refused,
    /// Not everything, or what is there is not as the source is.
    Amiss,
    /// Everything, and what of it was written may not be on the disk yet.
    Written,
    /// Everything, durably.
    Durable,
    /// Everything, durably, and all of it was read back from the device.
    ReadBack,
    /// Everything, durably; some of it could be read back only through a cache.
    ReadThroughCache,
}

impl Progress {
    /// So many bytes were there already.
    pub fn skip(&self, bytes: u64) {
        self.skipped.fetch_add(bytes, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// So many bytes were read and written, or read to be checked; of this file, if it is the one in hand.
    pub(crate) fn advance(&self, bytes: u64, of: Option<&FileInHand>) {
        self.bytes.fetch_add(bytes, Relaxed);
        if let Some(file) = of {
            file.done.fetch_add(bytes, Relaxed);
        }
    }

    /// Takes in hand a file of this size, whose path below the root `path` appends. It is the one that is shown
    /// until what is returned is dropped, unless a larger one is shown or no program looks.
    pub(crate) fn take_in_hand(
        &self,
        size: u64,
        path: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Arc<FileInHand>> {
        if !self.watched.load(Relaxed) {
            return None;
        }
        let mut shown = self.in_hand.try_lock().ok()?;
        if shown.upgrade().is_some_and(|other| other.size > size && !other.is_done()) {
            return None;
        }
        let mut file = FileInHand { path: Vec::new(), size, done: AtomicU64::new(0) };
        path(&mut file.path);
        let file = Arc::new(file);
        *shown = Arc::downgrade(&file);
        Some(file)
    }

    /// The largest of the files that are being worked on.
    pub fn in_hand(&self) -> Option<Arc<FileInHand>> {
        self.in_hand.lock().ok()?.upgrade()
    }

    /// The run is over; only the first end counts.
    pub(crate) fn end(&self, state: EndState, elapsed: Duration) {
        self.ended.get_or_init(|| RunEnd { state, elapsed });
    }

    /// How the run ended, if it is one of several and over.
    pub fn ended(&self) -> Option<RunEnd> {
        self.ended.get().copied()
    }
}

impl FileInHand {
    /// Whether all of it was read.
    fn is_done(&self) -> bool {
        self.done.load(Relaxed) >= self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_file_stays_in_view_until_it_is_read() {
        let progress = Progress::default();
        let take = |size, name: &str| {
            progress.take_in_hand(size, |path| path.extend_from_slice(name.as_bytes()))
        };
        let shown = || progress.in_hand().map(|file| String::from_utf8(file.path.clone()).unwrap());
        assert!(take(1, "unwatched").is_none());
        progress.watched.store(true, Relaxed);
        let small = take(10, "small");
        assert_eq!(shown().as_deref(), Some("small"));
        let large = take(100, "large");
        assert!(take(50, "middle").is_none());
        assert_eq!(shown().as_deref(), Some("large"));
        progress.advance(100, large.as_deref());
        let middle = take(50, "middle");
        assert_eq!(shown().as_deref(), Some("middle"));
        drop((small, large, middle));
        assert_eq!(shown(), None);
    }
}
