//! Walking the source: its entries in bounded batches, its directories made at the output.
//!
//! Directories are opened one component at a time through their parent's handle, so a directory
//! swapped for a link cannot lead the walk elsewhere, and paths longer than the system's limit are
//! no obstacle. Memory does not grow with the number of files: what was found is handed on at once,
//! and the receiver makes the walk wait.

use std::{ffi::OsStr, ops::ControlFlow, path::PathBuf, sync::Arc};

use crate::{
    error::Deed, error::Error, event::Gate, event::Stop, manifest::LONGEST_DIR, path::RelPath,
    state::Knowledge, state::kept, state::private_dir::NAME, state::private_dir::TRASH, sys,
    sys::Attributes, sys::Dir, sys::DirReader, sys::ListedEntry, sys::SteadyListing,
    sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, tree::Classifier, tree::Cleanup,
    tree::Inclusion, tree::Leftovers, tree::NameCount, tree::NameList, tree::OutputDir,
    tree::Protected, tree::SourceDir, tree::Unclassified, tree::UnknownParts, tree::WalkItem,
    tree::classify::DirMemory, tree::classify::PendingLinks, tree::classify::Subdir, tree::cleanup,
    tree::dirs::LiveDirs, tree::dirs::OTHERS_MAY_WRITE, tree::found::Emit,
};

/// Why a directory is not entered that lies deeper than [`LONGEST_DIR`] allows.
const TOO_LONG: &str = "its path is longer than a list can have (127 KiB)";

/// Why a link is not followed to a directory or file of such a file system.
pub const MADE_UP: &str = "its files are made up by the kernel as they are read (/proc, /sys and the like), and \
                           links into it are not followed";

/// Why something in the root of a source is not copied that is called like what runs keep there.
const CALLED_AS_KEPT: &str = "runs keep what is called so for themselves, and this is nothing that they made, or another user's: give it another name, or \
                              leave it out (--exclude)";

/// Why a directory of the output stays closed whose counterpart was.
pub const CLOSED_MEANWHILE: &str = "it was moved, or its owner or permissions were changed, meanwhile, so its copy is closed to others where that \
                                    can be done, and what else is in it is not copied: run again";

/// Number of files a process must be allowed to have open for each level that a walk may go down: the directories of
/// both sides are held open on the way, and two thirds of the allowance are for others: files, finished directories
/// that wait for their group, and other outputs.
const OPEN_FILES_PER_LEVEL: u64 = 6;

/// The deepest level of a walk in a process that may have so many files open. Without such a bound, one tree deeper
/// than that left no descriptor for anything else: 990 files beside it failed.
pub fn most_levels(open_files: u64) -> usize {
    usize::try_from(open_files / OPEN_FILES_PER_LEVEL).unwrap_or(usize::MAX).max(1)
}

/// A walk: its source, output and options.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    /// Which entries take part, and how they are told apart.
    pub classifier: Classifier<'a>,
    /// Make nothing.
    pub dry: bool,
    /// Whose part files at the output are removed: those of killed runs.
    pub cleanup: Cleanup<'a>,
    /// … but for the beginnings of files larger than this many bytes, which are gone on with.
    pub resumable: Option<u64>,
    /// Remember in which directory a new one was made: where names are made durable directory by
    /// directory.
    pub chains: bool,
    /// The record of the output: a file that it lists is no leftover, whatever its name.
    pub known: Option<&'a Knowledge>,
    pub source_root: Identity,
    /// The output's root; never walked into.
    pub output_root: Option<Identity>,
    /// Number of levels it may go down from the root; see [`most_levels`].
    pub most_levels: usize,
    /// Only these names and what is below them.
    pub names: Option<&'a NameList>,
    /// Leave what is [another user's](crate::tree::hand_over::is_of_another_user) as it is.
    pub spares_others: bool,
    /// Leave the attributes of directories to another run.
    pub leaves_dirs: bool,
    /// Nothing in the output is another user's, and nobody can enter it until the run ends.
    pub is_ours_alone: bool,
    /// Asked before anything is made or changed at the output.
    pub gate: Option<&'a Gate<'a>>,
    /// Ends what takes long in a single directory.
    pub stop: Option<&'a Stop>,
    /// The directories of the output that it is in.
    pub live: Arc<LiveDirs>,
    /// Where the names on both sides are counted, if they are.
    pub names_met: Option<&'a NameCount<'a>>,
    /// What only looks like the part files of killed runs.
    pub unknown: Arc<UnknownParts>,
}

