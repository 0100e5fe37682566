//! Walking the source: its entries in bounded batches, its directories made at the output.
//!
//! Directories are opened one component at a time through their parent's handle, so a directory
//! swapped for a link cannot lead the walk elsewhere, and paths longer than the system's limit are
//! no obstacle. Memory does not grow with the number of files: what was found is handed on at once,
//! and the receiver makes the walk wait.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use crate::error::Error;
use crate::sys::stat::{Identity, Kind, Stat};
use crate::sys::{Attributes, Dir, ListedEntry, Listing};
use crate::tree::classify::{Batch, Memory, Names};
use crate::tree::cleanup::{self, Beginning, Swept};
use crate::tree::dirs::{Entry, OutputDir, Run, SourceDir};
use crate::tree::filter::{Filter, Verdict};

/// Something the walk came upon.
#[derive(Debug)]
pub enum Found {
    /// Files to copy.
    Files(Run),
    /// A further name of a file that was handed on before (only when hard links are kept).
    HardLink(Arc<OutputDir>, Entry),
    /// A symbolic link to copy as a link.
    Symlink(Arc<SourceDir>, Arc<OutputDir>, Entry),
    /// Something that is not opened.
    Special(Arc<SourceDir>, ListedEntry, Kind),
    /// An entry, or a directory with all that is in it, that cannot be copied.
    Failed(Error),
    /// A part file that a killed run left at the output was removed.
    Swept(Arc<OutputDir>, OsString),
    /// A directory's label cannot be read in full, or the like.
    Warning(Error),
    /// Nothing more comes of what was looked at in this directory beside the walk.
    Looked(Arc<OutputDir>),
    /// The walk has nothing more from this directory.
    Done(Arc<OutputDir>),
}

/// What to walk and how.
#[derive(Debug)]
pub struct Walk<'a> {
    /// Which entries take part.
    pub filter: &'a Filter,
    /// Copy what symbolic links point to.
    pub follow: bool,
    /// Hand on the further names of a file as such.
    pub hard_links: bool,
    /// Make nothing.
    pub dry: bool,
    /// Remove part files that killed runs left at the output: only where no other run can be
    /// at work.
    pub sweeps: bool,
    /// … but for the beginnings of files larger than this many bytes, which are gone on with.
    pub resumable: Option<u64>,
    /// Remember in which directory a new one was made: where names are made durable directory by
    /// directory.
    pub chains: bool,
    /// The output takes names that differ only in letter case for the same.
    pub folds: bool,
    /// A file larger than this is a run of its own; bytes.
    pub block_size: u64,
    /// The source's root.
    pub source_root: Identity,
    /// The output's root; never walked into.
    pub output_root: Option<Identity>,
}

/// A directory on the way from the root to where the walk is.
struct Frame {
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
    id: Identity,
    verdict: Verdict,
    subdirs: std::vec::IntoIter<(ListedEntry, Verdict)>,
    listed: bool,
    memory: Memory,
}

/// Where what was found goes; `Break` ends the walk.
pub trait Emit: FnMut(Found) -> ControlFlow<()> {}
impl<F: FnMut(Found) -> ControlFlow<()>> Emit for F {}

/// Where batches go that somebody else may look at.
pub(crate) type Defer<'a> = &'a mut dyn FnMut(Batch) -> ControlFlow<()>;

