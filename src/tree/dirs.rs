//! Directories of both trees, held open while anything in them is on its way.

use std::{
    collections::HashMap, ffi::OsStr, fs::File, io, path::Path, path::PathBuf, sync::Arc,
    sync::Mutex, sync::PoisonError, sync::Weak, sync::atomic::AtomicBool,
    sync::atomic::AtomicUsize, sync::atomic::Ordering::AcqRel, sync::atomic::Ordering::Relaxed,
};

use crate::{
    error::Deed, error::Error, error::Result, path::DirPath, path::RelPath, state::Belief,
    state::Origin, state::Remembered, state::SeenAt, state::Trace, sys, sys::Attributes, sys::Dir,
    sys::Place, sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
    tree::DestinationStat, tree::HandOver, tree::Ways, volume::OutputVolume,
    volume::times::TimeMatch,
};

/// A tree that is open, and where it was then.
#[derive(Clone, Debug)]
pub struct HeldTree {
    pub dir: Arc<Dir>,
    /// For messages.
    pub path: PathBuf,
}

/// A directory of the source.
#[derive(Debug)]
pub struct SourceDir {
    pub handle: Dir,
    /// Where the source's root is, for messages.
    pub root: Arc<Path>,
    /// Where below the root this directory is.
    pub rel: DirPath,
}

/// A directory of the output.
#[derive(Debug)]
pub struct OutputDir {
    /// The open directory; `None` in a dry run for one that is not there yet.
    pub handle: Option<Dir>,
    /// Where the output's root is, for messages.
    pub root: Arc<Path>,
    /// Where below the root this directory is.
    pub rel: DirPath,
    /// The directories on the way to it, and to its counterpart.
    pub ways: Ways,
    /// True if this run made it, so that nothing can be in it yet.
    pub fresh: bool,
    /// True if nothing was in it when this attempt at a shard came to it. What appears there since, another attempt's,
    /// keeps its name.
    pub bare: bool,
    /// The directory's group: new entries may take it.
    pub gid: u32,
    /// The file system it is on.
    pub volume: OutputVolume,
    /// The metadata to give the directory when everything in it is done; `None` to leave it as it is.
    pub finish: Option<(Stat, Attributes)>,
    /// The work that is still open in it.
    pub work: OpenWork,
}

/// The work that is still open in a directory of the output, and for it.
#[derive(Debug)]
pub struct OpenWork {
    /// The directory it was made in, if this run made it: until its name there is durable, nothing
    /// in it is.
    pub made_in: Mutex<Option<Arc<OutputDir>>>,
    /// True if something in it is missing that a later run will have to add.
    pub left_open: AtomicBool,
    /// True if it gets no label, since its counterpart was closed meanwhile.
    pub is_withheld: AtomicBool,
    /// Number of things that are still open in it: entries, the walker itself, and directories that it waits for.
    pub pending: AtomicUsize,
    /// The conditions before it gets its label, if that is another than it has.
    pub hand_over: Option<HandOver>,
    /// The claim that it is the directory of this path and of no other, as long as this is held.
    pub claim: Option<Arc<DirPath>>,
}

/// The notice about an output that lets others look into it who may not look into the source.
pub const WIDER: &str = "it lets other users in whom the source keeps out (chmod go-rx, as at the source, keeps them out)";

/// … about one that has a directory to which another user may write.
pub const OTHERS_MAY_WRITE: &str = "other users may write to it: what they change there behind this run, only the next check finds (chmod \
                                    go-w, at the source too, keeps them out)";

/// The directories of the output that the run is in, each with the path that it was met under.
#[derive(Debug, Default)]
pub struct LiveDirs {
    met: Mutex<HashMap<Identity, Weak<DirPath>>>,
    /// True once it need not be told any more that others may write to one.
    is_told: AtomicBool,
}

impl LiveDirs {
    /// Number of entries that are looked through for those that the run has left.
    const FEW: usize = 256;

