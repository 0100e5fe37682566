//! What the committer has to make durable directory by directory, and whether a sync failed.

use std::io;
use std::sync::Arc;

use crate::copy::commit::accounting::copy_of;
use crate::sys::Dir;
use crate::tree::dirs::OutputDir;

/// The syncs of a run.
#[derive(Default)]
pub struct SyncState {
    /// Directories with names that no sync of the whole file system covers, since the last commit.
    unsynced: Vec<Arc<OutputDir>>,
    /// Why a sync failed: what was being written then may be lost, whatever later syncs say.
    failure: Option<io::Error>,
}

impl SyncState {
    /// The next commit makes the names in this directory durable.
    pub fn add(&mut self, dir: &Arc<OutputDir>) {
        if self.unsynced.last().is_none_or(|last| !Arc::ptr_eq(last, dir)) {
            self.unsynced.push(Arc::clone(dir));
        }
    }

    /// Makes everything durable on the file system of `whole`, if that is given, and the names in the directories that
    /// were added.
    ///
    /// # Errors
    /// Also if an earlier sync failed: the kernel reports that once, and then says that all is well.
    pub fn persist(&mut self, whole: Option<&Dir>) -> io::Result<()> {
        self.failure().map_or(Ok(()), Err)?;
        whole.map_or(Ok(()), Dir::persist_all)?;
        let mut dirs = std::mem::take(&mut self.unsynced);
        // Copies that are read back in parallel come back mixed.
        dirs.sort_unstable_by_key(Arc::as_ptr);
        dirs.dedup_by(|one, other| Arc::ptr_eq(one, other));
        dirs.iter().try_for_each(|dir| dir.persist())
    }

    pub fn fail(&mut self, error: &io::Error) {
        self.failure = Some(copy_of(error));
    }

    pub fn is_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why a sync failed, if one did.
    pub fn failure(&self) -> Option<io::Error> {
        self.failure.as_ref().map(copy_of)
    }
}
