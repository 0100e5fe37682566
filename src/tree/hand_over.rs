//! A directory of the output whose owner or permissions are not those of its counterpart at the source.
//!
//! It may be that another user put a directory of his in the place of the one that was copied, on either side. One at
//! the output may be held open by whom it belongs to, and so may those in it: who holds a directory open looks into it
//! whatever the ones above let him. So nothing that the source keeps from that user gets into it
//! ([`is_of_stranger`]), nor into one that cannot be closed ([`is_open_to_strangers`]). Copies, plans, `heal` and bags
//! ask these two. One that is open to users from whom its counterpart is kept is [made anew](close_anew), as any of
//! them may hold it open, or one below.
//!
//! Nor does anything get into one that no run of this user's is known to have made, unless the policy takes it over: it
//! stays as it is ([`is_of_another_user`]).
//!
//! Any other is closed before anything is put into it, and gets the label of its counterpart last, and then only if
//! everything in it is what this run found in the source and what stands there: what else was in it would be handed
//! over, or shown, with it. That holds for the directories below one that gets opened too.

use std::{
    collections::HashSet, ffi::OsStr, ffi::OsString, hash::BuildHasher, hash::RandomState, io,
    path::PathBuf, sync::Arc, sync::Mutex, sync::PoisonError, sync::atomic::AtomicBool,
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    error::Deed, error::Error, error::Result, event::Stop, path::RelPath, state::Knowledge, sys,
    sys::Attributes, sys::Dir, sys::DirListing, sys::ListedEntry, sys::PartOwner, sys::stat::Kind,
    sys::stat::Stat, tree::OutputDir, tree::Step, tree::TreePass, tree::anew::make_anew,
    tree::found::NameCount, tree::label_change::LabelBefore, tree::label_change::LabelChange,
    tree::label_change::label_like, volume::OutputVolume, volume::times::TimeMatch,
};

/// The deed in errors about a directory that gets nothing.
const DEED: &str = "copy into";

/// True if a directory of the output, which is `there`, belongs to a user from whom its counterpart `source` is kept:
/// neither this user, root nor the source's owner, and `is_closed` says that not everyone may go down to that, or into
/// it by its access lists. Whether owners are told there is for the caller to ask.
pub fn is_of_stranger(there: &Stat, source: &Stat, is_closed: bool) -> bool {
    Dir::is_strange(there, source) && (is_closed || !source.is_open_to_everyone())
}

/// True if users may enter the directory `output`, or hold it open, from whom its counterpart is kept, which is
/// `source` and has these `lists`. Without `owners` permissions alone are compared.
///
/// # Errors
/// It cannot be looked at.
pub fn is_open_to_strangers(
    output: &Dir,
    source: &Stat,
    lists: &Attributes,
    is_closed: bool,
    owners: bool,
) -> io::Result<bool> {
    let is_closed = is_closed || lists.deny_somebody();
    let is_strangers = owners && is_of_stranger(&output.stat_self()?, source, is_closed);
    Ok(is_strangers || output.lets_in_more_than(source, lists, owners)?)
}

/// True if the owner of a directory may be believed. A file that is made for this user only shows whether owners are
/// kept: whose directory it is, cannot have it look otherwise. Nothing is made in a `dry` run.
pub fn tells_owners(dir: &Dir, parts: PartOwner, dry: bool) -> bool {
    if dry { !sys::may_lack_owners(dir) } else { dir.keeps_labels(parts).unwrap_or(true) }
}

