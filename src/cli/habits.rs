//! What people type who know other programs: it is explained, and never becomes a directory.

use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
};

use clap::{Command, error::ContextKind, error::ContextValue, error::ErrorKind};

use crate::{
    manifest::ManifestName, manifest::archive::bag::DECLARATION, path::Shown, path::directory_of,
    state::private_dir::NAME, sys::Dir, sys::DirListing,
};

/// Options of other programs, and what does the same here. One of `cp` or `rsync` that people type is worth a line.
const HABITS: [(&[&str], &str); 28] = [
    (
        &["-r", "-R", "-a", "-p", "-A", "-X", "--recursive", "--archive", "--preserve", "--times"],
        "leave it out: a directory is always copied with all that is in it, times, permissions and attributes, and as \
         root owners",
    ),
    (
        &["--delete", "--delete-after", "--delete-before", "--delete-during"],
        "--mirror moves what has left the source into a trash at the output",
    ),
    (
        &["--remove-source-files", "--move"],
        "nothing of a source is ever removed: prove the copy with dircopy verify, then remove the source yourself",
    ),
    (
        &["-t", "--target-directory"],
        "leave it out: times are always copied, and the directory to copy to comes last, as in dircopy SRC DST",
    ),
    (
        &["--md5", "--sha1", "--sha512", "--sha256", "--blake3", "--xxh64", "--xxh3", "--xxh128"],
        "--hash LIST says which digests are made, as in --hash sha256,md5",
    ),
    (&["--threads", "--transfers", "--parallel", "--multi-thread-streams"], "-j N, or --workers N"),
    (
        &["-c", "--checksum"],
        "every file that is copied is hashed; --verify also reads what is at the output",
    ),
    (
        &["-P", "--partial", "--partial-dir", "--append", "--append-verify", "--inplace"],
        "leave it out: the same command goes on where a run was cut short, and on a terminal it shows its progress",
    ),
    (
        &["--link-dest", "--copy-dest", "--compare-dest"],
        "--generations makes a dated tree at each run, which shares what did not change with the one before",
    ),
    (
        &["-b", "--backup", "--backup-dir", "--suffix"],
        "nothing is replaced unless --overwrite-policy says so; --generations keeps what was there before",
    ),
    (
        &["-z", "--compress", "--zc"],
        "leave it out: both ends are mounted here, and nothing is sent",
    ),
    (&["-u", "--update"], "--overwrite-policy update"),
    (&["-f", "--force"], "--overwrite-policy always"),
    (&["--ignore-existing", "--no-clobber", "--existing"], "--overwrite-policy never"),
    (&["-H"], "--hard-links"),
    (&["-L", "--copy-links", "--dereference"], "--follow-links"),
    (&["-S"], "--sparse always"),
    (&["-D", "--devices"], "--specials copies FIFOs and devices"),
    (&["--bwlimit"], "--limit-rate 50M"),
    (
        &["--exclude-from", "--include-from"],
        "--exclude GLOB or --include GLOB, once for each pattern; a job file keeps them",
    ),
    (
        &["--info", "--stats", "-h"],
        "leave it out: the summary has the figures, --report FILE has all of them",
    ),
    (&["--json"], "--report FILE.json writes the figures of the run"),
    (&["-y", "--yes", "--no-confirm"], "leave it out: nothing is asked"),
    (&["--retries"], "leave it out: run the same command again after a failure"),
    (
        &["--size-only", "--ignore-times", "-I"],
        "--overwrite-policy says what happens to files that differ",
    ),
    (
        &["--no-perms", "--chown", "--chmod", "--no-owner"],
        "leave it out: permissions are copied, and as root owners; change them at the output afterwards",
    ),
    (
        &["--check"],
        "dircopy verify DIR checks a copy, --verify reads each file back while it is copied",
    ),
    (&["-e", "--rsh"], "mount the other machine's disk, or run dircopy there"),
];

/// Names of policies elsewhere, and what comes nearest.
const POLICIES: [(&[&str], &str); 3] = [
    (
        &["newer", "new", "changed", "if-newer", "sync"],
        "update replaces what is older than the source",
    ),
    (&["skip", "keep", "ignore", "no"], "never leaves what is there"),
    (&["overwrite", "force", "replace", "all", "yes"], "always replaces what is there"),
];

/// Options that want another one.
const WANT: [(&str, &str); 7] = [
    ("--keep-reports", "--report <FILE|DIR>"),
    ("--sign", "--report <FILE|DIR>"),
    ("--keep", "--generations"),
    ("--expect-all", "--expect <LIST>"),
    ("--max-delete", "--mirror or --generations"),
    ("--keep-trash", "--mirror or --generations"),
    ("--null", "--files-from <LIST>"),
];

