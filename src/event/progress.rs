//! Counters of a run that another thread may read while it goes on.

use std::{
    sync::Arc, sync::Mutex, sync::OnceLock, sync::PoisonError, sync::Weak,
    sync::atomic::AtomicBool, sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed,
    time::Duration, time::Instant,
};

use crate::hash::hasher::Pieces;

/// The progress of a run. Read it from any thread, at any time.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of files that were read and written, holes and files already there included.
    pub bytes: AtomicU64,
    /// Number of these that were neither read nor written by this run: files and beginnings of files that were there
    /// already. A rate is of the others.
    pub skipped: AtomicU64,
    /// Bytes of what was called a hole and was not read.
    pub believed: AtomicU64,
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
    /// True once a check has read everything, and looks what parity can repair.
    pub is_repair_looked_for: AtomicBool,
    /// True if the two totals are final.
    pub counted: AtomicBool,
    /// True if a thread counts the totals, or has: a second would add the same once more.
    pub(crate) counting: AtomicBool,
    /// True if a program shows the progress; otherwise no file in hand is kept, and no total is counted for it.
    pub watched: AtomicBool,
    /// The pieces of content that were hashed.
    pub(crate) pieces: Pieces,
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
    /// Number of bytes of it that were read.
    pub done: AtomicU64,
}

/// The end of a run to one of several outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The state of the output.
    pub state: EndState,
    /// Duration of the run to it.
    pub elapsed: Duration,
}

/// The state of an output when its run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    /// Nothing new: the run to it was refused.
    Refused,
    /// Not everything, or what is there is not as the source is.
    Amiss,
    /// Everything, and what of it was written may not be on the disk yet.
    Written,
    /// Everything, and a sync of it went well of which it is not known, or only from a server, what it is worth.
    Synced,
    /// Everything, durably.
    Durable,
    /// Everything, durably, and all of it was read back from the device.
    ReadBack,
    /// Everything, durably; some of it could be read back only through a cache.
    ReadThroughCache,
}

impl Progress {
    /// Counts bytes that were there already.
    pub fn skip(&self, bytes: u64) {
        self.skipped.fetch_add(bytes, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes that were read and written, or read to be checked; of this file, if it is the one in hand.
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

    /// The end of the run, if it is one of several and over.
    pub fn ended(&self) -> Option<RunEnd> {
        self.ended.get().copied()
    }
}

impl FileInHand {
    /// True if all of it was read.
    fn is_done(&self) -> bool {
        self.done.load(Relaxed) >= self.size
    }
}

// The growth of a run's counters: samples of them in time, for a picture of the run.

/// At most so many samples are kept of a run: as many as a picture has dots across.
pub const MOST_SAMPLES: usize = 600;

/// The least time between two of them. With this, a run of up to two and a half minutes has all.
const LEAST_INTERVAL: Duration = Duration::from_millis(250);

/// The number of stages that have a clock.
pub const STAGES: usize = 5;

/// The counters at a moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Since the start of the run.
    pub at: Duration,
    /// For each output.
    pub outputs: Vec<OutputSample>,
}

/// The counters of an output at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputSample {
    /// Bytes that were read and written, without those that were there already.
    pub bytes: u64,
    /// Working time of the threads of each stage, summed: reading, hashing, writing, reading back, committing.
    pub busy: [Duration; STAGES],
}

impl OutputSample {
    fn of(progress: &Progress) -> Self {
        let timings = &progress.timings;
        let clocks =
            [&timings.read, &timings.hash, &timings.write, &timings.prove, &timings.commit];
        let skipped = progress.skipped.load(Relaxed);
        Self {
            bytes: progress.bytes.load(Relaxed).saturating_sub(skipped),
            busy: clocks.map(StageTiming::busy),
        }
    }
}

/// The samples of a run. Where they become too many, every second one is dropped and the time between them
/// doubled: counters only grow, so nothing between is lost.
#[derive(Debug)]
pub struct SampleSeries {
    started: Instant,
    kept: Mutex<KeptSamples>,
}

#[derive(Debug)]
struct KeptSamples {
    samples: Vec<Sample>,
    interval: Duration,
}

impl SampleSeries {
    /// For a run that starts now.
    pub fn new() -> Self {
        let kept = KeptSamples { samples: Vec::new(), interval: LEAST_INTERVAL };
        Self { started: Instant::now(), kept: Mutex::new(kept) }
    }

    /// Takes a sample if it is time for one.
    pub fn take(&self, progress: &[Arc<Progress>]) {
        self.take_at(self.started.elapsed(), progress, false);
    }

    /// Takes the last one, when the run is over.
    pub fn take_last(&self, progress: &[Arc<Progress>]) {
        self.take_at(self.started.elapsed(), progress, true);
    }

    fn take_at(&self, at: Duration, progress: &[Arc<Progress>], is_last: bool) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let last = kept.samples.last().map_or(Duration::ZERO, |sample| sample.at);
        if !is_last && at < last + kept.interval {
            return;
        }
        let outputs = progress.iter().map(|progress| OutputSample::of(progress)).collect();
        kept.samples.push(Sample { at, outputs });
        if kept.samples.len() > MOST_SAMPLES {
            let mut number = 0;
            // The first and the last stay.
            kept.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            kept.interval *= 2;
        }
    }

    /// All that are kept, in their order.
    pub fn all(&self) -> Vec<Sample> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).samples.clone()
    }
}

// Where the time goes: how long each stage worked, and how long it waited for the others.

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

#[cfg(test)]
mod progress_tests {
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

#[cfg(test)]
mod samples_tests {
    use super::*;

    #[test]
    fn samples_span_the_run_and_stay_few() {
        let progress = [Arc::new(Progress::default())];
        let series = SampleSeries::new();
        for tick in 1..=100_000 {
            progress[0].bytes.store(tick * 10, Relaxed);
            series.take_at(Duration::from_millis(100 * tick), &progress, false);
        }
        series.take_at(Duration::from_millis(10_000_050), &progress, true);
        let all = series.all();
        assert!((MOST_SAMPLES / 2..=MOST_SAMPLES).contains(&all.len()), "{}", all.len());
        let last = all.last().unwrap();
        assert_eq!(
            (last.at, last.outputs[0].bytes),
            (Duration::from_millis(10_000_050), 1_000_000)
        );
        assert!(all.is_sorted_by(|one, other| one.at < other.at));
        // About as far from each other.
        let gaps = all[..all.len() - 1].windows(2).map(|pair| pair[1].at - pair[0].at);
        let (least, most) = gaps.fold((Duration::MAX, Duration::ZERO), |(least, most), gap| {
            (least.min(gap), most.max(gap))
        });
        assert!(most <= least * 3, "{least:?} to {most:?}");
    }
}