/// Refuses the directory `handle`, which is `there` and is to be `output`, if it belongs to a stranger or, in a `dry`
/// run, would be refused for not being closed. Its counterpart is `source`.
///
/// # Errors
/// So it is, or it cannot be looked at.
pub fn refuse_stranger(
    output: &OutputDir,
    handle: &Dir,
    there: &Stat,
    source: &Stat,
    dry: bool,
) -> Result<()> {
    let volume = &output.volume;
    if !volume.tried.traits.permissions {
        return Ok(());
    }
    if is_of_stranger(there, source, output.ways.are_closed())
        && tells_owners(handle, volume.parts, dry)
    {
        let finding = format!(
            "it belongs to another user ({}), who may not look into its counterpart at the source, and may hold it \
             open: move it away, or chown it if all in it may be trusted, and run again",
            there.uid
        );
        return Err(Error::finding(DEED, output.path(), finding));
    }
    let Some((source, attributes)) = output.finish.as_ref().filter(|_| dry) else { return Ok(()) };
    let is_open = || handle.lets_in_more_than(source, attributes, true);
    let may_close =
        sys::may_give_away() || handle.is_ours().deed_at("look at", || output.path())?;
    if !may_close && is_open().deed_at("look at", || output.path())? {
        return Err(cannot_close(output, &io::ErrorKind::PermissionDenied.into()));
    }
    Ok(())
}

/// Why a directory of another user is left.
pub const OF_ANOTHER_USER: &str = "it is another user's, who has files in it that no run of yours recorded, so it and all in it stay \
                                   that user's (run this as that user, or --overwrite-policy update takes it over)";

/// True if the directory `handle`, which is `there` and is to be `output`, is another user's, and has files that are in
/// no record of this user's runs, and none that is. A directory without files is lost to nobody who made it. To be
/// asked of what may get another owner: `source` has that.
///
/// # Errors
/// It cannot be listed.
pub fn is_of_another_user(
    output: &OutputDir,
    handle: &Dir,
    there: &Stat,
    source: &Stat,
    known: Option<&Knowledge>,
    stop: &Stop,
) -> Result<bool> {
    let traits = output.volume.tried.traits;
    let may_change_owner = traits.permissions && traits.owners && sys::may_give_away();
    if !may_change_owner || !Dir::is_strange(there, source) {
        return Ok(false);
    }
    let rel = output.rel.path();
    let is_known = |path: &RelPath| {
        let path = [rel.as_bytes(), path.as_bytes()].join(&b'/');
        known.is_some_and(|known| known.has_copied(&path))
    };
    holds_only_unknown(handle, is_known, stop).deed_at("list", || output.path())
}

/// True if there are files in `dir` or below, and none that is known.
fn holds_only_unknown(
    dir: &Dir,
    is_known: impl Fn(&RelPath) -> bool,
    stop: &Stop,
) -> io::Result<bool> {
    let mut pass = TreePass::over([(dir, false)], ())?;
    let mut has_files = false;
    while let Some(step) = pass.step(stop)? {
        match step {
            Step::Entry(top, listed) => {
                let [Some(dir)] = &top.dirs else { continue };
                match listed.kind_in(dir)? {
                    Kind::Dir => top.subdirs.push((listed.name, ())),
                    Kind::File if is_known(&top.rel.join(&listed.name)) => return Ok(false),
                    kind => has_files |= kind == Kind::File,
                }
            }
            Step::Into(_, name, ()) => pass.enter_all(name, ())?,
            _ => {}
        }
    }
    Ok(has_files)
}

fn cannot_close(output: &OutputDir, error: &io::Error) -> Error {
    let finding = format!(
        "users may look into it who may not look into its counterpart at the source, and it cannot be closed to them \
         ({error}): close it (chown, chmod), or move it away, and run again"
    );
    Error::finding(DEED, output.path(), finding)
}

