//! What was found of each of several directories, for a verdict over each.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::verify::finding::{Finding, TreeVerdict};
use crate::verify::report::Checked;
use crate::verify::target::Target;

/// A directory of a check.
#[derive(Debug)]
struct CheckedTree {
    dir: PathBuf,
    counts: Checked,
    /// Whether its manifest lists nothing because the last run found nothing.
    none_found: bool,
}

/// The directories of a check, as they were given, and what was found of each.
#[derive(Debug, Default)]
pub struct CheckedTrees {
    trees: Vec<CheckedTree>,
    /// Which of them the roots of manifests belong to. They are told by their paths: one directory may be given twice,
    /// under two names.
    numbers: HashMap<PathBuf, Option<usize>>,
}

impl CheckedTrees {
    /// Nothing is known of these directories; nothing is to be told of a single one. One that is given twice under one
    /// name has one verdict.
    pub fn new(dirs: &[PathBuf]) -> Self {
        let dirs = if dirs.len() > 1 { dirs } else { &[] };
        let mut known = HashSet::new();
        let new = dirs.iter().filter(|dir| known.insert(*dir));
        let tree = |dir: &PathBuf| CheckedTree {
            dir: dir.clone(),
            counts: Checked::default(),
            none_found: false,
        };
        Self { trees: new.map(tree).collect(), numbers: HashMap::new() }
    }

    /// Counts a finding.
    pub fn note(&mut self, target: &Target, finding: &Finding) {
        if self.trees.is_empty() {
            return;
        }
        let number = match self.numbers.get(&target.root) {
            Some(number) => *number,
            None => {
                // Histories further below belong to the directory that they were found in.
                let all = self.trees.iter().enumerate();
                let within = all.filter(|(_, tree)| target.root.starts_with(&tree.dir));
                let number = within.max_by_key(|(_, tree)| tree.dir.components().count());
                *self.numbers.entry(target.root.clone()).or_insert(number.map(|(number, _)| number))
            }
        };
        if let Some(tree) = number.and_then(|number| self.trees.get_mut(number)) {
            tree.counts.add(finding);
            tree.none_found |= matches!(finding, Finding::NoneFound);
        }
    }

    /// A verdict over each, in the order in which they were given.
    pub fn findings(&mut self) -> Vec<Finding> {
        let trees = std::mem::take(&mut self.trees).into_iter();
        trees.map(|tree| Finding::Tree(tree.dir.clone(), verdict(&tree))).collect()
    }
}

fn verdict(tree: &CheckedTree) -> TreeVerdict {
    let CheckedTree { counts, none_found, .. } = tree;
    let Checked { good, differ, missing, unreadable, .. } = *counts;
    let Checked { refused, malformed, unproven, contradicted, unlisted, .. } = *counts;
    let Checked { empty, unusable, broken, incomplete, .. } = *counts;
    let of_lines = refused + malformed + unproven + contradicted + unlisted;
    let other = of_lines + empty + unusable + broken + incomplete;
    TreeVerdict { good, differ, missing, unreadable, other, none_found: *none_found }
}
