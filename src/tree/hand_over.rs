//! A directory of the output whose owner or permissions are not those of its counterpart at the source.
//!
//! It may be that another user put a directory of his in the place of the one that was copied, on either side. So it
//! is closed to others before anything is put into it, and gets the label of its counterpart last, and then only if
//! everything in it is what this run found in the source and what stands there: what else was in it would be handed
//! over, or shown, with it. That holds for the directories below one that gets opened too.

use std::{
    collections::HashSet, ffi::OsStr, ffi::OsString, hash::BuildHasher, hash::RandomState, io,
    path::PathBuf, sync::Arc, sync::Mutex, sync::PoisonError, sync::atomic::AtomicBool,
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    event::Stop, path::RelPath, sys, sys::Attributes, sys::Dir, sys::DirListing, sys::ListedEntry,
    sys::stat::Kind, sys::stat::Stat, tree::OutputDir, tree::Step, tree::TreePass,
};

/// The conditions before a directory of the output gets the label of its counterpart.
#[derive(Debug)]
pub struct HandOver {
    /// Its metadata before.
    pub before: Stat,
    /// True if it was closed, because its own label is another.
    pub is_closed: bool,
    /// The earlier entries that this run has not come upon; `None` where the label that it gets opens it to nobody.
    unmet: Option<Unmet>,
    /// The directory that it is in, if that gets opened too: it waits for this one.
    pub above: Option<Arc<OutputDir>>,
    /// The first of what stays in the directories below that the source does not have.
    strange_below: Mutex<Option<RelPath>>,
    /// True if it is known only at the end of the run which entries of a directory below stay.
    is_late_below: AtomicBool,
}

/// Names in a directory, as hashes: whoever may write there may have made any number.
#[derive(Debug, Default)]
struct Unmet {
    hasher: RandomState,
    names: Mutex<HashSet<u64>>,
    /// True if letter case tells no names apart there.
    folds: bool,
}

impl Unmet {
    fn hash(&self, name: &OsStr) -> u64 {
        match name.to_str().filter(|_| self.folds) {
            Some(text) => self.hasher.hash_one(text.to_lowercase().as_bytes()),
            None => self.hasher.hash_one(name.as_encoded_bytes()),
        }
    }

    /// All that `dir` has.
    fn of(dir: &Dir, folds: bool) -> io::Result<Self> {
        let unmet = Self { folds, ..Self::default() };
        let names = listed(dir)?.map(|name| Ok(unmet.hash(&name?))).collect::<io::Result<_>>()?;
        Ok(Self { names: Mutex::new(names), ..unmet })
    }

    fn meet(&self, name: &OsStr) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.remove(&self.hash(name));
    }

    /// The first of these names that is still there.
    fn first(&self, dir: &Dir) -> io::Result<Option<OsString>> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() {
            return Ok(None);
        }
        listed(dir)?
            .find(|it| it.as_ref().map_or(true, |it| names.contains(&self.hash(it))))
            .transpose()
    }
}

/// The names that a directory has, by a handle of its own: the position of another is left where it is.
fn listed(dir: &Dir) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
    let listing = DirListing::of(&dir.open_dir(".".as_ref(), false)?)?;
    Ok(listing.map(|entry| Ok(entry?.name.to_os_string())))
}

/// A change of a directory's label.
#[derive(Clone, Copy, Debug)]
pub struct LabelChange {
    /// True if there is a change.
    is_any: bool,
    changes_owner: bool,
    /// True if it lets in others than before.
    pub opens: bool,
}

impl LabelChange {
    /// The hand-over of the directory `output`, which is `there` and is to be as `source`, with these attributes.
    /// `None` where directories have no permissions.
    pub fn of(
        output: &OutputDir,
        there: &Stat,
        source: &Stat,
        attributes: &Attributes,
    ) -> Option<Self> {
        let traits = output.volume.tried.traits;
        let handle = output.handle.as_ref().filter(|_| traits.permissions)?;
        let is_given = traits.owners && sys::may_give_away();
        let (uid, gid) = if is_given { (source.uid, source.gid) } else { (there.uid, there.gid) };
        let like = Stat { uid, gid, ..*source };
        let opens_lists = attributes.open_more_than(handle);
        let changes_owner = (uid, gid) != (there.uid, there.gid);
        Some(Self {
            is_any: opens_lists || !Attributes::are_labelled(there, &like),
            changes_owner,
            opens: changes_owner || opens_lists || like.mode & !there.mode & 0o077 != 0,
        })
    }
}

/// The message that [others may](lets_others_in) enter a directory.
pub const OPEN_TO_OTHERS: &str = "at the output its directory is another user's, or more open than the source's, and it was not \
                                  when it was planned: move it away, and make a new plan";