/// Says which of `args` wants the option that is missing.
pub fn explain_want(error: clap::Error, args: &[OsString], command: &mut Command) -> clap::Error {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let is_given = |option: &str| {
        let words = args.iter().filter_map(|word| word.to_str());
        words.map(|word| word.split('=').next()).any(|word| word == Some(option))
    };
    let is_missing = |wanted: &str| {
        let option = wanted.split(' ').next().unwrap_or(wanted);
        missing.iter().any(|it| it.contains(option))
    };
    match WANT.iter().find(|(option, wanted)| is_given(option) && is_missing(wanted)) {
        Some((option, wanted)) if error.kind() == ErrorKind::MissingRequiredArgument => {
            command.error(error.kind(), format!("{option} wants {wanted}"))
        }
        _ => error,
    }
}

/// Refuses a new output that is called as if it were the copy of the one file that is the source: `cp a.txt b.txt`.
pub fn refuse_new_name(source: &Path, outputs: &[PathBuf]) -> Result<(), String> {
    let is_name = |path: &&PathBuf| {
        let ends = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        path.extension().is_some() && path.extension() == source.extension() && !ends
    };
    let is_new = |path: &&PathBuf| std::fs::symlink_metadata(path).is_err();
    let Some(output) = outputs.iter().filter(is_name).find(is_new).filter(|_| source.is_file())
    else {
        return Ok(());
    };
    let (shown, above) = (Shown::path(output), Shown::path(directory_of(output)));
    Err(format!(
        "{shown} would be a directory, for the copy keeps its name\n\n  tip: dircopy {} {above}; a directory that is \
         called so is {shown}/",
        Shown::path(source)
    ))
}

/// Words that people give to options which take none, or only behind `=`.
const LOOSE: [&str; 11] =
    ["yes", "no", "true", "false", "on", "off", "auto", "always", "never", "all", "new"];

/// Refuses such a word behind such an option: it would be a source or one more output. One that is there is meant so.
pub fn refuse_loose_value(args: &[OsString], command: &Command) -> Result<(), String> {
    let below = args.iter().find_map(|word| command.find_subcommand(word));
    for pair in args.windows(2).take_while(|pair| pair[0] != "--") {
        let [Some(option), Some(word)] = [&pair[0], &pair[1]].map(|text| text.to_str()) else {
            continue;
        };
        let mut known = below.unwrap_or(command).get_arguments();
        let is_meant = |arg: &&clap::Arg| arg.get_long() == option.strip_prefix("--");
        let Some(arg) = known.find(|arg| arg.get_long().is_some() && is_meant(arg)) else {
            continue;
        };
        let (is_optional, takes) = (arg.is_require_equals_set(), arg.get_action().takes_values());
        let is_value =
            is_optional && arg.get_possible_values().iter().any(|it| it.matches(word, false));
        let is_free = takes && !is_optional || !(is_value || LOOSE.contains(&word));
        if is_free || std::fs::symlink_metadata(word).is_ok() {
            continue;
        }
        let tip = if is_value { format!("{option}={word}") } else { format!("leave out {word}") };
        return Err(format!(
            "{word} behind {option} would be a source or an output\n\n  tip: {tip}; what is called so is ./{word}"
        ));
    }
    Ok(())
}