    /// Notes that the directory of this number is at `path`, until what is returned is dropped.
    ///
    /// # Errors
    /// The path that it was met under before.
    pub fn claim(&self, id: Identity, path: &DirPath) -> Result<Arc<DirPath>, Arc<DirPath>> {
        let mut live = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let met = live.get(&id).and_then(Weak::upgrade);
        if let Some(other) = met.filter(|other| other.path() != path.path()) {
            return Err(other);
        }
        if live.len() >= Self::FEW && live.len() == live.capacity() {
            live.retain(|_, path| path.strong_count() > 0);
        }
        let claim = Arc::new(path.clone());
        live.insert(id, Arc::downgrade(&claim));
        Ok(claim)
    }

    /// True if `output` is the first directory that others may write to. Of the `root` that is told beforehand; where
    /// they may not enter that, they come to none.
    pub fn is_first_open(&self, output: &OutputDir, root: Option<&OutputDir>) -> bool {
        if output.fresh || self.is_told.load(Relaxed) {
            return false;
        }
        let may_enter = |root: &Dir| root.stat_self().is_ok_and(|stat| stat.mode & 0o011 != 0);
        let is_entered = |root: &OutputDir| {
            !root.others_may_write() && root.handle.as_ref().is_some_and(may_enter)
        };
        if !root.is_some_and(is_entered) {
            self.is_told.store(true, Relaxed);
            return false;
        }
        output.others_may_write() && !self.is_told.swap(true, Relaxed)
    }
}

impl Default for OpenWork {
    /// Nothing but the walker.
    fn default() -> Self {
        Self {
            made_in: Mutex::new(None),
            left_open: AtomicBool::new(false),
            is_withheld: AtomicBool::new(false),
            pending: AtomicUsize::new(1),
            hand_over: None,
            claim: None,
        }
    }
}

impl SourceDir {
    /// The full path of an entry here, for messages.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        self.rel.join(name).full_path(&self.root)
    }

    /// The full path of this directory, for messages only: it is never opened by it.
    pub fn path(&self) -> PathBuf {
        self.rel.path().full_path(&self.root)
    }

    /// True if it, or one above, was closed or moved since the walk came to it by `ways`, and not everyone may go down
    /// to it now: what is in it by now may be kept from users who may enter its counterpart. Links must not be
    /// followed.
    pub fn is_closed_since(&self, ways: &Ways) -> bool {
        let levels = self.rel.path().components().count();
        // So deep the system takes no name.
        if levels > 1000 {
            return false;
        }
        let above = |level| self.handle.stat_above(level);
        let all: io::Result<Vec<Stat>> = (0..=levels).rev().map(above).collect();
        let now = match all {
            Ok(all) => all.iter().fold(Ways::default(), Ways::into_source),
            // It was removed, or nothing tells who may enter it. What else cannot be looked at is in doubt.
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        };
        if now.difference_at_source(ways).is_none() {
            return false;
        }
        now.are_closed() || deny_on_the_way(&self.handle, levels).unwrap_or(true)
    }

    /// The full path of what is at `rel` below the source's root, for messages.
    pub fn path_below(&self, rel: &RelPath) -> PathBuf {
        rel.full_path(&self.root)
    }

    /// The metadata of a copy here as the policies look at it: where a file that states a size of 0 may have content,
    /// its copy is not longer for having that.
    pub fn as_stated(&self, source: &Stat, there: &Stat) -> Stat {
        let may_be_unsized = source.size == 0
            && there.size > 0
            && there.kind == Kind::File
            && !sys::has_exact_sizes(&self.handle);
        Stat { size: if may_be_unsized { 0 } else { there.size }, ..*there }
    }
}

/// True if an access list of a directory, or of one of so many above it, keeps somebody out.
fn deny_on_the_way(dir: &Dir, levels: usize) -> io::Result<bool> {
    let mut here = dir.try_clone()?;
    for _ in 0..levels {
        if Attributes::read(&here)?.deny_somebody() {
            return Ok(true);
        }
        here = here.parent()?;
    }
    Ok(Attributes::read(&here)?.deny_somebody())
}

