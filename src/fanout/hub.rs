//! What the outputs of a run share: chunks of what was read, and the waiting for each other.
//!
//! Each output is a run of its own. An output that needs the next chunk of a file takes it from the
//! hub. If no output has read it yet, this one reads it, for all. So the output that is ahead reads and
//! none leads: there is none whose death, failure or slow disk the others would have to wait for.
//!
//! What the hub holds is bounded. When it is full, an output that reads waits for those that are behind;
//! but all waiting together takes no more than a twentieth of the time. Then the laggards are dropped:
//! each reads the rest of the file from the source by itself, at its own pace. `docs/design/fan-out.md`
//! has the measurement that decided so.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::event::Stop;
use crate::fanout::ledger::ChunkLedger;
use crate::fanout::output_set::MOST_OUTPUTS;
use crate::fanout::shared_file::FileKey;
use crate::io::block::SharedBlocks;
use crate::io::rate_limit::RateLimit;
use crate::sys::stat::Stat;

/// All waiting for outputs that are behind takes at most one part in so many of the time, …
const SHARE: u32 = 20;

/// … and this.
const GRACE: Duration = Duration::from_millis(200);

/// A waiting thread checks this often whether the run is to stop.
pub const NAP: Duration = Duration::from_millis(50);

/// What the outputs of a run share.
pub struct Hub {
    ledger: Mutex<ChunkLedger>,
    /// Something in the ledger, or an output, changed.
    changed: Condvar,
    /// The most that is held for outputs that are behind; bytes.
    max_backlog: u64,
    /// What chunks are read into.
    pub blocks: SharedBlocks,
    /// How fast the source may be read.
    pub rate: Option<RateLimit>,
    /// How long outputs waited for those that were behind.
    waiting: WaitBudget,
    /// Makes file versions of paths, sizes and times.
    versions: RandomState,
    /// The outputs, in order.
    pub outputs: Vec<OutputStatus>,
}

/// What the others know of an output.
#[derive(Debug, Default)]
pub struct OutputStatus {
    /// Whether its run got ready to copy.
    pub is_ready: AtomicBool,
    /// How many files it read from the source by itself, in part at least.
    pub read_alone: AtomicU64,
}

impl Hub {
    /// For so many outputs, at most [`MOST_OUTPUTS`]. At most `max_backlog` bytes are held for those that
    /// are behind, in `blocks`; `rate` is how fast the source may be read, in bytes a second.
    pub fn new(outputs: usize, max_backlog: u64, blocks: SharedBlocks, rate: Option<u64>) -> Self {
        let outputs = outputs.min(MOST_OUTPUTS);
        Self {
            ledger: Mutex::new(ChunkLedger::new(outputs)),
            changed: Condvar::new(),
            max_backlog,
            blocks,
            rate: rate.map(RateLimit::new),
            waiting: WaitBudget { started: Instant::now(), waited: AtomicU64::new(0) },
            versions: RandomState::new(),
            outputs: (0..outputs).map(|_| OutputStatus::default()).collect(),
        }
    }

    /// The ledger, once no other thread has it.
    pub fn ledger(&self) -> MutexGuard<'_, ChunkLedger> {
        // No call in between can panic.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all threads that wait for a change.
    pub fn notify(&self) {
        self.changed.notify_all();
    }

    /// Gives the ledger back until something changes, or this time is over.
    pub fn wait<'g>(
        &self,
        ledger: MutexGuard<'g, ChunkLedger>,
        most: Duration,
    ) -> MutexGuard<'g, ChunkLedger> {
        let waited = self.changed.wait_timeout(ledger, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until so many bytes more can be held, or drops the outputs that are behind.
    pub fn make_room(&self, bytes: u64, stop: &Stop) -> MutexGuard<'_, ChunkLedger> {
        let mut ledger = self.ledger();
        while ledger.bytes() > 0 && ledger.bytes() + bytes > self.max_backlog {
            let left = self.waiting.left();
            if left.is_zero() || stop.is_urgent() || !ledger.is_worth_waiting() {
                ledger.drop_laggards();
                continue;
            }
            let since = Instant::now();
            ledger = self.wait(ledger, left.min(NAP));
            self.waiting.add(since.elapsed());
        }
        ledger
    }

    /// What a file at `path` below the root is known by.
    pub fn key(&self, path: &[u8], stat: &Stat) -> FileKey {
        let version = self.versions.hash_one((path, stat.size, stat.mtime, stat.ctime));
        FileKey { id: stat.id, version }
    }
}

/// How long all outputs together may wait for those that are behind.
struct WaitBudget {
    started: Instant,
    /// Nanoseconds.
    waited: AtomicU64,
}

impl WaitBudget {
    fn left(&self) -> Duration {
        let waited = Duration::from_nanos(self.waited.load(Relaxed));
        (self.started.elapsed() / SHARE + GRACE).saturating_sub(waited)
    }

    fn add(&self, waited: Duration) {
        self.waited.fetch_add(waited.as_nanos() as u64, Relaxed);
    }
}
