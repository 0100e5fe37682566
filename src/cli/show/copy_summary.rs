//! The closing summary: what was done, where the time went, how it ended.

use std::time::Duration;

use crate::cli::exit::TIME_IS_UP;
use crate::cli::show::rows::{Rows, size};
use crate::copy::report::{Counts, Ending, Report, StageTime, Stages};
use crate::part::method::{Method, Tally};
use crate::path::Shown;
use crate::sys::ResidentBytes;

/// Below this, where the time went says nothing.
const TOO_SHORT: Duration = Duration::from_millis(100);

/// The summary of a run, without the last line's end. Unless `verbose`, what needs no saying is left
/// out.
pub fn summary(report: &Report, dry: bool, verbose: bool) -> String {
    let counts = &report.counts;
    let mut rows = Rows::new(9);
    let copied = format!("{} files, {}", counts.copied + counts.replaced, size(counts.bytes));
    rows.row(
        if dry { "to copy" } else { "copied" },
        match counts.replaced {
            0 => copied,
            replaced => format!("{copied} ({replaced} in place of others)"),
        },
    );
    let is_usual = |(method, _): &(Method, Tally)| *method == Method::ReadWrite;
    for (method, tally) in &report.methods {
        if !verbose && report.methods.iter().all(is_usual) {
            break;
        }
        let how = match method {
            Method::Clone => "cloned: they share their data with the source",
            Method::Range => "moved by the kernel (copy_file_range)",
            Method::Send => "moved by the kernel (sendfile)",
            Method::ReadWrite => "read and written",
        };
        rows.row("", format!("{} files, {} {how}", tally.files, size(tally.bytes)));
    }
    if counts.resumed > 0 {
        let size = size(counts.resumed_bytes);
        rows.row("resumed", format!("{} files of these, {size} not read again", counts.resumed));
    }
    if counts.caught_up > 0 {
        let size = size(counts.caught_up_bytes);
        rows.row(
            "caught up",
            format!("{} files of these, {size} from another output", counts.caught_up),
        );
    }
    if counts.kept > 0 {
        rows.row("there", format!("{} already, {}", counts.kept, size(counts.kept_bytes)));
    }
    rows.counted(&[
        ("linked", counts.linked, "further names of the same files"),
        ("links", counts.symlinks, "symbolic links"),
        ("left", counts.left, "that differ at the output"),
        ("failed", counts.failed, "entries"),
        ("damaged", counts.unproven, "of these: the disk does not hold them as they were written"),
        ("rotten", counts.rotten, "of these: not what is expected of the source; not copied"),
        ("skipped", counts.skipped, "FIFOs, sockets or devices"),
        ("warnings", counts.warnings, "about attributes, damage and the like"),
        ("alone", counts.read_alone, "of these were read from the source for this output alone"),
        ("again", counts.forgotten, "may have been read from the source once more for this output"),
        ("kept on", counts.carried, "lines of files that are no longer in the source"),
    ]);
    if report.expected {
        let Counts { as_expected, edited, gone, unusable_lines, .. } = counts;
        let text = format!("{as_expected} files as they were, {edited} edited since, {gone} gone");
        rows.row("expected", text);
        rows.counted(&[("unusable", *unusable_lines, "lines of what is expected")]);
    }
    if counts.from_device + counts.from_cache > 0 {
        let of = |files, bytes| format!("{files} files, {}", size(bytes));
        let device = of(counts.from_device, counts.from_device_bytes);
        let cache = of(counts.from_cache, counts.from_cache_bytes);
        rows.row("read back", format!("{device}, from the device; {cache}, only through a cache"));
    }
    let (read, written) = (report.source_stayed, report.output_stayed);
    if verbose && read.of + written.of > 0 {
        let of = |stayed: ResidentBytes| format!("{} of {}", size(stayed.bytes), size(stayed.of));
        rows.row(
            "cache",
            format!("{} read and {} written stayed in memory", of(read), of(written)),
        );
    }
    if !dry {
        rows.time(report.elapsed, counts.bytes.saturating_sub(counts.resumed_bytes));
        if report.elapsed >= TOO_SHORT && counts.bytes > 0 {
            rows.row("busy", times(&report.stages, |time| time.busy));
            rows.row("waiting", times(&report.stages, |time| time.waited));
            rows.row("", format!("{} was the bottleneck", bottleneck(report)));
        }
    }
    if let Some(manifest) = &report.manifest {
        rows.row("manifest", Shown::path(manifest).to_string());
    }
    rows.ending(&ending(report, dry))
}

/// A time of each stage, in words.
fn times(stages: &Stages, time: impl Fn(&StageTime) -> Duration) -> String {
    let words = |(name, stage)| format!("{name} {:.2} s", time(stage).as_secs_f64());
    [
        Some(("reading", &stages.read)),
        Some(("hashing", &stages.hash)),
        Some(("writing", &stages.write)),
        Some(("reading back", &stages.prove)).filter(|(_, stage)| !stage.busy.is_zero()),
        Some(("committing", &stages.commit)),
    ]
    .into_iter()
    .flatten()
    .map(words)
    .collect::<Vec<_>>()
    .join(", ")
}

/// The stage that was busy for the largest share of the time it could have been.
fn bottleneck(report: &Report) -> &'static str {
    let lanes = report.workers.max(1) as f64;
    let provers = report.verifiers.max(1) as f64;
    let Stages { read, hash, write, prove, commit } = &report.stages;
    [
        ("reading the source", read.busy.as_secs_f64() / lanes),
        ("hashing (the processor)", hash.busy.as_secs_f64() / lanes),
        ("writing to the output", write.busy.as_secs_f64() / lanes),
        ("reading back the output", prove.busy.as_secs_f64() / provers),
        ("making the output durable", commit.busy.as_secs_f64()),
    ]
    .into_iter()
    .max_by(|a, b| a.1.total_cmp(&b.1))
    .map_or("nothing", |(name, _)| name)
}

fn ending(report: &Report, dry: bool) -> String {
    let missing = report.counts.failed + report.counts.left;
    let entries = if missing == 1 { "entry" } else { "entries" };
    match &report.ending {
        Ending::Complete if dry => "nothing was done: this was a dry run".into(),
        Ending::Incomplete if dry => {
            format!("nothing was done: this was a dry run; {missing} {entries} would be missing")
        }
        Ending::Complete => "done: everything is at the output".into(),
        Ending::Incomplete if missing == 0 => {
            "NOT COMPLETE: everything is at the output, but lines of what is expected were of no use"
                .into()
        }
        Ending::Incomplete => {
            format!("NOT COMPLETE: {missing} {entries} not at the output as in the source")
        }
        Ending::Unproven => format!(
            "NOT PROVEN: the disk does not hold what was written to it; {missing} {entries} not at \
             the output as in the source"
        ),
        Ending::Rotten => format!(
            "ROTTEN: files of the source are not what was expected of it and were not copied; \
             {missing} {entries} not at the output as in the source"
        ),
        Ending::Stopped(error) => format!("STOPPED EARLY: {error}"),
        Ending::Interrupted(TIME_IS_UP) => {
            "TIME IS UP: what was finished is recorded; run the same command again to go on".into()
        }
        Ending::Interrupted(_) => {
            "INTERRUPTED: what was finished is recorded; run the same command again to go on".into()
        }
    }
}
