//! What is at the output: files, directories, and the histories among them, as far as no pattern leaves them out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::copy::media::records::PathSorter;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::manifest::archive::mhl::{CHAIN, HISTORY};
use crate::path::RelPath;
use crate::sys::stat::{Kind, Time};
use crate::sys::{self, Dir, DirReader};
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
    let (mut sorter, mut reader) = (PathSorter::by_path(), DirReader::default());
    let (mut dirs, mut histories) = (vec![RelPath::root()], BTreeSet::new());
    while let Some(rel) = dirs.pop() {
        let fail = |error| Error::io("list", full(path, &rel), error);
        let dir = match rel.is_root() {
            true => root.open_dir(".".as_ref(), false),
            false => root.open_below(&rel),
        };
        let dir = dir.map_err(fail)?;
        let modified = dir.stat_self().map_err(fail)?.mtime;
        sorter.add(&FoundEntry { size: None, modified }.words(), rel.as_bytes()).map_err(fail)?;
        loop {
            if stop.is_requested() {
                return Ok(None);
            }
            let batch = reader.next_batch(&dir).map_err(fail)?;
            if batch.is_empty() {
                break;
            }
            for entry in batch {
                let stat = dir.stat(&entry.name, false).map_err(fail)?;
                let below = rel.join(&entry.name);
                let is_dir = stat.kind == Kind::Dir;
                if is_dir && *entry.name == *HISTORY && has_chain(&dir) {
                    histories.insert(rel.clone());
                }
                if ignored.judge(below.as_bytes(), is_dir, Inclusion::In) == Inclusion::Out {
                    continue;
                }
                match stat.kind {
                    Kind::Dir => dirs.push(below),
                    Kind::File => {
                        let file = FoundEntry { size: Some(stat.size), modified: stat.mtime };
                        sorter.add(&file.words(), below.as_bytes()).map_err(fail)?;
                    }
                    _ => {}
                }
            }
        }
        if histories.len() > MOST_HISTORIES {
            return Err(Error::finding("list the histories in", path, "there are too many"));
        }
    }
    let entries = sorter.finish().map_err(|error| Error::io("list", path, error))?;
    Ok(Some(FoundTree { entries, histories }))
}

fn has_chain(dir: &Dir) -> bool {
    let opened = dir.open_dir(HISTORY.as_ref(), false);
    opened.is_ok_and(|it| it.stat(CHAIN.as_ref(), false).is_ok_and(|it| it.kind == Kind::File))
}

/// The path of `rel` below `path`.
pub fn full(path: &Path, rel: &RelPath) -> PathBuf {
    let mut full = path.to_path_buf();
    full.extend(rel.components().filter_map(|name| sys::name_from_bytes(name).ok()));
    full
}
