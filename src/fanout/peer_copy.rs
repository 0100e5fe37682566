//! A file that another output has finished, from which one that fell behind can have it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use crate::hash::Digest;
use crate::path::RelPath;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{Dir, name_from_bytes};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;

/// A finished copy at another output.
pub struct Copy {
    /// The copy, …
    pub file: File,
    /// … which is this.
    pub stat: Stat,
    /// What that output recorded of it.
    pub digest: Digest,
    root: Arc<OutputDir>,
    dir: RelPath,
}

impl Copy {
    /// The copy of the file `entry` of `source` below `root`, if it is there and of its size and time.
    pub fn open(
        root: &Arc<OutputDir>,
        digest: Digest,
        source: &SourceDir,
        entry: &SourceEntry,
    ) -> Option<Self> {
        let below = source.rel.path();
        let dir = root.handle.as_ref()?.open_below(&below).ok()?;
        let file = dir.open_file(&entry.name, false).ok()?;
        let stat = Dir::stat_file(&file).ok()?;
        let fits = stat.kind == Kind::File
            && stat.size == entry.stat.size
            && entry.stat.mtime.is_stored_as(stat.mtime);
        let (root, dir) = (Arc::clone(root), below);
        fits.then_some(Self { file, stat, digest, root, dir })
    }

    /// The directory it is in, for messages.
    pub fn dir(&self) -> PathBuf {
        let mut path = self.root.path();
        path.extend(self.dir.components().filter_map(|it| name_from_bytes(it).ok()));
        path
    }
}
