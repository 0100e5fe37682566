//! The work of the end of a plan in the tree: symbolic links, further names of files, and then the attributes of
//! directories, the deepest first.

use std::{
    collections::BTreeSet, ffi::OsStr, fs::File, io, sync::Arc, sync::Mutex, sync::PoisonError,
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    cluster::PlanDir, cluster::pack::EndEntry, cluster::pack::FINISH, cluster::pack::FurtherName,
    cluster::pack::LINKS, cluster::record_check, copy::First, copy::Link, copy::LinkOutcome,
    copy::Prepared, copy::hard_link, copy::links, error::Deed, error::Error, error::Result,
    event::Done, event::Event, event::EventObserver, event::Gate, hash::Algorithm, io::ReadBack,
    path::DirPath, path::RelPath, path::Shown, sys, sys::Attributes, sys::Dir, sys::DirReader,
    sys::Medium, sys::stat::Inode, sys::stat::Kind, sys::stat::Known, sys::stat::Stat,
    tree::Cleanup, tree::LabelBefore, tree::LabelChange, tree::OutputDir, tree::Protected,
    tree::SourceDir, tree::SourceEntry, tree::UnknownParts, tree::Ways, tree::cleanup,
    tree::hand_over::OPEN_TO_OTHERS, tree::hand_over::first_unknown,
    tree::hand_over::lets_others_in, tree::hand_over::tells_owners, tree::names::walk::SINCE,
};

/// What becomes of the copy of a directory that is gone.
const GONE: &str = "; its copy stays as closed as it is, for nothing tells what in it is for others: if all is, give it its \
                    owner and permissions yourself (chown, chmod)";

/// Why a file gets no further names.
const NOT_OF_SHARD: &str = "what is there is not what its shard copied: somebody who may write there, or in a directory above, put it there; \
                            remove it and run the copy once more without a plan";

/// The permissions without which its owner cannot go through a directory.
const SEARCHABLE: u32 = 0o500;

/// The tree at the end of a plan.
pub struct FinishTree<'a> {
    plan: &'a PlanDir,
    prepared: &'a Prepared,
    observer: &'a EventObserver<'a>,
    /// The directory that something was made in last.
    last: Option<DirPair>,
    /// Entries that could not be made.
    pub unmade: BTreeSet<Vec<u8>>,
    /// The metadata for the root, when the manifest is there.
    root: Option<Stat>,
    /// What only looks like the part files of killed runs.
    unknown: UnknownParts,
    /// The directory that was looked at last, and whether it, or one above, is open to others.
    way: Mutex<Option<(RelPath, bool)>>,
    /// The first name whose further ones were made last, and the file that it is of.
    first: Option<(RelPath, Known)>,
    /// True if an earlier run was killed that was to finish it, and may have left something in each directory.
    pub is_again: bool,
}

/// A directory of both sides.
#[derive(Clone)]
struct DirPair {
    path: RelPath,
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
}

/// A directory of the plan.
struct PlannedDir {
    path: RelPath,
    stat: Stat,
    fresh: bool,
    ways: Ways,
}

fn cannot_label(output: &OutputDir, why: &'static str) -> Error {
    Error::finding("give its owner and permissions to", output.path(), why)
}

/// Refuses a directory that is to be as `stat` where it, or its source, has a `difference` from what was planned.
fn refuse_difference(
    output: &OutputDir,
    difference: Option<&'static str>,
    stat: &Stat,
) -> Result<()> {
    let open = || match lets_others_in(output, stat) {
        Ok(is_open) => Ok(is_open.then_some(OPEN_TO_OTHERS)),
        Err(error) => Err(Error::io("look at", output.path(), error)),
    };
    let why = if difference.is_some() { difference } else { open()? };
    why.map_or(Ok(()), |why| Err(cannot_label(output, why)))
}

impl<'a> FinishTree<'a> {
    pub fn new(plan: &'a PlanDir, prepared: &'a Prepared, observer: &'a EventObserver<'a>) -> Self {
        Self {
            plan,
            prepared,
            observer,
            last: None,
            unmade: BTreeSet::new(),
            root: None,
            unknown: UnknownParts::default(),
            way: Mutex::default(),
            first: None,
            is_again: false,
        }
    }

