//! A tree that is larger than one disk, copied over several: whole files, each disk complete by itself, and an index on
//! every disk that says what is on which.
//!
//! The source is walked once, and each file gets a disk (`plan`). Then each disk has an ordinary copy of the names that
//! it got, so that all promises of a copy hold there. What is on a disk stays on it: where a file is, is asked of the
//! disks, not of the index. That is made of the manifests that the runs left (`index`), and comes last. What is on
//! disks that come one after the other into one drive is remembered (`memory`).

mod check;
mod disks;
mod index;
mod memory;
mod place;
mod plan;

pub use check::{FoundInIndex, OpenSpan, SpanCheck, is_empty_disk, one_of_several};
pub use place::SpanOrder;

use std::{
    collections::BTreeMap, num::NonZero, path::Path, sync::atomic::Ordering::Relaxed, time::Instant,
};

use crate::{
    copy::CopyJob, copy::Ending, copy::OutputJob, copy::OutputRun, copy::Report,
    copy::Reservations, copy::run::outputs::check_all, copy::run::outputs::end_state, error::Deed,
    error::Error, error::Result, event::Event, event::EventObserver, event::Stop, path::Examples,
    path::RelPath, path::Shown, span::disks::AbsentDisk, span::disks::Disk, span::disks::Disks,
    span::index::IndexWriting, span::memory::Memory, span::memory::Series, span::place::usable,
    span::plan::FAILED_AWAY, span::plan::IN_DOUBT, span::plan::NO_ROOM_AWAY, span::plan::Part,
    span::plan::Plan, span::plan::SAME, span::plan::STILL_IN_DOUBT, sys, sys::Dir,
    transfer::FirstRead, tree::NameList, tree::PathRecord, tree::Patience,
};

/// The deed of a span, in messages.
const SPAN: &str = "span over the disks";

/// So many manifests stay on a disk, unless it is said how many: a run that finds nothing new leaves one more, and the
/// disks of a span are full.
const MANIFESTS: Option<NonZero<usize>> = NonZero::new(2);

/// Why a file that is as in the source, and would be replaced, stays.
const NO_ROOM_TO_REPLACE: &str = "it is to be replaced, though it is there as in the source, and its disk has no room for a second one: make room \
                                  there, or leave out --overwrite-policy always";

impl Examples {
    /// Tells of them, if there are any.
    fn tell(&self, job: &CopyJob, observer: &EventObserver<'_>, text: impl Fn(&str) -> String) {
        if let Some(names) = self.names() {
            (observer.listen)(&Event::Limits(&job.source, &text(&names)));
        }
    }
}

/// A disk that is given to a span.
#[derive(Clone, Copy)]
pub struct SpanDisk<'a> {
    /// The copy to it.
    pub output: OutputJob<'a>,
    /// Its name, if it is given by one wherever it is mounted: it may come later, …
    pub name: Option<&'a str>,
    /// … and may not be here now.
    pub is_here: bool,
}

impl SpanDisk<'_> {
    /// What it is called in messages.
    fn called(&self) -> &Path {
        self.name.map_or(&self.output.job.output, Path::new)
    }
}

/// The disk that a span wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextDisk {
    /// Its place among those that were given.
    pub output: usize,
    /// What for, in words.
    pub why: String,
}

/// What became of a span.
#[derive(Debug, Default)]
pub struct Spanned {
    /// For each disk that was given its report, or why it was refused. One that is not here has an empty one.
    pub reports: Vec<Result<Report>>,
    /// For each the number of entries that could not be copied there and are not on it: a later run sees to them.
    pub lacking: Vec<u64>,
    /// What is wanted for what is left.
    pub next: Option<NextDisk>,
}

impl Spanned {
    /// What became of one that copied nothing.
    fn untouched(reports: Vec<Result<Report>>, next: Option<NextDisk>) -> Self {
        Self { lacking: vec![0; reports.len()], reports, next }
    }
}

