//! Finding what has left the source: both trees are listed side by side, as far as the output has directories.
//!
//! Names of the source are remembered as hashes, a directory at a time, and whatever seems to be missing is looked
//! for by its name once more, and under [other spellings](crate::volume::counterpart). What cannot be listed ends the
//! search: then nothing is known to be absent.

use std::{collections::HashMap, ffi::OsStr, ffi::OsString, io, sync::Arc};

use crate::{
    copy::mirror::departures::DepartedItem, copy::mirror::departures::Departures, error::Deed,
    error::Error, error::Result, event::Event, event::Stop, manifest::ManifestName, path::DirPath,
    path::RelPath, path::Shown, state::SourceMark, state::private_dir::NAME,
    state::private_dir::TRASH, sys::Dir, sys::DirReader, sys::ListedEntry, sys::is_journal_name,
    sys::is_part_name, sys::stat::Kind, sys::stat::Stat, tree::Classifier, tree::Inclusion,
    tree::OutputDir, tree::Selection, tree::SourceDir, volume::Counterpart, volume::NameSet,
    volume::SpellingSearch,
};

/// Inode number of the stub that a snapshot has in place of a nested subvolume: an empty directory, in which nothing
/// can be made. On other file systems something else may have this number, which is only copied anew.
pub const SUBVOLUME_STUB_INODE: u64 = 2;

/// The inputs of a search.
pub struct DepartureSearch<'a> {
    pub source: &'a SourceDir,
    pub output: &'a OutputDir,
    /// The classifier of entries that take part.
    pub classifier: Classifier<'a>,
    /// True if the file at a path was listed by an earlier run.
    pub is_listed: &'a dyn Fn(&[u8]) -> bool,
    /// True if the file at a path, which is this, may be one that runs left out of their lists because it had rotted.
    pub is_left_out: &'a dyn Fn(&[u8], &Stat) -> bool,
    /// True if no run made the entry at a path, which is this, though it goes.
    pub is_planted: &'a dyn Fn(&[u8], &Stat) -> bool,
    /// True if the file at a path is what runs read of one that they could not read as a whole.
    pub is_rescued: &'a dyn Fn(&RelPath) -> bool,
    /// True if entries that were not listed go too.
    pub all: bool,
    /// The source as the last complete run knew it.
    pub last: Option<&'a SourceMark>,
    /// The deed that a changed source prevents, …
    pub deed: &'static str,
    /// Advice in case the source was changed on purpose.
    pub if_meant: &'a str,
    /// True if other obstacles to a copy are noted too: entries that are excluded, of another kind than at the source,
    /// or protected.
    pub unfit: bool,
    /// Is told of each entry that has no counterpart and stays.
    pub tell_other: &'a dyn Fn(&Event<'_>),
    pub most_levels: usize,
    pub stop: &'a Stop,
}

/// A directory of the output on the way from the root to where the search is.
struct ComparedDir {
    /// Its counterpart; `None` if that has left the source.
    source: Option<Dir>,
    output: Dir,
    rel: DirPath,
    inclusion: Inclusion,
    subdirs: Vec<ComparedSubdir>,
    /// The items that go, so far.
    goes: Vec<DepartedItem>,
    /// True if something in it stays.
    stays: bool,
    /// True if killed runs left part files or journals in it, or may have.
    has_leftovers: bool,
}

struct ComparedSubdir {
    name: Arc<OsStr>,
    inclusion: Inclusion,
    counterpart: Counterpart,
}

