//! Opening an output as it is found, before anything is made.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};

use crate::error::{Error, Result};
use crate::path::{Shown, directory_of};
use crate::sys::Dir;

/// What is there of an output.
pub(crate) enum Opened {
    There(Dir),
    /// The directory that the output's directory is to be made in.
    Parent(Dir),
}

impl Opened {
    /// The directory that is open.
    pub(crate) fn dir(&self) -> &Dir {
        let (Opened::There(dir) | Opened::Parent(dir)) = self;
        dir
    }
}

pub(crate) fn open_output(to: &Path) -> Result<Opened> {
    match Dir::open(to) {
        Ok(dir) => return Ok(Opened::There(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::finding("copy to", to, "it is there and is not a directory"));
        }
        Err(error) => return Err(Error::io("open the output", to, error)),
    }
    new_name(to)?;
    let parent = directory_of(to);
    match Dir::open(parent) {
        Ok(dir) => Ok(Opened::Parent(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::finding(
            "copy to",
            to,
            format!(
                "the directory {} does not exist; make it first, or look for a typing error",
                Shown::path(parent)
            ),
        )),
        Err(error) => Err(Error::io("open the directory", parent, error)),
    }
}

/// The last component of a path that is to be made.
pub(crate) fn new_name(to: &Path) -> Result<OsString> {
    match to.components().next_back() {
        Some(Component::Normal(name)) => Ok(name.to_os_string()),
        _ => Err(Error::finding("copy to", to, "there is no such directory")),
    }
}

/// Makes the output's directory: `closed` to others, or as the user's umask has it.
pub(crate) fn make_output(parent: &Dir, to: &Path, closed: bool) -> Result<Dir> {
    let name = new_name(to)?;
    let fail = |error| Error::io("make the output", to, error);
    parent.make_dir(&name, closed).map_err(fail)?;
    let made = parent.open_dir(&name, false).map_err(fail)?;
    if closed && !made.is_private().map_err(fail)? {
        // Where the system has no owners; or another user put one of his in its place.
        let _ = made.take_over();
    }
    Ok(made)
}

/// A handle of its own: a directory that is listed has one position for all of one handle.
pub(crate) fn another(dir: &Dir) -> io::Result<Dir> {
    dir.open_dir(".".as_ref(), false)
}