/// Looks at the disks of jobs that pass [`check_all`]; nothing is made if they are dry. Whether there is room takes a
/// walk.
///
/// # Errors
/// Why a copy over them would be refused.
pub fn look_at_disks(given: &[SpanDisk<'_>]) -> Result<()> {
    let stop = Stop::default();
    let patience = Patience { wait: false, deed: "copy to", tell: &|_| (), stop: &stop };
    Disks::open(given, patience).map(drop)
}

/// Copies the source of these jobs, which have it in common, over those of the disks that are here, one after the
/// other.
///
/// # Errors
/// It was refused: a disk is missing, is another span's or no disk of its own, or there is not enough room on all of
/// them. Nothing was touched.
pub fn span_over(given: &[SpanDisk<'_>], order: SpanOrder) -> Result<Spanned> {
    // One of a disk that is not here would be refused.
    let one = given.iter().find(|disk| disk.is_here).or(given.first());
    let Some(OutputJob { job, observer }) = one.map(|disk| disk.output) else {
        return Ok(Spanned::default());
    };
    let here = given.iter().filter(|disk| disk.is_here);
    let jobs: Vec<CopyJob> = here.map(|disk| disk.output.job.clone()).collect();
    if let Some(refused) = check_all(&jobs).into_iter().next() {
        return Err(refused);
    }
    let nothing = || job.of_nothing(Instant::now(), &observer.stop);
    if nothing()?.is_some() {
        let reports = given.iter().map(|_| nothing().map(Option::unwrap_or_default).map(Ok));
        return Ok(Spanned::untouched(reports.collect::<Result<_>>()?, None));
    }
    let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
    let (wait, stop) = (job.wait && !job.dry_run, &observer.stop.of_one());
    let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
    for job in &jobs {
        patience.until_free(&job.output, job.state.as_deref())?;
    }
    let disks = Disks::open(given, patience)?;
    if let Some(next) = disks.wanted_first().filter(|_| !disks.is_to_settle()) {
        let reports = given.iter().map(|_| Ok(untouched(0))).collect();
        return Ok(Spanned::untouched(reports, Some(next)));
    }
    disks.tell_news(given);
    let (reservations, read) = (&Reservations::default(), &FirstRead::default());
    let run = OutputRun { job, observer, slot: None, reservations, read, beside: None };
    let plan = Plan::make(&run, &disks, order, patience)?;
    SpanRun { given, disks, plan, patience }.run()
}

/// The report of a disk on which nothing was done.
fn untouched(output_device: u64) -> Report {
    Report { ending: Ending::Complete, output_device, ..Report::default() }
}

impl Disks {
    /// True if one of the disks that are here is to come to its end before one that is not: where both were begun, each
    /// would else be wanted while the other is in the drive, for ever.
    fn is_to_settle(&self) -> bool {
        let begun = |number: &usize| {
            self.memory.as_ref().is_some_and(|memory| memory.series.begun.contains(number))
        };
        self.each.iter().any(|disk| begun(&disk.number)) && self.absent.iter().any(|it| it.is_begun)
    }

    /// The disk that is wanted before anything new is copied: one of which it is not known what it has; or any, if none
    /// is here.
    fn wanted_first(&self) -> Option<NextDisk> {
        let wants =
            |disk: &AbsentDisk, why: &str| NextDisk { output: disk.output, why: why.into() };
        if let Some(begun) = self.absent.iter().find(|disk| disk.is_begun) {
            return Some(wants(begun, "a copy to it did not come to its end"));
        }
        let any = self.absent.iter().find(|disk| disk.is_new()).or(self.absent.first());
        any.filter(|_| self.each.is_empty()).map(|any| wants(any, "none is here"))
    }
}

/// A span whose plan is made.
struct SpanRun<'a> {
    given: &'a [SpanDisk<'a>],
    disks: Disks,
    plan: Plan,
    patience: Patience<'a>,
}