    /// Makes symbolic links, and the further names of files. What cannot be made is told.
    pub fn make_links(&mut self) -> Result<()> {
        let mut links = self.plan.end_list(LINKS).read()?;
        while let Some(record) = links.next_record()? {
            let Some(FurtherName { first, path, .. }) = FurtherName::parse(record) else {
                return Err(links.torn("a name in it leads out of the tree, or is none"));
            };
            let made = self.further_name(&first, &path);
            self.told(&path, made, Done::Linked)?;
        }
        let mut ends = self.plan.end_list(FINISH).read()?;
        while let Some(record) = ends.next_record()? {
            let (path, made, done) = match EndEntry::parse(record) {
                Some(EndEntry::Dir { .. }) => continue,
                Some(EndEntry::Symlink(path, ways)) => {
                    let made = self.symlink(&path, &ways);
                    (path, made, Done::Symlinked)
                }
                Some(EndEntry::FurtherSymlink(path, first)) => {
                    let made = self.further_name(&first, &path);
                    (path, made, Done::Linked)
                }
                None => return Err(ends.torn("an entry of it leads out of the tree, or is none")),
            };
            self.told(&path, made, done)?;
        }
        Ok(())
    }

    /// Gives directories their attributes, and removes what dead attempts left there unless there were none.
    pub fn finish_directories(&mut self, is_clean: bool) -> Result<()> {
        let mut ends = self.plan.end_list(FINISH).read()?;
        if !is_clean {
            let (source, output) = (&self.prepared.source, &self.prepared.output);
            self.clean_up(source, output, &mut DirReader::default());
        }
        let (mut root, unmade) = (None, Mutex::new(BTreeSet::new()));
        let next = || {
            while let Some(record) = ends.next_record()? {
                match EndEntry::parse(record) {
                    Some(EndEntry::Dir { path, label, fresh, ways }) if path.is_root() => {
                        root = Some((label.stat(), fresh, ways));
                    }
                    Some(EndEntry::Dir { path, label, fresh, ways }) => {
                        return Ok(Some(PlannedDir { path, stat: label.stat(), fresh, ways }));
                    }
                    Some(_) => {}
                    None => {
                        return Err(ends.torn("an entry of it leads out of the tree, or is none"));
                    }
                }
            }
            Ok(None)
        };
        // The way to what is below such a directory is closed afterwards.
        let closes = |dir: &PlannedDir| dir.stat.mode & SEARCHABLE != SEARCHABLE;
        let failed = |path: &RelPath, error: Error| {
            let mut unmade = unmade.lock().unwrap_or_else(PoisonError::into_inner);
            unmade.insert(path.as_bytes().to_vec());
            (self.observer.listen)(&Event::Failed(&error));
        };
        record_check::for_each(next, closes, &|dir: PlannedDir| {
            let finished = self.finish_directory(&dir, is_clean);
            finished.unwrap_or_else(|error| failed(&dir.path, error));
        })?;
        let strange = self.unknown.told(false);
        strange.iter().for_each(|warning| (self.observer.listen)(&Event::Warning(warning)));
        if let Some((stat, fresh, ways)) = root {
            let Prepared { source, output, .. } = &self.prepared;
            let looked = match output.ways.difference(&ways) {
                None if fresh => Ok(()),
                None => self.look_for_strangers(source, output, &stat),
                Some(why) => Err(cannot_label(output, why)),
            };
            match looked {
                Ok(()) => self.root = Some(stat),
                Err(error) => failed(&RelPath::root(), error),
            }
        }
        self.unmade.append(&mut unmade.into_inner().unwrap_or_else(PoisonError::into_inner));
        self.last = None;
        Ok(())
    }