/// Makes the directory `handle`, which was as `before` and is to be `output`, [anew](make_anew) if it is open to users
/// from whom its counterpart is kept; with `durable` each directory is synced. `None` if it is not, or may not be
/// changed.
///
/// # Errors
/// It cannot be made anew, or looked at.
pub fn close_anew(
    output: &OutputDir,
    parent: &OutputDir,
    handle: &Dir,
    before: &LabelBefore,
    durable: bool,
    stop: &Stop,
    may_change: impl FnOnce() -> bool,
) -> Result<Option<Dir>> {
    let traits = output.volume.tried.traits;
    let Some((source, attributes)) = output.finish.as_ref().filter(|_| traits.permissions) else {
        return Ok(None);
    };
    let denies = attributes.deny_somebody();
    let (there, is_denied_more) = (&before.stat, denies && before.lacks_lists_of(attributes));
    // Where a list lets somebody in, it shows as what the group may.
    let may_let_in = there.mode & 0o070 != 0 && (denies || !source.is_open_to_everyone());
    let is_labelled = || Attributes::are_labelled(there, &label_like(output, there, source));
    let may_be_open = is_denied_more || may_let_in || Dir::is_closed_in_place(there);
    if !may_be_open && is_labelled() {
        return Ok(None);
    }
    let look = |looked: io::Result<bool>| looked.deed_at("look at", || output.path());
    // What cannot be closed is told when that is tried.
    let may_close = sys::may_give_away() || look(handle.is_ours())?;
    if !may_close || !look(handle.lets_in_more_than(source, attributes, traits.owners))? {
        return Ok(None);
    }
    let path = output.rel.path();
    let (Some(above), Some((_, name))) = (&parent.handle, path.split()) else {
        return Ok(None);
    };
    if !may_change() {
        return Ok(None);
    }
    let made =
        sys::name_from_bytes(name).and_then(|name| make_anew(above, name, handle, durable, stop));
    made.map(Some).map_err(|error| {
        let finding = format!(
            "users may hold it open who may not look into its counterpart at the source, and it cannot be made anew \
             ({error}): move it away, or close it (chown, chmod) if none of them does, and run again"
        );
        Error::finding(DEED, output.path(), finding)
    })
}

/// The conditions before a directory of the output gets the label of its counterpart.
#[derive(Debug)]
pub struct HandOver {
    /// Its metadata before.
    pub before: Stat,
    /// True if it was closed, because its own label is another.
    pub is_closed: bool,
    /// True if it had an access list: its permissions alone may let in more.
    had_list: bool,
    /// True if it, or one above, may be another directory than the one that was copied: what is in it is read.
    pub may_be_another: bool,
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

    /// All that `dir` has, but for what runs keep for themselves if it `is_root`.
    fn of(dir: &Dir, folds: bool, is_root: bool) -> io::Result<Self> {
        let unmet = Self { folds, ..Self::default() };
        let is_own = |name: &OsStr| is_root && NameCount::is_own_name(name);
        let names = listed(dir)?.filter(|name| !name.as_deref().is_ok_and(is_own));
        let names = names.map(|name| Ok(unmet.hash(&name?))).collect::<io::Result<_>>()?;
        Ok(Self { names: Mutex::new(names), ..unmet })
    }

    fn meet(&self, name: &OsStr) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.remove(&self.hash(name));
    }

    /// The first of these names that is still there, but for those of which `spares` says so.
    fn first(&self, dir: &Dir, spares: impl Fn(&OsStr) -> bool) -> io::Result<Option<OsString>> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() {
            return Ok(None);
        }
        listed(dir)?
            .find(|it| it.as_ref().map_or(true, |it| names.contains(&self.hash(it)) && !spares(it)))
            .transpose()
    }
}

/// The names that a directory has, by a handle of its own: the position of another is left where it is.
fn listed(dir: &Dir) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
    let listing = DirListing::of(&dir.open_dir(".".as_ref(), false)?)?;
    Ok(listing.map(|entry| Ok(entry?.name.to_os_string())))
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
    let there = handle.stat_self()?;
    if is_of_stranger(&there, source, output.ways.are_closed())
        && tells_owners(handle, output.volume.parts, false)
    {
        return Ok(true);
    }
    let may_close = sys::may_give_away();
    let is_same = (there.uid, there.gid) == (source.uid, source.gid);
    let keeps_owners = traits.owners && may_close;
    // The plan could not close another user's, and left it only if nobody may look into it who may not at the source.
    let all = if may_close || handle.is_ours()? { 0o077 } else { 0o055 };
    Ok(keeps_owners && !is_same || there.mode & !source.mode & all != 0)
}

