//! What in the root of a source is what runs to that as an output keep there: it is passed over, and no content. A name
//! alone says nothing, as whoever may write to the root can give it to something of another user's.

use std::{ffi::OsStr, io};

use crate::state::private_dir::{NAME, PARITY, TRASH, is_of_others};
use crate::{state::DatedName, sys::Dir, sys::DirListing, sys::stat::Kind, sys::stat::Stat};

/// True if the directory `name` in `root` is what runs to that as an output keep there, as far as it shows. Whoever may
/// write to the root can give something of another user's this name, and it was not copied then. So it is of the
/// root's owner, or this user's, with all that is in it, and holds what runs write, or nothing. One that cannot be
/// looked into is believed where nobody else can give names.
///
/// # Errors
/// It cannot be looked at, or not looked into.
pub fn is_kept_by_runs(root: &Dir, name: &OsStr) -> io::Result<bool> {
    let (above, it) = (root.stat_self()?, root.stat(name, false)?);
    let is_ours = |it: &Stat| it.uid == above.uid || Dir::is_kept_by_us(it);
    if !is_ours(&it) {
        return Ok(false);
    }
    let listed = root.open_dir(name, false).and_then(|dir| Ok((DirListing::of(&dir)?, dir)));
    let (listing, dir) = match listed {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let gives_names = above.mode & 0o022 != 0;
            return if gives_names { Err(error) } else { Ok(true) };
        }
        Err(error) => return Err(error),
    };
    let is_trash = name.eq_ignore_ascii_case(TRASH);
    for entry in listing {
        let name = entry?.name;
        let stat = dir.stat(&name, false)?;
        let is_dated = || name.to_str().is_some_and(|it| DatedName::parse(it).is_some());
        if !is_ours(&stat) || is_trash && (stat.kind != Kind::Dir || !is_dated()) {
            return Ok(false);
        }
    }
    Ok(is_trash || !is_of_others(&dir, &is_ours)?)
}

/// True if what is called as the directory of parity in a private one is that, and has parity alone.
pub(super) fn has_only_parity(private: &Dir) -> io::Result<bool> {
    if private.stat(PARITY.as_ref(), false)?.kind != Kind::Dir {
        return Ok(false);
    }
    for entry in DirListing::of(&private.open_dir(PARITY.as_ref(), false)?)? {
        if !entry?.name.as_encoded_bytes().ends_with(b".par2") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if `root` has nothing but what runs to it as an output [keep](is_kept_by_runs) there.
///
/// # Errors
/// It cannot be listed.
pub fn has_only_what_runs_keep(root: &Dir) -> io::Result<bool> {
    for entry in DirListing::of(root)? {
        let name = entry?.name;
        let is_called_so = [NAME, TRASH].iter().any(|own| name.eq_ignore_ascii_case(own));
        if !is_called_so || !is_kept_by_runs(root, &name).unwrap_or(false) {
            return Ok(false);
        }
    }
    Ok(true)
}