impl DepartureSearch<'_> {
    /// Finds what has left the source.
    ///
    /// # Errors
    /// Something could not be looked at, so nothing is known to have left.
    pub fn run(&self) -> Result<Departures> {
        let mut departures = Departures::default();
        // Handles of its own: a directory that is listed has one position for all.
        let here = |dir: &Dir| dir.open_dir(".".as_ref(), false);
        let source = here(&self.source.handle).deed_at("list", || self.source.path())?;
        let Some(output) = self.output.handle.as_ref().filter(|_| !self.output.fresh) else {
            return Ok(departures);
        };
        let output = here(output).deed_at("list", || self.output.path())?;
        let inclusion = self.classifier.selection.filter.root();
        let root = ComparedDir::new(Some(source), output, DirPath::root(), inclusion);
        let (mut stack, mut reader) = (vec![root], DirReader::default());
        self.list(stack.last_mut(), &mut departures, &mut reader)?;
        while let Some(top) = stack.last_mut() {
            if self.stop.is_requested() {
                break;
            }
            let Some(subdir) = top.subdirs.pop() else {
                let Some(done) = stack.pop() else { break };
                done.settle(stack.last_mut(), &mut departures);
                continue;
            };
            if stack.len() > self.most_levels {
                let path = self.output.path_below(&stack[stack.len() - 1].rel.path());
                let cause = "it is too many levels down for the number of files that may be open";
                return Err(Error::io("compare", path, io::Error::other(cause)));
            }
            match self.enter(top_of(&mut stack)?, &subdir, &mut departures)? {
                Some(entered) => {
                    if self.unfit && entered.output.is_protected() {
                        departures.add_protected(entered.rel.path());
                    }
                    stack.push(entered);
                    self.list(stack.last_mut(), &mut departures, &mut reader)?;
                }
                None if self.unfit => {
                    departures.add_unfit(top_of(&mut stack)?.rel.join(&subdir.name));
                }
                None => {}
            }
        }
        Ok(departures)
    }

    /// Opens a directory of the output, and its counterpart; `None` if there is nothing to compare.
    fn enter(
        &self,
        parent: &mut ComparedDir,
        subdir: &ComparedSubdir,
        departures: &mut Departures,
    ) -> Result<Option<ComparedDir>> {
        let ComparedSubdir { name, inclusion, counterpart } = subdir;
        let rel = parent.rel.below(name);
        let dev = |dir: &Dir| dir.identity().ok().map(|id| id.dev);
        let source = match (&parent.source, counterpart) {
            (Some(above), Counterpart::Named(there)) => {
                match above.open_dir(there, self.classifier.selection.follow_links) {
                    Ok(dir) => Some(dir),
                    // A file or a link: the copy says what becomes of it.
                    Err(error) if is_no_directory(above, there, &error) => return Ok(None),
                    Err(error) => {
                        let path = self.source.path_below(&rel.path());
                        return Err(Error::io("open directory", path, error));
                    }
                }
            }
            _ => None,
        };
        let is_mount = match (&source, &parent.source) {
            (Some(dir), Some(above)) => dev(dir) != dev(above),
            _ => false,
        };
        let one_file_system = self.classifier.selection.one_file_system;
        if is_mount && one_file_system {
            return Ok(None);
        }
        if self.last.is_some_and(|last| last.mounts.has(&rel.path())) && !is_mount {
            let missed = self.missed(&rel.path());
            if source.is_some() {
                return Err(missed);
            }
            // A directory that was made for a mount is removed with it (udisks, autofs).
            if !one_file_system {
                departures.missed = Some(Box::new(missed));
            }
        }
        let has_left = source.is_none() && !self.unfit;
        let opened = match has_left {
            true => parent.output.open_unmounted(name),
            false => parent.output.open_dir(name, false),
        };
        let output = match opened {
            Ok(dir) => dir,
            // It is no part of the output, so it goes neither to the trash nor away with it.
            Err(error) if has_left && error.kind() == io::ErrorKind::CrossesDevices => {
                parent.stays = true;
                departures.others += 1;
                (self.tell_other)(&Event::ForeignMount(rel.path().as_bytes()));
                return Ok(None);
            }
            Err(error) => {
                let path = self.output.path_below(&rel.path());
                return Err(Error::io("open directory", path, error));
            }
        };
        let id = output.identity().ok();
        let is_other = id.map(|id| id.dev) != dev(&parent.output);
        if self.unfit && (is_other || id.is_some_and(|id| id.ino == SUBVOLUME_STUB_INODE)) {
            return Ok(None);
        }
        Ok(Some(ComparedDir::new(source, output, rel, *inclusion)))
    }

    /// The error that the file system is not there which was mounted at `path` in the source.
    fn missed(&self, path: &RelPath) -> Error {
        let finding = format!(
            "another file system was mounted there last time, and is not now: is its disk missing? nothing was \
             touched; if it was taken away for good, {}",
            self.if_meant
        );
        Error::finding(self.deed, self.source.path_below(path), finding)
    }

    /// Lists a directory: what is in both, what goes, what stays.
    fn list(
        &self,
        top: Option<&mut ComparedDir>,
        departures: &mut Departures,
        reader: &mut DirReader,
    ) -> Result<()> {
        let Some(top) = top else { return Ok(()) };
        let names = match &top.source {
            None => None,
            Some(source) => {
                let names = NameSet::read(source, reader);
                let path = || self.source.path_below(&top.rel.path());
                let names = names.deed_at("list", path)?;
                departures.may_lack_unfit |= self.unfit && names.lacks_kinds;
                Some(names)
            }
        };
        let (mut at_output, mut missing) = (Vec::new(), Vec::new());
        loop {
            let listed = reader.next_batch(&top.output);
            let path = || self.output.path_below(&top.rel.path());
            let batch = listed.deed_at("list", path)?;
            if batch.is_empty() {
                break;
            }
            for listed in batch {
                let Some(names) = &names else {
                    self.judge(top, listed, Counterpart::None, departures)?;
                    continue;
                };
                let name = names.hash(&listed.name);
                at_output.push(name);
                let has = names.has(name);
                if self.is_made_up(top, &listed.name, has) {
                    departures.add_unfit(top.rel.join(&listed.name));
                    continue;
                }
                if self.unfit && has && !self.is_own(top, &listed.name) {
                    match listed.kind {
                        Some(kind) if names.has_kind(name, kind) => {}
                        Some(kind) => {
                            departures.present += u64::from(kind != Kind::Dir);
                            departures.add_unfit(top.rel.join(&listed.name));
                            continue;
                        }
                        None => departures.may_lack_unfit = true,
                    }
                }
                let copies = |kind| self.classifier.copies(kind);
                if names.may_be_left_out(name, copies) && self.is_replaced(top, &listed)? {
                    self.judge(top, listed, Counterpart::None, departures)?;
                } else if has && self.is_plain(top, &listed) {
                    departures.present += 1;
                } else if has {
                    let counterpart = Counterpart::Named(Arc::clone(&listed.name));
                    self.judge(top, listed, counterpart, departures)?;
                } else if !self.is_own(top, &listed.name) {
                    missing.push(listed);
                }
            }
        }
        let mut others = match (&top.source, &names) {
            (Some(source), Some(names)) if !missing.is_empty() => {
                let at_output = names.of(&at_output);
                let missing = &missing.iter().map(|it| Arc::clone(&it.name)).collect::<Vec<_>>();
                let (output, listed) = (&top.output, &at_output);
                let path = || self.output.path_below(&top.rel.path());
                let is_copied = &|entry: &ListedEntry| self.is_copied(top, source, entry);
                let look = SpellingSearch { source, output, listed, missing, is_copied };
                look.run().deed_at("compare", path)?
            }
            _ => HashMap::new(),
        };
        for listed in missing {
            let counterpart = others.remove(&listed.name).unwrap_or(Counterpart::None);
            self.judge(top, listed, counterpart, departures)?;
        }
        Ok(())
    }

    /// True if the source has something of this name that is not copied, so that the output's entry has left. A link
    /// that is a link still has not.
    fn is_replaced(&self, top: &ComparedDir, listed: &ListedEntry) -> Result<bool> {
        let (Some(source), name) = (&top.source, &*listed.name) else { return Ok(false) };
        let path = || self.source.path_below(&top.rel.path()).join(name);
        let there = source.stat(name, self.classifier.selection.follow_links);
        Ok(match there.if_there().deed_at("look at", path)? {
            Some(stat) if stat.kind == Kind::Symlink && !self.classifier.selection.links => {
                listed.kind_in(&top.output).is_ok_and(|kind| kind != Kind::Symlink)
            }
            there => there.is_some_and(|stat| !stat.kind.is_copied()),
        })
    }

    /// True if an entry of `source`, which is the counterpart of `top`, is copied.
    fn is_copied(&self, top: &ComparedDir, source: &Dir, entry: &ListedEntry) -> io::Result<bool> {
        let &Selection { follow_links: follow, ref filter, .. } = self.classifier.selection;
        let kind = match entry.kind {
            Some(kind) if kind != Kind::Symlink || !follow => kind,
            _ => match source.stat(&entry.name, follow).if_there()? {
                Some(stat) => stat.kind,
                None => return Ok(false),
            },
        };
        let path = top.rel.join(&entry.name);
        let inclusion = filter.judge(path.as_bytes(), kind == Kind::Dir, top.inclusion);
        Ok(self.classifier.copies(kind) && inclusion != Inclusion::Out)
    }

    fn judge(
        &self,
        top: &mut ComparedDir,
        listed: ListedEntry,
        counterpart: Counterpart,
        departures: &mut Departures,
    ) -> Result<()> {
        let (name, is_there) = (listed.name, counterpart != Counterpart::None);
        if self.is_own(top, &name) {
            return Ok(());
        }
        let path = top.rel.join(&name);
        // A killed run left it. In a directory that is in the source the copy cleans up.
        let is_leftover = is_part_name(&name) || is_journal_name(&name) || (self.is_rescued)(&path);
        if !is_there && is_leftover && !(self.is_listed)(path.as_bytes()) {
            top.has_leftovers = true;
            return Ok(());
        }
        let mut stat: Option<Stat> = None;
        let kind = match listed.kind {
            Some(kind) if is_there => kind,
            _ => match top
                .output
                .stat(&name, false)
                .if_there()
                .deed_at("look at", || self.output.path_below(&path))?
            {
                Some(found) => stat.insert(found).kind,
                // It was removed a moment ago.
                None => return Ok(()),
            },
        };
        let is_dir = kind == Kind::Dir;
        let inclusion =
            self.classifier.selection.filter.judge(path.as_bytes(), is_dir, top.inclusion);
        if !is_there && let Some(source) = &top.source {
            let path = || self.source.path_below(&top.rel.path()).join(&*name);
            let there = source.stat(&name, false).if_there().deed_at("look at", path)?;
            // It came a moment ago, or the source's own file system takes another name for it.
            if there.is_some_and(|stat| self.classifier.copies(stat.kind)) {
                return Ok(());
            }
        }
        let is_unfit = inclusion == Inclusion::Out
            || is_there && kind == Kind::Symlink && !self.classifier.selection.links;
        if self.unfit && is_unfit {
            departures.add_unfit(path);
        } else if inclusion == Inclusion::Out || counterpart == Counterpart::Unclear {
            departures.may_lack_unfit |= self.unfit;
            top.stays = true;
        } else if is_dir {
            top.subdirs.push(ComparedSubdir { name, inclusion, counterpart });
        } else if is_there {
            departures.present += 1;
        } else if self.all
            || kind == Kind::Symlink
            || (self.is_listed)(path.as_bytes())
            || stat.is_some_and(|stat| (self.is_left_out)(path.as_bytes(), &stat))
        {
            let bytes = stat.filter(|stat| stat.kind == Kind::File).map_or(0, |stat| stat.size);
            top.goes.push(DepartedItem { name: name.to_os_string(), entries: 1, bytes });
            if stat.is_some_and(|stat| (self.is_planted)(path.as_bytes(), &stat)) {
                departures.add_planted(path);
            }
        } else {
            top.stays = true;
            departures.others += 1;
            (self.tell_other)(&Event::Foreign(path.as_bytes()));
        }
        Ok(())
    }

    /// True if the source's entry of this name needs no judgement: a file, where nothing is left out.
    fn is_plain(&self, dir: &ComparedDir, listed: &ListedEntry) -> bool {
        let is_file = listed.kind == Some(Kind::File);
        is_file && self.classifier.selection.filter.is_empty() && !self.is_own(dir, &listed.name)
    }

    /// True if an entry only looks like one of the runs' own: a generation has no trash of its own (that of all
    /// generations is beside it), and only a file can be a manifest. Nothing of it has left the source.
    fn is_made_up(&self, dir: &ComparedDir, name: &OsStr, is_in_source: bool) -> bool {
        let is_list = || ManifestName::of_any(name).is_some() && !self.is_own(dir, name);
        self.unfit && dir.rel.is_root() && (name == TRASH || !is_in_source && is_list())
    }

    /// True for an entry that runs keep in the root for themselves. What is no file is no manifest, whatever it is
    /// called.
    fn is_own(&self, dir: &ComparedDir, name: &OsStr) -> bool {
        let is_list = || {
            let stat = || dir.output.stat(name, false);
            ManifestName::of_any(name).is_some() && !stat().is_ok_and(|it| it.kind != Kind::File)
        };
        let is_listed = || (self.is_listed)(dir.rel.join(name).as_bytes());
        dir.rel.is_root() && (name == NAME || name == TRASH || is_list() && !is_listed())
    }
}