/// Explains options that other programs have for what is always done here, or is called otherwise.
pub fn explain_habit(error: clap::Error, args: &[OsString], command: &mut Command) -> clap::Error {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let is_empty = matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    if error.kind() == ErrorKind::InvalidValue && is_empty && !option.starts_with("--progress") {
        let text = match args.iter().any(|word| word.is_empty() || word.as_encoded_bytes().ends_with(b"=")) {
            true => "a word is empty, and something is needed there\n\n  tip: a variable in it may not be set".into(),
            false => format!("a value is missing: {option}"),
        };
        return command.error(error.kind(), text);
    }
    let text = match error.kind() {
        ErrorKind::UnknownArgument => {
            let option = option.split('=').next().unwrap_or(option);
            match HABITS.iter().find(|(names, _)| names.contains(&option)) {
                Some((_, tip)) => format!("there is no option {option}\n\n  tip: {tip}"),
                // What looks like it is a guess, and as a value it would be a directory.
                None if is_hidden(&error, command) => format!("there is no option {option}"),
                None => return without_value_tip(error),
            }
        }
        ErrorKind::ValueValidation if error.to_string().contains("invalid digit") => {
            format!("{option} wants a whole number")
        }
        ErrorKind::InvalidValue if option.starts_with("--progress") => {
            "--progress says when: auto, always or never\n\n  tip: leave it out: on a terminal it is shown".into()
        }
        ErrorKind::InvalidValue if option.starts_with("--overwrite-policy") => {
            let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
                return error;
            };
            let Some((_, policy)) = POLICIES.iter().find(|(names, _)| names.contains(&&**value)) else {
                return error;
            };
            format!("there is no policy {value}\n\n  tip: --overwrite-policy {policy}")
        }
        ErrorKind::ArgumentConflict if is_of_memory(&error) && args.iter().any(|it| it == "--span") => {
            let is_mirror = |it: &OsString| it.as_encoded_bytes().starts_with(b"--mirror");
            let given = if args.iter().any(is_mirror) { "--mirror" } else { "--generations" };
            format!("a span keeps what was copied to each disk, and {given} does not go with --span\n\n  tip: leave one of them out")
        }
        ErrorKind::ArgumentConflict if is_of_memory(&error) => {
            "--mirror and --generations are two ways to remember, and one is to be chosen\n\n  tip: --mirror keeps one tree as \
             the source is, with a trash; --generations keeps a tree of each run, in which all stays that has left the source"
                .into()
        }
        _ => return error,
    };
    command.error(error.kind(), text)
}

/// True if --mirror and --generations were given together.
fn is_of_memory(error: &clap::Error) -> bool {
    let named =
        [ContextKind::InvalidArg, ContextKind::PriorArg].map(|kind| match error.get(kind) {
            Some(ContextValue::String(one)) => one.clone(),
            Some(ContextValue::Strings(all)) => all.join(" "),
            _ => String::new(),
        });
    ["--mirror", "--generations"].iter().all(|it| named.iter().any(|named| named.contains(it)))
}

/// True if the option that looks like the unknown one is not shown in the help.
fn is_hidden(error: &clap::Error, command: &Command) -> bool {
    let Some(ContextValue::String(meant)) = error.get(ContextKind::SuggestedArg) else {
        return false;
    };
    let is_meant = |arg: &&clap::Arg| arg.get_long() == meant.strip_prefix("--");
    command
        .get_arguments()
        .find(is_meant)
        .is_some_and(|arg| arg.is_hide_set() || arg.is_hide_long_help_set())
}

/// The error without the advice to give the option as a value, by which it would become a directory.
fn without_value_tip(mut error: clap::Error) -> clap::Error {
    error.remove(ContextKind::Suggested);
    error
}

/// Switches of robocopy without a value, and what does the same here; "" if nothing is needed.
const SWITCHES: [(&[&str], &str); 6] = [
    (&["MIR", "PURGE"], "--mirror moves what has left the source into a trash at the output"),
    (&["L"], "-n only says what would happen"),
    (&["XO", "XC", "XN"], "--overwrite-policy says what happens to files that differ"),
    (&["XD", "XF"], "--exclude leaves out what matches"),
    (
        &["MOV", "MOVE"],
        "nothing of a source is ever removed: remove it yourself when the copy is proven",
    ),
    (
        &[
            "E", "S", "Z", "ZB", "B", "J", "SEC", "COPYALL", "NP", "NFL", "NDL", "NJH", "NJS", "V",
            "TEE", "FFT", "DST", "XJ", "XX", "TIMFIX", "SECFIX",
        ],
        "leave it out: a directory is copied with all that is in it, and a run that was cut short goes on",
    ),
];

/// … and those with one, as `/MT:8`.
const SWITCHES_WITH_VALUES: [(&str, &str); 9] = [
    ("MT", "-j N copies so many files side by side"),
    ("R", "leave it out: run the same command again after a failure"),
    ("W", "leave it out: run the same command again after a failure"),
    ("COPY", "leave it out: times, permissions and attributes are copied"),
    ("DCOPY", "leave it out: times, permissions and attributes are copied"),
    ("LOG", "--log FILE"),
    ("LOG+", "--log FILE"),
    ("UNILOG", "--log FILE"),
    ("LEV", "--exclude leaves out what matches"),
];

