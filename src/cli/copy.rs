//! A copy by `dircopy`, from its arguments to its exit code.

use std::{ffi::OsString, path::Path, path::PathBuf, sync::Arc, thread::Builder};

use crossbeam_channel::bounded;
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    cli::args::copy::CopyArgs, cli::args::job_file::JobFile, cli::args::mirror::GenerationsArgs,
    cli::catalog::add_copied, cli::exit::Exit, cli::invocation::CopyInvocation,
    cli::progress::CountTotal, cli::progress::View, cli::record::log, cli::record::task::Content,
    cli::record::task::RecordOptions, cli::record::task::RunResult, cli::record::task::Task,
    cli::session::Session, cli::session::Setup, cli::show::Console, cli::show::Detail,
    cli::show::Reporter, cli::show::copy_messages::Gathered, cli::show::copy_summary::CopySummary,
    cli::show::rows::files, cli::show::rows::size, cli::show::stream_summary::summary,
    cli::show::stream_summary::verdict, cli::span::SpanCopy, cli::verify::protect_copied,
    cli::words, copy::CopyJob, copy::Ending, copy::GenerationSet, copy::LostNames, copy::OutputJob,
    copy::Report, copy::generations::set::HeldGenerations, copy::generations::set::hold,
    copy::generations::set::path_of, copy::run::means::count, copy::run::outputs::copy_to_all,
    error::Deed, error::Error, error::Result, event::Event, event::Progress, event::Stop,
    heal::ProtectJob, path, path::Shown, state::DatedName, state::GenerationNote, stream::Endpoint,
    stream::StreamEnding, stream::StreamJob, sys, sys::Dir, sys::PlainUse, tree::NameEnd,
    tree::NameList, verify::VerifyReport, verify::near,
};

/// Copies the source to every output.
pub fn copy(
    CopyInvocation { args, mut jobs, given, called, unknown, absent, warnings, .. }: CopyInvocation,
    file: Option<&JobFile>,
    command: &[OsString],
) -> Exit {
    // Before signals are caught: a list may be typed.
    let names = args.files_from.as_deref().map(|path| read_names(path, args.null)).transpose();
    let (view, detail) = match (args.dry_run, args.verbosity.detail()) {
        (true, Detail::Quiet) => (View::None, Detail::Quiet),
        (true, _) => (View::None, Detail::Dry),
        (false, detail) => (args.verbosity.view(), detail),
    };
    let (options, catalog) = (args.record_options(&jobs, file, detail), args.catalog.as_deref());
    let source = &*jobs.first().map(|job| job.source.clone()).unwrap_or_default();
    let outputs = &*args.output;
    let task = Task::Copy { source, outputs, given: &given, dry_run: args.dry_run };
    let session = match Session::open(Setup { options, view, aside: false, task, command }) {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    match names {
        Ok(None) => {}
        Ok(names) => jobs.iter_mut().for_each(|job| job.names.clone_from(&names)),
        Err(refused) => return session.end_refused(&refused),
    }
    let (of_all, reporters) = reporters(&session, outputs, &called);
    for warning in args.unattended.give_way().iter().chain(&warnings) {
        of_all.event(&Event::Warning(warning));
    }
    of_all.rest();
    let (this, first) = (&session, args.output.first().map_or(Path::new(""), |it| it));
    let ran = in_time(&args, this, first, || match args.span {
        true => {
            let (args, reporters, of_all, given) = (&args, &*reporters, &of_all, &*given);
            let span = SpanCopy { args, session: this, reporters, of_all, given, command };
            span.run(&jobs, unknown, &absent)
        }
        false => run(&args, &jobs, unknown, this, &reporters),
    });
    reporters.iter().for_each(Reporter::rest);
    let CopyEnd { reports, protected, next, is_any_absent, away, catalog: of_catalog } = match ran {
        Ok(ran) => ran,
        Err(refused) => {
            let begin = outputs.iter().zip(&called).map(|it| begin_of_named(it.0, it.1)).next();
            return session.end_refused_at(&begin.unwrap_or_default(), &refused);
        }
    };
    let restored = jobs.first().filter(|job| job.options.restore).map(|_| source);
    let requires_mounts = jobs.iter().all(|job| job.options.require_mount);
    let summary = CopySummary {
        args: &args,
        outputs,
        called: &called,
        reports: &reports,
        protected: &protected,
        requires_mounts,
        restored,
        next: next.as_deref(),
        is_any_absent,
        away: &away,
    };
    summary.print(&session.console);
    let exit = match session.stop.requested() {
        // Stopped before anything was touched.
        Some(code) if reports.iter().all(Result::is_err) => Exit::of_stop(code),
        _ => Exit::of_all(&reports, session.console.all_written()).or_worse(summary.of_parity()),
    };
    let wanted = if next.is_some() && !args.dry_run { Exit::NextDisk } else { Exit::Complete };
    let exit = exit.or_worse(of_catalog).or_worse(wanted);
    let ran = jobs.iter().zip(&reports).filter(|_| !args.span);
    let exit = add_copied(catalog, ran, &of_all, &session.stop, exit);
    // Which disk is wanted is said also to who wants to hear nothing else.
    let is_quiet = args.verbosity.quiet && wanted == Exit::Complete;
    session.end(&RunResult::Copied(&reports), exit, is_quiet, |exit, amiss| {
        summary.verdict(exit, amiss)
    })
}

impl CopyArgs {
    /// What these copies are recorded in.
    pub(super) fn record_options<'a>(
        &'a self,
        jobs: &[CopyJob],
        file: Option<&'a JobFile>,
        detail: Detail,
    ) -> RecordOptions<'a> {
        let (limit_rate, catalog) = (self.unattended.limit_rate, self.catalog.as_deref());
        let options = self.unattended.records.options("dircopy", detail);
        RecordOptions { file, limit_rate, content: Content::of_copies(jobs), catalog, ..options }
    }
}

