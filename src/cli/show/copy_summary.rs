//! The closing summary of a copy: what happened at each output, a line for each, and the verdict over all.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::args::copy::CopyArgs;
use crate::cli::exit::{Exit, TIME_IS_UP};
use crate::cli::show::console::Console;
use crate::cli::show::line::count;
use crate::cli::show::rows::{Counted, Rows, brief, files, per_second, proven, size, span, warn};
use crate::cli::show::stages::{busy, limit, waiting};
use crate::copy::report::{Counts, Ending, Report};
use crate::error::{Error, Result};
use crate::io::read_back::HashedFrom;
use crate::part::method::{Method, Tally};
use crate::path::Shown;
use crate::sys::ResidentBytes;

/// Below this, the shares of the stages say nothing.
const TOO_SHORT: Duration = Duration::from_millis(100);

/// What a copy says when it ends.
pub struct CopySummary<'a> {
    pub args: &'a CopyArgs,
    pub outputs: &'a [PathBuf],
    /// For each its report, or why it was refused.
    pub reports: &'a [Result<Report>],
}

impl CopySummary<'_> {
    /// Prints why outputs were refused or stopped, and, unless quiet, the rows of each and a line for each.
    pub fn print(&self, console: &Console) {
        for (output, report) in self.outputs.iter().zip(self.reports) {
            // An error at the output itself names it.
            let begin = |error: &Error| match self.is_single() || error.path().starts_with(output) {
                true => String::new(),
                false => format!("{}: ", Shown::path(output)),
            };
            match report {
                Err(refused) => console.error("refused", &begin(refused), refused),
                Ok(Report { ending: Ending::Stopped(error), .. }) => {
                    let begin = format!("{}stopped early: ", begin(error));
                    console.error("stopped", &begin, error);
                }
                // It is the same at all outputs, and the verdict says it unless that is quiet.
                Ok(Report { ending: Ending::Nothing(error), .. }) if self.args.verbosity.quiet => {
                    console.error("failed", "", error);
                }
                Ok(_) => {}
            }
        }
        if !self.args.verbosity.quiet {
            console.out_rows(self.rows());
        }
    }

    fn is_single(&self) -> bool {
        self.outputs.len() == 1
    }

    fn rows(&self) -> Rows {
        let mut rows = match self.reports {
            [Ok(report)] => self.output_rows(report),
            _ => self.rows_of_several(),
        };
        let lists = self.reports.iter().flatten().filter_map(|report| report.media_list.as_ref());
        lists.for_each(|path| rows.row("media list", Shown::path(path)));
        if !self.args.dry_run {
            let names = self.outputs.iter().map(|output| Shown::path(output).to_string());
            let names: Vec<String> = names.collect();
            let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(40);
            for (name, report) in names.iter().zip(self.reports) {
                rows.row("output", format!("{name:<width$}  {}", self.output_line(report)));
            }
        }
        rows
    }

    /// What is the same at all outputs once, and the rest of each below its name.
    fn rows_of_several(&self) -> Rows {
        let outputs = self.outputs.iter().zip(self.reports);
        let outputs = outputs.filter_map(|(output, report)| Some((output, report.as_ref().ok()?)));
        let each: Vec<_> =
            outputs.map(|(output, report)| (output, self.output_rows(report))).collect();
        let is_common =
            |line: &&str| each.iter().all(|(_, rows)| rows.lines().any(|other| other == *line));
        let mut all = Rows::default();
        if let Some((_, first)) = each.first() {
            all.add(first.lines().filter(is_common));
        }
        for (output, rows) in &each {
            let own: Vec<&str> = rows.lines().filter(|line| !is_common(line)).collect();
            if !own.is_empty() {
                all.row("OUTPUT", Shown::path(output));
                all.add(own);
            }
        }
        let mut manifests: Vec<_> = self.reports.iter().flatten().filter_map(manifest).collect();
        manifests.dedup_by_key(|path| path.file_name());
        match *manifests {
            [only] if each.len() > 1 => {
                let name = Shown::path(Path::new(only.file_name().unwrap_or_default())).to_string();
                all.row("manifest", format!("{name} at each output"));
            }
            _ => {
                let manifests = self.reports.iter().flatten().filter_map(manifest);
                manifests.for_each(|path| all.row("manifest", Shown::path(path)));
            }
        }
        all
    }

    /// The rows of an output. Of several, the row of the output itself says how much was copied.
    fn output_rows(&self, report: &Report) -> Rows {
        let mut rows = Rows::default();
        let counts = &report.counts;
        let copied = files(counts.copied + counts.replaced, counts.bytes);
        let is_told = !self.is_single() && !self.args.dry_run && counts.replaced == 0;
        if !is_told {
            rows.row(
                if self.args.dry_run { "to copy" } else { "copied" },
                match counts.replaced {
                    0 => copied,
                    replaced => format!("{copied} ({replaced} in place of others)"),
                },
            );
        }
        self.method_rows(&mut rows, report);
        if counts.unchanged > 0 {
            let kept = files(counts.unchanged, counts.unchanged_bytes);
            rows.row(
                "unchanged",
                match self.args.dry_run {
                    true => format!("{kept}, by size and time: a dry run reads no file"),
                    false => kept,
                },
            );
        }
        count_rows(&mut rows, counts);
        if report.expected {
            expected_rows(&mut rows, counts);
        }
        if counts.from_device + counts.from_cache > 0 {
            let device = files(counts.from_device, counts.from_device_bytes);
            let cache = files(counts.from_cache, counts.from_cache_bytes);
            let text = format!("{device}, from the device; {cache}, only through a cache");
            rows.row("read back", text);
        }
        self.machine_rows(&mut rows, report);
        if counts.departed > 0 || report.trash.is_some() {
            let moved =
                format!("{}, {}", count(counts.departed, "entry"), size(counts.departed_bytes));
            let to = report.trash.as_ref().map(|trash| format!(", in {}", Shown::path(trash)));
            let text = format!("{moved}{}", to.unwrap_or_default());
            rows.row(if self.args.dry_run { "to remove" } else { "removed" }, text);
        }
        if let (Some(manifest), true) = (&report.manifest, self.is_single()) {
            rows.row("manifest", Shown::path(manifest));
        }
        rows
    }

    /// By which methods the bytes came, unless all were read and written.
    fn method_rows(&self, rows: &mut Rows, report: &Report) {
        let is_usual = |(method, _): &(Method, Tally)| *method == Method::ReadWrite;
        if !self.args.verbosity.verbose && report.methods.iter().all(is_usual) {
            return;
        }
        for (method, tally) in &report.methods {
            let how = match method {
                Method::Clone => "cloned: they share their data with the source",
                Method::Renamed => "renamed: they share their data with the file of the old name",
                Method::Range => "moved by the kernel (copy_file_range)",
                Method::Send => "moved by the kernel (sendfile)",
                Method::ReadWrite => "read and written",
            };
            rows.row("", format!("{} {how}", files(tally.files, tally.bytes)));
        }
    }

    /// What stayed in memory, and which stage worked, waited and limited the run.
    fn machine_rows(&self, rows: &mut Rows, report: &Report) {
        let (read, written) = (report.source_stayed, report.output_stayed);
        let verbose = self.args.verbosity.verbose;
        if verbose && read.of + written.of > 0 {
            let of =
                |stayed: ResidentBytes| format!("{} of {}", size(stayed.bytes), size(stayed.of));
            let text = format!("{} read and {} written stayed in memory", of(read), of(written));
            rows.row("cache", text);
        }
        if self.args.dry_run || report.counts.bytes == 0 {
            return;
        }
        if verbose && report.elapsed >= TOO_SHORT {
            rows.row("busy", busy(report));
            rows.row("waiting", waiting(report));
        }
        if let Some(limit) = limit(report, self.args.unattended.limit_rate, self.is_single()) {
            rows.row("limited by", limit);
        }
    }

    /// Files, bytes, time, rate, and what is known of the copy.
    fn output_line(&self, report: &Result<Report>) -> String {
        let Ok(report) = report else { return "refused: nothing was copied".into() };
        let counts = &report.counts;
        let copied = counts.copied + counts.replaced;
        let new_bytes = counts.bytes.saturating_sub(counts.resumed_bytes);
        let copy = format!("{}, {}", count(copied, "file"), brief(counts.bytes));
        let rate = match new_bytes {
            0 => String::new(),
            bytes => format!(", {}/s", brief(per_second(bytes, report.elapsed))),
        };
        format!("{copy} in {}{rate}; {}", span(report.elapsed), self.proof(counts))
    }

    fn proof(&self, counts: &Counts) -> String {
        match (counts.from_device, counts.from_cache) {
            (0, 0) if counts.copied + counts.replaced == 0 => "nothing written".into(),
            (0, 0) if self.args.no_sync => "written, not synced, not read back".into(),
            (0, 0) => proven(None).into(),
            (_, 0) => proven(Some(HashedFrom::Device)).into(),
            (0, _) => proven(Some(HashedFrom::Cache)).into(),
            (_, cache) => {
                format!("read back from the device, {} only through a cache", count(cache, "file"))
            }
        }
    }

    /// The last line: the verdict over every output, refused ones included, of a run that ends with `exit`. `amiss`
    /// says what was at its end, if nothing else.
    pub fn verdict(&self, exit: Exit, amiss: &str) -> String {
        if self.args.dry_run {
            return self.dry_verdict(exit);
        }
        let at = match self.outputs.len() {
            1 => "the output".to_owned(),
            number => format!("all {number} outputs{}", self.places()),
        };
        let is_complete = |report: &&Result<Report>| {
            matches!(report, Ok(Report { ending: Ending::Complete, .. }))
        };
        let complete = self.reports.iter().filter(is_complete).count();
        match self.reports {
            _ if complete == self.reports.len() && exit == Exit::Complete => {
                format!("done: everything is at {at}")
            }
            _ if complete == self.reports.len() => {
                warn("NOT COMPLETE", exit, &format!("everything is at {at}, but {amiss}"))
            }
            [Ok(report), rest @ ..] if rest.is_empty() || self.is_of_nothing() => {
                let (title, text) = ending(report);
                warn(title, exit, &text)
            }
            reports => {
                let others = self.outputs.iter().zip(reports);
                let others = others.filter(|(_, report)| !is_complete(report));
                let text = |(output, report): (&PathBuf, &Result<Report>)| match report {
                    Err(_) => format!("nothing was copied to {}", Shown::path(output)),
                    Ok(report) => format!("{}: {}", Shown::path(output), ending(report).1),
                };
                let title = format!("{complete} OF {} OUTPUTS COMPLETE", reports.len());
                warn(&title, exit, &others.map(text).collect::<Vec<_>>().join("; "))
            }
        }
    }

    /// That outputs are on one device, if they are: what one loss takes is one place.
    fn places(&self) -> String {
        let devices = self.reports.iter().flatten().map(|report| report.output_device);
        match devices.collect::<BTreeSet<_>>().len() {
            devices if devices >= self.outputs.len() => String::new(),
            1 => ", on one device: one place".into(),
            devices => format!(", on {devices} devices: {devices} places"),
        }
    }

    /// Whether the source has nothing to copy, wherever to.
    fn is_of_nothing(&self) -> bool {
        let is_nothing = |report| matches!(report, &Ok(Report { ending: Ending::Nothing(_), .. }));
        self.reports.iter().all(is_nothing)
    }

    fn dry_verdict(&self, exit: Exit) -> String {
        let sum = |of: fn(&Counts) -> u64| -> u64 {
            self.reports.iter().flatten().map(|report| of(&report.counts)).sum()
        };
        let refused = self.reports.iter().filter(|report| report.is_err()).count() as u64;
        let parts = [
            (sum(|counts| counts.failed), "entry", "would fail"),
            (sum(|counts| counts.left), "entry", "would be left as it is at the output"),
            (refused, "output", "would be refused"),
        ];
        let parts = parts.iter().filter(|(number, ..)| *number > 0);
        let parts: Vec<_> =
            parts.map(|(number, noun, what)| format!("{} {what}", count(*number, noun))).collect();
        match exit {
            Exit::Complete => "nothing was done: this was a dry run".into(),
            _ if self.is_of_nothing() => {
                let why = self.reports.iter().flatten().map(|report| ending(report).1).next();
                let text = format!("this was a dry run; {}", why.unwrap_or_default());
                warn("NOTHING WAS DONE", exit, &text)
            }
            _ if parts.is_empty() => warn("NOTHING WAS DONE", exit, "this was a dry run"),
            _ => {
                warn("NOTHING WAS DONE", exit, &format!("this was a dry run; {}", parts.join(", ")))
            }
        }
    }
}

