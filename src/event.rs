//! What a run tells whoever watches, and how it is told to stop.
//!
//! Nothing correct depends on any of this: counters are added to and never waited for, and a
//! watcher that ignores every event loses nothing but the view. The library itself prints nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::error::Error;
use crate::sys::stat::Kind;

/// What became of an entry, told as it happens. The path is that of the entry below its root.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The entry stands at the output, for this reason.
    Stands(&'a [u8], Done),
    /// An entry at the output differs and was left as it is, for the reason given.
    Left(&'a [u8], &'static str),
    /// Not a thing that can be copied: it was not opened.
    Skipped(&'a [u8], Kind),
    /// A part file that a killed run left behind was removed from the output.
    Swept(&'a [u8]),
    /// An old manifest was removed from the output, because so many newer ones are there as were
    /// asked for.
    Retired(&'a [u8]),
    /// The run waits for another to end; what is known of that one.
    Waiting(&'a str),
    /// So many bytes of a file were not read again: a run that was killed had copied them.
    Resumed(&'a [u8], u64),
    /// The entry is not at the output.
    Failed(&'a Error),
    /// A file of the source is not what is expected of it, although nothing says that it was edited. It
    /// was not copied.
    Rotten(&'a Error),
    /// A file is expected and is not in the source.
    Gone(&'a [u8]),
    /// The entry is at the output, but something about it could not be done.
    Warning(&'a Error),
}

/// Why an entry stands at the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The file was copied to where nothing was.
    Copied,
    /// The file was copied and took the place of something older.
    Replaced,
    /// A further name of a file that was copied under another was made.
    Linked,
    /// The symbolic link was made.
    Symlinked,
    /// It was there already.
    Kept,
}

/// Who watches a run. Called from one thread at a time; a slow watcher slows the run.
pub trait Watch: Sync {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}

/// A watcher that looks away.
impl Watch for () {
    fn event(&self, _: &Event<'_>) {}
}

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
    /// Entries that failed.
    pub failed: AtomicU64,
    /// Bytes that there are to do, as far as counted.
    pub total_bytes: AtomicU64,
    /// Entries that there are to do, as far as counted.
    pub total_entries: AtomicU64,
    /// Whether the two totals are final.
    pub counted: AtomicBool,
    /// Whether the run is over.
    pub over: AtomicBool,
    /// Whether somebody looks at `current`; otherwise it is not kept.
    pub watched: AtomicBool,
    current: Mutex<Vec<u8>>,
}

impl Progress {
    /// So many bytes were there already.
    pub fn skip(&self, bytes: u64) {
        self.skipped.fetch_add(bytes, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Notes what is being worked on, which `path` appends. Skipped when nobody looks or somebody else is just
    /// noting.
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

/// Asks a run to stop. Clones ask the same run; ask once, it cannot be taken back.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    urgent: Arc<AtomicUsize>,
    winding_up: Arc<AtomicUsize>,
    /// What stops several runs, and this one with them.
    of_all: Option<Arc<Stop>>,
}

impl Stop {
    /// The code of a run that gives itself up: nothing more is begun, but copies that are complete are
    /// brought to their end.
    pub(crate) const GIVEN_UP: usize = usize::MAX;

    /// … and of one whose complete copies have become worthless as well.
    pub(crate) const IN_VAIN: usize = usize::MAX - 1;

    /// One for a run among several: it stops with all of them, and they do not stop with it.
    pub fn of_one(&self) -> Self {
        Self { of_all: Some(Arc::new(self.clone())), ..Self::default() }
    }

    /// Asks the run to stop: no new file is begun, files on their way are given up, what is
    /// finished is recorded. `code` must not be 0; the report carries the first one given.
    pub fn request(&self, code: usize) {
        let _ = self.urgent.compare_exchange(0, code, Relaxed, Relaxed);
    }

    /// Asks the run to come to an end: no new file is begun, but files on their way are finished.
    /// `code` is as with [`request`](Self::request), which may follow.
    pub fn wind_up(&self, code: usize) {
        let _ = self.winding_up.compare_exchange(0, code, Relaxed, Relaxed);
    }

    /// The code that was asked with, if the run is to stop, the more urgent one if there are two.
    pub fn requested(&self) -> Option<usize> {
        let code = |asked: &AtomicUsize| Some(asked.load(Relaxed)).filter(|code| *code != 0);
        let of_all = self.of_all.as_deref().and_then(Stop::requested);
        code(&self.urgent).or(of_all).or_else(|| code(&self.winding_up))
    }

    /// Whether the run is to stop.
    pub fn is_requested(&self) -> bool {
        self.requested().is_some()
    }

    /// Whether not even files on their way are to be finished.
    pub fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0 || self.of_all.as_deref().is_some_and(Stop::is_urgent)
    }

    /// Whether even copies that are complete are to be let go, if they are not at their end.
    pub fn is_at_once(&self) -> bool {
        !matches!(self.urgent.load(Relaxed), 0 | Self::GIVEN_UP)
            || self.of_all.as_deref().is_some_and(Stop::is_at_once)
    }

    /// The number itself, for a signal handler to store a code in.
    pub fn handle(&self) -> &Arc<AtomicUsize> {
        &self.urgent
    }
}
