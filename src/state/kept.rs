//! What in the root of a source is what runs to that as an output keep there: it is passed over, and no content. A name
//! alone says nothing, as whoever may write to the root can give it to something of another user's.

use std::{ffi::OsStr, io, io::Read};

use crate::state::private_dir::{HANDWRITING, NAME, PARITY, SECRET, TRASH};
use crate::{
    state::DatedName, sys::Dir, sys::DirListing, sys::Uninterrupted, sys::stat::Kind,
    sys::stat::Stat,
};

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
    let (mut is_blank, mut is_written) = (true, false);
    for entry in listing {
        let name = entry?.name;
        let stat = dir.stat(&name, false)?;
        if !is_ours(&stat) {
            return Ok(false);
        }
        is_written |= !is_trash && is_handwritten(&dir, &name);
        is_blank &= match is_trash {
            true => {
                let is_dated = name.to_str().is_some_and(|it| DatedName::parse(it).is_some());
                stat.kind == Kind::Dir && is_dated
            }
            false => {
                let is_lock = stat.kind == Kind::File && stat.size == 0;
                let is_own = *name == *SECRET || *name == *PARITY && has_only_parity(&dir)?;
                is_lock || is_own
            }
        };
    }
    Ok(is_blank || is_written)
}

/// True if the directory of parity in a private one has parity alone.
pub(super) fn has_only_parity(private: &Dir) -> io::Result<bool> {
    let is_set = |name: &OsStr| name.as_encoded_bytes().ends_with(b".par2");
    let listing = DirListing::of(&private.open_dir(PARITY.as_ref(), false)?)?;
    listing.into_iter().try_fold(true, |only, entry| Ok(only && is_set(&entry?.name)))
}

fn is_handwritten(dir: &Dir, name: &OsStr) -> bool {
    let file = dir.stat(name, false).ok().filter(|stat| stat.kind == Kind::File);
    let Some(Ok(file)) = file.map(|_| dir.open_file(name, false)) else { return false };
    let mut text = Vec::new();
    let read = Uninterrupted(&file).take(HANDWRITING.len() as u64).read_to_end(&mut text);
    read.is_ok() && text == HANDWRITING
}

/// True if `root` has nothing but what runs to it as an output [keep](is_kept_by_runs) there.
///
/// # Errors
/// It cannot be listed.
pub fn has_only_what_runs_keep(root: &Dir) -> io::Result<bool> {
    let is_kept = |name: &OsStr| {
        let is_called_so = [NAME, TRASH].iter().any(|own| name.eq_ignore_ascii_case(own));
        is_called_so && is_kept_by_runs(root, name).unwrap_or(false)
    };
    DirListing::of(&root.open_dir(".".as_ref(), false)?)?
        .try_fold(true, |only, entry| Ok(only && is_kept(&entry?.name)))
}
