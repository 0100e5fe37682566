//! What the programs do, from their arguments to their exit codes.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::Builder;

use crossbeam_channel::bounded;

use crate::cli::args::copy::Args;
use crate::cli::args::job_file::JobFile;
use crate::cli::args::verify;
use crate::cli::exit::Exit;
use crate::cli::invocation::{self, Asked, Copy, Wrong};
use crate::cli::jobs;
use crate::cli::record::records::{Ran, Task, Wanted};
use crate::cli::schedule::Deadline;
use crate::cli::service::Service;
use crate::cli::session::{Watched, stop_by_signals};
use crate::cli::show::console::{Console, Detail};
use crate::cli::show::progress::View;
use crate::cli::show::reporter::Told;
use crate::cli::stream::stream;
use crate::cli::verify::verify;
use crate::copy::job::CopyJob;
use crate::copy::report::Report;
use crate::copy::run::outputs::{OutputJob, copy_to_all};
use crate::error::{Error, Result};
use crate::event::{Event, Progress, Stop};
use crate::path::Shown;
use crate::sys;

/// Runs `dircopy` with these arguments, the program's name first.
pub fn dircopy(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command: Vec<OsString> = args.into_iter().collect();
    match invocation::parse(command.iter().cloned()) {
        Ok(Asked::Copy(asked, file)) => match &asked.stream {
            Some(job) => stream(&asked.args, job, file.as_ref(), &command).into(),
            None => copy(&asked, file.as_ref(), &command).into(),
        },
        Ok(Asked::Verify(args)) => verify("dircopy", &args, &command),
        Ok(Asked::Job(asked, file, matches)) => {
            jobs::explain(&file, &asked, &matches, &Console::plain()).into()
        }
        Err(Wrong::Typed(error)) => explain(&error),
        Err(Wrong::File(errors)) => {
            let console = Console::plain();
            errors.iter().for_each(|error| console.refused(error));
            Exit::Refused.into()
        }
        Err(Wrong::Together(path, error)) => {
            let code = explain(&error);
            let text = format!("dircopy: this is with the job {}", Shown::path(&path));
            Console::plain().err(&text);
            code
        }
    }
}

/// Runs `dirverify` with these arguments, the program's name first.
pub fn dirverify(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command: Vec<OsString> = args.into_iter().collect();
    match verify::parse(command.iter().cloned()) {
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

fn copy(Copy { args, jobs, .. }: &Copy, file: Option<&JobFile>, command: &[OsString]) -> Exit {
    let (view, detail) = match args.dry_run {
        true => (View::None, Detail::Dry),
        false => (args.say.view(), args.say.detail()),
    };
    let console = Console::new("dircopy", detail, view.bar());
    let console = console.in_json(args.unattended.records.speaks_json());
    let stop = stop_by_signals(&console);
    sys::raise_open_file_limit();
    let file = file.map(|file| (&*file.path, file.words()));
    let wanted =
        Wanted { detail: Some(detail), name: "dircopy", file, ..args.unattended.records.wanted() };
    let source = jobs.first().map_or("".as_ref(), |job| &*job.source);
    let outputs = &*args.output;
    let task = Task::Copy { source, outputs, dry_run: args.dry_run };
    let service = Service::find();
    let watched = Watched { view: &view, service: &service, console: &console };
    let records = match watched.open(&wanted, task, command, &stop) {
        Ok(records) => records,
        Err(exit) => return exit,
    };
    let several = outputs.len() > 1;
    let told: Vec<Told<'_>> = outputs
        .iter()
        .map(|output| {
            let at = several.then(|| Shown::path(output).to_string());
            Told { console: &console, records: &records, at }
        })
        .collect();
    let warnings = args.unattended.give_way().into_iter().chain(wanted.inside(source));
    for warning in warnings {
        let warning = Event::Warning(&warning);
        console.event(&warning, None);
        records.event(&warning, None);
    }
    let ran = run(args, jobs, &watched, &told, &stop);
    let (ran, exit) = match &ran {
        Ok(ran) => {
            for (told, ran) in told.iter().zip(ran) {
                told.ended(args, ran);
            }
            let exit = match stop.requested() {
                // Stopped before anything was touched.
                Some(code) if ran.iter().all(Result::is_err) => Exit::of_stop(code),
                _ => Exit::of_all(ran, console.said_all()),
            };
            (Ran::Copied(ran), exit)
        }
        Err(refused) => (Ran::Refused(refused), watched.refused(refused, &stop)),
    };
    watched.end(&records, &ran, exit)
}

/// Runs the jobs, of which there is one for each that is told. For each its report, or why it was
/// refused; one that is alone and refused is an error.
fn run(
    args: &Args,
    jobs: &[CopyJob],
    watched: &Watched<'_>,
    told: &[Told<'_>],
    stop: &Stop,
) -> Result<Vec<Result<Report>>> {
    let progress: Vec<Arc<Progress>> = jobs.iter().map(|_| Arc::default()).collect();
    let deadline = Deadline::new(args.unattended.max_duration, args.unattended.stop_at);
    let (Some(job), Some(Told { console, .. })) = (jobs.first(), told.first()) else {
        return Ok(Vec::new());
    };
    std::thread::scope(|scope| {
        let (running, done) = bounded(0);
        if deadline.is_set() {
            let deadline = &deadline;
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
        let told = told.iter().zip(&progress);
        let observers: Vec<_> = told
            .map(|(told, progress)| told.observer(Arc::clone(progress), stop.clone()))
            .collect();
        let outputs = jobs.iter().zip(&observers);
        let outputs: Vec<_> = outputs.map(|(job, observer)| OutputJob { job, observer }).collect();
        let ran = watched.run(&progress, stop, || match &*outputs {
            [OutputJob { job, observer }] => job.run(observer).map(|report| vec![Ok(report)]),
            outputs => copy_to_all(outputs, args.lag as u64),
        });
        drop::<crossbeam_channel::Sender<()>>(running);
        ran
    })
}