/// A directory on the way from the root to where the walk is.
pub(crate) struct Frame {
    pub(crate) source: Arc<SourceDir>,
    pub(crate) output: Arc<OutputDir>,
    pub(crate) id: Identity,
    pub(crate) inclusion: Inclusion,
    subdirs: std::vec::IntoIter<Subdir>,
    listed: bool,
    listing: SteadyListing,
    pub(crate) memory: DirMemory,
}

/// Why a directory is not entered.
pub(crate) enum NotEntered {
    Failed(Error),
    /// What is at the output stays as it is.
    Left(&'static str),
}

impl From<Error> for NotEntered {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl NotEntered {
    /// What is handed on of `subdir` of the directory that the walk is in.
    pub(crate) fn of(self, stack: &[Frame], subdir: &Subdir) -> WalkItem {
        match (self, stack.last()) {
            (Self::Failed(error), _) => WalkItem::Failed(error),
            (Self::Left(why), above) => {
                let path = |above: &Frame| above.output.rel.join(&subdir.listed.name);
                WalkItem::Left(above.map_or_else(RelPath::root, path), why)
            }
        }
    }
}

/// Where a walk is: the directories from the root down, and what it works with.
pub(crate) struct Descent {
    pub(crate) stack: Vec<Frame>,
    pub(crate) reader: DirReader,
    pub(crate) links: PendingLinks,
}

impl Descent {
    /// Where the source's root is.
    pub(crate) fn path(&self) -> PathBuf {
        self.stack.first().map(|root| root.source.root.to_path_buf()).unwrap_or_default()
    }

    /// The full path of what is at `rel` below it, for messages.
    pub(crate) fn path_below(&self, rel: &RelPath) -> PathBuf {
        self.stack.first().map(|root| root.source.path_below(rel)).unwrap_or_default()
    }
}

/// Where entries go that a stat worker may look at.
pub(crate) type Defer<'a> = &'a mut dyn FnMut(Unclassified) -> ControlFlow<()>;

impl Walk<'_> {
    /// Walks everything below `source`, handing on what it finds until all is found or `emit` ends
    /// it.
    pub fn run(
        &self,
        source: Arc<SourceDir>,
        output: Arc<OutputDir>,
        mut emit: impl Emit,
    ) -> ControlFlow<()> {
        self.walk_any(source, output, &mut emit, None)
    }

    /// The same, where stat workers may look at files: `defer` sees to it that
    /// [`look_at`](Self::look_at) is done to each batch it is given, at any time and in any thread.
    pub(crate) fn walk_any(
        &self,
        source: Arc<SourceDir>,
        output: Arc<OutputDir>,
        emit: &mut impl Emit,
        mut defer: Option<Defer<'_>>,
    ) -> ControlFlow<()> {
        let mut descent = self.begin(Arc::clone(&source), Arc::clone(&output));
        match self.names {
            Some(names) => self.walk_names(&mut descent, names, emit, &mut defer)?,
            None => {
                self.take_leftovers(&mut descent, emit)?;
                self.walk_down_to(0, &mut descent, emit, &mut defer)?;
            }
        }
        self.tell_unknown(&source, &output, emit)
    }

    /// Tells what only looks like the part files of killed runs, and stayed.
    pub fn tell_unknown(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let is_closed = |dir: &Dir| dir.is_private().unwrap_or(false);
        // One that gets its label in the end is open then.
        let closed = output.finish.is_none()
            && output.handle.as_ref().is_some_and(is_closed)
            && !is_closed(&source.handle);
        match self.unknown.told(closed) {
            Some(warning) => emit.item(WalkItem::Warning(warning)),
            None => ControlFlow::Continue(()),
        }
    }

    /// True if anything may be made or changed at the output.
    pub(crate) fn may_make(&self) -> bool {
        self.gate.is_none_or(Gate::lets_pass)
    }

    /// A walk that is at the root.
    fn begin(&self, source: Arc<SourceDir>, output: Arc<OutputDir>) -> Descent {
        let root = Frame {
            source,
            output,
            id: self.source_root,
            inclusion: self.classifier.selection.filter.root(),
            subdirs: Vec::new().into_iter(),
            listed: false,
            listing: SteadyListing::default(),
            memory: DirMemory::default(),
        };
        Descent { stack: vec![root], reader: DirReader::default(), links: PendingLinks::new() }
    }

