//! Whether the source is still there after errors on it.
//!
//! One file that cannot be read is one file. A disk that was pulled out gives the same error for each of what is left,
//! and a run that named them all one by one, and then finished a manifest, would look as if it had come to its end.
//! What tells the two apart is what this run has read before: if that cannot be read either, nothing can.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use crate::copy::commit::output_health::leads_to;
use crate::hash::Algorithm;
use crate::io::read_back::ReadBack;
use crate::sys::{self, Dir, DirListing, Medium};
use crate::transfer::context::FirstRead;
use crate::tree::dirs::SourceDir;

/// At the first error of the device, and after so many more in a row, it is tried whether it gives anything at all.
const BAD_STREAK: u64 = 16;

/// What is known of a source's health.
#[derive(Debug)]
pub struct SourceHealth<'a> {
    root: Arc<SourceDir>,
    /// A file that this run read, as soon as there is one.
    read: Option<&'a FirstRead>,
    bad_streak: u64,
}

impl<'a> SourceHealth<'a> {
    pub fn new(root: Arc<SourceDir>, read: Option<&'a FirstRead>) -> Self {
        Self { root, read, bad_streak: 0 }
    }

    pub fn root(&self) -> &SourceDir {
        &self.root
    }

    /// A file was read.
    pub fn good(&mut self) {
        self.bad_streak = 0;
    }

    /// Something could not be read for this reason; whether nothing of the source can be read any more.
    pub fn is_gone(&mut self, cause: &io::Error) -> bool {
        let is_bad = is_of_device(cause);
        if !is_bad && cause.kind() != io::ErrorKind::NotFound {
            return false;
        }
        if !leads_to(&self.root.root, &self.root.handle) {
            return true;
        }
        let is_to_be_tried = is_bad && self.bad_streak.is_multiple_of(BAD_STREAK);
        self.bad_streak += u64::from(is_bad);
        is_to_be_tried && self.gives_bytes().is_err_and(|error| is_of_device(&error))
    }

    /// Whether all of so many entries failed, none was read before, and that was no matter of a few files.
    pub fn was_never_there(&self, failed: u64) -> bool {
        self.read().is_none() && self.bad_streak == failed && failed >= BAD_STREAK
    }

    fn read(&self) -> Option<&'a (Arc<SourceDir>, Arc<OsStr>)> {
        self.read.and_then(FirstRead::get)
    }

    /// Reads from the device a little of what was read before.
    fn gives_bytes(&self) -> io::Result<()> {
        let Some((dir, name)) = self.read() else {
            let root = self.root.handle.open_dir(".".as_ref(), false)?;
            return DirListing::of(&root)?.next().transpose().map(drop);
        };
        let file = dir.handle.open_file(name, false)?;
        let medium = Medium::of(&file, &Dir::stat_file(&file)?)?;
        let is_read = std::cell::Cell::new(false);
        let told = |_| is_read.set(true);
        ReadBack::new().hash(medium, Algorithm::Xxh3, || is_read.get(), told).map(drop)
    }
}

fn is_of_device(cause: &io::Error) -> bool {
    sys::is_device_error(cause) || sys::is_output_gone(cause)
}
