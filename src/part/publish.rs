//! A part file that is complete, or given up, known by its name: it gets its final one, or goes.

use std::{ffi::OsStr, ffi::OsString, io};

use crate::{
    error::Cause, error::Deed, error::Error, error::Result, part::content::Method, staged::SWAPPED,
    sys::stat::Inode, tree::OutputDir, tree::cleanup,
};

/// The name of a part file.
#[derive(Debug)]
pub struct PartName {
    pub name: OsString,
    /// Its journal's, if it has one.
    pub journal: Option<OsString>,
}

/// A file whose content is complete.
#[derive(Debug)]
pub struct Complete {
    /// Its part file, which was closed so and waits for its final name; `None` if it has that already.
    pub part: Option<(PartName, Inode)>,
    /// The copy method.
    pub method: Method,
    /// As what it stands under its final name, if that is to be known.
    pub stands: Option<Inode>,
}

/// Gives a part file, which was closed as `made`, its final name; as what it stands there then.
///
/// Whoever owns the directory could put another file under the part's name while that waited, so what stands there is
/// looked at before it is believed, recorded or given a further name.
///
/// # Errors
/// It did not get its name, or it is another file that got it: that stays, since it is not known whose it is.
pub fn publish(
    output: &OutputDir,
    part: &PartName,
    made: &Inode,
    name: &OsStr,
    replaces: bool,
) -> Result<Inode> {
    let fail = |error| cannot_publish(output, name, error);
    let dir = output.handle.as_ref().ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    dir.publish(&part.name, name, replaces).map_err(fail)?;
    let now = dir.inode(name).deed_at("look at", || output.path_of(name))?;
    match output.volume.is_same(&made.known(), &now) {
        true => Ok(now),
        false => Err(Error::finding("publish", output.path_of(name), SWAPPED)),
    }
}

/// The message about a name that was not to be replaced.
const IN_ANOTHER_CASE: &str = "the output already has this name, perhaps in other letter case";
const APPEARED: &str = "something of this name appeared at the output meanwhile";

/// True if a file could not get its name because another had got it first.
pub fn is_taken(error: &Error) -> bool {
    matches!(error.cause(), Cause::Finding(finding) if [APPEARED, IN_ANOTHER_CASE].contains(&&**finding))
}

/// Why a file could not get its final name.
pub fn cannot_publish(output: &OutputDir, name: &OsStr, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Error::finding(
            "publish",
            output.path_of(name),
            if output.fresh { IN_ANOTHER_CASE } else { APPEARED },
        ),
        _ => Error::io("publish", output.path_of(name), error),
    }
}

/// A part file has its final name: removes its journal, if it has one.
pub fn forget_journal(output: &OutputDir, part: &PartName) -> Option<Error> {
    cleanup::remove(output, part.journal.as_ref()?).err()
}

/// Removes a part file, and its journal, because of `error`, which is returned.
pub fn discard(output: &OutputDir, part: &PartName, error: Error) -> Error {
    let names = part.journal.iter().chain([&part.name]);
    names.fold(error, |error, name| remove(output, name, error))
}

/// Removes the part file, and its journal, of a run that is to stop; what stays behind is told in
/// `warnings`.
pub fn abandon(output: &OutputDir, part: &PartName, warnings: &mut Vec<Error>) {
    for name in part.journal.iter().chain([&part.name]) {
        if let Err(error) = try_remove(output, name) {
            warnings.push(Error::io("remove the part file", output.path_of(name), error));
        }
    }
}

/// Removes a file because of `error`, which is returned.
pub fn remove(output: &OutputDir, part: &OsStr, error: Error) -> Error {
    match try_remove(output, part) {
        Ok(()) => error,
        Err(stays) => error.with_note(format!(
            "; and its part file {} stays behind: {stays}",
            crate::path::Shown::path(&output.path_of(part))
        )),
    }
}

fn try_remove(output: &OutputDir, name: &OsStr) -> io::Result<()> {
    match output.handle.as_ref().map_or(Ok(()), |dir| dir.remove(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
