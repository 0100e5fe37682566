//! A directory of the output that is made anew, with all that is in it and below.
//!
//! Who holds a directory open looks into it, and opens what is below, whatever permissions those above get later. So
//! where one is to be closed to users who could open it, new directories take the place of it and of those below, which
//! nobody holds open, and all that is no directory moves into them by its name. The first has a temporary name, for its
//! owner only, until all is in it. As long as anything is left to do, the old one shows by its permissions that it is
//! to be closed, also to the run after one that was killed: that run [puts back](put_back) what had moved.

use std::{ffi::OsStr, io, sync::Arc};

use crate::sys::{Attributes, Dir, DirListing, ListedEntry, stat::Kind, stat::Stat};
use crate::{event::Stop, staged::StagedDir, staged::temporary_names, tree::Step, tree::TreePass};

/// Number of passes over a directory in which others go on making entries.
const PASSES: usize = 4;

/// Makes the directory `name` in `parent`, which is open as `old`, anew, and returns the new one: it is this user's and
/// closed to all others. Those below have the labels that they had. With `durable` each is synced.
///
/// # Errors
/// It is as it was, unless the error says otherwise.
pub fn make_anew(parent: &Dir, name: &OsStr, old: &Dir, durable: bool) -> io::Result<Dir> {
    // What is mounted there, or below, would be out of sight.
    let id = old.identity()?;
    if parent.open_unmounted(name)?.identity()? != id {
        return Err(io::Error::other("another directory took its place meanwhile"));
    }
    let (staged, new) = StagedDir::new(parent, name)?;
    let moved = Attributes::default()
        .shed_lists(&new)
        .and_then(|()| new.take_over())
        .and_then(|()| old.open_up(&old.stat_self()?))
        .and_then(|_| {
            let mut passes = 0;
            loop {
                passes += 1;
                move_all(old, &new, durable)?;
                match staged.replace(parent, name) {
                    Err(error) if is_filled(&error) && passes < PASSES => {}
                    replaced => return replaced,
                }
            }
        });
    let Err(error) = moved else { return Ok(new) };
    let undone = move_all(&new, old, false).and_then(|()| parent.remove_dir(staged.name()));
    Err(match undone {
        Ok(()) => error,
        Err(stays) => {
            let part = staged.name().display();
            io::Error::new(error.kind(), format!("{error}; and {part} beside it stays: {stays}"))
        }
    })
}

/// Moves what is in the directory `part` back to the one that a killed run was making anew as that, and removes it.
/// False if it is none, or another process is at work on it.
///
/// # Errors
/// Something stays in it.
pub fn put_back(parent: &Dir, part: &OsStr) -> io::Result<bool> {
    let Some(new) = parent.open_abandoned(part)? else { return Ok(false) };
    if !new.is_private()? {
        return Ok(false);
    }
    for entry in DirListing::of(&parent.open_dir(".".as_ref(), false)?)? {
        let name = entry?.name.to_os_string();
        if temporary_names(&name).any(|it| it == part)
            && parent.stat(&name, false)?.kind == Kind::Dir
        {
            move_all(&new, &parent.open_unmounted(&name)?, true)?;
            return parent.remove_dir(part).map(|()| true);
        }
    }
    Ok(false)
}

/// What is kept of a directory while it is moved: the label of the one that is made for it, if one was.
type Label = Option<(Stat, Attributes)>;

/// Moves all that is no directory from `from` to the same place below `to`, and removes the directories that are empty
/// then. Those that `to` lacks are made, with the labels of the others.
fn move_all(from: &Dir, to: &Dir, durable: bool) -> io::Result<()> {
    let mut pass: TreePass<Label, 2> = TreePass::over([(from, false), (to, false)], None)?;
    loop {
        let entered = match pass.step(&Stop::default())? {
            None => return Ok(()),
            Some(Step::Entry(top, ListedEntry { name, kind, .. })) => {
                let [Some(from), Some(to)] = &top.dirs else { continue };
                let kind =
                    kind.map_or_else(|| Ok(from.stat(&name, false)?.kind), Ok::<_, io::Error>);
                match kind? {
                    Kind::Dir => top.subdirs.push((name, None)),
                    _ => from.move_entry(&name, to, &name)?,
                }
                continue;
            }
            Some(Step::Listed(_)) => continue,
            Some(Step::Into(top, name, _)) => {
                let [Some(from), Some(to)] = &top.dirs else { continue };
                let (dirs, label) = open_both(from, to, &name)?;
                (name, dirs, label)
            }
            Some(Step::Left(left)) if left.rel.is_root() => {
                left.dirs[1].as_ref().filter(|_| durable).map_or(Ok(()), Dir::persist)?;
                continue;
            }
            Some(Step::Left(left)) => {
                let (name, label) = (left.name, left.state);
                let [Some(from), Some(to)] = &pass.top()?.dirs else { continue };
                finish(&to.open_dir(&name, false)?, label.as_ref(), durable)?;
                match from.remove_dir(&name) {
                    // What was made there meanwhile is for the next pass.
                    Err(error) if is_filled(&error) => {}
                    removed => removed?,
                }
                continue;
            }
        };
        let (name, [from, to], label): (Arc<OsStr>, _, _) = entered;
        pass.enter(name, [Some(from), Some(to)], label)?;
    }
}

/// True if a directory could not be removed because something is in it; systems have two words for that.
fn is_filled(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

/// Opens the directory `name` in both, which is made in `to` if it is missing there, and tells the label that it is to
/// have then.
fn open_both(from: &Dir, to: &Dir, name: &OsStr) -> io::Result<([Dir; 2], Label)> {
    let is_made = match to.make_dir(name, true) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true)?,
    };
    let (from, to) = (from.open_unmounted(name)?, to.open_unmounted(name)?);
    let there = from.stat_self()?;
    let label =
        is_made.then(|| Ok::<_, io::Error>((there, Attributes::read(&from)?))).transpose()?;
    from.open_up(&there)?;
    if !is_made {
        to.open_up(&to.stat_self()?)?;
    }
    Ok(([from, to], label))
}

/// Gives the directory `to` its label.
fn finish(to: &Dir, label: Option<&(Stat, Attributes)>, durable: bool) -> io::Result<()> {
    if let Some((like, attributes)) = label {
        let now = to.stat_self()?;
        let (mut failed, owned) = (Ok(()), (now.uid, now.gid) == (like.uid, like.gid));
        attributes.apply(to, like, owned, |_, error| failed = Err(error));
        failed?;
    }
    if durable { to.persist() } else { Ok(()) }
}