impl HandOver {
    /// Closes the directory `output`, which was as `before` and in `parent`, if it is to get another label. `None` if
    /// it had that label and is not below one that gets opened. What `is_ours_alone` was filled by this run.
    /// `may_change` is asked before anything is changed.
    ///
    /// # Errors
    /// It cannot be listed; or it cannot be closed, and lets in more than its counterpart.
    pub fn begin(
        output: &OutputDir,
        parent: &Arc<OutputDir>,
        before: &LabelBefore,
        is_ours_alone: bool,
        may_change: impl FnOnce() -> bool,
    ) -> Result<Option<Self>> {
        let (Some(handle), Some((source, attributes))) = (&output.handle, &output.finish) else {
            return Ok(None);
        };
        let Some(change) = LabelChange::of(output, before, source, attributes) else {
            return Ok(None);
        };
        let LabelChange { is_any, changes_owner, opens } = change;
        let (mut is_closed, mut had_list) = (false, false);
        if is_any {
            if !may_change() {
                return Ok(None);
            }
            had_list = before.has_list();
            let look = |looked: io::Result<bool>| looked.deed_at("look at", || output.path());
            let is_his = !look(handle.is_ours())?;
            let shed = || match (is_his, changes_owner) {
                // Whoever it was of may have let others in, and into what is made in it.
                (true, _) => Attributes::default().shed_lists(handle),
                (false, true) => attributes.shed_lists(handle),
                (false, false) => Ok(()),
            };
            let closed = handle.take_over().and_then(|()| shed());
            is_closed = closed.is_ok();
            // What cannot be closed cannot be labelled either, and that is told when it is tried.
            if let Err(error) = closed
                && look(handle.lets_in_more_than(source, attributes, true))?
            {
                return Err(cannot_close(output, &error));
            }
        }
        let is_opened = |above: &&Arc<OutputDir>| {
            above.work.hand_over.as_ref().is_some_and(|over| over.unmet.is_some())
        };
        let above = Some(parent).filter(is_opened);
        let is_another_above =
            above.is_some_and(|it| it.work.hand_over.as_ref().is_some_and(|it| it.may_be_another));
        let is_watched = is_closed && opens || above.is_some();
        if !is_closed && !is_watched {
            return Ok(None);
        }
        let folds = output.volume.folds_names();
        let unmet = is_watched.then(|| Unmet::of(handle, folds, false)).transpose();
        let unmet = unmet.deed_at("list", || output.path())?;
        if let Some(above) = above {
            above.announce(1);
        }
        Ok(Some(Self {
            before: before.stat,
            is_closed,
            had_list,
            may_be_another: !is_ours_alone && (is_closed || is_another_above),
            unmet,
            above: above.cloned(),
            strange_below: Mutex::default(),
            is_late_below: AtomicBool::new(false),
        }))
    }

    /// That of the root of the output, which is closed, as an earlier run made it and did not come to its end.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn of_root(handle: &Dir, folds: bool) -> io::Result<Self> {
        Ok(Self {
            before: handle.stat_self()?,
            is_closed: true,
            had_list: false,
            may_be_another: false,
            unmet: Some(Unmet::of(handle, folds, true)?),
            above: None,
            strange_below: Mutex::default(),
            is_late_below: AtomicBool::new(false),
        })
    }

    /// True if other users may have written to it before.
    pub fn let_others_write(&self) -> bool {
        !Dir::is_kept_by_us(&self.before) || self.had_list && self.before.mode & 0o020 != 0
    }

    /// The entry `name` in it is as in the source, or a directory that the run is in.
    pub fn meet(&self, name: &OsStr) {
        if let Some(unmet) = &self.unmet {
            unmet.meet(name);
        }
    }

    /// The first of what is in it, or below, and is not known to be of the source, nor, as `is_list` says, called as
    /// the lists that this run makes among the files.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn first_stranger(
        &self,
        output: &OutputDir,
        is_list: impl Fn(&OsStr) -> bool,
    ) -> io::Result<Option<RelPath>> {
        let below = self.strange_below.lock().unwrap_or_else(PoisonError::into_inner);
        let (None, Some(unmet), Some(handle)) = (&*below, &self.unmet, &output.handle) else {
            return Ok(below.clone());
        };
        Ok(unmet.first(handle, is_list)?.map(|name| output.rel.join(&name)))
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
    /// had, and no more than its counterpart has. `None` if it is to be closed to all others, as where one of them has
    /// an access list. What it showed of a run before it shows again.
    pub fn narrowest(&self, source: &Stat, attributes: &Attributes) -> Option<Stat> {
        let Self { before, had_list, .. } = self;
        if *had_list || attributes.has_access_list() {
            return None;
        }
        let is_same = !sys::may_give_away() || before.uid == source.uid;
        let shown = if Dir::is_closed_in_place(before) { before.mode } else { 0 };
        let mut both = before.mode & source.mode;
        if sys::may_give_away() && before.gid != source.gid {
            // Whoever is of one group alone is one of the others on the other side.
            let group = (before.mode >> 3) & source.mode & 0o007;
            let others = both & (source.mode >> 3) & 0o007;
            both = both & !0o077 | group << 3 | others;
        }
        let mode = both | source.mode & 0o700 | shown;
        is_same.then_some(Stat { mode, mtime: source.mtime, ..*before })
    }
}

