//! A mirror: what has left the source leaves the output too, into a dated trash there.
//!
//! Before anything is touched the two trees are compared (`search`), and the run is refused where the source may not
//! be what it was, or too much would go (`look`). When everything is copied and the new manifest has its name, what
//! was found is moved (`Removal`), and old trash goes (`Trash`).

pub mod departures;
pub mod look;
pub mod search;

use std::ffi::{OsStr, OsString};
use std::{collections::HashSet, fmt, io, path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::copy::mirror::{
    departures::DepartedItem, departures::Departures, departures::TreeRecord, departures::trace_of,
};
use crate::{
    copy::LostNames, copy::commit::accounting::Accounting, copy::record::FORGET, error::Deed,
    error::Error, error::Result, error::is_absent, event::Event, event::Stop, hash::Algorithm,
    hash::Digest, path::DirPath, path::RelPath, state::DatedName, state::Departing,
    state::DepartingPiece, state::Knowledge, state::LeavingFile, state::Note, state::OwnTrash,
    state::PrivateDir, state::Remembered, state::Unsettled, state::each_leaving,
    state::forget_leaving, state::keep_leaving, state::private_dir::TRASH, sys, sys::Attributes,
    sys::Dir, sys::DirListing, sys::DirReader, sys::name_from_bytes, sys::stat::Kind,
    sys::stat::Stat, tree::Cleanup, tree::OutputDir, tree::PassDir, tree::Protected,
    tree::SourceDir, tree::Step, tree::TreePass, tree::UnknownParts, tree::cleanup,
    tree::dirs::open_source_below,
};

// The trash of an output: `.dircopy-trash/2026-11-21T020000Z/`, with each piece at the path that it had.

/// Number of names that are tried for a run's own trash.
const TRIES: usize = 100;

/// The trash of a run.
pub struct Trash<'a> {
    output: &'a OutputDir,
    /// In it is noted which directory the trash is.
    private: Option<&'a PrivateDir>,
    /// The trash of this run; made when the first piece comes.
    dated: Option<(DatedName, Dir)>,
    /// The directory of the trash that was opened last.
    last: Option<(RelPath, Dir)>,
}

impl<'a> Trash<'a> {
    /// A trash in the output whose root is `output`.
    pub fn new(output: &'a OutputDir, private: Option<&'a PrivateDir>) -> Self {
        Self { output, private, dated: None, last: None }
    }

    /// Where this run's trash is, if there is any.
    pub fn path(&self) -> Option<PathBuf> {
        let (name, _) = self.dated.as_ref()?;
        Some(self.output.root.join(TRASH).join(name.to_string()))
    }

    /// The directory that what comes from `path` goes to; it is made if it is missing.
    pub fn dir(&mut self, path: &RelPath) -> Result<&Dir> {
        let opened = match self.last.take() {
            Some((last, dir)) if last == *path => (last, dir),
            _ => (path.clone(), self.make(path)?),
        };
        Ok(&self.last.insert(opened).1)
    }

    fn make(&mut self, path: &RelPath) -> Result<Dir> {
        let at = self.output.root.join(TRASH);
        let fail = |error| Error::io("make trash in", &at, error);
        if self.dated.is_none() {
            let trash = self.all().map_err(fail)?;
            // The note of it may be on another disk.
            self.refuse_foreign(&trash, fail)?;
            self.begin(&trash).map_err(fail)?;
        }
        let below = || {
            let dated = self.dated.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let mut dir = dated.1.try_clone()?;
            for name in path.components() {
                let name = sys::name_from_bytes(name)?;
                if dir.make_dir(name, true).unless_taken()?.is_some() {
                    dir.persist()?;
                }
                dir = dir.open_dir(name, false)?;
            }
            Ok(dir)
        };
        below().map_err(fail)
    }

