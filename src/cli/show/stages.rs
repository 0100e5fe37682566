//! Where the time of a copy went: what each stage did, and which of them limited the run.

use std::time::Duration;

use crate::copy::report::{Report, StageTime};
use crate::event;

/// Below this, a run has no limit worth naming.
const SHORT: Duration = Duration::from_secs(1);

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
        event::share(spent, self.threads, elapsed)
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
    if event::is_at_rate(report.counts.bytes, report.elapsed, limit_rate) {
        return Some("--limit-rate".into());
    }
    let stages = stages(report);
    let share = |stage: &Stage<'_>| stage.share(stage.time.busy, report.elapsed);
    let shares: Vec<f64> = stages.iter().map(share).collect();
    let limiting = event::limiting_stage(&shares, limit_rate.is_some() || !alone)?;
    stages.get(limiting).map(|stage| stage.limit.to_owned())
}
