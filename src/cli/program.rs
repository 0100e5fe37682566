//! The programs, from their arguments to their exit codes.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::cluster::finish::finish;
use crate::cli::cluster::lists::merge;
use crate::cli::cluster::plan::plan;
use crate::cli::cluster::shard::shard;
use crate::cli::copy::copy;
use crate::cli::exit::Exit;
use crate::cli::generations::generations;
use crate::cli::invocation::{self, Invocation, UsageError};
use crate::cli::jobs;
use crate::cli::report::command::report;
use crate::cli::show::console::Console;
use crate::cli::stream::stream;
use crate::cli::verify::{heal, verify};
use crate::path::Shown;
use crate::sys;

/// Runs `dircopy` with these arguments, the program's name first.
pub fn dircopy(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    sys::keep_own_permissions();
    sys::permit_threads();
    sys::heed_memory_limit();
    let command: Vec<OsString> = args.into_iter().collect();
    match invocation::parse(command.iter().cloned()) {
        Ok(Invocation::Copy(invocation, file)) => match &invocation.stream {
            Some(job) => stream(&invocation, job, file.as_ref(), &command).into(),
            None => copy(*invocation, file.as_ref(), &command).into(),
        },
        Ok(Invocation::Verify(args)) => verify("dircopy", &args, &command).into(),
        Ok(Invocation::Heal(args)) => heal(&args, &command).into(),
        Ok(Invocation::Report(args)) => report(&args, &Console::plain()).into(),
        Ok(Invocation::Generations(args)) => generations(&args, &Console::plain()).into(),
        Ok(Invocation::CheckJob(invocation, file, matches)) => {
            jobs::check(&file, &invocation, &matches, &Console::plain()).into()
        }
        Ok(Invocation::Plan(args, job)) => plan(&args, job.map(|job| *job)).into(),
        Ok(Invocation::Shard(args)) => shard(&args).into(),
        Ok(Invocation::Finish(args)) => finish(&args).into(),
        Ok(Invocation::MergeManifests(args)) => merge(&args).into(),
        Ok(Invocation::ListJobs) => jobs::list(&Console::plain()).into(),
        Err(UsageError::CommandLine(error)) => explain(&error).into(),
        Err(UsageError::JobFile(errors)) => {
            let console = Console::plain();
            errors.iter().for_each(|error| console.refused(error));
            Exit::Refused.into()
        }
        Err(UsageError::WithJob(path, error)) => {
            let exit = explain(&error);
            let text = format!("dircopy: this is with the job {}", Shown::path(&path));
            Console::plain().err(&text);
            exit.into()
        }
    }
}

/// Runs `dirverify` with these arguments, the program's name first.
pub fn dirverify(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    sys::keep_own_permissions();
    sys::permit_threads();
    sys::heed_memory_limit();
    let command: Vec<OsString> = args.into_iter().collect();
    match invocation::parse_verify(command.iter().cloned()) {
        Ok(args) => verify("dirverify", &args, &command).into(),
        Err(error) => explain(&error).into(),
    }
}

/// Prints what is wrong with the arguments, or the help.
fn explain(error: &clap::Error) -> Exit {
    // Help and version are no errors, unless they cannot be shown.
    let shown = error.print().is_ok();
    match error.exit_code() {
        0 if shown => Exit::Complete,
        0 => Exit::Incomplete,
        _ => Exit::Refused,
    }
}