/// One for what is of all outputs, and one for each.
fn reporters<'s>(
    session: &'s Session<'_>,
    outputs: &[PathBuf],
    called: &[String],
) -> (Reporter<'s>, Vec<Reporter<'s>>) {
    let of_all = || Reporter {
        console: &session.console,
        records: &session.records,
        output: None,
        gathered: Gathered::default(),
    };
    let named = |(output, called): (&PathBuf, &String)| {
        let output = (outputs.len() > 1).then(|| (Shown::path(output).to_string(), called.clone()));
        Reporter { output, ..of_all() }
    };
    (of_all(), outputs.iter().zip(called).map(named).collect())
}

/// The beginning of an error of an output on a disk that was named: the error has where that is mounted.
pub fn begin_of_named(output: &Path, called: &str) -> String {
    if Shown::path(output).to_string() == called { String::new() } else { format!("{called}: ") }
}

/// The names in the list at `path`, or on standard input.
pub(super) fn read_names(path: &Path, null: bool) -> Result<NameList> {
    let separator = if null { NameEnd::Nul } else { NameEnd::LineFeed };
    if path == Path::new("-") {
        return NameList::read(std::io::stdin().lock(), separator, Path::new("standard input"));
    }
    let file = sys::open_plain(path, PlainUse::Read);
    let file = file.deed("open the list of names", path)?;
    NameList::read(file, separator, path)
}

