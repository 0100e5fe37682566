//! Directories of this user's own, for what is kept among the user's data: the catalogue, and what is remembered of
//! spans. Who can change one, or put another one in its place, says what this user's program reads and writes.

use std::{io, path::Path};

use crate::{
    error::Deed, error::Error, error::Result, path::Shown, path::directory_of, sys, sys::Dir,
};

/// Makes a directory, and those above it, for its owner alone, whatever others get by default, unless it is there.
///
/// # Errors
/// It cannot be made, or a link of another user leads there.
pub fn make_private(dir: &Path) -> io::Result<()> {
    let (above, name) = (directory_of(dir), dir.file_name().unwrap_or_default());
    if !above.exists() {
        make_private(above)?;
    }
    match Dir::open_named(above)?.make_dir(name, true) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Refuses what another user may change, make files beside, or put something else in the place of; what is not there
/// yet, too. The remedy is that there is one in a directory of one's own.
///
/// # Errors
/// He may, or a directory cannot be looked at.
pub fn refuse_others(deed: &'static str, path: &Path, remedy: &str) -> Result<()> {
    let Some(by) = sys::who_else_makes_beside(path).deed(deed, path)? else {
        return Ok(());
    };
    let finding = format!(
        "another user may change {}: chown it and chmod go-w it if all there may be trusted, or {remedy}",
        Shown::path(&by)
    );
    Err(Error::finding(deed, path, finding))
}