/// The first of what `output` has and `source`, its counterpart, has not as it is there, also in the directories below
/// that others may enter. Links at the source are followed if `follow`.
///
/// # Errors
/// One of them cannot be looked at.
pub fn first_unknown(
    output: &OutputDir,
    source: &Dir,
    follow: bool,
) -> io::Result<Option<PathBuf>> {
    let Some(top) = &output.handle else { return Ok(None) };
    let is_root = output.rel.is_root();
    let mut pass = TreePass::over([(top, false), (source, follow)], ())?;
    while let Some(step) = pass.step(&Stop::default())? {
        match step {
            Step::Entry(top, ListedEntry { name, .. }) => {
                let [Some(dir), Some(source)] = &top.dirs else { continue };
                if is_root && top.rel.is_root() && NameCount::is_own_name(&name) {
                    continue;
                }
                let there = dir.stat(&name, false)?;
                let is_known = match source.stat(&name, follow) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                    Err(error) => return Err(error),
                    Ok(_) if there.kind == Kind::Dir && there.mode & 0o077 == 0 => true,
                    Ok(stat) if stat.kind != there.kind => false,
                    Ok(_) if there.kind == Kind::Dir => {
                        top.subdirs.push((name.clone(), ()));
                        true
                    }
                    Ok(stat) => {
                        is_as_at(&output.volume, dir, source, &name, [&there, &stat], follow)?
                    }
                };
                if !is_known {
                    return Ok(Some(top.rel.join(&name).full_path("".as_ref())));
                }
            }
            Step::Into(_, name, ()) => pass.enter_all(name, ())?,
            _ => {}
        }
    }
    Ok(None)
}

/// True if an entry of `dir` that is no directory is as the one of its kind in `source`: a link leads to the same, and
/// a file has the same size, time and label, as far as the output can hold that. Links are followed as in
/// [`first_unknown`].
fn is_as_at(
    volume: &OutputVolume,
    dir: &Dir,
    source: &Dir,
    name: &OsStr,
    [there, stat]: [&Stat; 2],
    follow: bool,
) -> io::Result<bool> {
    match stat.kind {
        Kind::File => {}
        Kind::Symlink => return Ok(dir.read_link(name)? == source.read_link(name)?),
        _ => return Ok(Attributes::are_labelled(there, stat)),
    }
    // What is opened is what counts: another file may have taken the name since.
    let (kept, from) = (dir.open_file(name, false)?, source.open_file(name, follow)?);
    let (now, stat) = (Dir::stat_file(&kept)?, Dir::stat_file(&from)?);
    let time = volume.compare_times(stat.mtime, now.mtime, None, Some(dir));
    if (now.kind, now.size) != (stat.kind, stat.size) || time == TimeMatch::Other {
        return Ok(false);
    }
    let attributes = Attributes::read(&from)?;
    let label = Stat { mtime: now.mtime, ..stat };
    Ok(!attributes.lack_rights_of(&kept)
        && (attributes.are_at(&now, &kept, &label) || !volume.can_hold(dir, &attributes, &stat)))
}
