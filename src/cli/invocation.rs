//! The command line, understood, together with the job file it may name.

use std::{ffi::OsStr, ffi::OsString, path::Path, path::PathBuf};

use clap::{ArgMatches, Command, FromArgMatches, error::ErrorKind, parser::ValueSource};
use strsim::levenshtein;

use crate::{
    cli::args, cli::args::copy, cli::args::copy::CopyArgs, cli::args::copy::jobs,
    cli::args::copy::patterns, cli::args::copy::refuse_unescaped, cli::args::job_file::JobFile,
    cli::args::mirror::GenerationsArgs, cli::args::values::ReportArgs, cli::args::verify::HealArgs,
    cli::args::verify::ProtectArgs, cli::args::verify::VerifyArgs, cli::catalog::CatalogArgs,
    cli::cluster::FinishArgs, cli::cluster::PlanArgs, cli::cluster::ShardArgs,
    cli::covered::CoveredArgs, cli::habits::explain_habit, cli::habits::explain_want,
    cli::habits::refuse_foreign, cli::habits::refuse_loose_value, cli::habits::refuse_new_name,
    cli::habits::refuse_second_source, cli::lists::DiffArgs, cli::lists::MergeArgs,
    cli::restore::ProvenTree, cli::restore::named_paths, cli::restore::refuse_others,
    cli::show::rows::typed, cli::words::OutputName, cli::words::located, copy::CopyJob,
    error::Error, path::Shown, stream::StreamJob, stream::input::is_stream, sys, tree::Filter,
    tree::NameEnd, tree::NameList,
};

/// The command that a command line gives.
#[derive(Debug)]
pub enum Invocation {
    /// A copy, by a job file if there is one.
    Copy(Box<CopyInvocation>, Option<JobFile>),
    Verify(VerifyArgs),
    Heal(HealArgs),
    Protect(ProtectArgs),
    /// A page of receipts.
    Report(ReportArgs),
    Generations(GenerationsArgs),
    /// To say what a job would run; with the options that it sets.
    CheckJob(Box<CopyInvocation>, JobFile, ArgMatches),
    /// To list the jobs.
    ListJobs,
    /// A plan, with the job that is planned; without it, only its status is asked for.
    Plan(Box<PlanArgs>, Option<Box<CopyJob>>),
    Shard(ShardArgs),
    Finish(FinishArgs),
    MergeManifests(MergeArgs),
    CompareLists(DiffArgs),
    /// Say whether a source may be erased.
    Covered(CoveredArgs),
    Catalog(CatalogArgs),
}

/// A copy, as options and as jobs.
#[derive(Debug)]
pub struct CopyInvocation {
    pub args: CopyArgs,
    /// A job for each output.
    pub jobs: Vec<CopyJob>,
    /// The outputs as they were given …
    pub given: Vec<PathBuf>,
    /// … and as messages call them.
    pub called: Vec<String>,
    /// For each output why it is not known where it is, if so: it is refused.
    pub unknown: Vec<Option<Error>>,
    /// For each whether that is because no disk that is called so is mounted.
    pub absent: Vec<bool>,
    /// The job of the stream, if it is one.
    pub stream: Option<StreamJob>,
    /// What is to be told of the source before anything else.
    pub warnings: Vec<Error>,
}

/// The fault of a command line.
#[derive(Debug)]
pub enum UsageError {
    /// The command line; or nothing is wrong, and this is the help.
    CommandLine(clap::Error),
    JobFile(Vec<Error>),
    /// The command line together with this job file.
    WithJob(PathBuf, clap::Error),
}

impl From<clap::Error> for UsageError {
    fn from(error: clap::Error) -> Self {
        UsageError::CommandLine(error)
    }
}

impl From<Vec<Error>> for UsageError {
    fn from(errors: Vec<Error>) -> Self {
        UsageError::JobFile(errors)
    }
}

