//! What gives way in a tree that is to become a generation: all that its record does not prove.
//!
//! The tree begins as a snapshot of the last generation. A file stays in it only if it is recorded, untouched, and
//! nothing of it changed at the source since. Anything else is removed from this tree, where no complete generation has
//! it, and copied anew.

use std::ffi::OsStr;
use std::io;

use crate::error::{Error, Result};
use crate::state::belief::Belief;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{self, Attributes, Dir};
use crate::transfer::context::Context;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;

/// Whether a file of the source may be, and was since it was copied, what is `there`; [`Row::is_copy_of`] tells.
pub fn may_be_as(source: &Stat, there: &Stat) -> bool {
    source.kind == Kind::File
        && source.size == there.size
        && source.mtime.may_be_stored_as(there.mtime)
        && source.ctime < there.ctime
}

/// Whether a link leads where that of the source does, which was not changed since, and has the same attributes, and
/// the same owner where this process could give it that one: no record tells of a link.
pub fn is_same_link(source: &Dir, new: &Dir, name: &OsStr, stat: &Stat, there: &Stat) -> bool {
    let target = |dir: &Dir| dir.read_link(name).ok();
    let attributes = |dir: &Dir| Attributes::of_link(dir, name).ok();
    let has_attributes = || {
        let of_new = attributes(new);
        of_new.is_some_and(|new| attributes(source).is_some_and(|source| source.are_same(&new)))
    };
    let is_owner = || (stat.uid, stat.gid) == (there.uid, there.gid);
    stat.kind == Kind::Symlink
        && there.kind == Kind::Symlink
        && (!sys::may_give_away() || is_owner())
        && stat.ctime < there.ctime
        && stat.mtime == there.mtime
        && target(source).is_some_and(|it| Some(it) == target(new))
        && has_attributes()
}

/// What stays of what is `there` for a file, of which this is known; `None` if it gave way.
///
/// # Errors
/// It cannot be removed.
pub fn file(
    context: &Context<'_>,
    output: &OutputDir,
    entry: &SourceEntry,
    there: Stat,
    belief: Belief,
) -> Result<Option<(Stat, Belief)>> {
    let is_proven = || matches!(belief, Belief::Untouched(row, _) if row.is_copy_of(&entry.stat));
    if !context.options.prunes || is_proven() || !remove(context, output, entry, &there)? {
        return Ok(Some((there, belief)));
    }
    Ok(None)
}

/// Removes what is at the name of a link, or of a further name of a file, if it is not the same `source` has. Without a
/// source it is a further name.
///
/// # Errors
/// It cannot be removed.
pub fn link(
    context: &Context<'_>,
    source: Option<&SourceDir>,
    output: &OutputDir,
    entry: &SourceEntry,
) -> Result<()> {
    let Some(dir) = output.handle.as_ref().filter(|_| context.options.prunes) else {
        return Ok(());
    };
    let Some(there) = output.look(&entry.name)? else { return Ok(()) };
    let stays = match source {
        Some(source) => is_same_link(&source.handle, dir, &entry.name, &entry.stat, &there),
        None => context.shared.known.is_some_and(|known| {
            let path = output.rel.join(&entry.name);
            matches!(known.belief(path.as_bytes(), &there), Belief::Untouched(row, _)
                if row.is_copy_of(&entry.stat))
        }),
    };
    if !stays {
        remove(context, output, entry, &there)?;
    }
    Ok(())
}

/// Removes it; false if it has to stay: a directory is not this file's to remove, and a run that is refused is over.
fn remove(
    context: &Context<'_>,
    output: &OutputDir,
    entry: &SourceEntry,
    there: &Stat,
) -> Result<bool> {
    let Some(dir) = output.handle.as_ref().filter(|_| there.kind != Kind::Dir) else {
        return Ok(false);
    };
    if !context.control.gate.lets_pass() {
        return Ok(false);
    }
    match dir.remove_protected(&entry.name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let path = output.path_of(&entry.name);
            let note = sys::what_protects(dir, &entry.name).unwrap_or_default();
            Err(Error::io("remove from the unfinished tree", path, error).with_note(note))
        }
        _ => Ok(true),
    }
}
