//! Counters of a run that another thread may read while it goes on.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// How far a run is. Read it from any thread, at any time.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of files that were read and written, holes and files already there included.
    pub bytes: AtomicU64,
    /// How many of these were neither read nor written by this run: files and beginnings of files
    /// that were there already. A rate is of the others.
    pub skipped: AtomicU64,
    /// Files and links that are done, whatever became of them.
    pub entries: AtomicU64,
    /// Entries that failed so far, over all outputs.
    pub failed: AtomicU64,
    /// Bytes that there are to do, as far as counted.
    pub total_bytes: AtomicU64,
    /// Entries that there are to do, as far as counted.
    pub total_entries: AtomicU64,
    /// Whether the two totals are final.
    pub counted: AtomicBool,
    /// Whether the run is over.
    pub over: AtomicBool,
    /// Whether `current` is read; otherwise it is not kept.
    pub watched: AtomicBool,
    current: Mutex<Vec<u8>>,
}

impl Progress {
    /// So many bytes were there already.
    pub fn skip(&self, bytes: u64) {
        self.skipped.fetch_add(bytes, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Notes what is being worked on, which `path` appends. Skipped unless the program reads it, and while another
    /// thread notes something.
    pub fn set_current(&self, path: impl FnOnce(&mut Vec<u8>)) {
        if self.watched.load(Relaxed)
            && let Ok(mut current) = self.current.try_lock()
        {
            current.clear();
            path(&mut current);
        }
    }

    /// The path, below the source, of a file that was being worked on a moment ago.
    pub fn current(&self) -> Vec<u8> {
        self.current.lock().map(|current| current.clone()).unwrap_or_default()
    }
}
