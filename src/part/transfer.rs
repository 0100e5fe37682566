//! One file that is to be copied: from where, and to where.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::path::RelPath;
use crate::sys::stat::Stat;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;

/// A file and the way it has to go.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The directory it comes from.
    pub source: Arc<SourceDir>,
    pub target: CopyTarget,
}

/// Where the copy of a file is to stand. It outlives the need for the source's directory, which a file
/// that is complete does not hold open.
#[derive(Clone, Debug)]
pub struct CopyTarget {
    pub output: Arc<OutputDir>,
    /// The file as it was found in the source.
    pub entry: SourceEntry,
    /// Whether something at the output gives way for it.
    pub replaces: bool,
    /// Whether nothing failed of reading its permissions, owner and attributes and setting them.
    pub labelled: bool,
}

impl Transfer {
    /// A file for which nothing has to give way, as far as is known.
    pub fn new(source: Arc<SourceDir>, output: Arc<OutputDir>, entry: SourceEntry) -> Self {
        Self { source, target: CopyTarget { output, entry, replaces: false, labelled: true } }
    }

    /// The file as it was found in the source.
    pub fn entry(&self) -> &SourceEntry {
        &self.target.entry
    }

    /// The full path in the source, for messages.
    pub fn source_path(&self) -> PathBuf {
        self.source.path_of(&self.target.entry.name)
    }
}

impl CopyTarget {
    /// The full path at the output, for messages.
    pub fn path(&self) -> PathBuf {
        self.output.path_of(&self.entry.name)
    }

    /// The path below the root of either side.
    pub fn rel_path(&self) -> RelPath {
        self.output.rel.join(&self.entry.name)
    }

    /// What is at the output under the file's name.
    pub fn look(&self) -> Result<Option<Stat>> {
        self.output.look(&self.entry.name)
    }
}