/// Runs the jobs, each with its reporter, but for those whose output is `unknown`. For each its report, or why it was
/// refused; a single one that is refused is an error.
fn run(
    args: &CopyArgs,
    jobs: &[CopyJob],
    unknown: Vec<Option<Error>>,
    session: &Session<'_>,
    reporters: &[Reporter<'_>],
) -> Result<CopyEnd> {
    let progress: Vec<Arc<Progress>> = jobs.iter().map(|_| Arc::default()).collect();
    let observers: Vec<_> = reporters
        .iter()
        .zip(&progress)
        .map(|(reporter, progress)| reporter.observer(Arc::clone(progress), session.stop.clone()))
        .collect();
    let outputs = jobs.iter().zip(&observers).zip(&unknown);
    let outputs = outputs.filter(|(_, unknown)| unknown.is_none());
    let outputs: Vec<_> = outputs.map(|((job, observer), _)| OutputJob { job, observer }).collect();
    // Every output has the same total.
    let job = jobs.first().filter(|job| job.names.is_none());
    let count = job.map(|job| |progress: &Progress, stop: &Stop| count(job, progress, stop));
    let count = count.as_ref().map(|count| count as CountTotal<'_>);
    let (mut ran, mut protected) = (Vec::new(), Vec::new());
    if !outputs.is_empty() {
        ran = session.run(&progress, count, || match (&*outputs, jobs.len()) {
            ([OutputJob { job, observer }], 1) => job.run(observer).map(|it| vec![Ok(it)]),
            _ => copy_to_all(&outputs, args.lag as u64),
        })?;
        protected = protect(args, outputs.iter().map(|it| it.job).zip(&ran), session);
        note_parity(&protected, &mut ran);
    }
    let (mut ran, several) = (ran.into_iter(), jobs.len() > 1);
    let reports = unknown.into_iter().filter_map(|unknown| match unknown {
        Some(error) if several => Some(Ok(Err(error))),
        Some(error) => Some(Err(error)),
        None => ran.next().map(Ok),
    });
    let reports = reports.collect::<Result<_>>()?;
    Ok(CopyEnd { reports, protected, ..CopyEnd::default() })
}

/// Gives the report of each tree what became of its parity.
pub fn note_parity(protected: &[ProtectedTree], ran: &mut [Result<Report>]) {
    for (root, made) in protected {
        let is_of = |it: &&mut Report| it.manifest.as_deref().and_then(Path::parent) == Some(root);
        for report in ran.iter_mut().flatten().filter(is_of) {
            report.parity = made.as_ref().ok().and_then(|it| it.parity).or(report.parity);
        }
    }
}

/// What became of a copy, also of a span.
#[derive(Default)]
pub struct CopyEnd {
    pub reports: Vec<Result<Report>>,
    pub protected: Vec<ProtectedTree>,
    /// The disk of a span that is wanted next, what for, and what to type.
    pub next: Option<String>,
    /// True if a disk of a span was not here.
    pub is_any_absent: bool,
    /// For each disk of a span whether it was here in no round.
    pub away: Vec<bool>,
    /// What adding to the catalogue makes of the exit.
    pub catalog: Exit,
}

/// A tree that was copied, and what became of its parity.
pub type ProtectedTree = (PathBuf, Result<VerifyReport>);

/// Gives every complete copy parity, if that is asked for. Of generations it is the new one that gets it.
pub fn protect<'r>(
    args: &CopyArgs,
    ran: impl Iterator<Item = (&'r CopyJob, &'r Result<Report>)>,
    session: &Session<'_>,
) -> Vec<ProtectedTree> {
    let job = |(job, report): (&CopyJob, &'r Result<Report>)| {
        let report = report.as_ref().ok().filter(|it| matches!(it.ending, Ending::Complete))?;
        let root = report.manifest.as_deref().and_then(Path::parent)?;
        let mut protecting = ProtectJob::new(root);
        (protecting.share, protecting.wait) = (args.parity, job.wait);
        protecting.ahead = report.parity.unwrap_or_default();
        protecting.check.state.clone_from(&job.state);
        Some(protecting)
    };
    let wanted = ran.filter(|(job, _)| args.parity.is_some() && !job.dry_run);
    let jobs: Vec<ProtectJob> = wanted.filter_map(job).collect();
    if jobs.is_empty() {
        return Vec::new();
    }
    let protected = protect_copied(&jobs, session, args.verbosity.detail());
    jobs.into_iter().flat_map(|job| job.check.dirs).zip(protected).collect()
}

/// Runs `work`, and asks it to stop when the time that was set is over.
fn in_time<R>(
    args: &CopyArgs,
    session: &Session<'_>,
    output: &Path,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let deadline = args.unattended.deadline();
    let (stop, console) = (&session.stop, &session.console);
    std::thread::scope(|scope| {
        let (running, done) = bounded(0);
        if deadline.is_set() {
            let deadline = &deadline;
            let watch = move || {
                deadline.watch(stop, &done, |text| console.err(&format!("dircopy: {text}")));
            };
            // Without a thread the run would not end in time, so it does not begin.
            Builder::new()
                .name("clock".into())
                .spawn_scoped(scope, watch)
                .deed("watch the time of the copy to", output)?;
        }
        let ran = work();
        drop::<crossbeam_channel::Sender<()>>(running);
        ran
    })
}

// `dircopy generations`: lists what is at an output, and moves generations to its trash.

/// A generation, as a program reads it.
#[derive(Serialize)]
struct ListedGeneration {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_bytes: Option<u64>,
}

/// Lists the generations, or removes those that are named.
pub fn generations(args: &GenerationsArgs, console: &Console) -> Exit {
    let located = words::located(&args.output, "list the generations at");
    let done = located.map_err(|error| (Exit::Refused, error)).and_then(|output| {
        let args = &GenerationsArgs { output, ..args.clone() };
        if args.remove.is_empty() { list(args, console) } else { remove(args, console) }
    });
    match done {
        Ok(()) if console.all_written() => Exit::Complete,
        Ok(()) => Exit::Incomplete,
        Err((exit, error)) => {
            console.refused(&error);
            exit
        }
    }
}

fn open(path: &Path) -> Result<(Dir, GenerationSet)> {
    let root = Dir::open_named(path).deed("open the output", path)?;
    let set = GenerationSet::read(&root, path)?;
    Ok((root, set))
}

/// Number of generations of another user that are named.
const MOST_NAMED: usize = 5;

fn list(args: &GenerationsArgs, console: &Console) -> std::result::Result<(), (Exit, Error)> {
    let (root, set) = open(&args.output).map_err(|error| (Exit::Refused, error))?;
    if set.complete.is_empty() && set.unfinished.is_empty() {
        let has_some = |path: &Path| {
            let found = open(path);
            found.is_ok_and(|(_, set)| !(set.complete.is_empty() && set.unfinished.is_empty()))
        };
        let finding = match set.named(&args.output).last() {
            Some(_) if set.is_of_another_user(&root) => {
                let named = set.named(&args.output).into_iter().rev();
                let paths: Vec<PathBuf> = named.map(|it| path_of(&args.output, it)).collect();
                let names = paths.iter().take(MOST_NAMED).map(|path| Shown::path(path));
                format!(
                    "they are another user's, who sees them; dircopy verify checks them, and dircopy restore brings \
                     one back, by its name: {}",
                    Shown::first_of(paths.len() as u64, names)
                )
            }
            _ => match near(&args.output, has_some).first() {
                Some(place) => format!("they are in {}", Shown::path(place)),
                None => "there are none".to_owned(),
            },
        };
        let none = Error::finding("list generations of", &args.output, finding);
        return Err((Exit::Refused, none));
    }
    let each = |names: &[DatedName], state| {
        for name in names {
            let note = match state {
                "complete" => GenerationNote::at(&path_of(&args.output, *name)),
                _ => None,
            };
            console.out(&match args.json {
                true => log::line(&ListedGeneration {
                    name: name.to_string(),
                    state,
                    files: note.as_ref().map(|note| note.files),
                    bytes: note.as_ref().map(|note| note.bytes),
                    new_bytes: note.as_ref().map(|note| note.new_bytes),
                }),
                false => {
                    let said = note.map_or_else(String::new, |note| {
                        format!(
                            "  {}, {} of them new",
                            files(note.files, note.bytes),
                            size(note.new_bytes)
                        )
                    });
                    format!("{name}  {state:<10}{said}").trim_end().to_owned()
                }
            });
        }
    };
    let seconds = |name: &DatedName| name.time().as_second();
    let times: Vec<i64> = set.complete.iter().map(seconds).collect();
    let missed = match args.json {
        true => Vec::new(),
        false => missed(&times, Timestamp::now().as_second()),
    };
    let mut rest = &set.complete[..];
    for (after, number, hours) in missed {
        let (before, later) = rest.split_at(rest.partition_point(|name| seconds(name) <= after));
        each(before, "complete");
        let what = path::count(number, "generation");
        console.out(&format!("{:18}  {:<10}  {what}: one came every {hours} h", "", "missed"));
        rest = later;
    }
    each(rest, "complete");
    each(&set.unfinished, "unfinished");
    for (_, error) in set.doubted() {
        console.err(&format!("dircopy: {error}"));
    }
    match set.doubted().next().is_none() {
        true => Ok(()),
        false => {
            let finding = "not all of them can be looked at";
            Err((Exit::Incomplete, Error::finding("list generations of", &args.output, finding)))
        }
    }
}

/// The nights without a run, of runs at these times: when the one before was, how many there are, and the usual time
/// between two in hours. An older part of which a rule keeps fewer is none: it is told by that no two in it are as
/// close as the newer ones.
pub fn missed(all: &[i64], now: i64) -> Vec<(i64, u64, u64)> {
    let ends = all.iter().skip(1).copied().chain([now]);
    let step = |(at, end): (&i64, i64)| (*at, u64::try_from(end.saturating_sub(*at)).unwrap_or(0));
    let steps: Vec<(i64, u64)> = all.iter().zip(ends).map(step).collect();
    let Some((_, between)) = steps.split_last() else { return Vec::new() };
    let mut sorted: Vec<u64> = between.iter().rev().take(MOST_STEPS).map(|step| step.1).collect();
    sorted.sort_unstable();
    let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    if sorted.len() < 2 || usual < 3600 {
        return Vec::new();
    }
    let is_usual = |step: &(i64, u64)| step.1 * 2 <= usual * 3;
    let first = between.iter().position(is_usual).unwrap_or(steps.len());
    let gaps = steps.iter().skip(first).filter(|step| !is_usual(step));
    gaps.map(|(name, step)| (*name, (step + usual / 2) / usual - 1, (usual + 1800) / 3600))
        .collect()
}

/// So many of the newest generations tell how often one comes.
const MOST_STEPS: usize = 15;

fn remove(args: &GenerationsArgs, console: &Console) -> std::result::Result<(), (Exit, Error)> {
    let refused = |error| (Exit::Refused, error);
    let (root, _) = open(&args.output).map_err(refused)?;
    let private = &hold(&root, &args.output).map_err(refused)?;
    let set = GenerationSet::read(&root, &args.output).map_err(refused)?;
    for name in &args.remove {
        let path = args.output.join(name.to_string());
        if !set.complete.contains(name) {
            return Err(refused(Error::finding("remove", path, "there is no such generation")));
        }
        if set.newest() == Some(*name) {
            let finding = "it is the newest complete generation, which stays";
            return Err(refused(Error::finding("remove", path, finding)));
        }
    }
    let mut tell = |event: Event<'_>| {
        if let Event::GenerationRemoved(name, source) = event {
            // Others may have exchanged two outputs before this one was held.
            let of =
                source.map(|it| format!(": the generation of {}", Shown::bytes(it.as_bytes())));
            let (name, of) = (Shown::bytes(name), of.unwrap_or_default());
            console.out(&format!("moved {name} to the trash{of}"));
        }
    };
    // Without an age no trash is removed, and no file loses a name.
    let lost = &mut LostNames::default();
    let held = HeldGenerations { root: &root, path: &args.output, private };
    held.discard(&args.remove, None, lost, &Stop::default(), &mut tell)
        .map(drop)
        .map_err(|error| (Exit::Incomplete, error))
}