    /// The directory of all trash, which is made if it is missing.
    fn all(&self) -> io::Result<Dir> {
        let root = self.output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        root.make_dir(TRASH.as_ref(), true).unless_taken()?;
        let trash = root.open_dir(TRASH.as_ref(), false)?;
        // Where nothing is kept from anybody, all that is there is as open as this.
        match trash.is_kept()? || !self.output.volume.tried.traits.permissions {
            true => Ok(trash),
            false => Err(io::Error::other("another user made it, or may write to it: remove it")),
        }
    }

    /// Makes the trash of this run in it.
    fn begin(&mut self, trash: &Dir) -> io::Result<()> {
        let root = self.output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut name = DatedName::new(Timestamp::now());
        for _ in 0..TRIES {
            let text = OsString::from(name.to_string());
            if trash.make_dir(&text, true).unless_taken()?.is_some() {
                let dir = trash.open_dir(&text, false)?;
                trash.persist()?;
                root.persist()?;
                self.dated = Some((name, dir));
                return Ok(());
            }
            name = name.next().ok_or(io::ErrorKind::AlreadyExists)?;
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Refuses what no run noted as the trash of this output. An empty one is new.
    ///
    /// # Errors
    /// It is another directory of this user's, or it cannot be told.
    fn refuse_foreign(&self, trash: &Dir, fail: impl Fn(io::Error) -> Error) -> Result<()> {
        let noted = self.private.map(OwnTrash::read_told).transpose().map_err(&fail)?.flatten();
        if noted.map_or(Ok(false), |noted| noted.is(trash)).map_err(&fail)? {
            return Ok(());
        }
        let first = DirListing::of(trash).and_then(|mut all| all.next().transpose());
        if first.map_err(&fail)?.is_some() {
            let finding = "no run of yours made it as trash of this output: give it the name that it had, or another one";
            return Err(fail(io::Error::other(finding)));
        }
        let Some(private) = self.private else { return Ok(()) };
        let own = OwnTrash::of(trash).map_err(fail)?;
        own.write(private, true).deed_at("note which trash is this output's in", || private.path())
    }

    /// Removes the trash of earlier runs that is older than `keep`; `tell` is told the name of each that went, and why
    /// one did not. It ends early once `stop` says so. Which files lost names by that, `lost` knows afterwards.
    ///
    /// # Errors
    /// The trash cannot be listed.
    pub fn expire(
        &self,
        keep: Duration,
        stop: &Stop,
        lost: &mut LostNames,
        mut tell: impl FnMut(Result<String>),
    ) -> Result<()> {
        let path = self.output.root.join(TRASH);
        let fail = |error| Error::io("remove old trash from", &path, error);
        let Some(root) = &self.output.handle else { return Ok(()) };
        let trash = root.open_unmounted(TRASH.as_ref()).if_there().map_err(fail)?;
        let Some(trash) = trash else { return Ok(()) };
        self.refuse_foreign(&trash, fail)?;
        let own = self.dated.as_ref().map(|(name, _)| *name);
        let now = Timestamp::now();
        let is_old = |name: &DatedName| {
            let age = now.duration_since(name.time());
            Duration::try_from(age).is_ok_and(|age| age > keep) && own != Some(*name)
        };
        let mut old = Vec::new();
        for entry in DirListing::of(&trash).map_err(fail)? {
            let name = entry.map_err(fail)?.name;
            old.extend(name.to_str().and_then(DatedName::parse).filter(is_old));
        }
        old.sort();
        for name in old {
            let name = name.to_string();
            let remove = &mut |dir: &Dir, name: &OsStr| lost.remove(dir, name);
            let mut removal = TreeRemoval { stop, enter: &|_| (), remove };
            match removal.run(&trash, name.as_ref()) {
                Ok(true) => tell(Ok(name)),
                Ok(false) => break,
                Err(stuck) => {
                    let stays = path.join(name).join(&stuck.path);
                    let error = Error::io("remove old trash", stays, stuck.error);
                    tell(Err(error.with_note(match stuck.others {
                        0 => String::new(),
                        others => format!("; so it is with {others} more there"),
                    })));
                }
            }
        }
        Ok(())
    }
}

/// Options for making an output a mirror of its source.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// Files that no manifest of an earlier run lists go too.
    pub all: bool,
    /// If more has left the source, the run is refused.
    pub most: MostDepartures,
    /// Trash that is older is removed after a complete run; none is without.
    pub keep_trash: Option<Duration>,
}

/// Why what a run writes may not lie in an output that keeps nothing else than the source has.
pub const KEEPS_NONE: &str = "it would be moved to the trash: --mirror=all leaves at an output what is in the source \
                              alone; put it elsewhere, or leave it out with --exclude";

/// The limit for entries that leave an output in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MostDepartures {
    /// A number of files and links.
    Number(u64),
    /// A share of the files and links at the output, in percent.
    Percent(u64),
}

