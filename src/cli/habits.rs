//! What people type who know other programs: it is explained, and never becomes a directory.

use std::path::{Component, Path, PathBuf};

use clap::{Command, error::ContextKind, error::ContextValue, error::ErrorKind};

use crate::path::Shown;

/// Options of other programs, and what does the same here. One of `cp` or `rsync` that people type is worth a line.
const HABITS: [(&[&str], &str); 20] = [
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
    (&["-e", "--rsh"], "mount the other machine's disk, or run dircopy there"),
];

/// Names of policies elsewhere, and what comes nearest.
const POLICIES: [(&[&str], &str); 3] = [
    (
        &["newer", "new", "changed", "if-newer", "sync"],
        "update replaces what differs from the source",
    ),
    (&["skip", "keep", "ignore", "no"], "never leaves what is there"),
    (&["overwrite", "force", "replace", "all", "yes"], "always replaces what is there"),
];

/// Explains options that other programs have for what is always done here, or is called otherwise.
pub fn explain_habit(error: clap::Error, command: &mut Command) -> clap::Error {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let text = match error.kind() {
        ErrorKind::UnknownArgument => {
            let option = option.split('=').next().unwrap_or(option);
            let Some((_, tip)) = HABITS.iter().find(|(names, _)| names.contains(&option)) else {
                return error;
            };
            format!("there is no option {option}\n\n  tip: {tip}")
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
        _ => return error,
    };
    command.error(error.kind(), text)
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
