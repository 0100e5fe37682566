//! A copy by `dircopy`, from its arguments to its exit code.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::thread::Builder;

use crossbeam_channel::bounded;

use crate::cli::args::copy::CopyArgs;
use crate::cli::args::job_file::JobFile;
use crate::cli::exit::Exit;
use crate::cli::invocation::CopyInvocation;
use crate::cli::progress::view::{CountTotal, View};
use crate::cli::record::options::{Content, RecordOptions};
use crate::cli::record::task::{RunResult, Task};
use crate::cli::session::{Session, Setup};
use crate::cli::show::copy_summary::CopySummary;
use crate::cli::show::gathered::Gathered;
use crate::cli::show::line::Detail;
use crate::cli::show::reporter::Reporter;
use crate::copy::job::CopyJob;
use crate::copy::report::Report;
use crate::copy::run::count::count;
use crate::copy::run::outputs::{OutputJob, copy_to_all};
use crate::error::{Error, Result};
use crate::event::{Event, Progress, Stop};
use crate::path::Shown;
use crate::sys::{self, PlainUse};
use crate::tree::names::list::{NameEnd, NameList};

/// Copies the source to every output.
pub fn copy(
    CopyInvocation { args, mut jobs, given, unknown, .. }: CopyInvocation,
    file: Option<&JobFile>,
    command: &[OsString],
) -> Exit {
    // Before signals are caught: a list may be typed.
    let names = args.files_from.as_deref().map(|path| read_names(path, args.null)).transpose();
    let (view, detail) = match args.dry_run {
        true => (View::None, Detail::Dry),
        false => (args.verbosity.view(), args.verbosity.detail()),
    };
    let records = &args.unattended.records;
    let limit_rate = args.unattended.limit_rate;
    let content = Content::of_copies(&jobs);
    let options = records.options("dircopy", detail);
    let options = RecordOptions { file, limit_rate, content, ..options };
    let source = &*jobs.first().map(|job| job.source.clone()).unwrap_or_default();
    let outputs = &*args.output;
    let task = Task::Copy { source, outputs, given: &given, dry_run: args.dry_run };
    let session = match Session::open(Setup { options, view, aside: false, task, command }) {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    match names {
        Ok(names) => jobs.iter_mut().for_each(|job| job.names.clone_from(&names)),
        Err(refused) => return session.end_refused(&refused),
    }
    let several = outputs.len() > 1;
    let reporter = |output| Reporter {
        console: &session.console,
        records: &session.records,
        output: several.then(|| Shown::path(output).to_string()),
        gathered: Gathered::default(),
    };
    let reporters: Vec<_> = outputs.iter().map(|output| reporter(output)).collect();
    let of_all = Reporter { output: None, ..reporter(Path::new("")) };
    for warning in &args.unattended.give_way() {
        of_all.event(&Event::Warning(warning));
    }
    of_all.rest();
    let ran = run(&args, &jobs, unknown, &session, &reporters);
    reporters.iter().for_each(Reporter::rest);
    let reports = match ran {
        Ok(reports) => reports,
        Err(refused) => return session.end_refused(&refused),
    };
    let summary = CopySummary { args: &args, outputs, reports: &reports };
    summary.print(&session.console);
    let exit = match session.stop.requested() {
        // Stopped before anything was touched.
        Some(code) if reports.iter().all(Result::is_err) => Exit::of_stop(code),
        _ => Exit::of_all(&reports, session.console.all_written()),
    };
    let is_quiet = args.verbosity.quiet;
    session.end(&RunResult::Copied(&reports), exit, is_quiet, |exit, amiss| {
        summary.verdict(exit, amiss)
    })
}

/// The names in the list at `path`, or on standard input.
fn read_names(path: &Path, null: bool) -> Result<NameList> {
    let separator = if null { NameEnd::Nul } else { NameEnd::LineFeed };
    if path == Path::new("-") {
        return NameList::read(std::io::stdin().lock(), separator, Path::new("standard input"));
    }
    let file = sys::open_plain(path, PlainUse::Read);
    let file = file.map_err(|error| Error::io("open the list of names", path, error))?;
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
) -> Result<Vec<Result<Report>>> {
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
    let mut ran = match (&*outputs, jobs.len()) {
        ([], _) => Vec::new(),
        ([OutputJob { job, observer }], 1) => {
            let run = || job.run(observer).map(|report| vec![Ok(report)]);
            in_time(args, session, &job.output, || session.run(&progress, count, run))?
        }
        ([OutputJob { job, .. }, ..], _) => in_time(args, session, &job.output, || {
            session.run(&progress, count, || copy_to_all(&outputs, args.lag as u64))
        })?,
    }
    .into_iter();
    let several = jobs.len() > 1;
    let reports = unknown.into_iter().filter_map(|unknown| match unknown {
        Some(error) if several => Some(Ok(Err(error))),
        Some(error) => Some(Err(error)),
        None => ran.next().map(Ok),
    });
    reports.collect()
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
                .map_err(|error| Error::io("watch the time of the copy to", output, error))?;
        }
        let ran = work();
        drop::<crossbeam_channel::Sender<()>>(running);
        ran
    })
}