impl Default for MostDepartures {
    fn default() -> Self {
        Self::Percent(50)
    }
}

impl MostDepartures {
    /// True if `departed` of `all` entries may go.
    pub fn allows(self, departed: u64, all: u64) -> bool {
        match self {
            Self::Number(most) => departed <= most,
            Self::Percent(most) => u128::from(departed) * 100 <= u128::from(all) * u128::from(most),
        }
    }
}

impl fmt::Display for MostDepartures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(most) => write!(f, "{most}"),
            Self::Percent(most) => write!(f, "{most} %"),
        }
    }
}

// Moving what has left the source into the trash, at the end of a run.
//
// By then the new manifest has its name and does not list these files any more, so whenever the run is cut off
// here, every line of the newest manifest holds. What it lists all the same, because the walk saw it in the source,
// stays. What was about to go is noted in the private directory: the next
// run knows it for listed and goes on.

/// The entries that are to leave the output at the end of a run.
pub struct Removal<'a> {
    pub mirror: &'a Mirror,
    pub departures: &'a Departures,
    pub source: Arc<SourceDir>,
    pub output: Arc<OutputDir>,
    pub private: Option<&'a PrivateDir>,
    /// The algorithm that the run proves with.
    pub proof: Algorithm,
    /// True if links in the source stand for what they point to.
    pub follow: bool,
    /// True if links are copied as links.
    pub links: bool,
    pub durable: bool,
    /// Whose part files are removed from directories that have left the source, …
    pub cleanup: Cleanup<'a>,
    /// … but for what an earlier run listed.
    pub known: Option<&'a Knowledge>,
    pub stop: &'a Stop,
}

