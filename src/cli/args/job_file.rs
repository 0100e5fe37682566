//! Job files: the options of a copy under a name, so that a nightly run is one word.
//!
//! A job file is no language of its own. Each key is a long option, and its value becomes
//! arguments, which the definition of the command line reads and checks like those that were typed.

use std::path::{Path, PathBuf, is_separator};
use std::{collections::BTreeMap, ffi::OsStr, ffi::OsString, fs::File, io, io::Read};

use clap::{
    Arg, ArgAction, ArgMatches, Command, builder::ValueParser, error::ContextKind,
    error::ContextValue, error::ErrorKind, parser::ValueSource,
};
use toml::{Spanned, de::DeTable, de::DeValue};

use crate::error::{Deed, Error, Result};
use crate::{
    copy::MostDepartures, path::Shown, sys, sys::DirListing, sys::PlainUse, sys::Uninterrupted,
};

/// Long options that are no keys: those that end the program, that name the job itself, or that make a job
/// do nothing.
const NO_KEYS: [&str; 4] = ["help", "version", "job", "dry-run"];

/// Options that add to the file's values, where others replace them.
const ADDING: [&str; 2] = ["include", "exclude"];

/// What a dry run has of no file: records that it does not write, telling of the run, and silence.
const OF_NO_TRIAL: [&str; 8] =
    ["report", "keep-reports", "sign", "metrics", "log", "log-format", "on-end", "quiet"];

/// Of these, those that want a report: without one in the file they stay, and are refused as in the run.
const OF_REPORTS: [&str; 2] = ["keep-reports", "sign"];

/// More is no job file; bytes.
const MOST_BYTES: u64 = 1 << 20;

/// A job file that was read.
#[derive(Debug)]
pub struct JobFile {
    /// Where it was found.
    pub path: PathBuf,
    settings: Vec<Setting>,
}

/// A key of the file, as arguments.
#[derive(Debug)]
struct Setting {
    option: String,
    words: Vec<OsString>,
}

/// True if an option of the copy command is a key.
pub fn is_key(option: &Arg) -> bool {
    option.get_long().is_some_and(|long| !NO_KEYS.contains(&long)) && !option.is_hide_set()
}

impl JobFile {
    /// Reads the job `name`: a path, if there is a separator in it or it ends in `.toml`, otherwise the
    /// first file of that name in the directories for jobs. `command` is the definition of the options.
    ///
    /// # Errors
    /// All that is wrong with the file.
    pub fn open(name: &OsStr, command: &Command) -> std::result::Result<Self, Vec<Error>> {
        let (path, file) = find(name).map_err(|error| vec![error])?;
        refuse_foreign(&path, &file).map_err(|error| vec![error])?;
        let text = read(&path, file).map_err(|error| vec![error])?;
        let finding = |line: usize, text: String| {
            Error::finding("use the job", &path, format!("line {line}: {text}"))
        };
        let line_of = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let table = DeTable::parse(&text).map_err(|error| {
            let line = line_of(error.span().map_or(0, |span| span.start));
            vec![finding(line, error.message().replace('\n', ", "))]
        })?;
        let mut keys: Vec<_> = table.get_ref().iter().collect();
        // The order of the file, which counts for filters.
        keys.sort_by_key(|(key, _)| key.span().start);
        let (mut settings, mut faults) = (Vec::new(), Vec::new());
        for (key, value) in keys {
            match setting(command, key.get_ref(), value) {
                Ok(setting) => settings.push(setting),
                Err(fault) => {
                    let at = fault.at.unwrap_or_else(|| key.span().start);
                    faults.push(finding(line_of(at), fault.text));
                }
            }
        }
        if faults.is_empty() { Ok(Self { path, settings }) } else { Err(faults) }
    }

    /// The settings of the file, as arguments.
    pub fn words(&self) -> Vec<OsString> {
        self.settings.iter().flat_map(|setting| setting.words.iter().cloned()).collect()
    }

    /// Drops the settings that the command line, which gave `given`, replaces.
    pub fn yield_to(&mut self, given: &ArgMatches, command: &Command) {
        let typed =
            |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let typed: Vec<&Arg> = command.get_arguments().filter(|arg| typed(arg)).collect();
        let conflict = |one: &Arg, other: &Arg| {
            let against = |one, other: &Arg| {
                command.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id())
            };
            against(one, other) || against(other, one)
        };
        let has_paths = given.contains_id("source");
        let has_report = self.settings.iter().any(|setting| setting.option == "report");
        self.settings.retain(|setting| {
            if has_paths && ["input", "output"].contains(&&*setting.option) {
                return false;
            }
            let Some(own) = option_called(command, &setting.option) else { return true };
            !typed.iter().any(|arg| match arg.get_long() {
                Some("dry-run") => {
                    OF_NO_TRIAL.contains(&&*setting.option)
                        && (has_report || !OF_REPORTS.contains(&&*setting.option))
                }
                Some(long) if long == setting.option => !ADDING.contains(&long),
                _ => conflict(own, arg),
            })
        });
    }
}

