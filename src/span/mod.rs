//! A tree that is larger than one disk, copied over several: whole files, each disk complete by itself, and an index on
//! every disk that says what is on which.
//!
//! The source is walked once, and each file gets a disk (`plan`). Then each disk has an ordinary copy of the names that
//! it got, so that all promises of a copy hold there. What is on a disk stays on it: where a file is, is asked of the
//! disks, not of the index. That is made of the manifests that the runs left (`index`), and comes last.

mod check;
mod disks;
mod index;
mod place;
mod plan;

pub use check::{FoundInIndex, SpanCheck};

use std::{path::Path, sync::atomic::Ordering::Relaxed, time::Instant};

use crate::{
    copy::CopyJob, copy::Ending, copy::OutputJob, copy::OutputRun, copy::Report,
    copy::Reservations, copy::run::outputs::check_all, copy::run::outputs::end_state, error::Error,
    error::Result, event::Event, path::RelPath, path::Shown, span::disks::Disks,
    span::index::IndexWriting, span::plan::Plan, transfer::FirstRead, tree::NameList,
    tree::PathRecord, tree::Patience,
};

/// The deed of a span, in messages.
const SPAN: &str = "span over the disks";

/// Number of names that are given as examples.
const MOST_EXAMPLES: usize = 5;

/// Copies the source of these jobs, which have it in common, over their outputs, one after the other. For each, in
/// order, its report, or why it was refused.
///
/// # Errors
/// It was refused: a disk is missing, is another span's or no disk of its own, or there is not enough room on all of
/// them. Nothing was touched.
pub fn span_over(outputs: &[OutputJob<'_>]) -> Result<Vec<Result<Report>>> {
    let Some(OutputJob { job, observer }) = outputs.first().copied() else { return Ok(Vec::new()) };
    let jobs: Vec<CopyJob> = outputs.iter().map(|output| output.job.clone()).collect();
    if let Some(refused) = check_all(&jobs).into_iter().next() {
        return Err(refused);
    }
    let nothing = || job.of_nothing(Instant::now(), &observer.stop);
    if nothing()?.is_some() {
        return outputs.iter().map(|_| nothing().map(Option::unwrap_or_default).map(Ok)).collect();
    }
    let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
    let (wait, stop) = (job.wait && !job.dry_run, &observer.stop.of_one());
    let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
    for job in &jobs {
        patience.until_free(&job.output, job.state.as_deref())?;
    }
    let disks = Disks::open(&jobs, patience)?;
    disks.tell_replaced(observer);
    let (reservations, read) = (&Reservations::default(), &FirstRead::default());
    let run = OutputRun { job, observer, slot: None, reservations, read, beside: None };
    let plan = Plan::make(&run, &disks, patience)?;
    SpanRun { outputs, disks, plan, patience }.run()
}

/// A span whose plan is made.
struct SpanRun<'a> {
    outputs: &'a [OutputJob<'a>],
    disks: Disks,
    plan: Plan,
    patience: Patience<'a>,
}

impl SpanRun<'_> {
    fn run(mut self) -> Result<Vec<Result<Report>>> {
        let Some(OutputJob { job, observer }) = self.outputs.first().copied() else {
            return Ok(Vec::new());
        };
        if !job.dry_run && !observer.stop.is_requested() {
            self.disks.need_private(job)?;
        }
        self.plan.tell_twice(job, observer);
        let mut reports: Vec<(usize, Result<Report>)> = Vec::new();
        for number in 0..self.disks.each.len() {
            let at = self.disks.each[number].output;
            let (output, begun) = (self.outputs[at], Instant::now());
            let mut report = self.copy_to(number, output);
            if let Ok(report) = &mut report {
                self.count_missing(number, report);
            }
            output.observer.progress.end(end_state(output.job, &report), begun.elapsed());
            reports.push((at, report));
        }
        let is_at_end = |(_, report): &(usize, Result<Report>)| match report {
            Ok(report) => {
                report.ending.given_up().is_none()
                    && !matches!(report.ending, Ending::Interrupted(_))
            }
            Err(_) => false,
        };
        if !job.dry_run && self.plan.is_any() && reports.iter().all(is_at_end) {
            let writing = IndexWriting { job, observer, patience: self.patience };
            for (number, error) in writing.write(&self.disks) {
                let at = self.disks.each[number].output;
                let failed = reports.iter_mut().find(|(output, _)| *output == at);
                if let Some((_, Ok(report))) = failed {
                    report.ending = Ending::Stopped(error);
                }
            }
        }
        reports.sort_by_key(|(at, _)| *at);
        Ok(reports.into_iter().map(|(_, report)| report).collect())
    }

    /// Copies to the disk of this number what it got. One that no run was at, and that gets nothing, stays untouched.
    fn copy_to(&mut self, number: usize, output: OutputJob<'_>) -> Result<Report> {
        let OutputJob { job, observer } = output;
        if let Some(code) = observer.stop.requested() {
            return Ok(Report { ending: Ending::Interrupted(code), ..Report::default() });
        }
        let disk = &self.disks.each[number];
        let part = self.plan.parts[number].clone();
        let is_there = disk.dir.handle.is_some();
        if part.entries == 0 && is_there && !disk.was_used && self.plan.is_any() {
            let (ending, output_device) = (Ending::Complete, disk.id.dev);
            return Ok(Report { ending, output_device, ..Report::default() });
        }
        let progress = &observer.progress;
        progress.total_entries.fetch_add(part.entries, Relaxed);
        progress.total_bytes.fetch_add(part.bytes, Relaxed);
        progress.counted.store(true, Relaxed);
        let mut job = job.clone();
        if self.plan.is_any() {
            job.names = Some(NameList::of_records(part.names, part.entries == 0));
            // There is something, elsewhere.
            job.options.allow_empty |= part.entries == 0;
        }
        job.options.check_space = false;
        job.run(observer)
    }

    /// Names what has no room on this disk, where an earlier version of it is, and counts it, and what the walk could
    /// not look at.
    fn count_missing(&self, number: usize, report: &mut Report) {
        let observer = self.outputs[self.disks.each[number].output].observer;
        let (mut blocked, root) = (self.plan.blocked.reader(), &self.disks.each[number].path);
        let mut missing = if number == 0 { self.plan.failed } else { 0 };
        loop {
            let record = match blocked.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    let error = Error::io("sort the names of", root, error);
                    (observer.listen)(&Event::Failed(&error));
                    missing += 1;
                    break;
                }
            };
            let PathRecord { words, path } = PathRecord::of(record);
            if words == number.to_string().as_bytes() {
                let full = RelPath::parse(path).map(|path| path.full_path(root));
                let full = full.unwrap_or_else(|_| root.clone());
                let finding = "it was changed, and the disk that has it has no room for it: make room there, or \
                               move the old one to another disk";
                (observer.listen)(&Event::Failed(&Error::finding("copy", full, finding)));
                (missing, report.counts.without_room) =
                    (missing + 1, report.counts.without_room + 1);
            }
        }
        report.total = report.total.map(|total| total + missing);
        report.counts.seen += missing;
        report.counts.failed += missing;
        if missing > 0 && matches!(report.ending, Ending::Complete) {
            report.ending = Ending::Incomplete;
        }
    }
}

/// What a disk is called in messages: its number, and where it is.
fn called(number: usize, path: &Path) -> String {
    format!("disk {}, {}", number + 1, Shown::path(path))
}

/// So many files, in words.
fn in_words(number: u64) -> String {
    format!("{number} {}", if number == 1 { "file" } else { "files" })
}
