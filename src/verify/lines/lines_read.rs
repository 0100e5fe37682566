//! What was listed below a root, when all lists were read.

use std::sync::Arc;

use crate::path::RelPath;
use crate::sys::stat::Identity;
use crate::tree::filter::Filter;
use crate::verify::archive::part::PartOf;
use crate::verify::lines::seen::{NameHasher, SeenNames};
use crate::verify::target::Target;

/// A root and the names that are listed below it, for finding files that are not listed.
pub struct ListedRoot {
    /// The root, with any of its manifests.
    pub target: Arc<Target>,
    /// Which directory it is.
    pub root: Identity,
    /// The names, a table for each manifest.
    pub names: Vec<NamesOf>,
    /// What the history of it leaves out.
    pub left_out: Filter,
}

/// The names that a manifest lists.
pub struct NamesOf {
    /// The manifest.
    pub target: Arc<Target>,
    /// Its names.
    pub names: SeenNames,
}

impl ListedRoot {
    /// Of which nothing is listed.
    pub fn empty(target: &Arc<Target>, root: Identity) -> Self {
        let target = Arc::clone(target);
        Self { target, root, names: Vec::new(), left_out: Filter::default() }
    }

    /// Takes in what another manifest of the same root says.
    pub fn join(&mut self, other: Self) {
        self.names.extend(other.names);
        if matches!(other.target.part, PartOf::Generation { newest: true, .. }) {
            self.left_out = other.left_out;
        }
    }

    /// Whether one of its manifests lists the path.
    pub fn lists(&self, key: &NameHasher, path: &RelPath) -> bool {
        let hash = key.of(path);
        self.names.iter().any(|names| names.names.has(hash))
    }
}
