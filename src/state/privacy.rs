//! Whether a private directory can be had: where the file system shows every directory with the same owner and
//! permissions, none is closed to others.

use std::{io, path::Path};

use crate::{
    error::Deed, error::Error, error::Result, state::PrivateDir, state::private_dir::NAME, sys,
    sys::Dir, sys::PartOwner,
};

/// The deed of having one.
pub const KEEP: &str = "keep private records in";

impl PrivateDir {
    /// Looks whether the output at `path` can have one, if it has none yet and is, or is to be made in, the directory
    /// `dir`. False if only a trial tells.
    ///
    /// # Errors
    /// It can have none: the file system shows all directories with the same owner and permissions.
    pub fn can_be_made(dir: &Dir, path: &Path) -> Result<bool> {
        if !dir.may_lack_permissions() {
            return Ok(true);
        }
        match why_open(dir).deed("look at", path)? {
            None => Ok(true),
            Some(why) if dir.is_fat() => Err(Error::finding(KEEP, path.join(NAME), why)),
            Some(_) => Ok(false),
        }
    }

    /// The same with a trial, of which nothing is left. Where nothing can be made, that is told when the output is.
    ///
    /// # Errors
    /// It can have none.
    pub fn try_to_make(dir: &Dir, path: &Path) -> Result<()> {
        if !sys::may_lack_owners(dir) || dir.is_private().deed("look at", path)? {
            return Ok(());
        }
        let Ok(name) = dir.create_part_dir(PartOwner::default()) else { return Ok(()) };
        let why = dir.open_dir(&name, false).and_then(|made| {
            // As with what is made to stay.
            let _ = made.inherit_nothing();
            why_open(&made)
        });
        let path = path.join(NAME);
        dir.remove_dir(&name).deed("remove the trial of", &path)?;
        match why.deed("look at", &path)? {
            Some(why) => Err(Error::finding(KEEP, path, why)),
            None => Ok(()),
        }
    }
}

/// Why a directory is not this user's alone; `None` if it is.
pub fn why_open(dir: &Dir) -> io::Result<Option<&'static str>> {
    Ok(match (dir.is_private()?, dir.is_ours()?) {
        (true, _) => None,
        (_, false) => Some("it is another user's"),
        _ if dir.may_lack_permissions() => {
            Some("its permissions let other users in, as all do where the file system has none")
        }
        _ => Some("its permissions let other users in"),
    })
}