    /// Gives a directory its attributes if it is what was planned, and so is its source.
    fn finish_directory(&self, dir: &PlannedDir, is_clean: bool) -> Result<()> {
        let PlannedDir { path, stat, fresh, ways } = dir;
        let mut output = self.enter_output(path)?;
        let source = self.enter_source(path, &mut output);
        let output = Arc::new(output);
        // What it has by now can be held against nothing without its source.
        let source = source.map_err(|error| error.with_note(GONE))?;
        refuse_difference(&output, output.ways.difference(ways), stat)?;
        if self.is_way_open(path)? {
            return Err(cannot_label(&output, OPEN_TO_OTHERS));
        }
        if !is_clean {
            self.clean_up(&source, &output, &mut DirReader::default());
        }
        if !*fresh {
            self.look_for_strangers(&source, &output, stat)?;
        }
        self.set_attributes(&source, &output, stat);
        Ok(())
    }

    /// True if a directory above `path`, below the root, lets in others whom its source does not: what is in it stays
    /// closed to them.
    fn is_way_open(&self, path: &RelPath) -> Result<bool> {
        let Some((above, _)) = path.split() else { return Ok(false) };
        let last = || self.way.lock().unwrap_or_else(PoisonError::into_inner);
        // Many have the same.
        if let Some((_, is_open)) = last().as_ref().filter(|(last, _)| *last == above) {
            return Ok(*is_open);
        }
        let path = || self.prepared.output.path_below(&above);
        let is_open = self.lets_others_through(&above).deed_at("look at", path)?;
        *last() = Some((above, is_open));
        Ok(is_open)
    }