/// The directories in which jobs are looked for by name, in this order.
pub fn directories() -> Vec<PathBuf> {
    sys::settings_directories().into_iter().map(|dir| dir.join("dircopy").join("jobs")).collect()
}

/// The jobs in these directories by name, each with the file that is run, and the directories' errors.
pub fn list() -> (BTreeMap<OsString, PathBuf>, Vec<Error>) {
    let (mut jobs, mut errors) = (BTreeMap::new(), Vec::new());
    for dir in directories() {
        let fail = |error| Error::io("list the jobs in", &dir, error);
        let entries = DirListing::at(&dir).if_there().unwrap_or_else(|error| {
            errors.push(fail(error));
            None
        });
        for entry in entries.into_iter().flatten() {
            let path = match entry {
                Ok(entry) => dir.join(&*entry.name),
                Err(error) => {
                    errors.push(fail(error));
                    break;
                }
            };
            let is_job = path.extension().is_some_and(|extension| extension == "toml");
            if let (Some(name), true) = (path.file_stem(), is_job) {
                jobs.entry(name.to_os_string()).or_insert(path);
            }
        }
    }
    (jobs, errors)
}

/// A link is followed: the files of a user's settings may well be links.
fn open(path: &Path) -> io::Result<File> {
    sys::open_plain(path, PlainUse::Read)
}

fn find(name: &OsStr) -> Result<(PathBuf, File)> {
    let path = Path::new(name);
    let is_path = name.to_string_lossy().contains(is_separator)
        || path.extension().is_some_and(|extension| extension == "toml");
    let fail = |path: &Path, error| Error::io("read the job", path, error);
    if is_path {
        let file = open(path).map_err(|error| fail(path, error))?;
        return Ok((path.to_path_buf(), file));
    }
    let mut file_name = name.to_os_string();
    file_name.push(".toml");
    for dir in directories() {
        let path = dir.join(&file_name);
        if let Some(file) = open(&path).if_there().map_err(|error| fail(&path, error))? {
            return Ok((path, file));
        }
    }
    let looked: Vec<String> =
        directories().iter().map(|dir| Shown::path(dir).to_string()).collect();
    let finding = format!(
        "there is no {} in {}; a path has a separator in it or ends in .toml",
        Shown::path(Path::new(&file_name)),
        looked.join(" or ")
    );
    Err(Error::finding("find the job", name, finding))
}

/// Refuses a job that others may write: it says what is copied where, and what is run. `sudo` and `su` may leave
/// another user's HOME, in which a job is looked for first.
fn refuse_foreign(path: &Path, file: &File) -> Result<()> {
    let looked = sys::who_else_changes(path, file);
    let Some(by) = looked.deed("look who may change the job", path)? else {
        return Ok(());
    };
    let finding = format!(
        "another user may change {}; a job and every directory above it must belong to this user or root, and be \
         writable by nobody else (chown, chmod go-w), or it is kept in /etc/dircopy/jobs",
        Shown::path(&by)
    );
    Err(Error::finding("use the job", path, finding))
}

fn read(path: &Path, file: File) -> Result<String> {
    let mut text = String::new();
    Uninterrupted(file)
        .take(MOST_BYTES + 1)
        .read_to_string(&mut text)
        .deed("read the job", path)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(Error::finding("read the job", path, "it is larger than 1 MiB")),
        false => Ok(text),
    }
}

/// A fault of a key or its value.
struct KeyError {
    /// Where, in bytes from the start of the file; otherwise at the key.
    at: Option<usize>,
    text: String,
}

impl From<String> for KeyError {
    fn from(text: String) -> Self {
        Self { at: None, text }
    }
}

fn setting(
    command: &Command,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> std::result::Result<Setting, KeyError> {
    let Some(option) = option_called(command, key) else {
        return Err(unknown(command, key).into());
    };
    let mut words = Vec::new();
    let mut add = |value: &Spanned<DeValue<'_>>| {
        let fail = |text: String| KeyError {
            at: Some(value.span().start),
            text: format!("{}: {text}", shown(key)),
        };
        if let Some(word) = word(option, key, value.get_ref()).map_err(fail)? {
            check(command, &word).map_err(fail)?;
            words.push(word);
        }
        Ok::<(), KeyError>(())
    };
    match (option.get_action(), value.get_ref()) {
        (ArgAction::Append, DeValue::Array(values)) => values.iter().try_for_each(&mut add)?,
        _ => add(value)?,
    }
    Ok(Setting { option: option.get_long().unwrap_or(key).to_owned(), words })
}

fn option_called<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    let is_called = |arg: &&Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(key) || aliases.contains(&key)
    };
    command.get_arguments().filter(|arg| is_key(arg)).find(is_called)
}