/// Reads the command line of `dircopy`. The error may be the help.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, UsageError> {
    let mut command = args::dircopy();
    let mut args = refuse_swallowed_quotes(args, &mut command)?;
    // `--help verify` asks for the help of that command.
    if let [_, help, name] = &mut *args
        && (*help == "--help" || *help == "-h")
        && command.find_subcommand(&*name).is_some()
    {
        std::mem::swap(help, name);
    }
    let mut command = args::with_short_help(command, &args);
    let matches = command.try_get_matches_from_mut(args.clone());
    let matches = matches.map_err(|error| {
        let error = explain_want(error, &args, &mut command);
        explain_habit(error, &args, &mut command)
    })?;
    refuse_tilde(&matches, &mut command)?;
    refuse_loose_value(&args, &command)
        .map_err(|text| command.error(ErrorKind::ValueValidation, text))?;
    match matches.subcommand() {
        Some(("verify", matches)) => Ok(Invocation::Verify(VerifyArgs::from_arg_matches(matches)?)),
        Some(("restore", matches)) => {
            let own = command.find_subcommand("restore").cloned();
            restore(matches, &mut own.unwrap_or(command))
        }
        Some(("heal", matches)) => Ok(Invocation::Heal(HealArgs::from_arg_matches(matches)?)),
        Some(("protect", matches)) => {
            Ok(Invocation::Protect(ProtectArgs::from_arg_matches(matches)?))
        }
        Some(("report", matches)) => Ok(Invocation::Report(ReportArgs::from_arg_matches(matches)?)),
        Some(("generations", matches)) => {
            Ok(Invocation::Generations(GenerationsArgs::from_arg_matches(matches)?))
        }
        Some(("plan", matches)) => {
            let args = PlanArgs::from_arg_matches(matches)?;
            let job = args.job(matches);
            let job = job.map_err(|text| command.error(ErrorKind::ValueValidation, text))?;
            Ok(Invocation::Plan(Box::new(args), job.map(Box::new)))
        }
        Some(("shard", matches)) => Ok(Invocation::Shard(ShardArgs::from_arg_matches(matches)?)),
        Some(("finish", matches)) => Ok(Invocation::Finish(FinishArgs::from_arg_matches(matches)?)),
        Some(("covered", matches)) => {
            Ok(Invocation::Covered(CoveredArgs::from_arg_matches(matches)?))
        }
        Some(("catalog", matches)) => {
            Ok(Invocation::Catalog(CatalogArgs::from_arg_matches(matches)?))
        }
        Some(("manifest", manifest)) => Ok(match manifest.subcommand() {
            Some(("diff", diff)) => Invocation::CompareLists(DiffArgs::from_arg_matches(diff)?),
            merge => {
                let merge = merge.map_or(manifest, |(_, merge)| merge);
                Invocation::MergeManifests(MergeArgs::from_arg_matches(merge)?)
            }
        }),
        Some((_, jobs)) => {
            let Some(("check", check)) = jobs.subcommand() else { return Ok(Invocation::ListJobs) };
            let name = check.get_one::<OsString>("name").map_or(OsStr::new(""), |name| name);
            let file = JobFile::open(name, &command)?;
            let program = args.into_iter().take(1).collect();
            let (copy, matches) = with_job(&file, program)?;
            Ok(Invocation::CheckJob(copy, file, matches))
        }
        None => match matches.get_one::<OsString>("job") {
            None => Ok(Invocation::Copy(Box::new(copy(&matches, &mut command)?), None)),
            Some(name) => {
                let mut file = JobFile::open(name, &command)?;
                file.yield_to(&matches, &command);
                let (copy, _) = with_job(&file, args)?;
                Ok(Invocation::Copy(copy, Some(file)))
            }
        },
    }
}

/// A copy that brings back what is proven.
fn restore(matches: &ArgMatches, command: &mut Command) -> Result<Invocation, UsageError> {
    fn refuse(command: &mut Command, text: String) -> clap::Error {
        command.error(ErrorKind::ValueValidation, text)
    }
    refuse_others(matches).map_err(|text| refuse(command, text))?;
    let mut copy = copy(matches, command)?;
    if copy.stream.is_some() {
        let text = "a tree is brought back to a directory, and this is a stream";
        return Err(refuse(command, text.into()).into());
    }
    if copy.jobs.len() > 1 {
        let text = "a tree is brought back to one directory\n\n  \
                    tip: dircopy restore TREE DST; one file of it with --include /PATH";
        return Err(refuse(command, text.into()).into());
    }
    // What is on a disk that is not there is refused as that.
    if copy.unknown.iter().any(Option::is_none) {
        let (tree, given) = (&copy.args.input[0], copy.args.expect.as_deref());
        let found = ProvenTree::find(tree, given, copy.args.unattended.state.as_deref())
            .and_then(|found| found.refuse_lost(tree, &copy.args.include).map(|()| found));
        match found {
            Ok(found) => {
                copy.restore(matches, &found).map_err(|text| refuse(command, text))?;
                copy.warnings = found.doubts;
            }
            Err(error) => copy.refuse_all(&error),
        }
    }
    Ok(Invocation::Copy(Box::new(copy), None))
}