    /// True if the directory at `path`, or one above it, below the root, lets in others whom its source does not.
    fn lets_others_through(&self, path: &RelPath) -> io::Result<bool> {
        let (Prepared { source, output, .. }, follow) =
            (self.prepared, self.plan.plan.options.selection.follow_links);
        let Some(root) = &output.handle else { return Ok(false) };
        let (mut there, mut here, mut ways) =
            (root.try_clone()?, source.handle.try_clone()?, output.ways);
        for name in path.components() {
            let name = sys::name_from_bytes(name)?;
            (there, here) = (there.open_dir(name, false)?, here.open_dir(name, follow)?);
            let stat = here.stat_self()?;
            ways = ways.into_output(&there.stat_self()?).into_source(&stat);
            let dir = OutputDir {
                handle: Some(there.try_clone()?),
                ways,
                volume: output.volume.of_subdir(),
                ..OutputDir::absent(Arc::clone(&output.root))
            };
            if lets_others_in(&dir, &stat)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the root its attributes.
    pub fn finish_root(&mut self, sync: bool) -> Result<()> {
        if let Some(stat) = self.root {
            let root = self.enter(&RelPath::root())?;
            self.set_attributes(&root.source, &root.output, &stat);
        }
        self.persist(sync)
    }

    /// Makes everything durable that was made.
    pub fn persist(&self, sync: bool) -> Result<()> {
        let root = &self.prepared.output;
        let Some(handle) = root.handle.as_ref().filter(|_| sync) else { return Ok(()) };
        let persisted =
            if handle.can_persist_all() { handle.persist_all() } else { handle.persist() };
        persisted.deed_at("make durable", || root.path())
    }

    /// Opens a directory of both sides; no link on the way is followed at the output.
    fn enter(&mut self, path: &RelPath) -> Result<DirPair> {
        if let Some(last) = self.last.as_ref().filter(|last| last.path == *path) {
            return Ok(last.clone());
        }
        let mut output = self.enter_output(path)?;
        let source = Arc::new(self.enter_source(path, &mut output)?);
        let output = Arc::new(output);
        Ok(self.last.insert(DirPair { path: path.clone(), source, output }).clone())
    }

    /// Opens the directory of the source that `output` is the copy of.
    fn enter_source(&self, path: &RelPath, output: &mut OutputDir) -> Result<SourceDir> {
        let source = &self.prepared.source;
        let follow = self.plan.plan.options.selection.follow_links;
        let enter = |dir: Dir, name: &[u8]| {
            let dir = dir.open_dir(sys::name_from_bytes(name)?, follow)?;
            let ways = output.ways.into_source(&dir.stat_self()?);
            output.ways = ways.with_lists(&Attributes::read(&dir)?);
            Ok(dir)
        };
        let root = source.handle.try_clone();
        let handle = root
            .and_then(|root| path.components().try_fold(root, enter))
            .deed_at("open directory", || source.path_below(path))?;
        let (root, rel) = (Arc::clone(&source.root), output.rel.clone());
        Ok(SourceDir { handle, root, rel })
    }

    /// Opens a directory of the output.
    fn enter_output(&self, path: &RelPath) -> Result<OutputDir> {
        let output = &self.prepared.output;
        let rel = path.components().try_fold(DirPath::root(), |dir, name| {
            sys::name_from_bytes(name).map(|name| dir.below(name))
        });
        let fail = |error| Error::io("open directory", output.path_below(path), error);
        let rel = rel.map_err(fail)?;
        let missing = || fail(io::ErrorKind::NotFound.into());
        let root = output.handle.as_ref().ok_or_else(missing)?.try_clone();
        let mut ways = output.ways;
        let enter = |dir: Dir, name: &[u8]| {
            let dir = dir.open_dir(sys::name_from_bytes(name)?, false)?;
            ways = ways.into_output(&dir.stat_self()?);
            Ok(dir)
        };
        let handle = root.and_then(|root| path.components().try_fold(root, enter));
        Ok(OutputDir {
            handle: Some(handle.map_err(fail)?),
            rel,
            ways,
            fresh: false,
            gid: output.gid,
            volume: output.volume.of_subdir(),
            ..OutputDir::absent(Arc::clone(&output.root))
        })
    }

    /// An entry of the source and the directory that it is in, on both sides.
    fn entry(&mut self, path: &RelPath) -> Result<(DirPair, SourceEntry)> {
        let nameless = || Error::finding("make", self.prepared.output.path(), "it has no name");
        let (above, name) = path.split().ok_or_else(nameless)?;
        let pair = self.enter(&above)?;
        let fail = |error| Error::io("look at", pair.source.path(), error);
        let name = sys::name_from_bytes(name).map_err(fail)?;
        let above = pair.source.handle.stat_self().map_err(fail)?;
        if !pair.path.is_root() && lets_others_in(&pair.output, &above).map_err(fail)? {
            return Err(Error::finding("make", pair.output.path_of(name), OPEN_TO_OTHERS));
        }
        let stat = pair.source.handle.stat(name, false);
        let stat = stat.deed_at("look at", || pair.source.path_of(name))?;
        Ok((pair, SourceEntry { name: name.into(), stat }))
    }

    fn symlink(&mut self, path: &RelPath, ways: &Ways) -> Result<LinkOutcome> {
        let (DirPair { source, output, .. }, entry) = self.entry(path)?;
        let fail = |why| Err(Error::finding("make", output.path_of(&entry.name), why));
        if let Some(why) = output.ways.difference(ways) {
            return fail(why.to_owned());
        }
        if entry.stat.kind != Kind::Symlink {
            return fail(format!("at the source it has become {}{SINCE}", entry.stat.kind.name()));
        }
        let policy = self.plan.plan.options.policy;
        let (outcome, warning) = links::copy(&source, &output, &entry, policy, &Gate::default())?;
        warning.iter().for_each(|warning| (self.observer.listen)(&Event::Warning(warning)));
        Ok(outcome)
    }

    fn further_name(&mut self, first: &RelPath, path: &RelPath) -> Result<LinkOutcome> {
        let (pair, first_entry) = match self.entry(first) {
            Ok(found) => found,
            Err(error) => {
                // It may be in the source still, and nobody copied it.
                let (DirPair { output, .. }, entry) = self.entry(path)?;
                let why = error.reason();
                let finding = format!("its first name is gone ({why}){SINCE}");
                let path = output.path_of(&entry.name);
                return Err(Error::finding("make the hard link", path, finding));
            }
        };
        let stands = match self.first.take().filter(|(of, _)| of == first) {
            Some((_, stands)) => stands,
            None => self.first_at_output(&pair, &first_entry)?,
        };
        self.first = Some((first.clone(), stands));
        let (dir, stands) = (pair.path, Some(stands));
        let (DirPair { output, .. }, entry) = self.entry(path)?;
        if first_entry.stat.id != entry.stat.id {
            let finding = "it is no longer the same file as its first name";
            return Err(Error::finding("make the hard link", output.path_of(&entry.name), finding));
        }
        let (name, stat) = (first_entry.name, entry.stat);
        let first =
            First { dir, name, stat, is_left: false, digests: None, stands, labelled: true };
        let policy = self.plan.plan.options.policy;
        let (root, link) = (&self.prepared.output, &Link { output, entry });
        let is_to_stop = || self.observer.stop.is_urgent();
        hard_link::make(root, link, &first, policy, &Gate::default(), &is_to_stop)
            .map(|made| made.outcome)
    }

    /// The file at the output of which further names are to be made, if it is what the source has: it was made by a
    /// shard, which may be long ago, and who may write there can have put anything in its place.
    ///
    /// # Errors
    /// It is not, or cannot be looked at.
    fn first_at_output(&self, pair: &DirPair, first: &SourceEntry) -> Result<Known> {
        let DirPair { path, source, output } = pair;
        let (name, path_of_first) = (&*first.name, output.path_of(&first.name));
        let fail = |error| Error::io("look at", &path_of_first, error);
        let handle = output.handle.as_ref().ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
        let mut made = handle.inode(name).map_err(fail)?;
        let is_file = made.stat.kind == Kind::File && first.stat.kind == Kind::File;
        let is_read = is_file && !self.is_way_kept(path).map_err(fail)?;
        // It is held open while it is read: its name may be another file's by then.
        let file = if is_read { Some(handle.open_file(name, false).map_err(fail)?) } else { None };
        if let Some(file) = &file {
            let stat = Dir::stat_file(file).map_err(fail)?;
            made = Inode { stat, birth: Dir::birth_of(file) };
        }
        let (there, volume) = (&made.stat, &output.volume);
        let is_strange = Dir::is_strange(there, &first.stat)
            && volume.tried.traits.permissions
            && tells_owners(handle, volume.parts, false);
        let is_alike = there.kind == first.stat.kind && there.size == first.stat.size;
        let is_of_source = match (first.stat.kind, file) {
            (Kind::Symlink, _) => {
                let target = |dir: &Dir| dir.read_link(name).map_err(fail);
                there.kind == Kind::Symlink && target(handle)? == target(&source.handle)?
            }
            (Kind::File, Some(file)) if is_alike => {
                let of_source = source.handle.open_file(name, false).map_err(fail)?;
                self.is_same_content(&file, &of_source).map_err(fail)?
            }
            _ => is_alike,
        };
        match is_of_source && !is_strange {
            true => Ok(made.known()),
            false => Err(Error::finding("make further names of", path_of_first, NOT_OF_SHARD)),
        }
    }

    /// True if no other user may change names on the way to what is in a directory of the output.
    fn is_way_kept(&self, path: &RelPath) -> io::Result<bool> {
        let Some(root) = &self.prepared.output.handle else { return Ok(false) };
        let mut dir = root.try_clone()?;
        for name in path.components() {
            if !dir.is_kept()? {
                return Ok(false);
            }
            dir = dir.open_dir(sys::name_from_bytes(name)?, false)?;
        }
        dir.is_kept()
    }

    /// True if two files have one content; also false if the run is to stop.
    fn is_same_content(&self, one: &File, other: &File) -> io::Result<bool> {
        let is_to_stop = || self.observer.stop.is_urgent();
        let digest = |file| {
            let hashed =
                ReadBack::new().hash(Medium::any(file), Algorithm::Sha256, is_to_stop, |_| ())?;
            Ok::<_, io::Error>(hashed.and_then(|hashed| hashed.digest))
        };
        let (one, other) = (digest(one)?, digest(other)?);
        Ok(one.is_some() && one == other)
    }

    /// Tells what became of a link.
    fn told(&mut self, path: &RelPath, made: Result<LinkOutcome>, done: Done) -> Result<()> {
        self.observer.progress.entries.fetch_add(1, Relaxed);
        let event = match &made {
            Ok(LinkOutcome::Made) => Event::Stands(path.as_bytes(), done),
            Ok(LinkOutcome::Kept) => Event::Stands(path.as_bytes(), Done::Kept),
            Ok(LinkOutcome::Abandoned) => return Ok(()),
            Ok(LinkOutcome::Left(why)) => Event::Left(path.as_bytes(), why),
            Err(error) => Event::Failed(error),
        };
        (self.observer.listen)(&event);
        if matches!(made, Err(_) | Ok(LinkOutcome::Left(_))) {
            self.unmade.insert(path.as_bytes().to_vec());
        }
        let at_once = self.prepared.output.handle.as_ref().is_some_and(Dir::can_persist_all);
        match self.last.as_ref().filter(|_| !at_once) {
            Some(DirPair { output, .. }) => {
                output.persist().deed_at("make durable", || output.path())
            }
            None => Ok(()),
        }
    }

    /// Looks into a directory that was there before the plan, and that others may enter once it has its label: what its
    /// source does not have as it is there would be shown with it.
    ///
    /// # Errors
    /// There is something.
    fn look_for_strangers(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        stat: &Stat,
    ) -> Result<()> {
        let fail = |error| Error::io("look at", output.path(), error);
        let Some(handle) = &output.handle else { return Ok(()) };
        let attributes = Attributes::read(&source.handle).unwrap_or_default();
        let now = handle.stat_self().map_err(fail)?;
        let before = LabelBefore::of(handle, now);
        let change = LabelChange::of(output, &before, stat, &attributes);
        if !change.is_some_and(|change| change.opens) {
            return Ok(());
        }
        let follow = self.plan.plan.options.selection.follow_links;
        let Some(name) = first_unknown(output, &source.handle, follow).map_err(fail)? else {
            return Ok(());
        };
        let finding = format!(
            "it has {}, which is not in the source as it is there; move that away, or give the directory its owner and permissions \
             yourself (chown, chmod)",
            Shown::path(&output.path_of(name.as_os_str()))
        );
        Err(Error::finding("give its owner and permissions to", output.path(), finding))
    }

    /// Gives a directory what the plan says, and the attributes of its source.
    fn set_attributes(&self, source: &SourceDir, output: &OutputDir, stat: &Stat) {
        let warn = |deed, error| {
            let error = Error::io(deed, output.path(), error);
            (self.observer.listen)(&Event::Warning(&error));
        };
        let known = Attributes::read(&source.handle);
        let known = known.map_err(|error| warn("read the attributes of", error)).ok();
        let (Some(handle), stat) = (&output.handle, &Dir::label_of_copy(stat)) else { return };
        let is_labelled = |now: Stat| {
            output.volume.tried.times.is_cut_to(stat.mtime, now.mtime)
                && known.as_ref().is_some_and(|attributes| attributes.are_at(&now, handle, stat))
        };
        if !handle.stat_self().is_ok_and(is_labelled) {
            match &known {
                Some(attributes) => attributes.apply_to_kept(handle, stat, false, warn),
                None => Attributes::default().apply(handle, stat, false, warn),
            }
        }
    }

    /// Removes what was left in a directory: by all runs if this one is alone, else by shards of this plan.
    fn clean_up(&self, source: &SourceDir, output: &Arc<OutputDir>, reader: &mut DirReader) {
        let opened_anew = OutputDir {
            handle: output.handle.as_ref().and_then(|handle| handle.try_clone().ok()),
            rel: output.rel.clone(),
            fresh: false,
            ..OutputDir::absent(Arc::clone(&output.root))
        };
        let follow = self.plan.plan.options.selection.follow_links;
        let cleanup = match self.prepared.secret.filter(|_| self.prepared.is_ours_alone) {
            Some(secret) => Cleanup::OfRuns(secret),
            None => Cleanup::OfPlan(self.plan.plan.plan),
        };
        let (is_data, may_remove) = (&|_: &OsStr| false, &|| true);
        let (resumable, unknown) = (None, &self.unknown);
        let stop = Some(&self.observer.stop);
        let spared = Protected { cleanup, resumable, follow, is_data, may_remove, unknown, stop };
        let leftovers = cleanup::clean_up(Some(source), &opened_anew, reader, &spared);
        for name in &leftovers.removed {
            let path = output.rel.join(name);
            (self.observer.listen)(&Event::LeftoverRemoved(path.as_bytes()));
        }
        leftovers.error.iter().for_each(|error| (self.observer.listen)(&Event::Warning(error)));
    }
}
