//! Trying names for a manifest until one is free.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::manifest::name::ManifestName;
use crate::sys::Dir;

/// Who gets none of so many names cannot have one: a broken file system may say of each that it is taken.
const MOST_TRIES: u32 = 100;

/// The finished and the unfinished file name.
pub fn both(name: ManifestName) -> (OsString, OsString) {
    (name.finished().to_string().into(), name.unfinished().to_string().into())
}

/// The name to try next, after so many `tries` that found one taken.
///
/// # Errors
/// There is none, or it is vain to go on.
pub fn next(name: ManifestName, path: &Path, tries: u32) -> Result<ManifestName> {
    let next = name.next().filter(|_| tries < MOST_TRIES);
    next.ok_or_else(|| Error::finding("name a manifest in", path, "too many names are taken"))
}

/// Whether nothing in `root` is called `name`.
pub fn is_absent(root: &Dir, name: &OsStr) -> io::Result<bool> {
    match root.stat(name, false) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}
