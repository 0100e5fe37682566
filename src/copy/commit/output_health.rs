//! Whether an output is still of use after errors on it.

use std::io;
use std::path::Path;

use crate::sys::{self, Dir, PartOwner};
use crate::tree::dirs::OutputDir;

/// So many failures in a row for want of room, and the output counts as full. A single one does
/// not: a smaller file may still fit.
const FULL_STREAK: u32 = 16;

/// … or this little left, in bytes: not even the directories of further files would fit.
const FULL_BYTES: u64 = 64 << 10;

/// At the first error of the device, and after so many more in a row, it is tried whether it takes anything at all.
const BAD_STREAK: u32 = 16;

/// So many part files in a row that are not there any more, and something is removing the output.
const GONE_STREAK: u32 = 16;

/// What is known of an output's health.
#[derive(Debug, Default)]
pub struct Health {
    full_streak: u32,
    bad_streak: u32,
    gone_streak: u32,
}

impl Health {
    /// A file was written.
    pub fn good(&mut self) {
        *self = Self::default();
    }

    /// Something could not be written for this reason; whether the output is of no use any more.
    pub fn is_lost(&mut self, output: &OutputDir, cause: &io::Error) -> bool {
        let Some(root) = &output.handle else { return false };
        if cause.kind() == io::ErrorKind::NotFound {
            self.gone_streak += 1;
            return self.gone_streak >= GONE_STREAK || !is_in_place(output);
        }
        if sys::is_disk_full(cause) {
            self.full_streak += 1;
            return self.full_streak >= FULL_STREAK
                || sys::room(root).is_ok_and(|room| room.bytes < FULL_BYTES);
        }
        if sys::is_device_error(cause) {
            // Where one file lies the device may be bad; where any may lie, it is of no use.
            let is_to_be_tried = self.bad_streak.is_multiple_of(BAD_STREAK);
            self.bad_streak += 1;
            return is_to_be_tried && !takes_bytes(root, output.volume.parts);
        }
        sys::is_output_gone(cause) && is_unusable(root, output.volume.parts)
    }
}

/// Whether the output's root is still what its path leads to. Handles go on working after an
/// unmount, so without this a run could end well in a file system that no path leads to any more.
pub fn is_in_place(root: &OutputDir) -> bool {
    root.handle.as_ref().is_none_or(|handle| leads_to(&root.root, handle))
}

/// Whether a path leads to this directory.
pub fn leads_to(path: &Path, handle: &Dir) -> bool {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match (Dir::open(path).and_then(|dir| dir.identity()), handle.identity()) {
        (Ok(there), Ok(here)) => there == here,
        (Err(error), _) => {
            use io::ErrorKind::{NotADirectory, NotFound};
            // Any other error (no descriptor left, no memory) says nothing about the place.
            !matches!(error.kind(), NotFound | NotADirectory)
        }
        (_, Err(_)) => true,
    }
}

/// Whether the output takes some bytes for good.
fn takes_bytes(root: &Dir, parts: PartOwner) -> bool {
    let Ok((file, part)) = root.create_part(parts) else { return false };
    let written = sys::write_all(&file, &[0; 4096]).and_then(|()| sys::persist_file(&file)).is_ok();
    root.remove(&part).is_ok() && written
}

/// Whether not even an empty file can be made in the root of the output.
fn is_unusable(root: &Dir, parts: PartOwner) -> bool {
    match root.create_part(parts) {
        Ok((_, part)) => root.remove(&part).is_err(),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many files lie in bad places.
    #[test]
    fn an_output_that_takes_other_files_is_of_use() {
        let dir = tempfile::tempdir().unwrap();
        let root = OutputDir {
            handle: Some(Dir::open(dir.path()).unwrap()),
            ..OutputDir::absent(dir.path().into())
        };
        let mut health = Health::default();
        // ERROR_IO_DEVICE, EIO
        let bad = io::Error::from_raw_os_error(if cfg!(windows) { 1117 } else { 5 });
        assert!(sys::is_device_error(&bad));
        for _ in 0..10 * BAD_STREAK {
            assert!(!health.is_lost(&root, &bad));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