impl Walk<'_> {
    /// Walks everything below `source`, handing on what it finds until all is found or `emit` ends
    /// it.
    pub fn run(
        &self,
        source: Arc<SourceDir>,
        output: Arc<OutputDir>,
        mut emit: impl Emit,
    ) -> ControlFlow<()> {
        self.walk(source, output, &mut emit, None)
    }

    /// The same, where somebody else may look at files: `defer` sees to it that
    /// [`look_at`](Self::look_at) is done to each batch it is given, at any time and in any thread.
    pub(crate) fn walk(
        &self,
        source: Arc<SourceDir>,
        output: Arc<OutputDir>,
        emit: &mut impl Emit,
        mut defer: Option<Defer<'_>>,
    ) -> ControlFlow<()> {
        let mut listing = Listing::default();
        let mut names = Names::new();
        let kept = self.sweep(&source, &output, &mut listing, emit)?;
        let mut stack = vec![Frame {
            source,
            output,
            id: self.source_root,
            verdict: self.filter.root(),
            subdirs: Vec::new().into_iter(),
            listed: false,
            memory: Memory::of(kept),
        }];
        while let Some(top) = stack.last_mut() {
            if let Some((listed, verdict)) = top.subdirs.next() {
                match self.enter(&stack, &listed, verdict, emit) {
                    Ok(mut frame) => {
                        let Frame { source, output, .. } = &frame;
                        frame.memory.kept = self.sweep(source, output, &mut listing, emit)?;
                        stack.push(frame);
                    }
                    Err(error) => emit(Found::Failed(error))?,
                }
            } else if top.listed {
                emit(Found::Done(Arc::clone(&top.output)))?;
                stack.pop();
            } else {
                match listing.next_batch(&top.source.handle) {
                    Ok(batch) if batch.is_empty() => {
                        top.listed = true;
                        let kept = std::mem::take(&mut top.memory.kept);
                        tell(&top.output, cleanup::remove_kept(&top.output, kept), emit)?;
                    }
                    Ok(listed) => {
                        let batch = Batch::new(&top.source, &top.output, listed, top.verdict);
                        let (batch, later) = match defer {
                            Some(_) => self.part(batch, &top.memory),
                            None => (batch, None),
                        };
                        let subdirs = self.hand_on(batch, &mut top.memory, &mut names, emit)?;
                        top.subdirs = subdirs.into_iter();
                        if let (Some(later), Some(defer)) = (later, &mut defer) {
                            top.output.announce(1);
                            defer(later)?;
                        }
                    }
                    Err(error) => {
                        top.listed = true;
                        emit(Found::Failed(Error::io("list", top.source.path(), error)))?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Removes what a killed run left in an output directory, but for what can be gone on with, which
    /// is returned.
    pub fn sweep(
        &self,
        source: &SourceDir,
        output: &Arc<OutputDir>,
        listing: &mut Listing,
        emit: &mut impl Emit,
    ) -> ControlFlow<(), Vec<Beginning>> {
        if !self.sweeps {
            return ControlFlow::Continue(Vec::new());
        }
        let mut swept = cleanup::sweep(source, output, listing, self.resumable, self.follow);
        let kept = std::mem::take(&mut swept.kept);
        tell(output, swept, emit)?;
        ControlFlow::Continue(kept)
    }

    /// Opens a directory of the source and its counterpart at the output, which is made if missing.
    fn enter(
        &self,
        stack: &[Frame],
        listed: &ListedEntry,
        verdict: Verdict,
        emit: &mut impl Emit,
    ) -> Result<Frame, Error> {
        let Some(parent) = stack.last() else {
            return Err(Error::finding("enter", &*listed.name, "the walk is at its end"));
        };
        let name = &listed.name;
        let from = || parent.source.path_of(name);
        let handle = parent
            .source
            .handle
            .open_dir(name, self.follow)
            .map_err(|error| Error::io("open directory", from(), error))?;
        let stat = handle.stat_self().map_err(|error| Error::io("look at", from(), error))?;
        if stack.iter().any(|above| above.id == stat.id) {
            return Err(Error::finding("enter", from(), "it leads back to a directory above it"));
        }
        if self.output_root == Some(stat.id) {
            return Err(Error::finding("copy", from(), "it is the output itself"));
        }
        let attributes = Attributes::read(&handle).or_else(|error| {
            let _ = emit(Found::Warning(Error::io("read the attributes of", from(), error)));
            Ok(Attributes::default())
        })?;
        let (source_ids, to) = (stack.iter().map(|above| above.id), || parent.output.path_of(name));
        let mut output = OutputDir {
            handle: None,
            root: Arc::clone(&parent.output.root),
            rel: parent.source.rel.below(name),
            fresh: true,
            gid: stat.gid,
            dev: parent.output.dev,
            with_root: parent.output.with_root,
            born: Arc::clone(&parent.output.born),
            hurries: OnceLock::new(),
            finish: Some((stat, attributes)),
            made_in: Mutex::new(None),
            left_open: AtomicBool::new(false),
            pending: AtomicUsize::new(1),
        };
        if let Some((handle, fresh)) = self.open_output(&parent.output, name)? {
            let there = handle.stat_self().map_err(|error| Error::io("look at", to(), error))?;
            if there.id == stat.id || source_ids.into_iter().any(|id| id == there.id) {
                return Err(Error::finding("write to", to(), "it is a directory of the source"));
            }
            output.dev = there.id.dev;
            output.with_root = self.output_root.is_some_and(|root| root.dev == there.id.dev);
            output.gid = there.gid;
            output.fresh = fresh;
            if fresh && (self.chains || !output.with_root) {
                output.made_in = Mutex::new(Some(Arc::clone(&parent.output)));
            }
            if !fresh {
                output.born = Arc::default();
            }
            if !fresh && !self.dry {
                // The attributes that are set in the end take it back.
                handle.open_up(&there).map_err(|error| Error::io("make writable", to(), error))?;
            }
            output.handle = Some(handle);
        }
        Ok(Frame {
            source: Arc::new(SourceDir {
                handle,
                root: Arc::clone(&parent.source.root),
                rel: output.rel.clone(),
            }),
            output: Arc::new(output),
            id: stat.id,
            verdict,
            subdirs: Vec::new().into_iter(),
            listed: false,
            memory: Memory::default(),
        })
    }

    /// The directory `name` at the output and whether it was made now; `None` in a dry run that
    /// would make it.
    fn open_output(&self, parent: &OutputDir, name: &OsStr) -> Result<Option<(Dir, bool)>, Error> {
        let Some(above) = &parent.handle else { return Ok(None) };
        let path = || parent.path_of(name);
        if !parent.fresh {
            match above.open_dir(name, false) {
                Ok(handle) => return Ok(Some((handle, false))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(in_the_way(above, name, path(), error)),
            }
        }
        if self.dry {
            return Ok(None);
        }
        above.make_dir(name, true).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::finding(
                "make directory",
                path(),
                "the output already has this name, perhaps in other letter case",
            ),
            _ => Error::io("make directory", path(), error),
        })?;
        let handle = above
            .open_dir(name, false)
            .map_err(|error| Error::io("open directory", path(), error))?;
        Ok(Some((handle, true)))
    }
}

/// Why a directory of the output could not be opened, in terms of what is in its place.
fn in_the_way(parent: &Dir, name: &OsStr, path: PathBuf, error: io::Error) -> Error {
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

/// Hands on what was removed.
fn tell(output: &Arc<OutputDir>, swept: Swept, emit: &mut impl Emit) -> ControlFlow<()> {
    for name in swept.removed {
        emit(Found::Swept(Arc::clone(output), name))?;
    }
    swept.error.map_or(ControlFlow::Continue(()), |error| emit(Found::Warning(error)))
}
