//! How the counters of a run grew: samples of them in time, for a picture of the run.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::event::progress::Progress;
use crate::event::timing::StageTiming;

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
    /// How long the threads of each stage have worked, summed: reading, hashing, writing, reading back,
    /// committing.
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

#[cfg(test)]
mod tests {
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