impl SpanRun<'_> {
    fn run(mut self) -> Result<Spanned> {
        let Some(OutputJob { job, observer }) = self.given.first().map(|disk| disk.output) else {
            return Ok(Spanned::default());
        };
        if !job.dry_run && !observer.stop.is_requested() {
            self.disks.need_private(job)?;
            self.note_begun(job)?;
        }
        self.plan.tell(job, observer);
        let mut reports: Vec<Result<Report>> =
            self.given.iter().map(|_| Ok(untouched(0))).collect();
        for at in 0..self.disks.each.len() {
            let output = self.disks.each[at].output;
            let (given, begun) = (self.given[output].output, Instant::now());
            let mut report = self.copy_to(at, given);
            if let Ok(report) = &mut report {
                self.count_missing(at, report);
            }
            given.observer.progress.end(end_state(given.job, &report), begun.elapsed());
            reports[output] = report;
        }
        let is_at_end = |report: &Report| {
            report.ending.given_up().is_none() && !matches!(report.ending, Ending::Interrupted(_))
        };
        let is_at_end = |report: &Result<Report>| report.as_ref().is_ok_and(is_at_end);
        let (is_at_end, mut is_written) = (reports.iter().all(is_at_end), true);
        if !job.dry_run && self.plan.is_any() && is_at_end {
            let failed = self.write_down(job, &reports);
            is_written = failed.is_empty();
            for (at, error) in failed {
                let output = self.disks.each[at].output;
                if let Ok(report) = &mut reports[output] {
                    report.ending = Ending::Stopped(error);
                }
            }
        }
        let next = match is_at_end && is_written {
            true => self.want_next(&mut reports)?,
            false => None,
        };
        let lacking = self.lacking(&reports);
        Ok(Spanned { reports, lacking, next })
    }

    /// Notes on this machine to which disks it begins to copy.
    fn note_begun(&mut self, job: &CopyJob) -> Result<()> {
        if self.disks.memory.is_none() && self.disks.is_to_remember {
            self.disks.memory = Some(Memory::make(job, self.patience)?);
        }
        let Disks { each, memory: Some(memory), given, .. } = &mut self.disks else {
            return Ok(());
        };
        let mut series = Series { given: given.clone(), ..memory.series.clone() };
        let parts = each.iter().zip(&self.plan.placed.parts);
        for (disk, _) in parts.filter(|(disk, part)| part.entries > 0 || disk.was_used) {
            series.begun.insert(disk.number);
            series.names.remove(&disk.number);
            series.names.extend(disk.name.clone().map(|name| (disk.number, name)));
        }
        memory.note(series, job.options.sync)
    }

    /// Writes the index, and what is to be remembered. The places of the disks that do not have it, and why.
    fn write_down(&mut self, job: &CopyJob, reports: &[Result<Report>]) -> Vec<(usize, Error)> {
        let observer = self.given[0].output.observer;
        let manifest = |disk: &Disk| reports[disk.output].as_ref().ok()?.manifest.clone();
        let manifests = self.disks.each.iter().map(manifest).collect();
        let writing = IndexWriting { job, observer, patience: self.patience, manifests };
        let failed = writing.write(&self.disks, self.plan.placed.rest.files);
        let Some(memory) = self.disks.memory.as_ref().filter(|_| failed.is_empty()) else {
            return failed;
        };
        let is_whole = |report: &Report| report.counts.failed == 0;
        let has_failed = |disk: &Disk| !reports[disk.output].as_ref().is_ok_and(is_whole);
        let (seen, durable) = (self.plan.seen(&self.disks, &has_failed), job.options.sync);
        let placed = &self.plan.placed;
        // What had no room there has none, whatever is left of it now.
        let waits = if self.disks.is_to_settle() { u64::MAX } else { placed.rest.least };
        let look = |(disk, part): (&Disk, &Part)| {
            let too_large = part.too_large.min(waits).saturating_sub(1);
            (disk.number, room_at(&disk.path).min(too_large))
        };
        let here: BTreeMap<usize, u64> =
            self.disks.each.iter().zip(&placed.parts).map(look).collect();
        let noted = seen.and_then(|seen| memory.remember(&seen, durable)).and_then(|()| {
            let Some(memory) = &mut self.disks.memory else { return Ok(()) };
            let mut series = memory.series.clone();
            series.begun.retain(|number| !here.contains_key(number));
            series.names.retain(|number, _| !here.contains_key(number));
            series.room.extend(here);
            memory.note(series, durable)
        });
        noted.err().map(|error| (0, error)).into_iter().collect()
    }

    /// For each disk that was given the number of entries that failed there and are not on it, as far as that is known.
    fn lacking(&self, reports: &[Result<Report>]) -> Vec<u64> {
        let failed = |report: &Result<Report>| report.as_ref().map_or(0, |it| it.counts.failed);
        let mut lacking: Vec<u64> = reports.iter().map(failed).collect();
        for (disk, part) in self.disks.each.iter().zip(&self.plan.placed.parts) {
            let lacking = &mut lacking[disk.output];
            if *lacking > 0 {
                let looked = disk.root().ok().and_then(|root| part.lacking_in(&root).ok());
                *lacking = looked.unwrap_or(0);
            }
        }
        lacking
    }

    /// The disk that is wanted after this run: a new one for what has no room, or one on which a changed file is. Names
    /// these, and counts them as failed at that.
    fn want_next(&self, reports: &mut [Result<Report>]) -> Result<Option<NextDisk>> {
        let mut next = self.disks.wanted_first();
        let rest = self.plan.placed.rest;
        if rest.files > 0 && next.is_none() {
            // The first of those with the most room: each change of disks is a deed of somebody.
            let absent = self.disks.absent.iter().filter(|disk| disk.room >= rest.least);
            let new = absent.rev().max_by_key(|disk| disk.room);
            let why = format!(
                "{} ({} MiB) wait for it",
                in_words(rest.files),
                rest.bytes.div_ceil(1 << 20)
            );
            next = new.map(|disk| NextDisk { output: disk.output, why });
        }
        // What one has that was begun is not known.
        for disk in self.disks.absent.iter().filter(|disk| !disk.is_begun) {
            let (observer, words) = (self.given[disk.output].output.observer, disk.words());
            let (mut changed, mut doubtful, mut kept_away) = (0, 0, 0);
            self.each_blocked(&disk.number.to_string(), |path, why| {
                let finding = match why {
                    "" => format!("it was changed since it was copied to {words}: connect that"),
                    IN_DOUBT => format!(
                        "its size and time are those that it had when it was copied to {words}, but it was touched since, \
                         and may have been edited: connect that"
                    ),
                    STILL_IN_DOUBT => format!(
                        "it is not known whether it is there as it is here, as something failed when {words} was here last: do \
                         what was said then, and connect that"
                    ),
                    NO_ROOM_AWAY => format!(
                        "it was changed since it was copied to {words}, which has no room for it beside the old one: make \
                         room there, or move the old one to another disk, and connect that"
                    ),
                    FAILED_AWAY => format!(
                        "it was changed since it was copied to {words}, and could not be replaced when that was here last: do \
                         what was said then, and connect that"
                    ),
                    why => format!("{why}; that is on {words}, which is not here"),
                };
                let path = path.full_path(&self.given[disk.output].output.job.source);
                (observer.listen)(&Event::Failed(&Error::finding("copy", path, finding)));
                kept_away += 1;
                changed += u64::from(why.is_empty());
                doubtful += u64::from(why == IN_DOUBT);
            })?;
            reports[disk.output].iter_mut().for_each(|report| report.fail(kept_away));
            if changed + doubtful > 0 && next.is_none() {
                let why = match changed {
                    0 => format!("{} on it may have been edited", in_words(doubtful)),
                    _ => format!("{} on it changed", in_words(changed)),
                };
                next = Some(NextDisk { output: disk.output, why });
            }
        }
        Ok(next)
    }

    /// Hands out the changed files that this one keeps from being copied, and why.
    fn each_blocked(&self, by: &str, mut see: impl FnMut(&RelPath, &str)) -> Result<()> {
        let mut blocked = self.plan.placed.blocked.reader();
        let source = &self.given[0].output.job.source;
        while let Some(record) = blocked.next_record().deed("sort the names of", source)? {
            let (words, path) = PathRecord::told(record);
            if let Some(why) = words.strip_prefix(by).and_then(|rest| rest.strip_prefix(' ')) {
                see(&RelPath::parse(path).unwrap_or_default(), why);
            }
        }
        Ok(())
    }

    /// Copies to the disk at this place what it got. One that no run was at, and that gets nothing, stays untouched.
    fn copy_to(&mut self, at: usize, output: OutputJob<'_>) -> Result<Report> {
        let OutputJob { job, observer } = output;
        if let Some(code) = observer.stop.requested() {
            return Ok(Report { ending: Ending::Interrupted(code), ..Report::default() });
        }
        let disk = &self.disks.each[at];
        let part = self.plan.placed.parts[at].clone();
        let is_there = disk.dir.handle.is_some();
        if part.entries == 0 && is_there && !disk.was_used && self.plan.is_any() {
            return Ok(untouched(disk.dev));
        }
        // What is at its place by now may be another disk, or none.
        let held = if job.dry_run { None } else { disk.to_copy_to(&job.options)? };
        let progress = &observer.progress;
        progress.total_entries.fetch_add(part.entries - part.dirs, Relaxed);
        progress.total_bytes.fetch_add(part.bytes, Relaxed);
        progress.counted.store(true, Relaxed);
        let keep_manifests = job.keep_manifests.or(MANIFESTS);
        let mut job = CopyJob { held, keep_manifests, is_of_span: true, ..job.clone() };
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
    fn count_missing(&self, at: usize, report: &mut Report) {
        let disk = &self.disks.each[at];
        let observer = self.given[disk.output].output.observer;
        let mut missing = if at == 0 { self.plan.failed } else { 0 };
        let looked = self.each_blocked(&format!("here {at}"), |path, why| {
            let finding = match why {
                SAME => NO_ROOM_TO_REPLACE,
                _ => {
                    "it was changed, and the disk that has it has no room for it: make room there, or move the old one to \
                     another disk"
                }
            };
            let full = path.full_path(&disk.path);
            (observer.listen)(&Event::Failed(&Error::finding("copy", full, finding)));
            (missing, report.counts.without_room) = (missing + 1, report.counts.without_room + 1);
        });
        if let Err(error) = looked {
            (observer.listen)(&Event::Failed(&error));
            missing += 1;
        }
        report.fail(missing);
    }
}

