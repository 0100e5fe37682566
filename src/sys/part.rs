//! Making things under the random names of part files, in the same way on every system.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

use crate::sys::part_name::{PREFIX, RANDOM, SUFFIX};
#[cfg(unix)]
use crate::sys::unix::{Dir, LinkTarget};
#[cfg(windows)]
use crate::sys::windows::{Dir, LinkTarget};

impl Dir {
    /// Makes a new, empty file under a random name that no other program uses, readable by its
    /// owner only where that can be said. Returns it with its name.
    pub fn create_part(&self) -> io::Result<(File, OsString)> {
        under_part_name(|name| self.create_new(name, true))
    }

    /// Makes a symbolic link to `target` under a random name, to be published; returns the name.
    pub fn create_part_link(&self, target: &LinkTarget) -> io::Result<OsString> {
        under_part_name(|name| self.make_link(target, name)).map(|((), name)| name)
    }

    /// Gives the file `original` in the directory `from` a further, random name here, to be
    /// published; returns the name.
    pub fn create_part_hard_link(&self, from: &Dir, original: &OsStr) -> io::Result<OsString> {
        under_part_name(|name| self.hard_link(from, original, name)).map(|((), name)| name)
    }

    /// Whether names here that differ only in letter case are the same name; found out by a trial.
    pub fn folds_case(&self) -> bool {
        let Ok((_, part)) = self.create_part() else { return false };
        let other: String = part.to_string_lossy().chars().map(other_case).collect();
        let folds = self.stat(OsStr::new(&other), false).is_ok();
        self.remove(&part).is_ok() && folds
    }
}

/// An ASCII letter in the other case.
fn other_case(letter: char) -> char {
    match letter.is_ascii_lowercase() {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    }
}

/// Makes something under a random name that is not taken. `tempfile` makes up the names and tries
/// again when one is taken; the directory "/" only keeps it from asking for the current one, and only
/// the last component is used.
pub(super) fn under_part_name<T>(
    make: impl Fn(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    let name_of = |path: &Path| path.file_name().unwrap_or_default().to_os_string();
    let made = tempfile::Builder::new()
        .prefix(PREFIX)
        .suffix(SUFFIX)
        .rand_bytes(RANDOM)
        .disable_cleanup(true)
        .make_in("/", |path| make(&name_of(path)))?;
    let (made, path) = made.into_parts();
    Ok((made, name_of(&path)))
}
