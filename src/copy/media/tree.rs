//! What is at the output: files, directories, and the histories among them, as far as no pattern leaves them out.

use std::collections::BTreeSet;
use std::path::Path;

use crate::copy::media::records::PathSorter;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::manifest::archive::mhl::HISTORY;
use crate::manifest::archive::mhl_chain::is_history;
use crate::path::RelPath;
use crate::sys::Dir;
use crate::sys::stat::{Kind, Time};
use crate::tree::below::{EntryBelow, each_below};
use crate::tree::filter::{Filter, Inclusion};
use crate::tree::names::sorter::SortedRecords;

/// So many histories may be in one tree.
const MOST_HISTORIES: usize = 10_000;

/// A tree that was listed.
pub struct FoundTree {
    /// Directories and files by path, as [`FoundEntry`] has them.
    pub entries: SortedRecords,
    /// The directories that have a history.
    pub histories: BTreeSet<RelPath>,
}

/// An entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// The size of a file; a directory has none.
    pub size: Option<u64>,
    pub modified: Time,
}

impl FoundEntry {
    /// The words of its record.
    pub fn words(&self) -> String {
        let Self { size, modified: Time { secs, nanos } } = self;
        match size {
            Some(size) => format!("{secs} {nanos} {size}"),
            None => format!("{secs} {nanos}"),
        }
    }

    /// Reads what [`words`](Self::words) wrote.
    pub fn parse(words: &str) -> Option<Self> {
        let mut words = words.split(' ');
        let secs = words.next()?.parse().ok()?;
        let nanos = words.next()?.parse().ok()?;
        let size = words.next().map(str::parse).transpose().ok()?;
        Some(Self { size, modified: Time { secs, nanos } })
    }
}

/// Lists what is in `root`, which is at `path`. None if the run is to stop.
///
/// # Errors
/// A directory cannot be listed, or there are too many histories.
pub fn list(root: &Dir, path: &Path, ignored: &Filter, stop: &Stop) -> Result<Option<FoundTree>> {
    let fail = |error| Error::io("list", path, error);
    let (mut sorter, mut histories) = (PathSorter::by_path(), BTreeSet::new());
    let modified = root.stat_self().map_err(fail)?.mtime;
    sorter.add(&FoundEntry { size: None, modified }.words(), b"").map_err(fail)?;
    let is_whole = each_below(root, path, stop, &mut |entry| {
        let EntryBelow { dir, above, name, path: at, stat } = entry;
        let is_dir = stat.kind == Kind::Dir;
        // A link in the place of one is refused when it is opened.
        if *name == *HISTORY && (stat.kind == Kind::Symlink || is_dir && has_history(dir)) {
            histories.insert(above.clone());
            if histories.len() > MOST_HISTORIES {
                return Err(Error::finding("list the histories in", path, "there are too many"));
            }
        }
        let is_out = ignored.judge(at.as_bytes(), is_dir, Inclusion::In) == Inclusion::Out;
        if is_out || !matches!(stat.kind, Kind::Dir | Kind::File) {
            return Ok(false);
        }
        let found = FoundEntry { size: (!is_dir).then_some(stat.size), modified: stat.mtime };
        sorter.add(&found.words(), at.as_bytes()).map_err(fail)?;
        Ok(true)
    })?;
    if !is_whole {
        return Ok(None);
    }
    let entries = sorter.finish().map_err(fail)?;
    Ok(Some(FoundTree { entries, histories }))
}

fn has_history(dir: &Dir) -> bool {
    dir.open_dir(HISTORY.as_ref(), false).is_ok_and(|history| is_history(&history))
}
