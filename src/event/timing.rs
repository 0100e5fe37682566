//! Where the time goes: how long each stage worked, and how long it waited for the others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time of one stage, summed over all its threads; nanoseconds.
#[derive(Debug, Default)]
pub struct StageTiming {
    /// Working.
    pub busy: AtomicU64,
    /// Waiting for another stage.
    pub waited: AtomicU64,
}

impl StageTiming {
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.load(Relaxed))
    }

    /// Time spent waiting for another stage.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Relaxed))
    }
}

/// The timings of a run's stages.
///
/// A thread that times many short steps counts them in `Timings` of its own and adds these now and
/// then: threads that add to the same counter for every file slow each other down.
#[derive(Debug, Default)]
pub struct Timings {
    /// Opening and reading the source.
    pub read: StageTiming,
    /// Hashing.
    pub hash: StageTiming,
    /// Writing to the output, in part files.
    pub write: StageTiming,
    /// Reading back what was copied.
    pub prove: StageTiming,
    /// Making durable, publishing and recording.
    pub commit: StageTiming,
}

impl Timings {
    /// Adds what another thread measured.
    pub fn add(&self, others: &Timings) {
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

/// Adds the time from its start until it is dropped to a counter.
pub struct Timer<'a> {
    counter: &'a AtomicU64,
    since: Instant,
}

impl<'a> Timer<'a> {
    /// Starts to measure for `counter`, in nanoseconds.
    pub fn start(counter: &'a AtomicU64) -> Self {
        Self { counter, since: Instant::now() }
    }

    /// Ends the time of one counter and starts that of another: a different kind of work begins.
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