impl Removal<'_> {
    /// Notes what is about to go, and what is known of it; without that nothing may go.
    ///
    /// # Errors
    /// It cannot be noted.
    pub fn note(&self) -> Result<()> {
        let Some(private) = self.private.filter(|_| !self.departures.is_empty()) else {
            return Ok(());
        };
        let Some(root) = &self.output.handle else { return Ok(()) };
        // What cannot be looked through is moved all the same; should that not happen, it stays.
        let piece = |path: RelPath| {
            let trace = trace_of(root, &path, self.stop).ok()?;
            Some(DepartingPiece { path, trace })
        };
        Departing::write(private, self.departures.paths().filter_map(piece))
            .deed_at("note what is about to go in", || private.path())?;
        let Some(known) = self.known else { return Ok(()) };
        let is_to_stop = || self.stop.is_requested();
        let kept = keep_leaving(private, self.durable, |rows| {
            let mut written = Ok(());
            let mut add = |path: &RelPath, remembered: Remembered, further: &[Digest]| {
                if written.is_ok() && self.departures.piece_over(path, Some(root)).is_some() {
                    written = rows.add(&remembered.row_in_doubt(), further, path);
                }
                Ok(())
            };
            // What an earlier run could not move is known by this alone.
            let read =
                each_leaving(private, &is_to_stop, |LeavingFile { path, remembered, further }| {
                    match known.has_heard_of(path.as_bytes()) {
                        true => Ok(()),
                        false => add(&path, remembered, &further),
                    }
                });
            let read = read.and_then(|()| {
                known.unsettled(&is_to_stop, |path, Unsettled { remembered, further, .. }| {
                    add(path, remembered, &further)
                })
            });
            written.and_then(|()| read.map_err(io::Error::other))
        });
        kept.deed_at("record what is about to go in", || private.path())
    }

    /// Moves everything that goes but what this run `listed`, and removes old trash if the run is whole. Returns where
    /// the trash is.
    pub fn run(
        &self,
        listed: &HashSet<RelPath>,
        accounting: &mut Accounting<'_>,
    ) -> Option<PathBuf> {
        let mut trash = Trash::new(&self.output, self.private);
        if accounting.counts.failed == 0 {
            self.clean_up(accounting);
        }
        for (path, items) in self.departures.dirs() {
            if self.stop.is_requested() {
                break;
            }
            let goes = |item: &&DepartedItem| !listed.contains(&path.join(&item.name));
            let items: Vec<_> = items.iter().filter(goes).collect();
            if !items.is_empty()
                && let Err(error) = self.empty(path, &items, &mut trash, accounting)
            {
                accounting.not_departed(items.len() as u64, &error);
            }
        }
        if self.departures.postponed > 0 {
            let finding = "it is more than a run moves; the next one goes on";
            let deed = "move all that has left the source from";
            let error = Error::finding(deed, &*self.output.root, finding);
            accounting.not_departed(self.departures.postponed, &error);
        }
        let is_all = accounting.counts.not_departed == 0 && !self.stop.is_requested();
        if let Some(private) = self.private.filter(|_| is_all)
            && let Err(error) = forget_leaving(private).and_then(|()| Departing::forget(private))
        {
            accounting.warn(&Error::io(FORGET, private.path(), error));
        }
        if let Some(keep) =
            self.mirror.keep_trash.filter(|_| is_all && accounting.counts.has_nothing_amiss())
        {
            let mut lost = LostNames::default();
            let expired = trash.expire(keep, self.stop, &mut lost, |removed| match removed {
                Ok(name) => (accounting.listen())(&Event::TrashRemoved(name.as_bytes())),
                Err(error) => accounting.warn(&error),
            });
            expired.err().iter().for_each(|error| accounting.warn(error));
            if let (Some(private), Some(root)) = (self.private, &self.output.handle) {
                let tree = TreeRecord { root, path: &self.output.root, private, proof: self.proof };
                lost.record(&tree, self.stop).err().iter().for_each(|it| accounting.warn(it));
            }
        }
        trash.path()
    }

    /// Removes what killed runs left in directories that the source has no more, as the walk does in all others.
    fn clean_up(&self, accounting: &mut Accounting<'_>) {
        let unknown = UnknownParts::default();
        for path in &self.departures.with_leftovers {
            if self.stop.is_requested() {
                break;
            }
            if let Err(error) = self.clean_up_in(path, &unknown, accounting) {
                let path = self.output.path_below(path);
                accounting.warn(&Error::io("remove old part files from", path, error));
            }
        }
        unknown.told(false).iter().for_each(|warning| accounting.warn(warning));
    }

    fn clean_up_in(
        &self,
        path: &RelPath,
        unknown: &UnknownParts,
        accounting: &mut Accounting<'_>,
    ) -> io::Result<()> {
        let root = self.output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let dir = root.open_below(path)?;
        let before = dir.stat_self()?;
        dir.open_up(&before)?;
        let below = |rel: DirPath, name: &[u8]| io::Result::Ok(rel.below(name_from_bytes(name)?));
        let output = OutputDir {
            handle: Some(dir.try_clone()?),
            rel: path.components().try_fold(DirPath::root(), below)?,
            fresh: false,
            ..OutputDir::absent(Arc::clone(&self.output.root))
        };
        let is_data = |name: &OsStr| {
            self.known.is_some_and(|known| known.has_heard_of(path.join(name).as_bytes()))
        };
        let Self { cleanup, follow, .. } = *self;
        let may_remove = &|| !self.stop.is_requested();
        let (is_data, resumable, stop) = (&is_data, None, Some(self.stop));
        let spared = Protected { cleanup, resumable, follow, is_data, may_remove, unknown, stop };
        let left = cleanup::clean_up(None, &output, &mut DirReader::default(), &spared);
        for name in &left.removed {
            accounting.tell(&output.rel, name, |path| Event::LeftoverRemoved(path));
        }
        left.error.iter().for_each(|error| accounting.warn(error));
        let warn = |deed, error| accounting.warn(&Error::io(deed, output.path(), error));
        Attributes::default().apply(&dir, &before, true, warn);
        Ok(())
    }

    /// Moves what goes out of one directory.
    fn empty(
        &self,
        path: &RelPath,
        items: &[&DepartedItem],
        trash: &mut Trash<'_>,
        accounting: &mut Accounting<'_>,
    ) -> Result<()> {
        let full = || self.output.path_below(path);
        let source = self.source_dir(path)?;
        let root = self.output.handle.as_ref();
        let open = |root: &Dir| root.open_below(path);
        let opened = root.map_or_else(|| Err(io::ErrorKind::NotFound.into()), open);
        let from = opened.deed_at("open directory", full)?;
        let look = |error| Error::io("look at", full(), error);
        let before = from.stat_self().map_err(look)?;
        from.open_up(&before).deed_at("make writable", full)?;
        let to = trash.dir(path)?;
        for &item in items {
            if self.stop.is_requested() {
                break;
            }
            if let Err(error) = self.move_item(item, source.as_ref(), &from, to) {
                let fail = Error::io("move to the trash", full().join(&item.name), error);
                accounting.not_departed(1, &fail);
                continue;
            }
            accounting.departed(path, item);
        }
        if self.durable {
            to.persist().and_then(|()| from.persist()).deed_at("make durable", full)?;
        }
        if path.is_root() {
            return Ok(());
        }
        // It gets the times of its counterpart again; the rest of its label is decided elsewhere.
        let mtime = match &source {
            Some(source) => source.stat_self().map_err(look)?.mtime,
            None => before.mtime,
        };
        let warn = |deed, error| accounting.warn(&Error::io(deed, full(), error));
        Attributes::default().apply(&from, &Stat { mtime, ..before }, true, warn);
        Ok(())
    }

    /// Moves one piece, unless the source has it again.
    fn move_item(
        &self,
        item: &DepartedItem,
        source: Option<&Dir>,
        from: &Dir,
        to: &Dir,
    ) -> io::Result<()> {
        let there = source.map(|source| source.stat(&item.name, false).if_there()).transpose()?;
        match there.flatten() {
            // A FIFO, a socket or a device is not copied, nor is perhaps a link.
            Some(stat) if !stat.kind.is_copied() => {}
            Some(stat) if stat.kind == Kind::Symlink && !self.links => {}
            Some(_) => {
                return Err(io::Error::other("the source has it again; the next run sees to it"));
            }
            None => {}
        }
        // Another program may be faster.
        from.move_entry(&item.name, to, &item.name).if_there().map(drop)
    }

    /// The counterpart of a directory of the output; `None` if it has left the source.
    fn source_dir(&self, path: &RelPath) -> Result<Option<Dir>> {
        match open_source_below(&self.source.handle, path, self.follow) {
            Ok(dir) => Ok(Some(dir)),
            // It left, or became something else.
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Error::io("open directory", self.source.path_below(path), error)),
        }
    }
}

