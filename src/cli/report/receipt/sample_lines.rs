//! The samples of a run as lines of its receipt: how much was done by then, and what limited each output since the
//! sample before.

use std::time::Duration;

use serde::Serialize;

use crate::cli::record::json;
use crate::event::{self, OutputSample, STAGES, Sample};

/// The stages in the order of a sample's clocks, as receipts name them.
pub const STAGE_NAMES: [&str; STAGES] = ["read", "hash", "write", "read_back", "commit"];

/// What limits an output that reads as fast as `--limit-rate` allows.
pub const RATE_LIMIT: &str = "limit_rate";

/// How many threads an output had.
#[derive(Clone, Copy, Debug)]
pub struct ThreadCounts {
    pub workers: usize,
    pub verifiers: usize,
}

/// What the samples are judged by.
pub struct SampleContext {
    /// For each output; none for one that was refused, and for runs that have no stages.
    pub threads: Vec<Option<ThreadCounts>>,
    /// Bytes in a second.
    pub limit_rate: Option<u64>,
}

#[derive(Serialize)]
struct SampleLine {
    seconds: f64,
    bytes: Vec<u64>,
    limited_by: Vec<Option<&'static str>>,
}

impl SampleContext {
    /// Each sample as the JSON of an object.
    pub fn lines(&self, samples: &[Sample]) -> Vec<String> {
        let mut before: Option<&Sample> = None;
        let mut lines = Vec::with_capacity(samples.len());
        for sample in samples {
            let since = sample.at.saturating_sub(before.map_or(Duration::ZERO, |before| before.at));
            let limit = |(at, now): (usize, &OutputSample)| {
                let before = before.and_then(|before| before.outputs.get(at).copied());
                self.limit(at, before.unwrap_or_default(), *now, since)
            };
            let line = SampleLine {
                seconds: sample.at.as_millis() as f64 / 1e3,
                bytes: sample.outputs.iter().map(|output| output.bytes).collect(),
                limited_by: sample.outputs.iter().enumerate().map(limit).collect(),
            };
            lines.push(json::line(&line));
            before = Some(sample);
        }
        lines
    }

    /// What limited an output between two samples, if that is certain.
    fn limit(
        &self,
        at: usize,
        before: OutputSample,
        now: OutputSample,
        since: Duration,
    ) -> Option<&'static str> {
        let ThreadCounts { workers, verifiers } = (*self.threads.get(at)?)?;
        if event::is_at_rate(now.bytes.saturating_sub(before.bytes), since, self.limit_rate) {
            return Some(RATE_LIMIT);
        }
        let threads = [workers, workers, workers, verifiers, 1];
        let shares: [f64; STAGES] = std::array::from_fn(|stage| {
            let busy = now.busy[stage].saturating_sub(before.busy[stage]);
            event::share(busy, threads[stage], since)
        });
        let waits = self.limit_rate.is_some() || self.threads.len() > 1;
        event::limiting_stage(&shares, waits).map(|stage| STAGE_NAMES[stage])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_that_was_busy_is_the_limit() {
        let sample = |seconds, bytes, busy: [u64; STAGES]| {
            let outputs = vec![OutputSample { bytes, busy: busy.map(Duration::from_secs) }];
            Sample { at: Duration::from_secs(seconds), outputs }
        };
        let samples = [
            sample(2, 100, [1, 0, 4, 0, 0]),
            sample(4, 300, [1, 4, 5, 0, 0]),
            sample(6, 300, [1, 4, 5, 0, 2]),
            sample(8, 400, [2, 5, 6, 0, 2]),
        ];
        let threads = vec![Some(ThreadCounts { workers: 2, verifiers: 0 })];
        let mut context = SampleContext { threads, limit_rate: None };
        let limits = |context: &SampleContext| {
            let lines = context.lines(&samples);
            let parse = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let lines: Vec<_> = lines.iter().map(parse).collect();
            assert_eq!((&lines[1]["seconds"], &lines[1]["bytes"][0]), (&4.0.into(), &300.into()));
            lines.iter().map(|line| line["limited_by"][0].to_string()).collect::<Vec<_>>()
        };
        assert_eq!(limits(&context), ["\"write\"", "\"hash\"", "\"commit\"", "null"]);
        context.limit_rate = Some(100);
        assert_eq!(limits(&context)[1], "\"limit_rate\"");
    }
}