// A stream by `dircopy`, from its arguments to its exit code.

/// Copies the inputs to every output, one after the other.
pub fn stream(
    CopyInvocation { args, given, unknown, .. }: &CopyInvocation,
    job: &StreamJob,
    file: Option<&JobFile>,
    command: &[OsString],
) -> Exit {
    let detail = args.verbosity.detail();
    let records = &args.unattended.records;
    let opened = Session::open(Setup {
        options: RecordOptions { file, ..records.options("dircopy", detail) },
        view: args.verbosity.view(),
        aside: job.outputs.contains(&Endpoint::Standard),
        task: Task::Stream { inputs: &job.inputs, outputs: &job.outputs, given },
        command,
    });
    let session = match opened {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    if let Some(unknown) = unknown.iter().flatten().next() {
        return session.end_refused(unknown);
    }
    let (console, records) = (&session.console, &session.records);
    let reporter = Reporter { console, records, output: None, gathered: Gathered::default() };
    args.unattended.give_way().iter().for_each(|warning| reporter.event(&Event::Warning(warning)));
    let ran = session
        .run_one(None, |progress| job.run(&reporter.observer(progress, session.stop.clone())));
    reporter.rest();
    let report = match &ran {
        Ok(report) => report,
        Err(refused) => return session.end_refused(refused),
    };
    // A reader that closed its end wants no summary.
    let says = detail != Detail::Quiet && report.ending != StreamEnding::Closed;
    if says {
        session.console.out_rows(summary(report));
    }
    let exit = Exit::of_stream(report.ending, session.console.all_written());
    session
        .end(&RunResult::Streamed(report), exit, !says, |exit, amiss| verdict(report, exit, amiss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_without_a_generation_is_told() {
        let name = |day: &str| DatedName::parse(&format!("2026-11-{day}T020000Z")).unwrap();
        let at = |day: &str| name(day).time().as_second();
        let told = |days: &[&str], now: &str| {
            missed(&days.iter().map(|day| at(day)).collect::<Vec<_>>(), at(now))
        };
        let after = |day: &str, number| (at(day), number, 24);
        assert_eq!(told(&["01", "02", "03", "05", "06"], "06"), [after("03", 1)]);
        assert_eq!(told(&["01", "02", "03", "04"], "08"), [after("04", 3)]);
        // Weekly ones are kept of those that are older.
        assert_eq!(told(&["01", "08", "15", "16", "17", "18", "19", "20", "21"], "22"), []);
        assert_eq!(told(&["01", "02"], "20"), []);
        assert_eq!(told(&[], "20"), []);
    }
}
