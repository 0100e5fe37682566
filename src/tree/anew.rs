//! A directory of the output that is made anew, with all that is in it and below.
//!
//! Who holds a directory open looks into it, and opens what is below, whatever permissions those above get later. So
//! where one is to be closed to users who could open it, new directories take the place of it and of those below, which
//! nobody holds open, and all that is no directory moves into them by its name. The first has a temporary name, for its
//! owner only, until all is in it. Each old one is closed before anything leaves it: who holds it open makes, takes and
//! renames nothing in it from then on. By the temporary name the run after one that was killed or stopped knows that
//! there is more to do, and [goes on](go_on).

use std::{ffi::OsStr, io, sync::Arc};

use crate::sys::{Attributes, Dir, DirListing, stat::Kind, stat::Stat};
use crate::{
    event::Stop, path::Shown, staged::StagedDir, staged::temporary_names, tree::Step,
    tree::TreePass,
};

/// Number of passes over a directory in which others go on making entries.
const PASSES: usize = 4;

/// Makes the directory `name` in `parent`, which is open as `old`, anew, and returns the new one: it is this user's and
/// closed to all others. Those below have the labels that they had. With `durable` each is synced.
///
/// # Errors
/// It is as it was, unless the error says otherwise.
///
/// Once it is to `stop`, the next run goes on: then it is closed, and a part of what was in it is not there.
pub fn make_anew(
    parent: &Dir,
    name: &OsStr,
    old: &Dir,
    durable: bool,
    stop: &Stop,
) -> io::Result<Dir> {
    // What is mounted there, or below, would be out of sight.
    let id = old.identity()?;
    if parent.open_unmounted(name)?.identity()? != id {
        return Err(io::Error::other("another directory took its place meanwhile"));
    }
    let before = (old.stat_self()?, Attributes::read(old)?);
    let (staged, new) = StagedDir::new(parent, name)?;
    let moved = close(&new).and_then(|()| close(old)).and_then(|()| {
        let mut passes = 0;
        loop {
            passes += 1;
            move_all(old, &new, Way::There, durable, stop)?;
            match staged.replace(parent, name) {
                Err(error) if is_filled(&error) && passes < PASSES => {}
                replaced => return replaced,
            }
        }
    });
    let Err(error) = moved else { return Ok(new) };
    if stop.is_requested() {
        return Err(error);
    }
    let undone = move_all(&new, old, Way::Back, false, &Stop::default())
        .and_then(|()| parent.remove_dir(staged.name()))
        .and_then(|()| give(old, &before));
    Err(match undone {
        Ok(()) => error,
        Err(stays) => {
            let part = staged.name().display();
            io::Error::new(error.kind(), format!("{error}; and {part} beside it stays: {stays}"))
        }
    })
}

/// Goes on with the directory `part`, which a killed run began to make in place of another. False if it is none, or
/// another process is at work on it.
///
/// # Errors
/// It is to `stop`, and the next run goes on; or something stays in it: what has the other's name now may be another
/// directory, or more than this user may enter it.
pub fn go_on(parent: &Dir, part: &OsStr, stop: &Stop) -> io::Result<bool> {
    let Some(new) = parent.open_abandoned(part)? else { return Ok(false) };
    if !new.is_private()? {
        return Ok(false);
    }
    for entry in DirListing::of(&parent.open_dir(".".as_ref(), false)?)? {
        let name = entry?.name.to_os_string();
        if !temporary_names(&name).any(|it| it == part)
            || parent.stat(&name, false)?.kind != Kind::Dir
        {
            continue;
        }
        let old = parent.open_unmounted(&name)?;
        if !old.is_private()? {
            // Nothing leaves a directory before it is closed.
            if DirListing::is_empty(&new)? {
                return parent.remove_dir(part).map(|()| true);
            }
            let name = Shown::path(name.as_ref()).to_string();
            let why =
                format!("{name} is another directory now, or was opened: move it there yourself");
            return Err(io::Error::other(why));
        }
        move_all(&old, &new, Way::On, true, stop)?;
        parent.publish(part, &name, true)?;
        return match parent.open_dir(&name, false)?.identity()? == new.identity()? {
            true => parent.persist().map(|()| true),
            false => Err(io::Error::other("another directory took its place meanwhile")),
        };
    }
    Ok(false)
}

/// Closes a directory to all but this user, also to who holds it open.
fn close(dir: &Dir) -> io::Result<()> {
    dir.take_over().and_then(|()| Attributes::default().shed_lists(dir))
}

/// Which directories get the label of their counterpart when all is in them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Those that are made.
    There,
    /// Those that are made now: the others have theirs from the run that was killed.
    On,
    /// All: they had been closed.
    Back,
}

/// What is kept of a directory while it is moved: the label of the one that is made for it, if one was.
type Label = Option<(Stat, Attributes)>;

/// Moves all that is no directory from `from` to the same place below `to`, and removes the directories that are empty
/// then. Those that `to` lacks are made, with the labels of the others.
///
/// # Errors
/// [`Interrupted`](io::ErrorKind::Interrupted) once it is to `stop`.
fn move_all(from: &Dir, to: &Dir, way: Way, durable: bool, stop: &Stop) -> io::Result<()> {
    let mut pass: TreePass<Label, 2> = TreePass::over([(from, false), (to, false)], None)?;
    loop {
        let entered = match pass.step(stop)? {
            None if stop.is_requested() => return Err(io::ErrorKind::Interrupted.into()),
            None => return Ok(()),
            Some(Step::Entry(top, listed)) => {
                let [Some(from), Some(to)] = &top.dirs else { continue };
                match listed.kind_in(from)? {
                    Kind::Dir => top.subdirs.push((listed.name, None)),
                    _ => from.move_entry(&listed.name, to, &listed.name)?,
                }
                continue;
            }
            Some(Step::Listed(_)) => continue,
            Some(Step::Into(top, name, _)) => {
                let [Some(from), Some(to)] = &top.dirs else { continue };
                let (dirs, label) = open_both(from, to, &name, way)?;
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

/// Opens the directory `name` in both, which is made in `to` if it is missing there, closes the one in `from`, and
/// tells the label that the other is to have when all is in it. One that is made has it from the beginning, since a run
/// may be killed meanwhile: nobody else gets to it yet.
fn open_both(from: &Dir, to: &Dir, name: &OsStr, way: Way) -> io::Result<([Dir; 2], Label)> {
    let from = from.open_unmounted(name)?;
    let is_made = match to.make_dir(name, true) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true)?,
    };
    let to = to.open_unmounted(name)?;
    let label = (from.stat_self()?, Attributes::read(&from)?);
    if is_made {
        // It has those that the one above hands on.
        label.1.shed_lists(&to)?;
        give(&to, &label)?;
    }
    to.open_up(&to.stat_self()?)?;
    close(&from)?;
    Ok(([from, to], Some(label).filter(|_| is_made || way == Way::Back)))
}

/// Gives the directory `to` its label, if it gets one, when all is in it.
fn finish(to: &Dir, label: Option<&(Stat, Attributes)>, durable: bool) -> io::Result<()> {
    label.map_or(Ok(()), |label| give(to, label))?;
    if durable { to.persist() } else { Ok(()) }
}

fn give(to: &Dir, (like, attributes): &(Stat, Attributes)) -> io::Result<()> {
    let now = to.stat_self()?;
    let (mut failed, owned) = (Ok(()), (now.uid, now.gid) == (like.uid, like.gid));
    attributes.apply(to, like, owned, |_, error| failed = Err(error));
    failed
}
