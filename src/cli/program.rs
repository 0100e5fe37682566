//! What the programs do, from their arguments to their exit codes.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Builder;

use crossbeam_channel::bounded;

use crate::cli::args::{self, Args, Asked};
use crate::cli::console::{Console, Detail};
use crate::cli::exit::Exit;
use crate::cli::progress::View;
use crate::cli::record::records::{Ran, Records, Task, Wanted};
use crate::cli::schedule::Deadline;
use crate::cli::summary::summary;
use crate::cli::verify::verify;
use crate::cli::verify_args;
use crate::copy::job::CopyJob;
use crate::copy::report::{Ending, Report};
use crate::error::{Error, Result};
use crate::event::{Event, Progress, Stop, Watch};
use crate::sys;

/// Runs `dircopy` with these arguments, the program's name first.
pub fn dircopy(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command: Vec<OsString> = args.into_iter().collect();
    match args::parse(command.iter().cloned()) {
        Ok(Asked::Copy(args, job)) => copy(&args, &job, &command).into(),
        Ok(Asked::Verify(args)) => verify("dircopy", &args, &command),
        Err(error) => explain(&error),
    }
}

/// Runs `dirverify` with these arguments, the program's name first.
pub fn dirverify(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command: Vec<OsString> = args.into_iter().collect();
    match verify_args::parse(command.iter().cloned()) {
        Ok(args) => verify("dirverify", &args, &command),
        Err(error) => explain(&error),
    }
}

/// Says what is wrong with the arguments, or the help.
fn explain(error: &clap::Error) -> ExitCode {
    // Help and version are no errors, unless they cannot be shown.
    let shown = error.print().is_ok();
    match error.exit_code() {
        0 if shown => Exit::Complete.into(),
        0 => Exit::Incomplete.into(),
        _ => Exit::Refused.into(),
    }
}

fn copy(args: &Args, job: &CopyJob, command: &[OsString]) -> Exit {
    let view = if args.dry_run { View::None } else { View::new(args.progress, args.quiet) };
    let detail = match args {
        Args { dry_run: true, .. } => Detail::Dry,
        Args { quiet: true, .. } => Detail::Quiet,
        Args { verbose: true, .. } => Detail::Verbose,
        _ => Detail::Normal,
    };
    let console = Console::new(detail, view.bar()).in_json(args.unattended.records.speaks_json());
    let stop = Stop::default();
    if let Err(error) = sys::on_interrupt(stop.handle()) {
        console.err(&format!("dircopy: warning: cannot catch signals: {error}"));
    }
    sys::raise_open_file_limit();
    let wanted =
        Wanted { detail: Some(detail), name: "dircopy", ..args.unattended.records.wanted() };
    let (source, output) = (&*job.source, &*job.output);
    let task = Task::Copy { source, output, dry_run: job.dry_run };
    let records = match Records::open(&wanted, task, command) {
        Ok(records) => records,
        Err(refused) => {
            console.error("refused", &refused, &format!("dircopy: {refused}"));
            return Exit::Refused;
        }
    };
    let told = Told { console: &console, records: &records };
    let warnings = args.unattended.give_way().into_iter().chain(wanted.inside(source));
    warnings.for_each(|warning| told.event(&Event::Warning(&warning)));
    let ran = run(args, job, &view, &told, &stop);
    let (ran, exit) = match &ran {
        Ok(report) => {
            if let Ending::Stopped(error) = &report.ending {
                console.error("stopped", error, &format!("dircopy: stopped early: {error}"));
            }
            if !args.quiet {
                console.out(&summary(report, args.dry_run, args.verbose));
            }
            (Ran::Copied(report), Exit::of(&report.ending, console.said_all()))
        }
        Err(refused) => {
            console.error("refused", refused, &format!("dircopy: {refused}"));
            // Stopped before anything was touched.
            (Ran::Refused(refused), stop.requested().map_or(Exit::Refused, Exit::of_stop))
        }
    };
    let (exit, errors) = records.close(&ran, exit);
    for error in &errors {
        console.error("failed", error, &format!("dircopy: {error}"));
    }
    exit
}

fn run(args: &Args, job: &CopyJob, view: &View, told: &Told<'_>, stop: &Stop) -> Result<Report> {
    let progress = Progress::default();
    progress.watched.store(!matches!(view, View::None), Relaxed);
    let deadline = Deadline::new(args.unattended.max_duration, args.unattended.stop_at);
    std::thread::scope(|scope| {
        let (running, done) = bounded(0);
        let (progress, console) = (&progress, told.console);
        if deadline.is_set() {
            let (deadline, done) = (&deadline, done.clone());
            let watch = move || {
                let text = "dircopy: the time is up: finishing the files in hand";
                deadline.watch(stop, &done, || console.err(text));
            };
            // A run that nobody would stop in time is not begun.
            Builder::new()
                .name("clock".into())
                .spawn_scoped(scope, watch)
                .map_err(|error| Error::io("watch the time of the copy to", &job.output, error))?;
        }
        view.show_beside(scope, progress, console, done);
        let report = job.run(told, progress, stop);
        drop::<crossbeam_channel::Sender<()>>(running);
        report
    })
}

/// Who is told what happens.
struct Told<'a> {
    console: &'a Console,
    records: &'a Records<'a>,
}

impl Watch for Told<'_> {
    fn event(&self, event: &Event<'_>) {
        self.console.event(event);
        self.records.event(event);
    }
}