impl CopyInvocation {
    /// Makes it one that brings back the tree that was found.
    fn restore(&mut self, matches: &ArgMatches, found: &ProvenTree) -> Result<(), String> {
        // Of what is asked for by its path, only the directories above are made.
        refuse_unescaped(&found.source, "--include", &self.args.include)?;
        let names = named_paths(&self.args.include).filter(|_| self.args.exclude.is_empty());
        let patterns = match names {
            Some(_) => Vec::new(),
            None => patterns(matches, &self.args.include, &self.args.exclude),
        };
        let names =
            names.map(|names| NameList::read(&*names, NameEnd::Nul, Path::new("--include")));
        let names = names.transpose().map_err(|error| error.to_string())?;
        let mut filter = Filter::new(&patterns)?;
        if names.is_none() {
            filter = filter.without(&found.own)?;
        }
        self.args.input = vec![found.source.clone()];
        for job in &mut self.jobs {
            job.source.clone_from(&found.source);
            job.options.restore = true;
            job.options.selection.filter = filter.clone();
            job.names.clone_from(&names);
            job.expect = Some(found.manifest.clone());
            job.expect_all = true;
            job.expects_records = self.args.expect.is_none();
            job.leaves_no_traces = true;
        }
        Ok(())
    }

    /// Refuses every output because of this.
    fn refuse_all(&mut self, error: &Error) {
        self.absent.fill(false);
        let same = || Error::finding(error.deed(), error.path(), error.reason());
        self.unknown.iter_mut().for_each(|unknown| *unknown = Some(same()));
    }
}

/// Refuses a path that begins with `~` or a variable where nothing is called so: only a shell knows what it stands for.
fn refuse_tilde(matches: &ArgMatches, command: &mut Command) -> Result<(), clap::Error> {
    fn find<'m>(matches: &'m ArgMatches, command: &Command) -> Option<&'m OsStr> {
        let is_path = |arg: &&clap::Arg| {
            arg.get_value_parser().type_id() == clap::builder::ValueParser::path_buf().type_id()
        };
        let mut values = command
            .get_arguments()
            .filter(is_path)
            .filter_map(|arg| matches.get_raw(arg.get_id().as_str()))
            .flatten();
        let is_of_shell = |value: &&OsStr| {
            let first = Path::new(value).components().next().map(|it| it.as_os_str());
            first.is_some_and(|it| {
                let is_variable = |text: &str| {
                    let name = text.strip_prefix('$').map(|name| name.trim_start_matches('{'));
                    name.is_some_and(|name| {
                        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    })
                };
                let is_one = |text: &str| text.starts_with('~') || is_variable(text);
                it.to_str().is_some_and(is_one) && std::fs::symlink_metadata(it).is_err()
            })
        };
        values.find(is_of_shell).or_else(|| {
            let (name, below) = matches.subcommand()?;
            find(below, command.find_subcommand(name)?)
        })
    }
    let Some(path) = find(matches, command) else { return Ok(()) };
    let text = format!(
        "{} is not expanded here: {}\n\n  tip: write the whole path, or on a command line leave out the quotes",
        if path.as_encoded_bytes().starts_with(b"$") { "$" } else { "~" },
        Shown::path(Path::new(path))
    );
    Err(command.error(ErrorKind::ValueValidation, text))
}

/// Reads the command line of `dirverify`. The error may be the help.
pub fn parse_verify(args: impl IntoIterator<Item = OsString>) -> Result<VerifyArgs, clap::Error> {
    let mut command = args::dirverify();
    let args = refuse_swallowed_quotes(args, &mut command)?;
    let command = args::with_short_help(command, &args);
    VerifyArgs::from_arg_matches(&command.try_get_matches_from(args)?)
}

