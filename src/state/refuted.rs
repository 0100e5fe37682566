//! Files that a run read and found to be something else than was recorded of them.
//!
//! What has rotted has rotted under each of its names, and no time of it shows that. So such a file is known by the
//! number of its inode, and no row of that number is believed unread. And it is known beyond the run, however that
//! ends: that the rows are in doubt is recorded before the user is told.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError, RwLock, atomic::AtomicBool, atomic::Ordering::Relaxed};

/// The refuted files of an output.
#[derive(Debug, Default)]
pub struct RefutedFiles {
    /// True if there is one: nothing is looked up otherwise.
    any: AtomicBool,
    inodes: RwLock<HashSet<u64>>,
    /// Rows in doubt that are still to be recorded, and how many.
    rows: Mutex<(Vec<u8>, u64)>,
}

impl RefutedFiles {
    /// Files of these inodes are not believed.
    pub fn extend(&self, inodes: impl IntoIterator<Item = u64>) {
        let mut all = self.inodes.write().unwrap_or_else(PoisonError::into_inner);
        all.extend(inodes);
        self.any.store(!all.is_empty(), Relaxed);
    }

    /// True if the file of this inode is not what was recorded of it, or may not be.
    pub fn has(&self, inode: u64) -> bool {
        self.any.load(Relaxed)
            && self.inodes.read().unwrap_or_else(PoisonError::into_inner).contains(&inode)
    }

    /// A row is to be recorded as one in doubt, as `write` appends it.
    pub fn put_row(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut rows.0);
        rows.1 += 1;
    }

    /// Takes out the rows that are to be recorded, and their number.
    pub fn take_rows(&self) -> (Vec<u8>, u64) {
        match self.any.load(Relaxed) {
            true => std::mem::take(&mut *self.rows.lock().unwrap_or_else(PoisonError::into_inner)),
            false => (Vec::new(), 0),
        }
    }
}