/// Refuses paths that are none, but what other programs take for another machine or a switch, or a disk that is named
/// wrongly; what is there is a path whatever it is called.
pub fn refuse_foreign<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<(), String> {
    let foreign = |path: &PathBuf| {
        let text = path.to_str()?;
        let is_there = std::fs::symlink_metadata(path).is_ok();
        if is_there {
            None
        } else {
            on_another_machine(text).or_else(|| switch(text)).or_else(|| small_label(text))
        }
    };
    match paths.into_iter().find_map(foreign) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// Names that systems put at the root of a disk.
const OF_DISKS: [&str; 7] = [
    "lost+found",
    "System Volume Information",
    "$RECYCLE.BIN",
    ".Trashes",
    ".fseventsd",
    ".Spotlight-V100",
    ".DS_Store",
];

/// Refuses `SRC SRC… DST`, as of cp and rsync: the first is the source, and all others are outputs. Of these each but
/// the last may be meant as a source: a file, or a directory beside the source, or one with files that no run put there
/// and that is no disk of its own.
pub fn refuse_second_source(
    source: &Path,
    others: &[PathBuf],
    last: &Path,
    verb: &str,
) -> Result<(), String> {
    let is_beside = |path: &Path| directory_of(path) == directory_of(source);
    let is_meant_as_source = |path: &&PathBuf| {
        let Ok(dir) = Dir::open(path) else { return source.is_file() && path.is_file() };
        if !is_beside(last) && is_beside(path) {
            return true;
        }
        let has_traces = |name: &OsStr| {
            name == NAME || name == DECLARATION || ManifestName::of_any(name).is_some()
        };
        let is_of_disk = |name: &OsStr| OF_DISKS.iter().any(|of_disk| name == *of_disk);
        let Ok(listing) = DirListing::of(&dir) else { return false };
        let mut is_foreign = false;
        for listed in listing {
            let Ok(listed) = listed else { return false };
            match &*listed.name {
                name if has_traces(name) => return false,
                name => is_foreign |= !is_of_disk(name),
            }
        }
        is_foreign && !is_disk(&dir, path)
    };
    let Some(second) = others.iter().find(is_meant_as_source) else { return Ok(()) };
    let [source, second, last] =
        [source, &**second, last].map(|path| Shown::path(path).to_string());
    Err(format!(
        "{second} is no output of dircopy, and only the first name is a source\n\n  \
         tip: copy one at a time, as in dircopy {verb}{source} {last}, or what they are in, with --include; if it is meant as \
         an output: dircopy {verb}-i {source} -o {second} -o {last}"
    ))
}

/// True if the directory is the root of a file system that is mounted there.
fn is_disk(dir: &Dir, path: &Path) -> bool {
    let device = |dir: &Dir| dir.stat_self().ok().map(|stat| stat.id.dev);
    let above = Dir::open(&path.join(".."));
    above.is_ok_and(|above| device(&above) != device(dir))
}

/// `user@host:dir`, `host:/dir`, `ssh://host/dir`: of scp, rsync and URLs. A letter with a colon is a drive of Windows.
fn on_another_machine(text: &str) -> Option<String> {
    let first = text.split(['/', '\\']).next()?;
    let (host, below) = first.split_once(':')?;
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || ".-_[]".contains(c))
    };
    let is_host = match host.split_once('@') {
        Some((user, host)) => is_word(user) && is_word(host),
        None => is_word(host) && host.len() > 1 && below.is_empty() && first.len() < text.len(),
    };
    let is_there = std::fs::symlink_metadata(first).is_ok();
    (is_host && !is_there).then(|| {
        let path = Shown::path(Path::new(text));
        format!(
            "{path} is on another machine, and dircopy copies between directories that are mounted here\n\n  \
             tip: mount it first, as with sshfs, or run dircopy there; a directory that is called so is ./{path}"
        )
    })
}

/// `/MIR`: of robocopy.
fn switch(text: &str) -> Option<String> {
    let word = text.strip_prefix('/')?;
    let has_value = word.split_once(':').map_or(word, |(name, _)| name);
    let plain = SWITCHES.iter().find(|(names, _)| names.contains(&word)).map(|(_, tip)| *tip);
    let with_value = SWITCHES_WITH_VALUES.iter().find(|(name, _)| *name == has_value);
    let tip =
        plain.or(with_value.filter(|_| word.contains(':') || word == "MT").map(|(_, tip)| *tip))?;
    Some(format!(
        "there is no option {text}, and no directory of this name\n\n  tip: {tip}; a new directory is {text}/"
    ))
}

/// `label=disk1/photos`.
fn small_label(text: &str) -> Option<String> {
    let Some(Component::Normal(first)) = Path::new(text).components().next() else { return None };
    let (kind, value) = first.to_str()?.split_once('=')?;
    let right = ["LABEL", "UUID"].into_iter().find(|right| right.eq_ignore_ascii_case(kind))?;
    (right != kind).then(|| {
        let path = Shown::path(Path::new(text));
        format!(
            "{path} names no disk\n\n  tip: {right}={} does; a directory that is called so is ./{path}",
            Shown::path(Path::new(value))
        )
    })
}