/// True if others may enter the directory `output` who could not enter its counterpart `source`: it is not this user's
/// alone, and more open than that, or, where owners are kept, not of its owner. No plan leaves a directory so.
///
/// # Errors
/// It cannot be looked at.
pub fn lets_others_in(output: &OutputDir, source: &Stat) -> io::Result<bool> {
    let traits = output.volume.tried.traits;
    let Some(handle) = output.handle.as_ref().filter(|_| traits.permissions) else {
        return Ok(false);
    };
    if handle.is_private()? {
        return Ok(false);
    }
    let may_close = sys::may_give_away();
    if !may_close && !handle.is_ours()? {
        // It is as it was when the plan could not close it either, as any run takes such a directory.
        return Ok(false);
    }
    let there = handle.stat_self()?;
    let is_same = (there.uid, there.gid) == (source.uid, source.gid);
    let keeps_owners = traits.owners && may_close;
    Ok(keeps_owners && !is_same || there.mode & !source.mode & 0o077 != 0)
}

impl HandOver {
    /// Closes the directory `output`, which is `there` and in `parent`, if it is to get another label. `None` if it
    /// has that label and is not below one that gets opened. `may_change` is asked before anything is changed.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn begin(
        output: &OutputDir,
        parent: &Arc<OutputDir>,
        there: &Stat,
        may_change: impl FnOnce() -> bool,
    ) -> io::Result<Option<Self>> {
        let (Some(handle), Some((source, attributes))) = (&output.handle, &output.finish) else {
            return Ok(None);
        };
        let Some(change) = LabelChange::of(output, there, source, attributes) else {
            return Ok(None);
        };
        let LabelChange { is_any, changes_owner, opens } = change;
        let mut is_closed = false;
        if is_any {
            if !may_change() {
                return Ok(None);
            }
            // What cannot be closed cannot be labelled either, and that is told when it is tried.
            is_closed = handle.take_over().is_ok();
            if is_closed && changes_owner {
                // Whoever it was of may have let others in.
                let _ = attributes.shed_inherited(handle);
            }
        }
        let is_opened = |above: &&Arc<OutputDir>| {
            above.work.hand_over.as_ref().is_some_and(|over| over.unmet.is_some())
        };
        let above = Some(parent).filter(is_opened);
        let is_watched = is_closed && opens || above.is_some();
        if !is_closed && !is_watched {
            return Ok(None);
        }
        let folds = output.volume.folds_names();
        let unmet = is_watched.then(|| Unmet::of(handle, folds)).transpose()?;
        if let Some(above) = above {
            above.announce(1);
        }
        Ok(Some(Self {
            before: *there,
            is_closed,
            unmet,
            above: above.cloned(),
            strange_below: Mutex::default(),
            is_late_below: AtomicBool::new(false),
        }))
    }

    /// The entry `name` in it is as in the source, or a directory that the run is in.
    pub fn meet(&self, name: &OsStr) {
        if let Some(unmet) = &self.unmet {
            unmet.meet(name);
        }
    }

    /// The first of what is in it, or below, and is not known to be of the source.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn first_stranger(&self, output: &OutputDir) -> io::Result<Option<RelPath>> {
        let below = self.strange_below.lock().unwrap_or_else(PoisonError::into_inner);
        let (None, Some(unmet), Some(handle)) = (&*below, &self.unmet, &output.handle) else {
            return Ok(below.clone());
        };
        Ok(unmet.first(handle)?.map(|name| output.rel.join(&name)))
    }

    /// This stays in a directory below.
    pub fn note_stranger(&self, path: RelPath) {
        let mut below = self.strange_below.lock().unwrap_or_else(PoisonError::into_inner);
        below.get_or_insert(path);
    }

    /// Notes that it is known only at the end of the run which entries of a directory below stay.
    pub fn note_late(&self) {
        self.is_late_below.store(true, Relaxed);
    }

    /// True if that was noted.
    pub fn is_late(&self) -> bool {
        self.is_late_below.load(Relaxed)
    }

    /// The label that it may have while something strange is in it, as it was of the same owner before: no more than it
    /// had, and no more than its counterpart has. `None` if it is to be closed to all others.
    pub fn narrowest(&self, source: &Stat) -> Option<Stat> {
        let Self { before, .. } = self;
        let is_same = !sys::may_give_away() || (before.uid, before.gid) == (source.uid, source.gid);
        let mode = before.mode & source.mode | source.mode & 0o700;
        is_same.then_some(Stat { mode, mtime: source.mtime, ..*before })
    }
}

/// The first of what `output` has and `source`, its counterpart, has not, also in the directories below that others may
/// enter. Links at the source are followed to directories if `follow`.
///
/// # Errors
/// One of them cannot be looked at.
pub fn first_unknown(output: &Dir, source: &Dir, follow: bool) -> io::Result<Option<PathBuf>> {
    let mut pass = TreePass::over([(output, false), (source, follow)], ())?;
    while let Some(step) = pass.step(&Stop::default())? {
        match step {
            Step::Entry(top, ListedEntry { name, .. }) => {
                let [Some(output), Some(source)] = &top.dirs else { continue };
                let there = output.stat(&name, false)?;
                let is_dir = there.kind == Kind::Dir;
                match source.stat(&name, is_dir && follow) {
                    Ok(_) if !is_dir || there.mode & 0o077 == 0 => {}
                    Ok(stat) if stat.kind == Kind::Dir => top.subdirs.push((name, ())),
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => return Ok(Some(top.rel.join(&name).full_path("".as_ref()))),
                }
            }
            Step::Into(_, name, ()) => pass.enter_all(name, ())?,
            _ => {}
        }
    }
    Ok(None)
}