impl ComparedDir {
    fn new(source: Option<Dir>, output: Dir, rel: DirPath, inclusion: Inclusion) -> Self {
        let (subdirs, goes) = (Vec::new(), Vec::new());
        let (stays, has_leftovers) = (false, false);
        Self { source, output, rel, inclusion, subdirs, goes, stays, has_leftovers }
    }

    /// Everything in it was looked at. One that has left the source and has nothing that stays goes as a whole.
    fn settle(self, parent: Option<&mut ComparedDir>, departures: &mut Departures) {
        let Some(parent) = parent.filter(|_| self.source.is_none()) else {
            return departures.add(self.rel.path(), self.goes);
        };
        if self.has_leftovers {
            departures.add_leftovers(self.rel.path());
        }
        if self.stays {
            parent.stays = true;
            return departures.add(self.rel.path(), self.goes);
        }
        let entries = self.goes.iter().map(|item| item.entries).sum();
        let bytes = self.goes.iter().map(|item| item.bytes).sum();
        parent.goes.push(DepartedItem { name: last_name(&self.rel), entries, bytes });
    }
}

fn top_of(stack: &mut [ComparedDir]) -> Result<&mut ComparedDir> {
    stack.last_mut().ok_or_else(|| Error::finding("compare", "", "the search is at its end"))
}

/// True if a directory could not be opened because something else has its name.
pub fn is_no_directory(above: &Dir, name: &OsStr, error: &io::Error) -> bool {
    let is_gone = error.kind() == io::ErrorKind::NotFound;
    is_gone || above.stat(name, false).is_ok_and(|stat| stat.kind != Kind::Dir)
}

fn last_name(rel: &DirPath) -> OsString {
    let path = rel.path();
    let name = path.split().and_then(|(_, name)| crate::sys::name_from_bytes(name).ok());
    name.map_or_else(|| Shown::bytes(path.as_bytes()).to_string().into(), OsStr::to_os_string)
}