fn manifest(report: &Report) -> Option<&PathBuf> {
    report.manifest.as_ref()
}

fn missing(report: &Report) -> u64 {
    report.counts.failed + report.counts.left
}

/// What became of the entries.
fn count_rows(rows: &mut Rows, counts: &Counts) {
    rows.counted(&[Counted(
        "resumed",
        counts.resumed,
        "file",
        &format!("of these, {} not read again", size(counts.resumed_bytes)),
    )]);
    let kept = format!("begun, {} kept for the next run", size(counts.suspended_bytes));
    rows.counted(&[Counted("suspended", counts.suspended, "file", &kept)]);
    rows.counted(&[
        Counted("attributes", counts.attributes, "file", "of these, now as at the source"),
        Counted("linked", counts.linked, "further name", "of the same files"),
        Counted("links", counts.symlinks, "symbolic link", ""),
        Counted("left", counts.left, "entry", "not as in the source"),
        Counted("failed", counts.failed, "entry", ""),
        Counted(
            "damaged",
            counts.damaged,
            "file",
            "of these that the disk does not hold as written",
        ),
        Counted("rotten", counts.rotten, "file", "of these, not what is expected; not copied"),
        Counted(
            "decayed",
            counts.decayed,
            "file",
            "at the output, not what was recorded of them, or what a history has",
        ),
        Counted("skipped", counts.skipped, "entry", "not to be copied"),
        Counted("warnings", counts.warnings, "warning", "about attributes, damage and the like"),
        Counted(
            "fallback",
            counts.fallback,
            "file",
            "of these read from the source for this output alone",
        ),
        Counted(
            "re-read",
            counts.reread,
            "file",
            "that may have been read from the source once more",
        ),
        Counted("dropped", counts.dropped_lines, "line", "for what has left the source"),
        Counted("not moved", counts.not_departed, "piece", "gone from the source"),
        Counted(
            "closed",
            counts.closed,
            "directory",
            "with something in it that is not of the source",
        ),
        Counted("foreign", counts.foreign, "entry", "at the output, not in the source"),
        Counted("reused", counts.reused_lines, "line", "for other files at the output"),
    ]);
}