    /// Cleans up in the directory that the walk is in, and keeps in mind what can be gone on with there.
    pub(crate) fn take_leftovers(
        &self,
        descent: &mut Descent,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let Descent { stack, reader, .. } = descent;
        if let Some(top) = stack.last_mut() {
            let left = self.clean_up(&top.source, &top.output, reader, emit)?;
            (top.memory.resumable, top.memory.at_output) = (left.resumable, left.names);
        }
        ControlFlow::Continue(())
    }

    /// Goes on until so many directories are left on the way from the root.
    pub(crate) fn walk_down_to(
        &self,
        levels: usize,
        descent: &mut Descent,
        emit: &mut impl Emit,
        defer: &mut Option<Defer<'_>>,
    ) -> ControlFlow<()> {
        while descent.stack.len() > levels {
            let Descent { stack, reader, links } = &mut *descent;
            let Some(top) = stack.last_mut() else { break };
            if let Some(subdir) = top.subdirs.next() {
                let entered = self.enter(stack, &subdir, emit);
                self.names_met.filter(|_| entered.is_ok()).inspect(|met| met.dir());
                match entered {
                    Ok(frame) if frame.listed => {
                        emit.item(WalkItem::OtherVolume(Arc::clone(&frame.source)))?;
                        stack.push(frame);
                    }
                    Ok(frame) => {
                        stack.push(frame);
                        self.take_leftovers(descent, emit)?;
                    }
                    Err(why) => emit.item(why.of(stack, &subdir))?,
                }
            } else if top.listed {
                self.leave(descent, emit)?;
            } else {
                self.list(stack, reader, links, emit, defer)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// The walk has nothing more from the directory that it is in.
    pub(crate) fn leave(&self, descent: &mut Descent, emit: &mut impl Emit) -> ControlFlow<()> {
        if let Some(error) = self.closed_meanwhile(&descent.stack, descent.stack.len().max(1) - 1) {
            emit.item(WalkItem::Failed(error))?;
        }
        match descent.stack.pop() {
            Some(top) => emit.item(WalkItem::Done(top.output)),
            None => ControlFlow::Continue(()),
        }
    }

    /// The first of these directories of the source, from the number `from` on, that was closed to somebody, or moved,
    /// since the walk came to it, if that was not told. All of them are looked at.
    fn closed_meanwhile(&self, stack: &[Frame], from: usize) -> Option<Error> {
        // A link leads into a directory that is elsewhere.
        let follows = self.classifier.selection.follow_links;
        let mut first = None;
        for (at, Frame { source, output, id, .. }) in stack.iter().enumerate().skip(from) {
            // The label of a root that was there is the user's.
            if !output.gets_label_of(*id) {
                continue;
            }
            // Where the source lies is not looked at before the end.
            let above = at.checked_sub(1).and_then(|at| stack.get(at)).map(|above| above.id);
            let above = above.filter(|_| !follows);
            if !output.is_withheld()
                && output.withhold(&source.handle, above, || !self.dry && self.may_make())
            {
                first.get_or_insert(source);
            }
        }
        Some(Error::finding("copy", first?.path(), CLOSED_MEANWHILE))
    }

    /// Hands on the next entries of a directory, or notes that there are no more.
    fn list(
        &self,
        stack: &mut [Frame],
        reader: &mut DirReader,
        links: &mut PendingLinks,
        emit: &mut impl Emit,
        defer: &mut Option<Defer<'_>>,
    ) -> ControlFlow<()> {
        let Some(top) = stack.last_mut() else { return ControlFlow::Continue(()) };
        let batch = top.listing.next_batch(&top.source.handle, reader);
        // Whatever was put there after this look is not in this batch.
        let lists_some = batch.as_ref().is_ok_and(|batch| !batch.is_empty());
        let closed = lists_some.then(|| self.closed_meanwhile(stack, 0)).flatten();
        let is_withheld = stack.iter().any(|frame| frame.output.is_withheld());
        closed.map_or(ControlFlow::Continue(()), |error| emit.item(WalkItem::Failed(error)))?;
        let Some(top) = stack.last_mut() else { return ControlFlow::Continue(()) };
        match batch {
            Ok(batch) if batch.is_empty() || is_withheld => {
                top.listed = true;
                self.names_met.inspect(|met| met.compare(top.memory.names, top.memory.at_output));
                let mut resumable = std::mem::take(&mut top.memory.resumable);
                if !resumable.is_empty() && !self.may_make() {
                    resumable.clear();
                }
                cleanup::remove_resumable(&top.output, resumable).tell(&top.output, emit)
            }
            Ok(mut listed) => {
                if top.source.rel.is_root() {
                    self.pass_over_private(&top.source, &top.output, &mut listed, emit)?;
                    self.names_met.inspect(|met| met.in_root(&listed));
                }
                top.memory.names += listed.len() as u64;
                let entries = Unclassified::new(&top.source, &top.output, listed, top.inclusion);
                let (entries, later) = match defer {
                    Some(_) => self.classifier.part(entries, &top.memory),
                    None => (entries, None),
                };
                let subdirs = self.classifier.classify(entries, &mut top.memory, links, emit)?;
                top.subdirs = subdirs.into_iter();
                if let (Some(later), Some(defer)) = (later, defer) {
                    top.output.announce(1);
                    defer(later)?;
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                top.listed = true;
                emit.item(WalkItem::Failed(Error::io("list", top.source.path(), error)))
            }
        }
    }

    /// Passes over the private directories of another output's runs, which are no part of the source; in silence, if a
    /// pattern leaves them out. What is only called so is the user's, and has no place at an output.
    pub(crate) fn pass_over_private(
        &self,
        source: &Arc<SourceDir>,
        output: &OutputDir,
        listed: &mut Vec<ListedEntry>,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let is = |it: &ListedEntry, own: &str| output.volume.may_be(&it.name, own);
        while let Some(at) = listed.iter().position(|it| is(it, NAME) || is(it, TRASH)) {
            let (listed, filter) = (listed.remove(at), &self.classifier.selection.filter);
            let name = listed.name.as_encoded_bytes();
            if filter.judge(name, true, filter.root()) == Inclusion::Out {
                continue;
            }
            let kind = match listed.kind_in(&source.handle) {
                Ok(kind) => kind,
                Err(error) => {
                    let path = source.path_of(&listed.name);
                    emit.item(WalkItem::Failed(Error::io("look at", path, error)))?;
                    continue;
                }
            };
            let is_kept = match kind {
                Kind::Dir => kept::is_kept_by_runs(&source.handle, &listed.name),
                _ => Ok(false),
            };
            let path = || source.path_of(&listed.name);
            let failed = match is_kept {
                Ok(true) => {
                    emit.item(WalkItem::Special(Arc::clone(source), listed, Kind::Dir))?;
                    continue;
                }
                Ok(false) => Error::finding("copy", path(), CALLED_AS_KEPT),
                Err(error) => Error::io("look through", path(), error),
            };
            emit.item(WalkItem::Failed(failed))?;
        }
        ControlFlow::Continue(())
    }

    /// Removes what a killed run left in an output directory, but for what can be gone on with. That is returned, and
    /// how many names are there.
    pub fn clean_up(
        &self,
        source: &SourceDir,
        output: &Arc<OutputDir>,
        reader: &mut DirReader,
        emit: &mut impl Emit,
    ) -> ControlFlow<(), Leftovers> {
        if matches!(self.cleanup, Cleanup::Nothing | Cleanup::OfAttempts([])) {
            self.names_met.inspect(|met| met.at_output(0, true));
            return ControlFlow::Continue(Leftovers::default());
        }
        let is_data = |name: &OsStr| {
            self.known.is_some_and(|known| known.has_heard_of(output.rel.join(name).as_bytes()))
        };
        let follow = self.classifier.selection.follow_links;
        let Walk { cleanup, resumable, stop, .. } = *self;
        let may_remove = &|| self.may_make();
        let (is_data, unknown) = (&is_data, &*self.unknown);
        let spared = Protected { cleanup, resumable, follow, is_data, may_remove, unknown, stop };
        let mut leftovers = cleanup::clean_up(Some(source), output, reader, &spared);
        self.names_met.inspect(|met| met.at_output(leftovers.names, leftovers.error.is_some()));
        let (resumable, names) = (std::mem::take(&mut leftovers.resumable), leftovers.names);
        leftovers.tell(output, emit)?;
        ControlFlow::Continue(Leftovers { resumable, names, ..Leftovers::default() })
    }

    /// Opens a directory of the source and its counterpart at the output, which is made if missing.
    pub(crate) fn enter(
        &self,
        stack: &[Frame],
        subdir: &Subdir,
        emit: &mut impl Emit,
    ) -> Result<Frame, NotEntered> {
        let name = &subdir.listed.name;
        let Some(parent) = stack.last() else {
            return Err(Error::finding("enter", &**name, "the walk is at its end").into());
        };
        let from = || parent.source.path_of(name);
        if stack.len() > self.most_levels {
            let finding = format!(
                "it is more than {} levels down, and this process may not open enough files at a \
                 time to go deeper (ulimit -n)",
                self.most_levels
            );
            return Err(Error::finding("enter", from(), finding).into());
        }
        if parent.source.rel.length() + name.len() > LONGEST_DIR {
            return Err(Error::finding("enter", from(), TOO_LONG).into());
        }
        let handle = parent
            .source
            .handle
            .open_dir(name, self.classifier.selection.follow_links)
            .deed_at("open directory", from)?;
        let stat = handle.stat_self().deed_at("look at", from)?;
        if stack.iter().any(|above| above.id == stat.id) {
            return Err(
                Error::finding("enter", from(), "it leads back to a directory above it").into()
            );
        }
        if self.output_root == Some(stat.id) {
            return Err(Error::finding("copy", from(), "it is the output itself").into());
        }
        if self.classifier.selection.follow_links && sys::is_synthetic(&handle) {
            // The links below /proc/self/fd lead to what this run holds open, which grows with each look.
            return Err(Error::finding("enter", from(), MADE_UP).into());
        }
        let are_all = self.classifier.selection.windows_metadata;
        let attributes = Attributes::read_all(&handle, are_all).unwrap_or_else(|error| {
            let error = Error::io("read the attributes of", from(), error);
            let _ = emit.item(WalkItem::Warning(error));
            Attributes::default()
        });
        let label = label_of(&stat, from, emit);
        let mut output = OutputDir::below(&parent.output, name, &stat);
        output.ways = output.ways.with_lists(&attributes);
        output.finish = Some((label, attributes)).filter(|_| !self.leaves_dirs);
        if let Some(opened) = self.open_output(&parent.output, name)? {
            let is_source = |id| id == stat.id || stack.iter().any(|above| above.id == id);
            self.take_output(&mut output, &parent.output, opened, &stat, &is_source, emit)?;
        }
        parent.output.meet(name);
        let (root, rel) = (Arc::clone(&parent.source.root), output.rel.clone());
        let output = Arc::new(output);
        if !Arc::ptr_eq(&output.volume.tried, &parent.output.volume.tried)
            && let Some(limits) = output.limits()
        {
            // That the walk is to end shows at its next item.
            let _ = emit.item(WalkItem::Limits(Arc::clone(&output), limits));
        }
        if self.live.is_first_open(&output, stack.first().map(|root| &*root.output)) {
            let _ = emit.item(WalkItem::Limits(Arc::clone(&output), OTHERS_MAY_WRITE.to_owned()));
        }
        let source = Arc::new(SourceDir { handle, root, rel });
        if stat.id.dev != parent.id.dev && !self.classifier.selection.one_file_system {
            let _ = emit.item(WalkItem::Mounted(Arc::clone(&source)));
        }
        Ok(Frame {
            source,
            output,
            id: stat.id,
            inclusion: subdir.inclusion,
            subdirs: Vec::new().into_iter(),
            listing: SteadyListing::default(),
            listed: self.classifier.selection.one_file_system
                && stat.id.dev != self.source_root.dev,
            memory: DirMemory::default(),
        })
    }
}

/// The label that the copy of the directory `stat` at this path gets. What is not known of it is told.
fn label_of(stat: &Stat, path: impl FnOnce() -> PathBuf, emit: &mut impl Emit) -> Stat {
    if Dir::is_closed_in_place(stat) {
        let finding = "a run closed it, and was cut short: it is its owner's alone until that copy is made again";
        let error = Error::finding("know the permissions of", path(), finding);
        let _ = emit.item(WalkItem::Warning(error));
    }
    Dir::label_of_copy(stat)
}
