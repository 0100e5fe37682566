//! `dircopy jobs check` says what a job would run and what is in its way; `dircopy jobs list` lists the
//! jobs. Both touch nothing.

use std::ffi::OsStr;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches};

use crate::cli::args::command;
use crate::cli::args::job_file::{self, JobFile, is_key};
use crate::cli::exit::Exit;
use crate::cli::invocation::CopyInvocation;
use crate::cli::record::json;
use crate::cli::record::options::{Content, RecordOptions};
use crate::cli::record::task::Task;
use crate::cli::show::console::Console;
use crate::cli::show::line::Detail;
use crate::copy::job::CopyJob;
use crate::copy::run::outputs::check_all;
use crate::error::Error;
use crate::path::Shown;

/// Lists the jobs that `--job` finds by name.
pub fn list(console: &Console) -> Exit {
    let (jobs, errors) = job_file::list();
    for (name, path) in &jobs {
        console.out(&format!(
            "{:<20} {}",
            Shown::path(Path::new(name)).to_string(),
            Shown::path(path)
        ));
    }
    if jobs.is_empty() && errors.is_empty() {
        let places = job_file::directories();
        let places: Vec<_> = places.iter().map(|dir| Shown::path(dir).to_string()).collect();
        console
            .err(&format!("dircopy: there are no jobs: no NAME.toml in {}", places.join(" or ")));
    }
    for error in &errors {
        console.err(&format!("dircopy: {error}"));
    }
    match errors.is_empty() && console.all_written() {
        true => Exit::Complete,
        false => Exit::Incomplete,
    }
}

/// Says what a job would run. `matches` are its options alone.
pub fn check(
    file: &JobFile,
    invocation: &CopyInvocation,
    matches: &ArgMatches,
    console: &Console,
) -> Exit {
    console.out(&format!("# {}", Shown::path(&file.path)));
    let (mut set, mut defaults) = (Vec::new(), Vec::new());
    for option in command::dircopy().get_arguments().filter(|option| is_key(option)) {
        let (id, Some(long)) = (option.get_id().as_str(), option.get_long()) else { continue };
        let value = |value: &OsStr| match option.get_action() {
            ArgAction::SetTrue => value.to_string_lossy().into_owned(),
            _ => text(value),
        };
        let values: Vec<String> = matches.get_raw(id).into_iter().flatten().map(value).collect();
        let line = match &*values {
            [] => continue,
            [value] => format!("{long} = {value}"),
            values => format!("{long} = [{}]", values.join(", ")),
        };
        match matches.value_source(id) {
            Some(ValueSource::DefaultValue) if values == ["false"] => {}
            Some(ValueSource::DefaultValue) => defaults.push(line),
            // In the order of the file, which counts for filters.
            _ => set.push((matches.index_of(id), line)),
        }
    }
    set.sort();
    set.iter().for_each(|(_, line)| console.out(line));
    if !defaults.is_empty() {
        console.out(&format!("# by default: {}", defaults.join(", ")));
    }
    for (given, job) in invocation.given.iter().zip(&invocation.jobs) {
        if *given != job.output {
            let [given, now] = [given, &job.output].map(|path| Shown::path(path).to_string());
            console.out(&format!("# now {given} is {now}"));
        }
    }
    let problems = problems(invocation);
    for problem in &problems {
        console.err(&format!("dircopy: {problem}"));
    }
    match problems.is_empty() && console.all_written() {
        true => Exit::Complete,
        false => Exit::Incomplete,
    }
}

/// A value as TOML has it, which has strings as JSON does.
fn text(value: &OsStr) -> String {
    json::line(&value.to_string_lossy())
}

/// What would keep the job from running, or make it run otherwise than from here.
fn problems(invocation: &CopyInvocation) -> Vec<String> {
    let CopyInvocation { args, jobs, given, unknown, stream } = invocation;
    let records = &args.unattended.records;
    // An output that is unknown cannot be looked at.
    let known = jobs.iter().zip(unknown).filter(|(_, unknown)| unknown.is_none());
    let known: Vec<CopyJob> = known.map(|(job, _)| job.clone()).collect();
    let (task, refused) = match stream {
        Some(stream) => {
            let task = Task::Stream { inputs: &stream.inputs, outputs: &stream.outputs, given };
            (task, stream.check().err().into_iter().collect())
        }
        None => {
            let source = jobs.first().map_or(Path::new(""), |job| &job.source);
            let task = Task::Copy { source, outputs: &args.output, given, dry_run: false };
            (task, check_all(&known))
        }
    };
    let mut problems = refused;
    let content = Content::of_copies(if stream.is_none() { &known } else { &[] });
    let options = RecordOptions { content, ..records.options("dircopy", Detail::Normal) };
    problems.extend(options.problems(&task));
    let paths = [records.report.as_deref(), records.metrics.as_deref(), records.log.as_deref()];
    let outputs = known.iter().map(|job| &job.output);
    let ends = args.input.iter().chain(outputs).map(|end| &**end);
    let ends = ends.filter(|end| *end != Path::new("-"));
    let relative = ends.chain(paths.into_iter().flatten()).filter(|path| path.is_relative());
    problems.extend(relative.map(|path| {
        let finding = "it is relative, so it depends on where the job is started";
        Error::finding("rely on", path, finding)
    }));
    unknown.iter().flatten().chain(&problems).map(Error::to_string).collect()
}
