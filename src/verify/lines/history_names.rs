//! What the generations of a history say of names, while they are read: the newest first.
//!
//! A history has one content for a file. A generation that has another digest of it by the same algorithm contradicts
//! the others, and of two that contradict each other none is taken for right.

use std::collections::{HashMap, HashSet};

use crate::error::Error;
use crate::path::RelPath;
use crate::verify::finding::Finding;
use crate::verify::lines::manifest_lines::ManifestLine;
use crate::verify::lines::seen::SeenNames;
use crate::verify::lines::unproven::is_there;
use crate::verify::target::Target;

/// So many bytes of names are kept of files that have other names now. Of more, digests by other algorithms than those
/// of the new name are not checked.
const MOST_NAMES: usize = 64 << 20;

/// What the generations of a history that were read so far say.
#[derive(Default)]
pub struct HistoryNames {
    digests: SeenNames,
    renamed: HashMap<u64, LaterName>,
    /// The bytes of the names in it.
    kept: usize,
    /// Names that are listed, not there, and told.
    gone: HashSet<u64>,
}

/// What a file is called since.
struct LaterName {
    key: u64,
    path: Option<RelPath>,
    /// Whether a newer generation has another file of the old name.
    is_taken: bool,
}

/// A line contradicts those before it.
pub struct Contradiction;

impl HistoryNames {
    /// Notes that the file with the name of the hash `old` is called `path` now, which has the hash `key`.
    pub fn rename(&mut self, old: u64, key: u64, path: &RelPath) {
        if old == key || self.renamed.contains_key(&old) {
            return;
        }
        let is_taken = self.digests.has(old);
        let len = path.as_bytes().len();
        let new = match self.renamed.get(&key) {
            // It has yet another name.
            Some(LaterName { key, path, .. }) => {
                LaterName { key: *key, path: path.clone(), is_taken }
            }
            None => LaterName { key, path: Some(path.clone()), is_taken },
        };
        self.kept += len;
        let path = new.path.filter(|_| self.kept <= MOST_NAMES);
        self.renamed.insert(old, LaterName { path, ..new });
    }

    /// Looks for the file at `path`, of which line `line` has no digest that can be checked: it must be there. It is
    /// told once, and not if it has another name now.
    pub fn look_for(
        &mut self,
        key: u64,
        target: &Target,
        line: u64,
        path: &RelPath,
    ) -> Option<Finding> {
        let is_wanted = !self.renamed.contains_key(&key) && !self.gone.contains(&key);
        if !is_wanted || is_there(target, path) {
            return None;
        }
        self.gone.insert(key);
        let why = format!("there is no such file, and line {line} of its list names it");
        Some(Finding::Incomplete(Error::finding("find", target.path_of(path), why)))
    }

    /// What is to be checked by a line whose name has the hash `key`: digests that no newer generation has. `is_there`
    /// looks for a file that has another name since.
    ///
    /// # Errors
    /// A newer generation has another digest of the file by the same algorithm.
    pub fn judge(
        &mut self,
        key: u64,
        line: ManifestLine,
        is_there: impl FnOnce() -> bool,
    ) -> Result<Vec<ManifestLine>, Contradiction> {
        let mut lines = Vec::new();
        let is_by_own_name = match self.renamed.get(&key) {
            None => !self.gone.contains(&key),
            Some(LaterName { key: now, path, is_taken }) => {
                let (now, path, is_taken) = (*now, path.clone(), *is_taken);
                let moved = self.unknown(now, &line)?;
                lines.extend(moved.of(path));
                !is_taken && is_there()
            }
        };
        if is_by_own_name {
            lines.extend(self.unknown(key, &line)?.0);
        }
        Ok(lines)
    }

    /// The line with the digests that are not known yet of the name with the hash `key`.
    fn unknown(&mut self, key: u64, line: &ManifestLine) -> Result<Unknown, Contradiction> {
        let mut new = Vec::new();
        for digest in line.digests() {
            match self.digests.note(key, line.number, &digest) {
                Some((_, false)) => return Err(Contradiction),
                Some((_, true)) => {}
                None => new.push(digest),
            }
        }
        let mut new = new.into_iter();
        Ok(Unknown(new.next().map(|digest| ManifestLine {
            number: line.number,
            path: line.path.clone(),
            digest,
            further: new.collect(),
            looked_at: false,
        })))
    }
}

/// A line, if it has digests that are not known yet.
struct Unknown(Option<ManifestLine>);

impl Unknown {
    /// The same for the file that is at `path` now.
    fn of(self, path: Option<RelPath>) -> Option<ManifestLine> {
        let (line, path) = (self.0?, path?);
        Some(ManifestLine { path, ..line })
    }
}
