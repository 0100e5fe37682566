//! What a command line asks for, together with the job file it may name.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches};

use crate::cli::args::copy::{Args, command, jobs, whole};
use crate::cli::args::job_file::JobFile;
use crate::cli::args::stream;
use crate::cli::args::verify::VerifyArgs;
use crate::copy::job::CopyJob;
use crate::error::Error;
use crate::stream::StreamJob;
use crate::stream::endpoint::is_stream;

/// What is asked for.
#[derive(Debug)]
pub enum Asked {
    /// A copy, by a job file if there is one.
    Copy(Box<Copy>, Option<JobFile>),
    /// A check.
    Verify(VerifyArgs),
    /// To tell what a job would run; with the options that it sets.
    Job(Box<Copy>, JobFile, ArgMatches),
}

/// A copy, as options and as jobs.
#[derive(Debug)]
pub struct Copy {
    /// The options.
    pub args: Args,
    /// A job for each output.
    pub jobs: Vec<CopyJob>,
    /// The stream that it is, if it is one.
    pub stream: Option<StreamJob>,
}

/// What is wrong with a command line.
#[derive(Debug)]
pub enum Wrong {
    /// What was typed; or nothing is, and this is the help.
    Typed(clap::Error),
    /// A job file.
    File(Vec<Error>),
    /// Both together, the job file being this one.
    Together(PathBuf, clap::Error),
}

impl From<clap::Error> for Wrong {
    fn from(error: clap::Error) -> Self {
        Wrong::Typed(error)
    }
}

impl From<Vec<Error>> for Wrong {
    fn from(errors: Vec<Error>) -> Self {
        Wrong::File(errors)
    }
}

/// Reads the command line. The error may be the help.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Asked, Wrong> {
    let mut command = command();
    let args = whole(args, &mut command)?;
    let matches = command.try_get_matches_from_mut(args.clone())?;
    match matches.subcommand() {
        Some(("verify", matches)) => Ok(Asked::Verify(VerifyArgs::from_arg_matches(matches)?)),
        Some((_, jobs)) => {
            let name = jobs.subcommand().and_then(|(_, check)| check.get_one::<OsString>("name"));
            let file = JobFile::open(name.map_or(OsStr::new(""), |name| name), &command)?;
            let program = args.into_iter().take(1).collect();
            let (copy, matches) = together(&file, program)?;
            Ok(Asked::Job(copy, file, matches))
        }
        None => match matches.get_one::<OsString>("job") {
            None => Ok(Asked::Copy(Box::new(copy(&matches, &mut command)?), None)),
            Some(name) => {
                let mut file = JobFile::open(name, &command)?;
                file.yield_to(&matches, &command);
                let (copy, _) = together(&file, args)?;
                Ok(Asked::Copy(copy, Some(file)))
            }
        },
    }
}

/// Reads what a job file says and then what was typed.
fn together(file: &JobFile, mut args: Vec<OsString>) -> Result<(Box<Copy>, ArgMatches), Wrong> {
    let at = args.len().min(1);
    args.splice(at..at, file.words());
    let mut command = command();
    let matches = command.try_get_matches_from_mut(args);
    let read = matches.and_then(|matches| Ok((Box::new(copy(&matches, &mut command)?), matches)));
    read.map_err(|error| Wrong::Together(file.path.clone(), error))
}

fn copy(matches: &ArgMatches, command: &mut clap::Command) -> Result<Copy, clap::Error> {
    if let Some(lacking) = ["input", "output"].iter().find(|id| matches.get_raw(id).is_none()) {
        let text = format!("neither the job nor the command line gives --{lacking}");
        return Err(command.error(ErrorKind::MissingRequiredArgument, text));
    }
    let args = Args::from_arg_matches(matches)?;
    let inputs = stream::inputs(&args.input);
    let outputs = stream::outputs(&args.output);
    let is_stream = is_stream(&inputs, &outputs);
    let jobs = stream::refuse_others(matches, is_stream).and_then(|()| jobs(&args, matches));
    let jobs = jobs.map_err(|text| command.error(ErrorKind::ValueValidation, text))?;
    let stream = jobs.first().filter(|_| is_stream).map(|job| stream::job(&args, job));
    Ok(Copy { args, jobs, stream })
}
