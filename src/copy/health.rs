//! Whether an output is still of use after errors on it.

use std::io;

use crate::sys::{self, Dir};
use crate::tree::node::OutputDir;

/// So many failures in a row for want of room, and the output counts as full. A single one does
/// not: a smaller file may still fit.
const FULL_STREAK: u32 = 16;

/// … or this little left, in bytes: not even the directories of further files would fit.
const FULL_BYTES: u64 = 64 << 10;

/// What is known of an output's health.
#[derive(Debug, Default)]
pub struct Health {
    full_streak: u32,
}

impl Health {
    /// A file was written.
    pub fn good(&mut self) {
        self.full_streak = 0;
    }

    /// Something could not be written for this reason; whether the output is of no use any more.
    pub fn is_lost(&mut self, root: &Dir, cause: &io::Error) -> bool {
        if sys::is_disk_full(cause) {
            self.full_streak += 1;
            return self.full_streak >= FULL_STREAK
                || sys::room(root).is_ok_and(|room| room.bytes < FULL_BYTES);
        }
        sys::is_output_gone(cause) && is_unusable(root)
    }
}

/// Whether the output's root is still what its path leads to. Handles go on working after an
/// unmount, so without this a run could end well in a file system that nobody sees any more.
pub fn is_in_place(root: &OutputDir) -> bool {
    let Some(handle) = &root.handle else { return true };
    match (Dir::open(&root.root).and_then(|dir| dir.identity()), handle.identity()) {
        (Ok(there), Ok(here)) => there == here,
        (Err(error), _) => {
            use io::ErrorKind::{NotADirectory, NotFound};
            // Any other error (no descriptor left, no memory) says nothing about the place.
            !matches!(error.kind(), NotFound | NotADirectory)
        }
        (_, Err(_)) => true,
    }
}

/// Whether not even an empty file can be made in the root of the output.
fn is_unusable(root: &Dir) -> bool {
    match root.create_part() {
        Ok((_, part)) => root.remove(&part).is_err(),
        Err(_) => true,
    }
}
