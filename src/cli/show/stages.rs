//! Where the time of a copy went: what each stage did, and which of them limited the run.

use std::time::Duration;

use crate::copy::report::{Report, StageTime};

/// Below this, a run has no limit worth naming.
const SHORT: Duration = Duration::from_secs(1);

/// A stage limits a run if it was busy for this share of the time, …
const LEAST_SHARE: f64 = 0.5;

/// … and so many times as long as every other stage.
const LEAST_LEAD: f64 = 1.2;

/// A run has reached its rate limit with this share of it: the average contains the start and the end.
const AT_LIMIT: f64 = 0.85;

/// One stage of a run.
struct Stage<'a> {
    name: &'static str,
    time: &'a StageTime,
    /// How many threads worked in it.
    threads: usize,
    /// What limits the run if this stage does.
    limit: &'static str,
}

impl Stage<'_> {
    /// The share of the run's time that the threads of this stage spent so, on average.
    fn share(&self, spent: Duration, elapsed: Duration) -> f64 {
        spent.as_secs_f64() / self.threads.max(1) as f64 / elapsed.as_secs_f64().max(1e-9)
    }
}

fn stages(report: &Report) -> Vec<Stage<'_>> {
    let (times, workers) = (&report.stages, report.workers);
    let stage = |name, time, threads, limit| Stage { name, time, threads, limit };
    let mut stages = vec![
        stage("reading", &times.read, workers, "reading the source"),
        stage("hashing", &times.hash, workers, "hashing (the processor)"),
        stage("writing", &times.write, workers, "writing to the output"),
        stage("reading back", &times.read_back, report.verifiers, "reading back the output"),
        stage("committing", &times.commit, 1, "making the output durable"),
    ];
    stages.retain(|stage| stage.name != "reading back" || !stage.time.busy.is_zero());
    stages
}

fn shares(report: &Report, spent: impl Fn(&StageTime) -> Duration) -> String {
    let share = |stage: Stage<'_>| {
        let share = stage.share(spent(stage.time), report.elapsed);
        format!("{} {:.0} %", stage.name, 100.0 * share)
    };
    let shares: Vec<String> = stages(report).into_iter().map(share).collect();
    format!("{} of the time", shares.join(", "))
}

/// The share of the run's time that each stage worked.
pub fn busy(report: &Report) -> String {
    shares(report, |time| time.busy)
}

/// The share of the run's time that each stage waited for another.
pub fn waiting(report: &Report) -> String {
    shares(report, |time| time.waited)
}

/// What limited the run, if that is certain. `limit_rate` is that of `--limit-rate`, in bytes a second;
/// `alone` is whether the run had the source for itself.
pub fn limit(report: &Report, limit_rate: Option<u64>, alone: bool) -> Option<String> {
    if report.elapsed < SHORT {
        return None;
    }
    let rate = report.counts.bytes as f64 / report.elapsed.as_secs_f64();
    if limit_rate.is_some_and(|limit| rate >= AT_LIMIT * limit as f64) {
        return Some("--limit-rate".into());
    }
    let share = |stage: &Stage<'_>| stage.share(stage.time.busy, report.elapsed);
    let mut stages = stages(report);
    stages.sort_by(|one, other| share(other).total_cmp(&share(one)));
    let (first, second) = (stages.first()?, stages.get(1)?);
    // Reading includes waiting: for the rate limit, and for other outputs of the same source.
    let waits = first.name == "reading" && (limit_rate.is_some() || !alone);
    let is_certain = share(first) >= LEAST_SHARE && share(first) >= LEAST_LEAD * share(second);
    (is_certain && !waits).then(|| first.limit.to_owned())
}
