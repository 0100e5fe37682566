//! What limits a run, or one of its outputs: one rule for the summary and for the samples of a receipt.
//!
//! It names a stage only where the figures are clear, since a wrong name sends people after the wrong disk.

use std::time::Duration;

/// A stage limits if its threads were busy for this share of the time, …
const LEAST_SHARE: f64 = 0.5;

/// … and so many times as long as those of every other stage.
const LEAST_LEAD: f64 = 1.2;

/// A rate limit is reached with this share of it: an average contains the start and the end.
const AT_LIMIT: f64 = 0.85;

/// Whether so many bytes in this time are as many as a rate limit, in bytes a second, lets through.
pub fn is_at_rate(bytes: u64, time: Duration, limit: Option<u64>) -> bool {
    limit.is_some_and(|limit| bytes as f64 >= AT_LIMIT * limit as f64 * time.as_secs_f64())
}

/// The share of some time that each of a stage's threads was busy, on average.
pub fn share(busy: Duration, threads: usize, time: Duration) -> f64 {
    busy.as_secs_f64() / threads.max(1) as f64 / time.as_secs_f64().max(1e-9)
}

/// Which stage limits, by its place in `shares`, if that is certain. The first is reading; it `waits` where
/// its time has in it what it waits for: a rate limit, or other outputs of the same source.
pub fn limiting_stage(shares: &[f64], waits: bool) -> Option<usize> {
    let mut stages: Vec<usize> = (0..shares.len()).collect();
    stages.sort_by(|&one, &other| shares[other].total_cmp(&shares[one]));
    let &[first, second, ..] = stages.as_slice() else { return None };
    let is_certain = shares[first] >= LEAST_SHARE && shares[first] >= LEAST_LEAD * shares[second];
    (is_certain && !(waits && first == 0)).then_some(first)
}