// The removal of a directory with everything in it, but for what is mounted there.

/// The removal of a directory with everything in it.
pub struct TreeRemoval<'a> {
    pub stop: &'a Stop,
    /// Told of each directory before anything in it goes.
    pub enter: &'a dyn Fn(&Dir),
    /// Removes what is no directory.
    pub remove: &'a mut dyn FnMut(&Dir, &OsStr) -> io::Result<()>,
}

/// The first entry that could not be removed.
#[derive(Debug)]
pub struct Stuck {
    /// The first of it, below the directory that was to go.
    pub path: PathBuf,
    pub error: io::Error,
    /// Number of further ones.
    pub others: u64,
}

impl TreeRemoval<'_> {
    /// Removes the directory `name` in `above`; false if it was stopped. No link is followed, and nothing that is
    /// mounted is entered.
    ///
    /// # Errors
    /// Something in it cannot be removed; all else is.
    pub fn run(&mut self, above: &Dir, name: &OsStr) -> Result<bool, Stuck> {
        let first = self.open(above, name);
        // The state of a directory is true if something in it stays.
        let pass = first.and_then(|first| TreePass::over([(&first, false)], false));
        let mut pass = pass.map_err(|error| Stuck { path: PathBuf::new(), error, others: 0 })?;
        let (mut listed, mut stuck) = (Vec::new(), None);
        loop {
            let mut failed = Vec::new();
            let mut stays = false;
            match pass.step(self.stop) {
                Ok(None) if self.stop.is_requested() => return Ok(false),
                Ok(None) => return stuck.map_or(Ok(true), Err),
                Ok(Some(Step::Entry(_, entry))) => listed.push(entry),
                // Not while it is listed: what is removed may have others pass unlisted.
                Ok(Some(Step::Listed(top))) => {
                    let [Some(dir)] = &top.dirs else { continue };
                    for entry in listed.drain(..) {
                        let (kind, name) = (entry.kind_in(dir), entry.name);
                        match kind {
                            Ok(Kind::Dir) => top.subdirs.push((name, false)),
                            kind => {
                                let removed = kind.and_then(|_| (self.remove)(dir, &name));
                                failed.extend(removed.err().map(|it| (top.rel.join(&name), it)));
                            }
                        }
                    }
                }
                Ok(Some(Step::Into(top, name, _))) => {
                    let [Some(dir)] = &top.dirs else { continue };
                    let path = top.rel.join(&name);
                    if !dir.destroy_tree(&name) {
                        let opened = self.open(dir, &name);
                        let entered = opened.and_then(|dir| pass.enter(name, [Some(dir)], false));
                        failed.extend(entered.err().map(|error| (path, error)));
                    }
                }
                Ok(Some(Step::Left(PassDir { state: true, .. }))) => stays = true,
                Ok(Some(Step::Left(PassDir { dirs, rel, name: below, .. }))) => {
                    drop(dirs);
                    let removed = match pass.top() {
                        _ if rel.is_root() => above.remove_dir(name),
                        Ok(PassDir { dirs: [Some(dir)], .. }) => dir.remove_dir(&below),
                        Ok(_) => Ok(()),
                        Err(error) => Err(error),
                    };
                    failed.extend(removed.err().map(|error| (rel.path(), error)));
                }
                Err(error) => {
                    listed.clear();
                    failed.push((pass.path(), error));
                }
            }
            if let Some(top) = pass.state() {
                *top |= stays || !failed.is_empty();
            }
            for (path, error) in failed {
                match &mut stuck {
                    Some(Stuck { others, .. }) => *others += 1,
                    None => {
                        let path = path.full_path("".as_ref());
                        stuck = Some(Stuck { path, error, others: 0 });
                    }
                }
            }
        }
    }

    /// Opens a directory that is to be emptied.
    fn open(&self, above: &Dir, name: &OsStr) -> io::Result<Dir> {
        let dir = above.open_unmounted(name)?;
        (self.enter)(&dir);
        dir.open_up(&dir.stat_self()?)?;
        Ok(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_may_go_by_default() {
        let half = MostDepartures::default();
        assert!(half.allows(0, 0) && half.allows(1, 2) && !half.allows(2, 3));
        let none = MostDepartures::Number(0);
        assert!(none.allows(0, 5) && !none.allows(1, 5));
        assert!(MostDepartures::Percent(100).allows(u64::MAX, u64::MAX));
    }
}
