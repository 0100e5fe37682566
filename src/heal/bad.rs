//! The bad files that a check found, until they are made whole.

use std::collections::BTreeMap;
use std::mem::size_of;
use std::sync::Arc;

use crate::hash::Digest;
use crate::path::RelPath;
use crate::verify::{Finding, Target, Verdict};

/// Bytes of what is remembered of bad files. What is left out is told, and is found again by the next run.
const MOST: usize = 16 << 20;

/// In which way a file is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    Differs,
    Missing,
    Unreadable,
}

/// A listed file that is not as it is listed.
#[derive(Debug)]
pub struct BadFile {
    pub target: Arc<Target>,
    /// The number of its tree.
    pub tree: usize,
    pub path: RelPath,
    /// The digest that is listed; of several, that of the strongest algorithm.
    pub digest: Digest,
    pub harm: Harm,
    /// So many lines of manifests list it.
    pub lines: u64,
    /// Why it must not be touched, if so.
    pub barrier: Option<String>,
}

/// The bad files of all trees.
#[derive(Debug, Default)]
pub struct BadFiles {
    files: Vec<BadFile>,
    /// Where each stands.
    names: BTreeMap<(RelPath, usize), usize>,
    weight: usize,
    /// So many were too many to be remembered.
    pub left_out: u64,
}

impl BadFiles {
    /// Notes a file of the tree of this number, if the finding is that it is bad.
    pub fn note(&mut self, target: &Arc<Target>, tree: usize, finding: &Finding) {
        let Finding::File { path, listed, verdict, .. } = finding else { return };
        let (harm, barrier) = match verdict {
            Verdict::Good(_) | Verdict::Refused(_) => return,
            Verdict::Differs(..) => (Harm::Differs, None),
            Verdict::Missing => (Harm::Missing, None),
            Verdict::NotThrough(kind) => {
                (Harm::Missing, Some(format!("{} is on the way to it", kind.name())))
            }
            Verdict::NotAFile(kind) => {
                (Harm::Missing, Some(format!("{} has its name", kind.name())))
            }
            Verdict::Unreadable(error) => {
                // What the device says is damage; what else is in the way is not.
                let is_read = error.deed() == "read" && error.kind().is_some();
                (Harm::Unreadable, (!is_read).then(|| error.reason()))
            }
        };
        let name = (path.clone(), tree);
        if let Some(known) = self.names.get(&name).and_then(|at| self.files.get_mut(*at)) {
            known.lines += 1;
            if listed.algorithm() < known.digest.algorithm() {
                (known.target, known.digest) = (Arc::clone(target), *listed);
            }
            return;
        }
        let weight = 3 * path.as_bytes().len() + size_of::<(BadFile, RelPath, usize)>();
        if self.weight + weight > MOST {
            self.left_out += 1;
            return;
        }
        self.weight += weight;
        self.names.insert(name, self.files.len());
        let (target, path, digest) = (Arc::clone(target), path.clone(), *listed);
        self.files.push(BadFile { target, tree, path, digest, harm, lines: 1, barrier });
    }

    /// The files of one tree after the other, in the order of their names: workers find them in none.
    pub fn in_order(&self) -> impl Iterator<Item = &BadFile> {
        let mut files: Vec<&BadFile> = self.files.iter().collect();
        files.sort_by(|a, b| (a.tree, &a.path).cmp(&(b.tree, &b.path)));
        files.into_iter()
    }

    /// Whether the file of this name was found bad in the tree of this number.
    pub fn has(&self, path: &RelPath, tree: usize) -> bool {
        self.names.contains_key(&(path.clone(), tree))
    }
}
