//! Where the time goes: how long each stage worked, and how long it waited for the others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time of one kind of work, summed over all lanes; nanoseconds.
#[derive(Debug, Default)]
pub struct Clock {
    /// Working.
    pub busy: AtomicU64,
    /// Waiting for another stage.
    pub waited: AtomicU64,
}

impl Clock {
    /// Time spent working.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.load(Relaxed))
    }

    /// Time spent waiting for another stage.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Relaxed))
    }
}

/// The clocks of a run.
///
/// Who has many short things to time does it on clocks of its own and adds them now and then: lanes
/// that add to the same place for every file slow each other down.
#[derive(Debug, Default)]
pub struct Clocks {
    /// Opening and reading the source.
    pub read: Clock,
    /// Hashing.
    pub hash: Clock,
    /// Writing to the output, in part files.
    pub write: Clock,
    /// Reading back what was copied.
    pub prove: Clock,
    /// Making durable, publishing and recording.
    pub commit: Clock,
}

impl Clocks {
    /// Adds what others measured.
    pub fn add(&self, others: &Clocks) {
        let pairs = [
            (&self.read, &others.read),
            (&self.hash, &others.hash),
            (&self.write, &others.write),
            (&self.prove, &others.prove),
            (&self.commit, &others.commit),
        ];
        for (sum, other) in pairs {
            sum.busy.fetch_add(other.busy.load(Relaxed), Relaxed);
            sum.waited.fetch_add(other.waited.load(Relaxed), Relaxed);
        }
    }
}

/// Adds the time from its start to its end to a counter.
pub struct Timer<'a> {
    counter: &'a AtomicU64,
    since: Instant,
}

impl<'a> Timer<'a> {
    /// Starts.
    pub fn start(counter: &'a AtomicU64) -> Self {
        Self { counter, since: Instant::now() }
    }

    /// Goes on with another counter: what comes now is another kind of work.
    pub fn switch(&mut self, counter: &'a AtomicU64) {
        let now = Instant::now();
        self.add(now);
        (self.counter, self.since) = (counter, now);
    }

    fn add(&self, now: Instant) {
        self.counter.fetch_add((now - self.since).as_nanos() as u64, Relaxed);
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.add(Instant::now());
    }
}