/// Opens the directory at `path` below `root`, a directory of the source, as the walk enters it: through symbolic links
/// only with `follow`.
///
/// # Errors
/// It is not there, or is no directory that may be entered.
pub fn open_source_below(root: &Dir, path: &RelPath, follow: bool) -> io::Result<Dir> {
    let enter = |dir: Dir, name: &[u8]| dir.open_dir(sys::name_from_bytes(name)?, follow);
    path.components().try_fold(root.try_clone()?, enter)
}

impl OutputDir {
    /// The root of an output that is at `root` and not open.
    pub fn absent(root: Arc<Path>) -> Self {
        Self {
            handle: None,
            root,
            rel: DirPath::root(),
            ways: Ways::default(),
            fresh: true,
            bare: false,
            gid: 0,
            volume: OutputVolume { with_root: true, ..OutputVolume::default() },
            finish: None,
            work: OpenWork::default(),
        }
    }

    /// The directory `name` in `parent`, not open yet, for the directory `source` of the source.
    pub fn below(parent: &OutputDir, name: &OsStr, source: &Stat) -> Self {
        Self {
            rel: parent.rel.below(name),
            ways: parent.ways.into_source(source),
            gid: source.gid,
            volume: parent.volume.of_subdir(),
            ..Self::absent(Arc::clone(&parent.root))
        }
    }

