//! The closing summary of a stream: what went where, and how it ended.

use std::time::Duration;

use crate::cli::show::rows::{Counted, Rows, cut, proven, size, time, warn};
use crate::{
    chain::Damage, cli::exit::Exit, copy::Report, copy::StageTime, event, hash::Digests,
    path::Shown, path::count, stream::OutputOutcome, stream::StreamEnding, stream::StreamReport,
    verify::Mend,
};

/// The rows of the summary.
pub fn summary(report: &StreamReport) -> Rows {
    let mut rows = Rows::default();
    rows.row("read", format!("{}, {}", count(report.inputs, "input"), size(report.bytes)));
    rows.counted(&[Counted("failed", report.failed, "input", "or manifests")]);
    for (named, fate) in &report.outputs {
        let state = match fate {
            OutputOutcome::Stands { replaced: false, proof, .. } => {
                format!("is complete, {}", proven(*proof))
            }
            OutputOutcome::Stands { proof, .. } => {
                format!("is complete, in place of another, {}", proven(*proof))
            }
            OutputOutcome::Passed => "has everything".into(),
            OutputOutcome::Closed => "was closed early by its reader".into(),
            OutputOutcome::Stopped(_) => "is given up".into(),
            OutputOutcome::Left(_) => "is left as it was".into(),
            OutputOutcome::Failed(_) => "failed".into(),
            OutputOutcome::Unproven(_) => {
                "failed: the disk does not hold it as it was written".into()
            }
        };
        rows.row("output", format!("{} {state}", Shown::path(named.path())));
    }
    for digest in report.digests.iter().flat_map(Digests::iter) {
        rows.row(digest.algorithm().name(), digest);
    }
    rows.row("time", time(report.elapsed, report.bytes));
    if let Some(manifest) = &report.manifest {
        rows.row("manifest", Shown::path(manifest));
    }
    rows
}

/// The last line: the verdict over every output, of a run that ends with `exit`. `amiss` says what was at its end, if
/// nothing else.
pub fn verdict(report: &StreamReport, exit: Exit, amiss: &str) -> String {
    let (title, text) = match report.ending {
        StreamEnding::Complete if exit == Exit::Complete => {
            return "done: everything is at every output".into();
        }
        StreamEnding::Complete => {
            let text = format!("everything is at every output, but {amiss}");
            return warn("NOT COMPLETE", exit, &text);
        }
        StreamEnding::Incomplete => {
            let text = format!(
                "{} of {} outputs have everything",
                report.complete(),
                report.outputs.len()
            );
            let text = match report.failed {
                0 => text,
                failed => format!("{text}; {} failed", count(failed, "input")),
            };
            return warn("NOT COMPLETE", exit, &text);
        }
        StreamEnding::Unproven => ("NOT PROVEN", "the disk does not hold what was written to it"),
        StreamEnding::Closed => ("CLOSED EARLY", "the reader of an output closed it"),
        StreamEnding::Stopped => ("STOPPED EARLY", "no output could be written to its end"),
        StreamEnding::Interrupted(_) => ("INTERRUPTED", "files that were not complete are removed"),
    };
    warn(title, exit, text)
}

// The result for a bad file that was to be made whole, in words for a message and for a report.

/// The sources that a file was made whole from: "2 MiB from B and C".
pub fn taken(mend: &Mend) -> String {
    let names: Vec<String> = mend.from.iter().map(|root| cut(Shown::path(root))).collect();
    let bytes = size(mend.bytes);
    match names.split_last() {
        // It was longer than it is listed, or is good when it is read once more.
        None => "from what was good of it".into(),
        Some((last, [])) => format!("{bytes} from {last}"),
        Some((last, rest)) => format!("{bytes} from {} and {last}", rest.join(", ")),
    }
}

/// Why a file was not made whole.
pub fn not_healed(why: &str, lost: Option<&Damage>) -> String {
    match lost {
        None => why.to_owned(),
        Some(lost) => format!("{why}: {lost}"),
    }
}

// Where the time of a copy went: what each stage did, and which of them limited the run.

/// Below this, a run has no limit worth naming.
const SHORT: Duration = Duration::from_secs(1);

/// One stage of a run.
struct Stage<'a> {
    name: &'static str,
    time: &'a StageTime,
    /// Number of threads of the stage.
    threads: usize,
    /// The words for this stage as the limit of the run.
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

/// The limit of the run, if it is certain. `limit_rate` is that of `--limit-rate`, in bytes a second; `alone` is
/// whether the run had the source for itself.
pub fn limit(report: &Report, limit_rate: Option<u64>, alone: bool) -> Option<String> {
    if report.elapsed < SHORT {
        return None;
    }
    if event::is_at_rate(report.counts.bytes, report.elapsed, limit_rate) {
        return Some("the rate that was set (--limit-rate)".into());
    }
    let stages = stages(report);
    let share = |stage: &Stage<'_>| stage.share(stage.time.busy, report.elapsed);
    let shares: Vec<f64> = stages.iter().map(share).collect();
    let limiting = event::limiting_stage(&shares, limit_rate.is_some() || !alone)?;
    stages.get(limiting).map(|stage| stage.limit.to_owned())
}