/// Reads the options of a job file and then those of the command line.
fn with_job(
    file: &JobFile,
    mut args: Vec<OsString>,
) -> Result<(Box<CopyInvocation>, ArgMatches), UsageError> {
    // A job that says it each night would empty the output when the disk of its source is missing.
    let was_emptied = args.iter().any(|word| word == "--allow-empty");
    let at = args.len().min(1);
    args.splice(at..at, file.words());
    let mut command = args::dircopy();
    let matches = command.try_get_matches_from_mut(args.clone());
    let matches = matches.map_err(|error| {
        let error = explain_want(error, &args, &mut command);
        explain_habit(error, &args, &mut command)
    });
    let matches =
        matches.and_then(|matches| refuse_tilde(&matches, &mut command).map(|()| matches));
    let mut read =
        matches.and_then(|matches| Ok((Box::new(copy(&matches, &mut command)?), matches)));
    if let Ok((copy, _)) = &mut read {
        copy.jobs.iter_mut().for_each(|job| job.was_emptied &= was_emptied);
    }
    read.map_err(|error| UsageError::WithJob(file.path.clone(), error))
}

fn copy(matches: &ArgMatches, command: &mut Command) -> Result<CopyInvocation, clap::Error> {
    let mut args = CopyArgs::from_arg_matches(matches)?;
    let first = args.source.as_deref().filter(|_| args.input.is_empty()).map(Path::as_os_str);
    if let Some((word, meant)) = first.and_then(|word| Some((word, meant_command(word, command)?)))
    {
        let word = Shown::path(Path::new(word));
        let text = format!("there is no command and no file {word}\n\n  tip: dircopy {meant}");
        return Err(command.error(ErrorKind::InvalidSubcommand, text));
    }
    let eaten = || swallowed(matches, command);
    take_positionals(&mut args, command.get_name() == "restore", eaten)
        .map_err(|text| command.error(ErrorKind::MissingRequiredArgument, text))?;
    let paths = || args.input.iter().chain(&args.output);
    refuse_foreign(paths()).map_err(|text| command.error(ErrorKind::ValueValidation, text))?;
    let given = args.input.clone();
    let located: Result<Vec<_>, Error> =
        given.iter().map(|path| located(path, "copy from")).collect();
    let nowhere = located.map(|paths| args.input = paths).err();
    let source = args.input.first().map(|path| &**path);
    let names = args.output.iter().map(|given| OutputName::resolve(given, source));
    let names = names.collect::<Result<Vec<_>, _>>();
    let names = names.map_err(|text| command.error(ErrorKind::ValueValidation, text))?;
    args.output = names.iter().map(|name| name.path.clone()).collect();
    let inputs = copy::inputs(&args.input);
    let outputs = copy::outputs(&args.output);
    let is_stream = is_stream(&inputs, &outputs);
    if let ([source], false) = (&*args.input, is_stream) {
        refuse_new_name(source, &args.output)
            .map_err(|text| command.error(ErrorKind::ValueValidation, text))?;
    }
    let jobs = copy::refuse_others(matches, is_stream).and_then(|()| jobs(&args, matches));
    let mut jobs = jobs.map_err(|text| command.error(ErrorKind::ValueValidation, text))?;
    for (job, name) in jobs.iter_mut().zip(&names) {
        job.options.require_mount |= name.is_on_named_disk;
    }
    let stream = jobs.first().filter(|_| is_stream);
    let stream = stream.map(|job| args.stream.job(inputs, outputs, job));
    let called = names.iter().map(|name| name.called.clone()).collect();
    let absent = names.iter().map(|name| name.is_absent).collect();
    let (given, unknown) = names.into_iter().map(|name| (name.given, name.unknown)).unzip();
    let warnings = Vec::new();
    let mut copy = CopyInvocation { args, jobs, given, called, unknown, absent, stream, warnings };
    nowhere.iter().for_each(|error| copy.refuse_all(error));
    Ok(copy)
}

/// The command that a word was perhaps meant to be, if it is no file.
fn meant_command<'c>(word: &OsStr, command: &'c Command) -> Option<&'c str> {
    let word = word.to_str().filter(|word| word.len() > 3)?;
    if word.contains(['/', '\\']) || std::fs::symlink_metadata(word).is_ok() {
        return None;
    }
    // "copy" and "sync" are what the program does without a command.
    if ["copy", "sync", "backup", "clone"].contains(&word) {
        return Some("SRC DST");
    }
    let mut names = command.get_subcommands().map(Command::get_name);
    names.find(|name| levenshtein(word, name) <= 2 || (word == "check" && *name == "verify"))
}