/// How the source compares with the manifest of `--expect`.
fn expected_rows(rows: &mut Rows, counts: &Counts) {
    let Counts { as_expected, edited, gone, unusable_lines, .. } = counts;
    let as_expected = count(*as_expected, "file");
    let text = format!("{as_expected} as listed, {edited} edited since, {gone} gone");
    rows.row("expected", text);
    rows.counted(&[Counted("unusable", *unusable_lines, "line", "of the expected manifest")]);
}

/// How the copy to an output ended that is not complete, as a title and a sentence.
fn ending(report: &Report) -> (&'static str, String) {
    let missing = missing(report);
    let differ = match missing {
        1 => "1 entry is not at the output as in the source".to_owned(),
        missing => format!("{missing} entries are not at the output as in the source"),
    };
    let again = "finished files are recorded; the same command continues, and copies again what was not \
                 on the disk yet";
    match &report.ending {
        Ending::Complete => ("done", "everything is at the output".into()),
        Ending::Incomplete if missing == 0 && report.counts.not_departed > 0 => {
            let text =
                "everything is at the output, but not all that has left the source was moved away";
            ("NOT COMPLETE", text.into())
        }
        Ending::Incomplete if missing == 0 && report.counts.closed > 0 => {
            let text = "everything is at the output, but not every directory is open to those who may enter its \
                        counterpart";
            ("NOT COMPLETE", text.into())
        }
        Ending::Incomplete if missing == 0 && report.counts.unlisted > 0 => {
            let text =
                "everything is at the output, but not in all of the lists beside the manifest";
            ("NOT COMPLETE", text.into())
        }
        Ending::Incomplete if missing == 0 => {
            let text = "everything is at the output, but not all of it was held against the expected manifest";
            ("NOT COMPLETE", text.into())
        }
        Ending::Incomplete => ("NOT COMPLETE", differ),
        Ending::Nothing(error) => ("NOTHING COPIED", error.reason()),
        Ending::Unproven => {
            ("NOT PROVEN", format!("the disk does not hold what was written to it; {differ}"))
        }
        Ending::Rotten if report.counts.rotten == 0 && report.counts.lost > 0 => {
            let lost = count(report.counts.lost, "file");
            ("NOT COMPLETE", format!("{lost} that is listed: not in the source"))
        }
        Ending::Rotten if report.counts.rotten == 0 => (
            "ROTTEN",
            format!(
                "not what was recorded of them is in {} at the output",
                count(report.counts.decayed, "file")
            ),
        ),
        Ending::Rotten => (
            "ROTTEN",
            format!("files of the source are not as expected and were not copied; {differ}"),
        ),
        Ending::Stopped(error) => ("STOPPED EARLY", error.to_string()),
        Ending::Interrupted(TIME_IS_UP) => ("TIME IS UP", again.into()),
        Ending::Interrupted(_) => ("INTERRUPTED", again.into()),
    }
}