/// The argument that a value makes; none for a switch that is off.
fn word(
    option: &Arg,
    key: &str,
    value: &DeValue<'_>,
) -> std::result::Result<Option<OsString>, String> {
    let is_switch = matches!(option.get_action(), ArgAction::SetTrue);
    // What may stand without a value is a switch too.
    let may_be_switch = option.get_num_args().is_some_and(|it| it.min_values() == 0);
    let text = match value {
        DeValue::Boolean(on) if is_switch || may_be_switch => {
            return Ok(on.then(|| format!("--{key}").into()));
        }
        DeValue::String(text) if !is_switch => text.to_string(),
        DeValue::Integer(number) if is_number(option) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            number.map_err(|_| "the number is too large".to_owned())?.to_string()
        }
        other => {
            let expected = match option.get_action() {
                ArgAction::SetTrue => "true or false",
                ArgAction::Append => "a string in quotes, or several in brackets",
                _ if may_be_switch => "true, false or a string in quotes",
                _ if is_number(option) => "a number, or a string in quotes",
                _ => "a string in quotes",
            };
            return Err(format!("expected {expected}, and this is of type {}", other.type_str()));
        }
    };
    Ok(Some(format!("--{key}={text}").into()))
}

/// True if the values of an option are numbers, so that they can stand without quotes.
fn is_number(option: &Arg) -> bool {
    fn of<T: Clone + Send + Sync + 'static>() -> ValueParser {
        ValueParser::new(|_: &str| Err::<T, String>(String::new()))
    }
    let id = option.get_value_parser().type_id();
    let number = [of::<u64>(), of::<i32>(), of::<usize>(), of::<std::num::NonZero<usize>>()];
    number.iter().chain([&of::<MostDepartures>()]).any(|number| number.type_id() == id)
}

/// Checks an argument by itself, as the command line would.
fn check(command: &Command, word: &OsStr) -> std::result::Result<(), String> {
    let Err(error) = command.clone().try_get_matches_from([OsStr::new("dircopy"), word]) else {
        return Ok(());
    };
    let valid = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) if !valid.is_empty() => Some(valid.join(", ")),
        _ => None,
    };
    match error.kind() {
        // What else is needed may stand on another line.
        ErrorKind::MissingRequiredArgument => Ok(()),
        _ if valid.is_some() => Err(format!("expected one of {}", valid.unwrap_or_default())),
        ErrorKind::ValueValidation => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            Err(cause.unwrap_or_else(|| "this value cannot be".into()))
        }
        ErrorKind::InvalidValue => Err("a value is needed".into()),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Err(line.trim_start_matches("error: ").to_owned())
        }
    }
}

/// The message about an unknown key, with the suggestion that the command line has for such an option.
fn unknown(command: &Command, key: &str) -> String {
    if NO_KEYS.contains(&key) {
        return format!("{key} can only be given on the command line");
    }
    let option = format!("--{}", key.replace('_', "-"));
    let error = command.clone().try_get_matches_from(["dircopy", &option]).err();
    let near = error.as_ref().map(|error| match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(near)) => near.trim_start_matches('-').to_owned(),
        // It is an option if it is spelt like one.
        _ => key.replace('_', "-"),
    });
    let near = near.filter(|near| option_called(command, near).is_some());
    let remedy = near.map_or_else(
        || "keys are called as the long options of dircopy --help".to_owned(),
        |near| format!("did you mean {near}?"),
    );
    format!("there is no key {}; {remedy}", shown(key))
}

fn shown(key: &str) -> Shown<'_> {
    Shown::bytes(key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args;

    /// A file with a value of every key is read, and no option is forgotten.
    #[test]
    fn every_long_option_is_a_key_or_cannot_be_one() {
        let command = args::dircopy();
        let mut text = String::new();
        for option in command.get_arguments() {
            let Some(long) = option.get_long() else { continue };
            let value = match option.get_action() {
                ArgAction::SetTrue => "true",
                _ if long == "limit-rate" => "1000000",
                _ if is_number(option) => "9",
                _ => match (option.get_possible_values().first(), long) {
                    (Some(value), _) => &format!("\"{}\"", value.get_name()),
                    (_, "max-duration" | "grace") => "\"8h\"",
                    (_, "hash") => "\"sha256\"",
                    (_, "bag-info") => "\"Contact-Name=Ann\"",
                    (_, "keep") => "\"last=3\"",
                    (_, "keep-trash") => "\"30d\"",
                    (_, "max-delete") => "\"20%\"",
                    (_, "parity") => "\"5%\"",
                    (_, "stop-at") => "\"06:00\"",
                    (_, "ionice") => "\"idle\"",
                    _ => "\"x\"",
                },
            };
            match is_key(option) {
                true => text += &format!("{long} = {value}\n"),
                false => assert!(NO_KEYS.contains(&long) || option.is_hide_set(), "{long}"),
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("all.toml");
        std::fs::write(&path, &text).unwrap();
        let file = JobFile::open(path.as_os_str(), &command).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(file.words().len(), text.lines().count());
        for option in NO_KEYS.iter().filter(|option| !["help", "version"].contains(option)) {
            assert!(command.get_arguments().any(|arg| arg.get_long() == Some(option)), "{option}");
        }
    }
}