    /// The full path of an entry here, for messages.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        self.rel.join(name).full_path(&self.root)
    }

    /// The full path of this directory, for messages only: it is never opened by it.
    pub fn path(&self) -> PathBuf {
        self.rel.path().full_path(&self.root)
    }

    /// The full path of what is at `rel` below the output's root, for messages.
    pub fn path_below(&self, rel: &RelPath) -> PathBuf {
        rel.full_path(&self.root)
    }

    /// True if nothing in it is older than this run, or than this attempt at a shard.
    pub fn began_empty(&self) -> bool {
        self.fresh || self.bare
    }

    /// The metadata of the entry of this name in it.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn look(&self, name: &OsStr) -> Result<Option<Stat>> {
        let Some(dir) = self.handle.as_ref().filter(|_| !self.began_empty()) else {
            return Ok(None);
        };
        dir.stat(name, false).if_there().deed_at("look at", || self.path_of(name))
    }

    /// The limits of the file system here, in words behind its name; `None` if there are none.
    pub fn limits(&self) -> Option<String> {
        let limits = self.volume.tried.limits()?;
        let kind = self.handle.as_ref().and_then(Place::file_system);
        Some(format!("{}: {limits}", kind.as_deref().unwrap_or("this file system")))
    }

    /// The metadata of the file that is `there` beside `source`, as the policies look at it. A time that is unclear is
    /// not the same.
    pub fn destination<'a>(&self, source: &Stat, there: &'a Stat) -> DestinationStat<'a> {
        let same_time = self.compare_times(source.mtime, there.mtime, None) == TimeMatch::Same;
        DestinationStat { stat: there, same_time }
    }

    /// Compares the time of the file that is `there` with `source`, where a record tells which it was `given`, or
    /// nothing does.
    pub fn compare_times(&self, source: Time, there: Time, given: Option<Time>) -> TimeMatch {
        self.volume.compare_times(source, there, given, self.handle.as_ref())
    }

    /// The same where no content is to be read: what the output makes of `source` is taken for that time.
    pub fn compare_times_alone(&self, source: Time, there: Time) -> TimeMatch {
        if self.holds_time_as(source, there) { TimeMatch::Same } else { TimeMatch::Other }
    }

    /// The time to be recorded as given to a copy, which was given that of `source`; `None` where it has just that
    /// time, and no other is shown so.
    pub fn time_to_record(&self, source: Time, there: Time) -> Option<Time> {
        let is_told = source == there && self.volume.tried.times.are_exact_at(source);
        (!is_told).then_some(source)
    }

    /// What is to be recorded of `source`, which was read, and copied, and may have been changed since with the same
    /// times if it is `in_doubt`; no time where the trace of the copy has it.
    pub fn seen_at(&self, source: &Stat, in_doubt: bool) -> SeenAt {
        let content = (in_doubt || self.has_change_times()).then_some(source.ctime);
        SeenAt { content, in_doubt, ino: content.map_or(0, |_| source.id.ino), label: None }
    }

    /// The time that was given to a copy of which an earlier run found this out.
    pub fn time_given(&self, belief: &Belief) -> Option<Time> {
        let (row, is_of_here) = match belief {
            Belief::Untouched(row, _) => (row, true),
            Belief::Doubtful(Remembered { row: Some(row), place, .. }) => (row, place.is_some()),
            Belief::Doubtful(_) | Belief::Nothing => return None,
        };
        // Of a file that was found here nothing tells which time it was given elsewhere.
        let is_told = is_of_here && !row.late && row.origin != Origin::There;
        let shown = row.trace.mtime;
        row.given.or((is_told && self.volume.tried.times.are_exact_at(shown)).then_some(shown))
    }

    /// The largest file that can be here, if that is known to be small; bytes.
    pub fn largest_file(&self) -> Option<u64> {
        self.volume.largest_file(self.handle.as_ref())
    }

    /// True if a file here that was given the time `source` has the time `there`, as others may.
    pub fn holds_time_as(&self, source: Time, there: Time) -> bool {
        self.volume.holds_time_as(source, there, self.handle.as_ref())
    }

    /// The trace by which a record knows the file again that is `there`, the copy of `source`. Where files have no
    /// change time, that of the source stands for one that would say nothing.
    pub fn trace_of(&self, source: &Stat, there: &Stat) -> Trace {
        let trace = Trace::of(there);
        if self.has_change_times() { trace } else { Trace { ctime: source.ctime, ..trace } }
    }

    /// True if files here have a change time that no program can set.
    pub fn has_change_times(&self) -> bool {
        self.volume.has_change_times(self.handle.as_ref())
    }

    /// True if it is on FAT or exFAT, which have no holes.
    pub fn is_fat(&self) -> bool {
        self.volume.is_fat(self.handle.as_ref())
    }

    /// True if files here keep the time that they were given until they are written to.
    pub fn keeps_times(&self) -> bool {
        self.volume.tried.traits.keeps_times
    }

    /// True if a file here that is given this time gets another each time.
    pub fn loses_time(&self, time: Time) -> bool {
        self.volume.loses_time(time, self.handle.as_ref())
    }

    /// The metadata that is `there`, and as it would be if its time had not moved with the clock of its file system.
    pub fn as_before<'a>(&'a self, there: &'a Stat) -> impl Iterator<Item = Stat> + 'a {
        let moved = self.volume.tried.times.moved().by.iter();
        let before = |by: &i64| Stat { mtime: there.mtime.later_by(-by), ..*there };
        std::iter::once(*there).chain(moved.map(before))
    }

    /// The metadata that is `there`, as the run saw it that gave it the time `source`, if its file system keeps such a
    /// time until it is mounted anew only.
    pub fn as_given(&self, source: Time, there: &Stat) -> Option<Stat> {
        let mtime = self.volume.tried.times.as_given(source, there.mtime)?;
        Some(Stat { mtime, ..*there })
    }

    /// True if new entries here get access lists from it.
    pub fn gives_lists(&self) -> bool {
        self.volume.gives_lists(self.handle.as_ref())
    }

    /// True if small files here are better written out as soon as they are complete.
    pub fn hurries(&self) -> bool {
        let is_short = || self.handle.as_ref().is_some_and(Dir::is_short_of_room_for_unwritten);
        *self.volume.hurries.get_or_init(is_short)
    }

    /// Waits until the entries of this directory are on the device, and its own name with those of
    /// the directories above that this run made.
    pub fn persist(&self) -> io::Result<()> {
        if let Some(handle) = &self.handle {
            handle.persist()?;
        }
        let mut made_in = self.work.made_in.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(above) = &*made_in {
            above.persist()?;
        }
        *made_in = None;
        Ok(())
    }

    /// True if other users may write to it, or might when the run came to it.
    pub fn others_may_write(&self) -> bool {
        let is_kept = |handle: &Dir| handle.is_kept().unwrap_or(false);
        self.work.hand_over.as_ref().is_some_and(HandOver::let_others_write)
            || self.handle.as_ref().is_some_and(|handle| !is_kept(handle))
    }

    /// Notes that something which belongs here is missing: the directory must stay writable for its owner.
    pub fn leave_open(&self) {
        self.work.left_open.store(true, Relaxed);
    }

    /// True if something that belongs here is missing.
    pub fn is_left_open(&self) -> bool {
        self.work.left_open.load(Relaxed)
    }

    /// Closes it if its counterpart `source` was closed to somebody since the run came to it, or moved from where it
    /// was, in the directory `above`, if that is told; says whether that is so. What is in the source's by now may be
    /// kept from users who may enter this one.
    pub fn withhold(
        &self,
        source: &Dir,
        above: Option<Identity>,
        may_change: impl FnOnce() -> bool,
    ) -> bool {
        let Some((before, lists)) = &self.finish else { return false };
        if self.is_withheld() {
            return true;
        }
        // One that cannot be looked at is in doubt.
        if !source.is_closed_since(before, lists, above).unwrap_or(true) {
            return false;
        }
        self.hold_back();
        let handle = self.handle.as_ref().filter(|_| self.volume.tried.traits.permissions);
        if let Some(handle) = handle.filter(|_| !self.fresh && may_change()) {
            // One that cannot be closed is as it was before the run; the message says that it may be.
            let _ = handle.take_over();
        }
        true
    }

    /// True if it gets the label of this directory of the source; a root that was there keeps its own.
    pub fn gets_label_of(&self, source: Identity) -> bool {
        self.finish.as_ref().is_some_and(|(label, _)| label.id == source)
    }

    /// It is closed to others when the run ends: what is in its counterpart by now may be kept from them.
    pub fn hold_back(&self) {
        self.work.is_withheld.store(true, Relaxed);
    }

    /// True if its counterpart was closed meanwhile.
    pub fn is_withheld(&self) -> bool {
        self.work.is_withheld.load(Relaxed)
    }

    /// The entry `name` in it is as in the source.
    pub fn meet(&self, name: &OsStr) {
        if let Some(over) = &self.work.hand_over {
            over.meet(name);
        }
    }

    /// Counts `more` things that are on their way here.
    pub fn announce(&self, more: usize) {
        self.work.pending.fetch_add(more, AcqRel);
    }

    /// Counts one thing as arrived; whether it was the last that was on its way.
    pub fn arrived(&self) -> bool {
        self.work.pending.fetch_sub(1, AcqRel) == 1
    }
}

