//! What a shard of a plan finds changed: files that are not what they were when they were planned. The walk and all
//! workers note them in one place, and the record of the shard is made from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::path::RelPath;

/// Files that are not what they were when they were planned. A clone notes in the same place.
#[derive(Clone, Debug, Default)]
pub struct ChangedFiles(Arc<Mutex<BTreeMap<Vec<u8>, u64>>>);

impl ChangedFiles {
    /// Notes the file at `path`, which has so many bytes now.
    pub fn note(&self, path: &RelPath, size: u64) {
        let mut changed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changed.insert(path.as_bytes().to_vec(), size);
    }

    /// Takes out what was noted: paths, with the size of each.
    pub fn take(&self) -> BTreeMap<Vec<u8>, u64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
