//! What a walk hands on: batches of files, and everything else one by one.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::Error;
use crate::sys::ListedEntry;
use crate::sys::stat::{Kind, Stat};
use crate::tree::dirs::{OutputDir, SourceDir};

/// An entry of the source as the walk found it.
#[derive(Clone, Debug)]
pub struct SourceEntry {
    /// Its name in its directory.
    pub name: Arc<OsStr>,
    /// What the system said of it then (of the target, for a followed link).
    pub stat: Stat,
}

/// Files of one directory, the unit of work of a worker: one message for many small files, because a
/// message each costs 1.15 to 1.7 times as much time (measured; workers also contend for the
/// directory). A file larger than a block is a batch of its own.
#[derive(Debug)]
pub struct Batch {
    pub source: Arc<SourceDir>,
    pub output: Arc<OutputDir>,
    /// The files, at least one.
    pub files: Vec<SourceEntry>,
}

/// Something the walk came upon.
#[derive(Debug)]
pub enum WalkEvent {
    /// Files to copy: work for the workers.
    Files(Batch),
    /// Anything else: the committer's.
    Item(WalkItem),
}

/// Something the walk came upon that no worker has to do with.
#[derive(Debug)]
pub enum WalkItem {
    /// A further name of a file that was handed on before (only when hard links are kept).
    HardLink(Arc<OutputDir>, SourceEntry),
    /// A symbolic link to copy as a link.
    Symlink(Arc<SourceDir>, Arc<OutputDir>, SourceEntry),
    /// A FIFO, socket or device, which is not opened.
    Special(Arc<SourceDir>, ListedEntry, Kind),
    /// A directory on which another file system is mounted, which is not entered.
    OtherVolume(Arc<SourceDir>),
    /// A directory on which another file system is mounted, which is entered.
    Mounted(Arc<SourceDir>),
    /// An entry, or a directory with all that is in it, that cannot be copied.
    Failed(Error),
    /// A part file or journal that a killed run left at the output was removed.
    LeftoverRemoved(Arc<OutputDir>, OsString),
    /// What the file system that is mounted at a directory of the output cannot hold, in words.
    Limits(Arc<OutputDir>, String),
    /// A directory's label cannot be read in full, or the like.
    Warning(Error),
    /// The stat workers have nothing more from these entries of this directory.
    Looked(Arc<OutputDir>),
    /// The walk has nothing more from this directory.
    Done(Arc<OutputDir>),
}

/// Where what was found goes; `Break` ends the walk.
pub trait Emit: FnMut(WalkEvent) -> ControlFlow<()> {
    /// Hands on something other than files.
    fn item(&mut self, item: WalkItem) -> ControlFlow<()> {
        self(WalkEvent::Item(item))
    }
}

impl<F: FnMut(WalkEvent) -> ControlFlow<()>> Emit for F {}