/// Why a directory of the output could not be opened, in terms of what is in its place.
pub fn in_the_way(parent: &Dir, name: &OsStr, path: PathBuf, error: io::Error) -> Error {
    match parent.stat(name, false) {
        Ok(Stat { kind: Kind::Symlink, .. }) => Error::finding(
            "use directory",
            path,
            "a symbolic link is in its place at the output, and links are not followed there",
        ),
        Ok(Stat { kind, .. }) if kind != Kind::Dir => Error::finding(
            "use directory",
            path,
            format!("{} is in its place at the output", kind.name()),
        ),
        _ => Error::io("open directory", path, error),
    }
}

// The directory that was opened last stays open, because paths come in the order of a walk: the next one
// is mostly in the same directory.

/// Opens directories below one root, and keeps the last of them open.
#[derive(Debug, Default)]
pub struct LastDir(Option<(RelPath, Dir)>);

impl LastDir {
    /// The directory `path` below `root`, which must be the same root at each call. No symbolic link is
    /// followed.
    ///
    /// # Errors
    /// It cannot be opened; what was open before is closed.
    pub fn enter(&mut self, root: &Dir, path: &RelPath) -> io::Result<&Dir> {
        let opened = match self.0.take() {
            Some((last, dir)) if last == *path => (last, dir),
            _ => (path.clone(), root.open_below(path)?),
        };
        Ok(&self.0.insert(opened).1)
    }

