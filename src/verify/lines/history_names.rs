//! The names in the generations of a history, while they are read: the newest first.
//!
//! A history has one content for a file. A generation that has another digest of it by the same algorithm contradicts
//! the others, and of two that contradict each other none is taken for right.

use std::{collections::HashMap, collections::HashSet, sync::Arc};

use crate::verify::lines::seen::{LeftOut, UnhashedFiles, UnhashedLine, UnprovenFiles, is_there};
use crate::verify::{Finding, SeenNames, Target, lines::manifest_lines::ManifestLine};
use crate::{error::Error, manifest::OtherName, path::RelPath, tree::Filter};

/// Number of bytes of names that are kept of files that have other names now. Of more, digests by other algorithms than
/// those of the new name are not checked.
const MOST_NAMES: usize = 64 << 20;

/// The names in the generations of a history that were read so far.
#[derive(Default)]
pub struct HistoryNames {
    digests: SeenNames,
    renamed: HashMap<u64, LaterName>,
    /// The bytes of the names in it.
    kept: usize,
    /// Names that are listed, not there, and told.
    gone: HashSet<u64>,
    /// Files of entries with no digest that can be checked, in these generations.
    unhashed: UnhashedFiles,
    /// The first entry by an algorithm that is not known here, in the generation of this number, and how many there
    /// are.
    other: Option<(usize, u64, OtherName)>,
    others: u64,
    generations: Vec<Arc<Target>>,
    /// The paths that the newest generation leaves out, …
    left_out: LeftOut,
    /// … and the listed files among them that are not there.
    left_out_absent: HashSet<u64>,
}

/// The later name of a file.
struct LaterName {
    key: u64,
    path: Option<RelPath>,
    /// True if a newer generation has another file of the old name.
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
        target: &Target,
        line: UnhashedLine,
        path: &RelPath,
    ) -> Option<Finding> {
        let generation = self.generations.len().saturating_sub(1);
        self.unhashed.note(generation, line);
        let UnhashedLine { key, line, algorithm } = line;
        if let Some(algorithm) = algorithm {
            self.other.get_or_insert((generation, line, algorithm));
            self.others += 1;
        }
        let is_wanted = !self.renamed.contains_key(&key) && !self.gone.contains(&key);
        if !is_wanted || is_there(target, path) || self.need_not_be(key, target, path) {
            return None;
        }
        self.gone.insert(key);
        let why = format!("there is no such file, and line {line} of its list names it");
        Some(Finding::Incomplete(Error::finding("find", target.path_of(path), why)))
    }

    /// A generation begins, one older than those before.
    pub fn begin(&mut self, target: &Arc<Target>) {
        self.generations.push(Arc::clone(target));
    }

    /// The generation leaves out files that the pattern matches. The newest one says it for all.
    pub fn leave_out(&mut self, pattern: String) {
        if self.generations.len() == 1 {
            self.left_out.add(pattern);
        }
    }

    /// The filter for the paths that the newest generation leaves out.
    pub fn left_out(&mut self) -> Filter {
        self.left_out.filter().clone()
    }

    /// True if the file at `path` is not there, and the history leaves it out: then it is not missing.
    pub fn need_not_be(&mut self, key: u64, target: &Target, path: &RelPath) -> bool {
        let is_left_out = self.left_out.has(path) && !is_there(target, path);
        if is_left_out && !self.renamed.contains_key(&key) {
            self.left_out_absent.insert(key);
        }
        is_left_out && !self.renamed.contains_key(&key)
    }

    /// The findings after all generations were read: files that none has a digest of, and files that are left out.
    pub fn findings(mut self) -> Vec<(Arc<Target>, Finding)> {
        let is_all = self.digests.has_no_digest();
        let unhashed = std::mem::take(&mut self.unhashed);
        let has_digest = |key| {
            let now = self.renamed.get(&key).map_or(key, |later| later.key);
            self.digests.has_digest(key) || self.digests.has_digest(now)
        };
        let is_checked = |key| has_digest(key) || self.left_out_absent.contains(&key);
        let unproven = unhashed.without(is_checked);
        let absent = self.left_out_absent.len();
        let notice = self.generations.first().filter(|_| absent > 0).map(|newest| {
            let why = match absent {
                1 => "1 that its history leaves out is not there".to_owned(),
                _ => format!("{absent} that its history leaves out are not there"),
            };
            let error = Error::finding("find all listed files of", &newest.root, why);
            (Arc::clone(newest), Finding::Notice(error))
        });
        let mut findings = Vec::from_iter(notice);
        let is_notice =
            !is_all && unproven.as_ref().is_none_or(|unproven| unproven.files < self.others);
        if let Some((generation, line, algorithm)) = self.other.filter(|_| is_notice) {
            let lines = self.others;
            let finding = Finding::OtherAlgorithm { line, algorithm, lines };
            findings.extend(self.generations.get(generation).map(|it| (Arc::clone(it), finding)));
        }
        if let Some(UnprovenFiles { files, list, line, algorithm }) = unproven {
            let finding = Finding::Unproven { line, algorithm, files, is_all };
            findings.extend(self.generations.get(list).map(|it| (Arc::clone(it), finding)));
        }
        findings
    }

    /// The lines to check for a line whose name has the hash `key`: digests that no newer generation has. `is_there`
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
                // Under the name that it has now.
                lines.extend(moved.zip(path).map(|(line, path)| ManifestLine { path, ..line }));
                !is_taken && is_there()
            }
        };
        if is_by_own_name {
            lines.extend(self.unknown(key, &line)?);
        }
        Ok(lines)
    }

    /// The line with the digests that are not known yet of the name with the hash `key`.
    fn unknown(
        &mut self,
        key: u64,
        line: &ManifestLine,
    ) -> Result<Option<ManifestLine>, Contradiction> {
        let mut new = Vec::new();
        for digest in line.digests() {
            match self.digests.note(key, line.number, &digest) {
                Some((_, false)) => return Err(Contradiction),
                Some((_, true)) => {}
                None => new.push(digest),
            }
        }
        let mut new = new.into_iter();
        Ok(new.next().map(|digest| ManifestLine {
            number: line.number,
            path: line.path.clone(),
            digest,
            further: new.collect(),
            is_reference: line.is_reference,
            looked_at: false,
        }))
    }
}
