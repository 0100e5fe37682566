//! Making things under the random names of part files, in the same way on every system.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use crate::sys::part_name::part_name;
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

/// Makes something under a random name that is not taken. What the name is made of cannot be foretold: it comes
/// from the keys that the standard library gives its maps, of which no two are alike.
pub(super) fn under_part_name<T>(
    make: impl Fn(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    // One that is taken shows that somebody made it with intent, or thousands of them.
    const TRIES: u32 = 1 << 16;
    let mut taken = io::ErrorKind::AlreadyExists.into();
    for _ in 0..TRIES {
        let name = part_name(RandomState::new().build_hasher().finish());
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            made => return made.map(|made| (made, name)),
        }
    }
    Err(taken)
}