    /// The metadata of the entry at `path` below `root`; with `follow`, of the target of a link there.
    ///
    /// # Errors
    /// The system's; [`NotFound`](io::ErrorKind::NotFound) for the root itself.
    pub fn stat(&mut self, root: &Dir, path: &RelPath, follow: bool) -> io::Result<Stat> {
        let Some((above, name)) = path.split() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let name = sys::name_from_bytes(name)?;
        self.enter(root, &above)?.stat(name, follow)
    }

    /// Opens the regular file at `path` below `root`, and looks at it. No symbolic link is followed.
    ///
    /// # Errors
    /// The system's; [`InvalidInput`](io::ErrorKind::InvalidInput) if it is not a regular file.
    pub fn open_file(&mut self, root: &Dir, path: &RelPath) -> io::Result<(File, Stat)> {
        let (above, name) = path.split().ok_or(io::ErrorKind::NotFound)?;
        let (dir, name) = (self.enter(root, &above)?, sys::name_from_bytes(name)?);
        let is_file = |stat: &Stat| match stat.kind {
            Kind::File => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        };
        // Opening a device can do things.
        is_file(&dir.stat(name, false)?)?;
        let file = dir.open_file(name, false)?;
        let stat = Dir::stat_file(&file)?;
        is_file(&stat)?;
        Ok((file, stat))
    }
}

/// Tells whether paths below one root are spelled as its directories list them: some systems find an entry by other
/// names too, in other letter case or short ones.
#[derive(Debug)]
pub struct OwnPaths<'a> {
    root: &'a Dir,
    /// The last directory, and whether its own path is spelled so.
    last: Option<(RelPath, Dir, bool)>,
}

impl<'a> OwnPaths<'a> {
    pub fn below(root: &'a Dir) -> Self {
        Self { root, last: None }
    }

    /// True if the entry at `path`, which is there, is listed by that very path.
    ///
    /// # Errors
    /// The system's.
    pub fn has(&mut self, path: &RelPath) -> io::Result<bool> {
        let Some((above, name)) = path.split() else { return Ok(true) };
        let (above, dir, is_own) = match self.last.take() {
            Some(last) if last.0 == above => last,
            _ => {
                let (mut dir, mut is_own) = (self.root.try_clone()?, true);
                for name in above.components() {
                    let name = sys::name_from_bytes(name)?;
                    is_own = is_own && is_own_name(&dir, name)?;
                    dir = dir.open_dir(name, false)?;
                }
                (above, dir, is_own)
            }
        };
        let has = is_own && is_own_name(&dir, sys::name_from_bytes(name)?)?;
        self.last = Some((above, dir, is_own));
        Ok(has)
    }
}

fn is_own_name(dir: &Dir, name: &OsStr) -> io::Result<bool> {
    Ok(dir.listed_name(name)?.is_none_or(|own| own == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_directory_after_the_other() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("a/b")).unwrap();
        for name in ["one", "a/two", "a/b/three"] {
            std::fs::write(temp.path().join(name), name).unwrap();
        }
        let (root, mut last) = (Dir::open(temp.path()).unwrap(), LastDir::default());
        let mut size = |path: &str| {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            last.stat(&root, &path, false).map(|stat| stat.size).ok()
        };
        let paths = ["one", "a/two", "a/two", "gone/x", "a/b/three", "a/b/gone", "one"];
        let sizes = [Some(3), Some(5), Some(5), None, Some(9), None, Some(3)];
        assert_eq!(paths.map(&mut size), sizes);
        assert!(last.stat(&root, &RelPath::root(), false).is_err());
    }
}
