//! Names that the trees list with different digests: then they are no copies of one another there.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::heal::trees::ListedTree;
use crate::path::RelPath;
use crate::verify::{Finding, ManifestLines, NameHasher, SeenNames, Target};

/// So many names are remembered.
const MOST: usize = 50_000;

/// Between so many lines it is asked whether the run is to stop.
const ASK: u64 = 1 << 12;

/// What the manifests contradict each other in.
#[derive(Debug, Default)]
pub struct Conflicts {
    names: BTreeSet<RelPath>,
    /// Names beyond those that are remembered.
    more: bool,
}

impl Conflicts {
    /// Reads the manifests of all trees, and tells each name that has two digests.
    ///
    /// # Errors
    /// A manifest cannot be read.
    pub fn find(
        listed: Vec<ListedTree>,
        stop: &Stop,
        tell: &dyn Fn(&Target, Finding),
    ) -> Result<Self> {
        let (mut seen, key) = (SeenNames::default(), NameHasher::default());
        let mut conflicts = Self::default();
        for ListedTree { target, manifest } in listed {
            let fail = |error| Error::io("read the manifest", &target.manifest, error);
            let mut lines = ManifestLines::new(&target, manifest);
            while let Some(line) = lines.next_file().map_err(fail)? {
                if line.number.is_multiple_of(ASK) && stop.is_requested() {
                    return Ok(conflicts);
                }
                let before = seen.note(key.of(&line.path), line.number, &line.digest);
                if matches!(before, Some((_, false))) && conflicts.note(&line.path) {
                    tell(&target, Finding::Conflict(line.path));
                }
            }
        }
        Ok(conflicts)
    }

    /// Notes a name; whether it is not known yet.
    fn note(&mut self, path: &RelPath) -> bool {
        if self.names.len() >= MOST {
            self.more = true;
            return !self.names.contains(path);
        }
        self.names.insert(path.clone())
    }

    /// Why a file of this name must not be touched, if so.
    pub fn barrier(&self, path: &RelPath) -> Option<String> {
        if self.more {
            return Some("the trees are no copies of one another".into());
        }
        self.names.contains(path).then(|| "the trees list different digests for it".into())
    }
}
