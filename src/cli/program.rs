//! What the programs do, from their arguments to their exit codes.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::bounded;

use crate::cli::args::{self, Args, Asked};
use crate::cli::console::{Console, Detail};
use crate::cli::exit::Exit;
use crate::cli::progress::View;
use crate::cli::summary::summary;
use crate::cli::verify::verify;
use crate::cli::verify_args;
use crate::copy::job::CopyJob;
use crate::copy::report::{Ending, Report};
use crate::error::Result;
use crate::event::{Progress, Stop};
use crate::sys;

/// Runs `dircopy` with these arguments, the program's name first.
pub fn dircopy(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match args::parse(args) {
        Ok(Asked::Copy(args, job)) => copy(&args, &job).into(),
        Ok(Asked::Verify(args)) => verify("dircopy", &args),
        Err(error) => explain(&error),
    }
}

/// Runs `dirverify` with these arguments, the program's name first.
pub fn dirverify(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match verify_args::parse(args) {
        Ok(args) => verify("dirverify", &args),
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

fn copy(args: &Args, job: &CopyJob) -> Exit {
    let view = if args.dry_run { View::None } else { View::new(args.progress, args.quiet) };
    let detail = match args {
        Args { dry_run: true, .. } => Detail::Dry,
        Args { quiet: true, .. } => Detail::Quiet,
        Args { verbose: true, .. } => Detail::Verbose,
        _ => Detail::Normal,
    };
    let console = Console::new(detail, view.bar());
    let stop = Stop::default();
    if let Err(error) = sys::on_interrupt(stop.handle()) {
        console.err(&format!("dircopy: warning: cannot catch signals: {error}"));
    }
    sys::raise_open_file_limit();
    match run(job, &view, &console, &stop) {
        Ok(report) => {
            if let Ending::Stopped(error) = &report.ending {
                console.err(&format!("dircopy: stopped early: {error}"));
            }
            if !args.quiet {
                console.out(&summary(&report, args.dry_run, args.verbose));
            }
            Exit::of(&report.ending, console.said_all())
        }
        Err(refused) => {
            console.err(&format!("dircopy: {refused}"));
            Exit::Refused
        }
    }
}

fn run(job: &CopyJob, view: &View, console: &Console, stop: &Stop) -> Result<Report> {
    let progress = Progress::default();
    progress.watched.store(!matches!(view, View::None), Relaxed);
    std::thread::scope(|scope| {
        let (running, done) = bounded(0);
        let progress = &progress;
        scope.spawn(move || view.show(progress, console, &done));
        let report = job.run(console, progress, stop);
        drop::<crossbeam_channel::Sender<()>>(running);
        report
    })
}