/// An option whose value is there, so that SRC or DST may have been meant by it, and that value.
fn swallowed(matches: &ArgMatches, command: &Command) -> Option<String> {
    let options = command.get_arguments().filter(|arg| arg.get_action().takes_values());
    let mut options = options.filter(|arg| !arg.is_positional());
    options.find_map(|arg| {
        let (id, option) = (arg.get_id().as_str(), arg.get_long()?);
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut values = matches.get_raw(id).filter(|_| is_given)?;
        let value = values.find(|value| std::fs::symlink_metadata(value).is_ok())?;
        Some(format!("--{option} took {} as its value", Shown::path(Path::new(value))))
    })
}

/// Takes `SRC DST…` for `-i SRC -o DST…`; `swallowed` tells of an option that may have taken one of them.
fn take_positionals(
    args: &mut CopyArgs,
    is_restore: bool,
    swallowed: impl Fn() -> Option<String>,
) -> Result<(), String> {
    let (input, output) = (args.input.first(), args.output.first());
    let shown = |path: &PathBuf| Shown::path(path).to_string();
    let verb = if is_restore { "restore " } else { "" };
    let job = args
        .job
        .as_deref()
        .map_or(String::new(), |job| format!("--job {} ", typed(Path::new(job))));
    match (&args.source, &*args.destinations) {
        (Some(source), [others @ .., last]) if input.is_none() && output.is_none() => {
            refuse_second_source(source, others, last, verb)?;
            args.input = vec![source.clone()];
            args.output = std::mem::take(&mut args.destinations);
        }
        (Some(source), []) if input.is_none() && output.is_none() => {
            let source = shown(source);
            // The values of a job's options were not typed.
            if let Some(swallowed) = swallowed().filter(|_| args.job.is_none()) {
                return Err(format!("SRC or DST is missing: {swallowed}, and {source} is left"));
            }
            return Err(format!(
                "there is no output\n\n  tip: name it after the source: dircopy {verb}{job}{source} DST"
            ));
        }
        (Some(stray), _) => {
            let input = input.map_or("SRC".to_owned(), shown);
            // What has no option is one more output, unless it is there already.
            let strays = [stray].into_iter().chain(&args.destinations);
            let mut outputs: Vec<String> = strays.filter(|_| input != "SRC").map(shown).collect();
            let others = args.output.iter().map(shown).filter(|path| !outputs.contains(path));
            outputs.extend(others.collect::<Vec<_>>());
            return Err(format!(
                "{} has no option before it, and others have\n\n  \
                 tip: dircopy {verb}{input} {}, or dircopy {verb}-i {input} -o {}",
                shown(stray),
                outputs.join(" "),
                outputs.join(" -o ")
            ));
        }
        (None, _) if input.is_none() && args.job.is_some() => {
            return Err("neither the job nor the command line gives --input".into());
        }
        (None, _) if output.is_none() && args.job.is_some() => {
            return Err("neither the job nor the command line gives --output".into());
        }
        (None, _) if input.is_none() => {
            return Err("there is nothing to copy\n\n  tip: dircopy SRC DST".into());
        }
        (None, _) if output.is_none() => {
            return Err("there is no output\n\n  tip: name it with --output".into());
        }
        (None, _) => {}
    }
    Ok(())
}