impl Report {
    /// What failed, and is `lacking`, was seen to in a later round, in which so many entries failed.
    pub fn settle(&mut self, lacking: u64, failed: u64) {
        let counts = &mut self.counts;
        let settled = lacking.min(counts.failed);
        (counts.seen, counts.failed) =
            (counts.seen.saturating_sub(settled), counts.failed - settled);
        counts.without_room = counts.without_room.min(counts.failed);
        self.total = self.total.map(|total| total.saturating_sub(settled));
        if matches!(self.ending, Ending::Incomplete) && counts.is_whole() {
            self.ending = Ending::Complete;
        }
        self.fail(failed);
    }

    /// Counts so many entries more that could not be copied.
    fn fail(&mut self, entries: u64) {
        self.total = self.total.map(|total| total + entries);
        self.counts.seen += entries;
        self.counts.failed += entries;
        if entries > 0 && matches!(self.ending, Ending::Complete) {
            self.ending = Ending::Incomplete;
        }
    }
}

/// What may be used of the room on a disk; none if it does not tell. Bytes.
fn room_at(path: &Path) -> u64 {
    let room = Dir::open_named(path).and_then(|root| sys::room(&root));
    room.map_or(0, |room| usable(room.bytes, room.block))
}

/// What a disk is called in messages: its number, and where it is.
fn called(number: usize, path: &Path) -> String {
    format!("disk {}, {}", number + 1, Shown::path(path))
}

/// So many files, in words.
fn in_words(number: u64) -> String {
    format!("{number} {}", if number == 1 { "file" } else { "files" })
}
