//! The exit codes: stable, documented in `--help` and the README.

use std::{ffi::OsString, io, io::IsTerminal, process::ExitCode};

use crate::{
    cli::catalog::catalog, cli::cluster::plan::finish, cli::cluster::plan::plan,
    cli::cluster::plan::shard, cli::copy::copy, cli::copy::generations, cli::copy::stream,
    cli::covered::covered, cli::invocation, cli::invocation::Invocation,
    cli::invocation::UsageError, cli::jobs, cli::lists, cli::report::report, cli::show::Console,
    cli::verify::heal, cli::verify::protect, cli::verify::verify, copy::Ending, copy::Report,
    error::Result, path::Shown, stream::StreamEnding, sys, verify::VerifyReport,
};

/// The code for a stop because the set time is over.
pub const TIME_IS_UP: usize = 6;

/// The exit code that shells give a program that SIGPIPE ended: 128 and the signal's number.
const READER_GONE: usize = 141;

/// The meaning of the program's exit for a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for was done.
    #[default]
    Complete,
    /// Finished, but not everything was done.
    Incomplete,
    /// Usage error, or refused before anything was touched.
    Refused,
    /// Stopped early.
    Stopped,
    /// A check found files that are not as listed, a copy could not be made that the disk holds as it
    /// was written, or files of the source have rotted.
    Untrue,
    /// A check had no manifest that could be read whole and lists files.
    Unusable,
    /// The time that was set was over before the run was.
    TimeIsUp,
    /// The disks that are here are done, and another one is wanted.
    NextDisk,
    /// Ended by a signal, with 128 and its number.
    Interrupted(u8),
}

impl Exit {
    /// The exit of a run. A run whose messages or records could not all be written is no success.
    pub fn of(ending: &Ending, all_written: bool) -> Self {
        match ending {
            Ending::Complete if all_written => Exit::Complete,
            Ending::Complete | Ending::Incomplete | Ending::Nothing(_) => Exit::Incomplete,
            Ending::Unproven | Ending::Rotten | Ending::Miscomputed(_) => Exit::Untrue,
            Ending::Stopped(_) => Exit::Stopped,
            Ending::Interrupted(code) => Exit::of_stop(*code),
        }
    }

    /// The exit of a run to several outputs: that of the worst of them. One that was refused was not touched, but
    /// others were.
    pub fn of_all(ran: &[Result<Report>], all_written: bool) -> Self {
        if ran.iter().all(Result::is_err) {
            return Exit::Refused;
        }
        let exit = |ran: &Result<Report>| match ran {
            Ok(report) => Exit::of(&report.ending, all_written),
            Err(_) => Exit::Incomplete,
        };
        ran.iter().map(exit).max_by_key(|exit| exit.weight()).unwrap_or(Exit::Complete)
    }

    /// The exit for one of several outputs.
    pub fn of_one(ran: &Result<Report>, all_written: bool) -> Self {
        ran.as_ref().map_or(Exit::Refused, |report| Exit::of(&report.ending, all_written))
    }

    /// This one, or another if that is worse.
    pub fn or_worse(self, other: Self) -> Self {
        if other.weight() > self.weight() { other } else { self }
    }

    /// The weight of an exit of one of several outputs: the worst counts.
    fn weight(self) -> u8 {
        match self {
            Exit::Complete => 0,
            Exit::Refused | Exit::Incomplete | Exit::Unusable => 1,
            Exit::NextDisk => 2,
            Exit::Stopped => 3,
            Exit::Untrue => 4,
            Exit::TimeIsUp => 5,
            Exit::Interrupted(_) => 6,
        }
    }

    /// The exit of a stream. A reader that goes away ends it as it ends other programs.
    pub fn of_stream(ending: StreamEnding, all_written: bool) -> Self {
        match ending {
            StreamEnding::Complete if all_written => Exit::Complete,
            StreamEnding::Complete | StreamEnding::Incomplete => Exit::Incomplete,
            StreamEnding::Unproven => Exit::Untrue,
            StreamEnding::Closed => Exit::of_stop(READER_GONE),
            StreamEnding::Stopped => Exit::Stopped,
            StreamEnding::Interrupted(code) => Exit::of_stop(code),
        }
    }

    /// The exit of a check, by the worst finding: a file that is known to be wrong outweighs a line that may hide one,
    /// and that a file that may be right.
    pub fn of_check(report: &VerifyReport, all_written: bool) -> Self {
        let counts = &report.counts;
        match report.interrupted {
            Some(code) => Exit::of_stop(code),
            None if counts.is_untrue() => Exit::Untrue,
            None if counts.is_unusable() => Exit::Unusable,
            None if counts.is_incomplete() || !all_written => Exit::Incomplete,
            None => Exit::Complete,
        }
    }

    /// The exit of a run that was asked to stop with this code.
    pub fn of_stop(code: usize) -> Self {
        match code {
            TIME_IS_UP => Exit::TimeIsUp,
            code => Exit::Interrupted(u8::try_from(code).unwrap_or(130)),
        }
    }

    /// The same after a line or a record could not be written.
    pub fn unwritten(self) -> Self {
        if self == Exit::Complete { Exit::Incomplete } else { self }
    }

    /// The name in reports and logs.
    pub fn name(self) -> &'static str {
        match self {
            Exit::Complete => "complete",
            Exit::Incomplete => "incomplete",
            Exit::Refused => "refused",
            Exit::Stopped => "stopped",
            Exit::Untrue => "untrue",
            Exit::Unusable => "unusable",
            Exit::TimeIsUp => "time-is-up",
            Exit::NextDisk => "next-disk",
            Exit::Interrupted(_) => "interrupted",
        }
    }

    pub fn code(self) -> u8 {
        match self {
            Exit::Complete => 0,
            Exit::Incomplete => 1,
            Exit::Refused => 2,
            Exit::Stopped => 3,
            Exit::Untrue => 4,
            Exit::Unusable => 5,
            Exit::TimeIsUp => 6,
            Exit::NextDisk => 7,
            Exit::Interrupted(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

// The programs, from their arguments to their exit codes.

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
        Ok(Invocation::Protect(args)) => protect(&args, &command).into(),
        Ok(Invocation::Report(args)) => report(&args, &Console::plain()).into(),
        Ok(Invocation::Generations(args)) => generations(&args, &Console::plain()).into(),
        Ok(Invocation::CheckJob(invocation, file, matches)) => {
            jobs::check(&file, &invocation, &matches, &Console::plain()).into()
        }
        Ok(Invocation::Plan(args, job)) => plan(&args, job.map(|job| *job)).into(),
        Ok(Invocation::Shard(args)) => shard(&args).into(),
        Ok(Invocation::Finish(args)) => finish(&args).into(),
        Ok(Invocation::MergeManifests(args)) => lists::merge(&args).into(),
        Ok(Invocation::Covered(args)) => covered(&args, &command).into(),
        Ok(Invocation::Catalog(args)) => catalog(&args).into(),
        Ok(Invocation::CompareLists(args)) => lists::diff(&args).into(),
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
    if error.exit_code() == 0 {
        return if error.print().is_ok() { Exit::Complete } else { Exit::Incomplete };
    }
    let text = error.render();
    let text = if io::stderr().is_terminal() { text.ansi().to_string() } else { text.to_string() };
    Console::plain().err(text.trim_end());
    Exit::Refused
}
