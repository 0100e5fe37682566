//! Moving what has left the source into the trash, at the end of a run.
//!
//! By then the new manifest has its name and does not list these files any more, so whenever the run is cut off
//! here, every line of the newest manifest holds. What it lists all the same, because the walk saw it in the source,
//! stays. What was about to go is noted in the private directory: the next
//! run knows it for listed and goes on.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::copy::commit::accounting::Accounting;
use crate::copy::mirror::departures::{DepartedItem, Departures};
use crate::copy::mirror::lost_names::{LostNames, TreeRecord};
use crate::copy::mirror::options::Mirror;
use crate::copy::mirror::trash::Trash;
use crate::error::{Error, Result};
use crate::event::{Event, Stop};
use crate::hash::Algorithm;
use crate::path::{DirPath, RelPath};
use crate::state::departing::Departing;
use crate::state::knowledge::Knowledge;
use crate::state::private_dir::PrivateDir;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{Attributes, Dir, DirReader, name_from_bytes};
use crate::tree::cleanup::{self, Cleanup, Protected};
use crate::tree::dirs::{OutputDir, SourceDir, open_source_below};

/// What is to leave the output at the end of a run.
pub struct Removal<'a> {
    pub mirror: &'a Mirror,
    pub departures: &'a Departures,
    pub source: Arc<SourceDir>,
    pub output: Arc<OutputDir>,
    pub private: Option<&'a PrivateDir>,
    /// By which algorithm the run proves.
    pub proof: Algorithm,
    /// Whether links in the source stand for what they point to.
    pub follow: bool,
    /// Whether links are copied as links.
    pub links: bool,
    pub durable: bool,
    /// Whose part files are removed from directories that have left the source, …
    pub cleanup: Cleanup<'a>,
    /// … but for what an earlier run listed.
    pub known: Option<&'a Knowledge>,
    pub stop: &'a Stop,
}

impl Removal<'_> {
    /// Notes what is about to go; without that nothing may go.
    ///
    /// # Errors
    /// It cannot be noted.
    pub fn note(&self) -> Result<()> {
        let Some(private) = self.private.filter(|_| !self.departures.is_empty()) else {
            return Ok(());
        };
        let fail = |error| Error::io("note what is about to go in", private.path(), error);
        Departing::write(private, self.departures.paths()).map_err(fail)
    }

    /// Moves everything that goes but what this run `listed`, and removes old trash if the run is whole. Returns where
    /// the trash is.
    pub fn run(
        &self,
        listed: &HashSet<RelPath>,
        accounting: &mut Accounting<'_>,
    ) -> Option<PathBuf> {
        let mut trash = Trash::new(&self.output);
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
            let error = Error::finding(
                "move all that has left the source from",
                &*self.output.root,
                finding,
            );
            accounting.not_departed(self.departures.postponed, &error);
        }
        let is_all = accounting.counts.not_departed == 0 && !self.stop.is_requested();
        if let Some(private) = self.private.filter(|_| is_all && !self.departures.is_empty())
            && let Err(error) = Departing::forget(private)
        {
            accounting.warn(&Error::io("remove the note of what went from", private.path(), error));
        }
        if let Some(keep) =
            self.mirror.keep_trash.filter(|_| is_all && accounting.counts.is_whole())
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
        for path in &self.departures.with_leftovers {
            if self.stop.is_requested() {
                break;
            }
            if let Err(error) = self.clean_up_in(path, accounting) {
                let path = self.output.path_below(path);
                accounting.warn(&Error::io("remove old part files from", path, error));
            }
        }
    }

    fn clean_up_in(&self, path: &RelPath, accounting: &mut Accounting<'_>) -> io::Result<()> {
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
        let spared = Protected { cleanup, resumable: None, follow, is_data: &is_data, may_remove };
        let left = cleanup::clean_up(None, &output, &mut DirReader::default(), &spared);
        for name in &left.removed {
            accounting.tell(&output.rel, name, |path| Event::LeftoverRemoved(path));
        }
        left.unknown.iter().chain(&left.error).for_each(|error| accounting.warn(error));
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
        let from = opened.map_err(|error| Error::io("open directory", full(), error))?;
        let look = |error| Error::io("look at", full(), error);
        let before = from.stat_self().map_err(look)?;
        from.open_up(&before).map_err(|error| Error::io("make writable", full(), error))?;
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
            let fail = |error| Error::io("make durable", full(), error);
            to.persist().and_then(|()| from.persist()).map_err(fail)?;
        }
        if path.is_root() {
            return Ok(());
        }
        // Its times are those of its counterpart again; whether it may have all else is not for here to say.
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
        match source.map(|source| source.stat(&item.name, false)) {
            // A FIFO, a socket or a device is not copied, nor is perhaps a link.
            Some(Ok(stat)) if !stat.kind.is_copied() => {}
            Some(Ok(stat)) if stat.kind == Kind::Symlink && !self.links => {}
            Some(Ok(_)) => {
                return Err(io::Error::other("the source has it again; the next run sees to it"));
            }
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match from.move_entry(&item.name, to, &item.name) {
            // Another program was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            moved => moved,
        }
    }

    /// The counterpart of a directory of the output; `None` if it has left the source.
    fn source_dir(&self, path: &RelPath) -> Result<Option<Dir>> {
        match open_source_below(&self.source.handle, path, self.follow) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) => match error.kind() {
                // It left, or became something else.
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(Error::io("open directory", self.source.path_below(path), error)),
            },
        }
    }
}
