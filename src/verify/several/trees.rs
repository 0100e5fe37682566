//! What was found of each of several directories, for a verdict over each.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::sys::stat::Identity;
use crate::verify::finding::{Finding, TreeVerdict};
use crate::verify::report::Checked;
use crate::verify::target::Target;

/// The directories of a check, as they were given, and what was found of each.
#[derive(Debug, Default)]
pub struct CheckedTrees {
    trees: Vec<(PathBuf, Checked)>,
    /// Which of them the roots of manifests belong to.
    numbers: HashMap<Identity, Option<usize>>,
}

impl CheckedTrees {
    /// Nothing is known of these directories; nothing is to be told of a single one.
    pub fn new(dirs: &[PathBuf]) -> Self {
        let dirs = if dirs.len() > 1 { dirs } else { &[] };
        let trees = dirs.iter().map(|dir| (dir.clone(), Checked::default())).collect();
        Self { trees, numbers: HashMap::new() }
    }

    /// Counts a finding.
    pub fn note(&mut self, target: &Target, finding: &Finding) {
        if self.trees.is_empty() {
            return;
        }
        // Histories further below belong to the directory that they were found in.
        let trees = &self.trees;
        let find = || {
            let within =
                trees.iter().enumerate().filter(|(_, (dir, _))| target.root.starts_with(dir));
            within.max_by_key(|(_, (dir, _))| dir.components().count()).map(|(number, _)| number)
        };
        let number = match target.root_id == Identity::default() {
            true => find(),
            false => *self.numbers.entry(target.root_id).or_insert_with(find),
        };
        if let Some((_, counts)) = number.and_then(|number| self.trees.get_mut(number)) {
            counts.add(finding);
        }
    }

    /// A verdict over each, in the order in which they were given.
    pub fn findings(&mut self) -> Vec<Finding> {
        let trees = std::mem::take(&mut self.trees).into_iter();
        trees.map(|(dir, counts)| Finding::Tree(dir, verdict(&counts))).collect()
    }
}

fn verdict(counts: &Checked) -> TreeVerdict {
    let Checked { good, differ, missing, unreadable, .. } = *counts;
    let Checked { refused, malformed, unproven, contradicted, unlisted, .. } = *counts;
    let Checked { empty, unusable, broken, .. } = *counts;
    let other =
        refused + malformed + unproven + contradicted + unlisted + empty + unusable + broken;
    TreeVerdict { good, differ, missing, unreadable, other }
}
