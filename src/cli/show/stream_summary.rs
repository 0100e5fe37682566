//! The closing summary of a stream: what went where, and how it ended.

use crate::cli::exit::Exit;
use crate::cli::show::line::count;
use crate::cli::show::rows::{Counted, Rows, proven, size, time, warn};
use crate::hash::Digests;
use crate::path::Shown;
use crate::stream::StreamReport;
use crate::stream::outcome::OutputOutcome;
use crate::stream::report::StreamEnding;

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