/// The arguments, unless one of them shows that Windows cut the command line in the wrong place.
fn refuse_swallowed_quotes(
    args: impl IntoIterator<Item = OsString>,
    command: &mut Command,
) -> Result<Vec<OsString>, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    match args.iter().skip(1).find(|arg| sys::swallowed_quote(arg)) {
        None => Ok(args),
        Some(arg) => Err(command.error(
            ErrorKind::ValueValidation,
            format!(
                "this argument has a quotation mark in it: {}\n\n\
                 On the command line \\\" stands for the mark itself, so a quoted path must not end \
                 with a backslash: write \"C:\\photos\" or \"C:\\photos\\\\\" instead of \
                 \"C:\\photos\\\"",
                Shown::bytes(arg.as_encoded_bytes())
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{tree::Inclusion, tree::Inclusion::In, tree::Inclusion::Out};

    fn parse_words(words: &str) -> Result<(CopyArgs, CopyJob), clap::Error> {
        let words = format!("dircopy -i a -o b {words}");
        match parse(words.split_whitespace().map(OsString::from)) {
            Ok(Invocation::Copy(mut copy, None)) => Ok((copy.args, copy.jobs.remove(0))),
            Err(UsageError::CommandLine(error)) => Err(error),
            other => panic!("{words} is no copy: {other:?}"),
        }
    }

    fn verdicts<const N: usize>(words: &str, names: [&str; N]) -> [Inclusion; N] {
        let (_, job) = parse_words(words).unwrap();
        let filter = &job.options.selection.filter;
        names.map(|name| filter.judge(name.as_bytes(), false, filter.root()))
    }

    #[test]
    fn filters_keep_their_order() {
        let words = "--exclude x --include y --exclude z --include w";
        assert_eq!(verdicts(words, ["x", "y", "z", "w", "v"]), [Out, In, Out, In, In]);
        assert_eq!(verdicts("--include x --exclude x", ["x"]), [Out]);
        assert_eq!(verdicts("--exclude x --include x", ["x"]), [In]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "--block-size 0",
            "--block-size -1",
            "--block-size banana",
            "--block-size 1000000T",
            "--jobs 0",
            "--workers 100000",
            "--queue-size 0",
            "--queue-size -3",
            "--overwrite-policy sometimes",
            "--hash md4",
            "--hash sha256,none",
            "--hash sha256,crc32",
            "--format sfv",
            "--resume maybe",
            "--block-size 1GiB --queue-size 1000",
            "--exclude a[",
            "-q -v",
            "--reflink always --sparse never",
            "--reflink always --sparse always",
            "--reflink sometimes",
            "--sparse 1",
            "--cache",
            "--dry-run --metrics m",
            "--limit-rate 0",
            "--limit-rate fast",
            "--max-duration 8",
            "--log-format xml",
            "--lag much",
            "--lag 9G",
            "--no-such-option",
            "stray",
            "--limit-rate 5",
        ] {
            let error = parse_words(words).expect_err(words);
            assert_eq!(error.exit_code(), 2, "{words}");
        }
        let nothing = parse(["dircopy".into()]);
        assert!(matches!(nothing, Err(UsageError::CommandLine(error)) if error.exit_code() == 2));
    }

    #[test]
    fn paths_need_no_options() {
        let words = |words: &str| parse(words.split(' ').map(OsString::from));
        match words("dircopy a b c -v") {
            Ok(Invocation::Copy(copy, None)) => {
                assert_eq!(copy.args.input, [PathBuf::from("a")]);
                assert_eq!(copy.args.output, [PathBuf::from("b"), PathBuf::from("c")]);
                assert_eq!(copy.jobs.len(), 2);
            }
            other => panic!("no copy: {other:?}"),
        }
        for (line, tip) in [
            ("dircopy a", "tip: name it after the source: dircopy a DST"),
            ("dircopy -i a b", "tip: dircopy a b, or dircopy -i a -o b"),
            ("dircopy -i a b -o c", "tip: dircopy a b c, or dircopy -i a -o b -o c"),
            ("dircopy -i a b -o b", "tip: dircopy a b, or dircopy -i a -o b\n"),
            ("dircopy -i a", "tip: name it with --output"),
            ("dircopy -o b a", "tip: dircopy SRC b, or dircopy -i SRC -o b"),
            ("dircopy -v", "tip: dircopy SRC DST"),
            (
                "dircopy -r a b",
                "tip: leave it out: a directory is always copied with all that is in it",
            ),
            ("dircopy -av a b", "tip: leave it out"),
            ("dircopy a b --archive", "tip: leave it out"),
            ("dircopy --delete a b", "tip: --mirror moves what has left the source"),
            ("dircopy -c a b", "tip: every file that is copied is hashed"),
            ("dircopy verfy a", "tip: dircopy verify"),
            ("dircopy heel a b", "tip: dircopy heal"),
            ("dircopy check a", "tip: dircopy verify"),
        ] {
            match words(line) {
                Err(UsageError::CommandLine(error)) => {
                    assert!(error.exit_code() == 2 && error.to_string().contains(tip), "{error}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
