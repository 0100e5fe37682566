//! The health of an output: its use after errors on it.

use std::{ffi::OsStr, io, path::PathBuf, sync::Arc};

use crate::error::is_absent;
use crate::{
    io::AlignedBuffer, io::HashedFrom, sys, sys::ALIGNMENT, sys::Dir, sys::DirListing, sys::Medium,
    sys::PartOwner, transfer::FirstRead, tree::OutputDir, tree::SourceDir,
};

/// Number of failures in a row for want of room after which the output counts as full. A single one does not: a smaller
/// file may still fit.
const FULL_STREAK: u32 = 16;

/// … or this little left, in bytes: not even the directories of further files would fit.
const FULL_BYTES: u64 = 64 << 10;

/// At the first error of the device, and after so many more in a row, it is tried whether it takes anything at all.
const BAD_WRITES: u32 = 16;

/// Number of part files in a row that are not there any more, after which something counts as removing the output.
const GONE_STREAK: u32 = 16;

/// The facts about an output's health.
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
            let is_to_be_tried = self.bad_streak.is_multiple_of(BAD_WRITES);
            self.bad_streak += 1;
            return is_to_be_tried && !takes_bytes(root, output.volume.parts);
        }
        sys::is_output_gone(cause) && is_unusable(root, output.volume.parts)
    }
}

/// True if the output's path still leads to its root. Handles go on working after an unmount, so without this a run
/// could end well in a file system that no path leads to any more.
pub fn is_in_place(root: &OutputDir) -> bool {
    root.handle.as_ref().is_none_or(|handle| handle.is_at(&root.root))
}

/// True if the output takes some bytes for good.
fn takes_bytes(root: &Dir, parts: PartOwner) -> bool {
    let Ok((file, part)) = root.create_part(parts) else { return false };
    let written = sys::write_all(&file, &[0; 4096]).and_then(|()| sys::persist_file(&file)).is_ok();
    root.remove(&part).is_ok() && written
}

/// True if not even an empty file can be made in the root of the output.
fn is_unusable(root: &Dir, parts: PartOwner) -> bool {
    match root.create_part(parts) {
        Ok((_, part)) => root.remove(&part).is_err(),
        Err(_) => true,
    }
}

// The health of the source: whether it is still there after errors on it.
//
// One file that cannot be read is one file. A disk that was pulled out gives the same error for each of what is left,
// and a run that named them all one by one, and then finished a manifest, would look as if it had come to its end.
// What tells the two apart is what this run has read before: if that cannot be read either, nothing can.

/// At the first error of the device, and after so many more in a row, it is tried whether it gives anything at all.
const BAD_READS: u64 = 16;

/// The facts about a source's health.
#[derive(Debug)]
pub struct SourceHealth<'a> {
    root: Arc<SourceDir>,
    /// Where it was when the run began, without links, which may lead elsewhere by now; none if that is not known.
    place: Option<PathBuf>,
    /// A file that was read for any output of this run, as soon as there is one.
    read: Option<&'a FirstRead>,
    bad_streak: u64,
    /// True if the last trial told nothing.
    is_unclear: bool,
}

impl<'a> SourceHealth<'a> {
    pub fn new(root: Arc<SourceDir>, read: Option<&'a FirstRead>) -> Self {
        let place = root.root.canonicalize().ok();
        Self { root, place, read, bad_streak: 0, is_unclear: false }
    }

    /// True if it is where it was when the run began, as far as that can be told.
    pub fn is_in_place(&self) -> bool {
        let Some(place) = self.place.as_deref() else { return true };
        match place.canonicalize() {
            // A link in its place would lead to where it was moved.
            Ok(now) => now == place && self.root.handle.is_at(place),
            Err(error) => !is_absent(&error),
        }
    }

    /// True if its file system is still where it was, so that its disk was not pulled out.
    pub fn is_mounted(&self) -> bool {
        let device = |dir: &Dir| Some(dir.identity().ok()?.dev);
        let mut around = self.place.iter().flat_map(|place| place.ancestors());
        around.any(|dir| Dir::open(dir).is_ok_and(|it| device(&it) == device(&self.root.handle)))
    }

    pub fn root(&self) -> &SourceDir {
        &self.root
    }

    /// A file was read.
    pub fn good(&mut self) {
        (self.bad_streak, self.is_unclear) = (0, false);
    }

    /// Something could not be read for this reason; whether nothing of the source can be read any more.
    pub fn is_gone(&mut self, cause: &io::Error) -> bool {
        let is_bad = is_of_device(cause);
        if !is_bad && cause.kind() != io::ErrorKind::NotFound {
            return false;
        }
        if !self.root.handle.is_at(&self.root.root) {
            return true;
        }
        let is_to_be_tried =
            is_bad && (self.is_unclear || self.bad_streak.is_multiple_of(BAD_READS));
        self.bad_streak += u64::from(is_bad);
        if !is_to_be_tried {
            return false;
        }
        match self.gives_bytes() {
            // What memory gives says nothing of the device: the next error asks again.
            Ok(from) => self.is_unclear = from == Some(HashedFrom::Cache),
            Err(error) => return is_of_device(&error),
        }
        false
    }

    /// True if all of so many entries failed, none was read before, and that was no matter of a few files.
    pub fn was_never_there(&self, failed: u64) -> bool {
        self.read().is_none() && self.bad_streak == failed && failed >= BAD_READS
    }

    fn read(&self) -> Option<&'a (Arc<SourceDir>, Arc<OsStr>)> {
        self.read.and_then(FirstRead::get)
    }

    /// Reads from the device a little of what was read before, or lists the root, and says where a file was read from.
    fn gives_bytes(&self) -> io::Result<Option<HashedFrom>> {
        let Some((dir, name)) = self.read() else {
            let root = self.root.handle.open_dir(".".as_ref(), false)?;
            return DirListing::of(&root)?.next().transpose().map(|_| None);
        };
        let file = dir.handle.open_file(name, false)?;
        let mut medium = Medium::of(&file, &Dir::stat_file(&file)?)?;
        let mut room = AlignedBuffer::new(ALIGNMENT);
        medium.read(room.room())?;
        Ok(Some(if medium.finish() { HashedFrom::Device } else { HashedFrom::Cache }))
    }
}

fn is_of_device(cause: &io::Error) -> bool {
    sys::is_device_error(cause) || sys::is_output_gone(cause)
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
        for _ in 0..10 * BAD_WRITES {
            assert!(!health.is_lost(&root, &bad));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
