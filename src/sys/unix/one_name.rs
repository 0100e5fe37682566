//! Names that are one name in a directory: asked of the file system, since each folds names by tables of its own.

use std::{ffi::OsStr, io, sync::Arc};

use crate::sys::part_name::PartOwner;
use crate::sys::unix::{dir::Dir, kind::*, volume::close_file};

impl Dir {
    /// The one of `others`, by its number, that is one name with `name` here. A file of that name is made in a
    /// directory of our own, which folds names as this one does.
    ///
    /// # Errors
    /// It cannot be tried.
    pub fn find_one_name(
        &self,
        owner: PartOwner,
        name: &OsStr,
        others: &[Arc<OsStr>],
    ) -> io::Result<Option<usize>> {
        self.in_trial_dir(owner, |trial| {
            close_file(trial.create_new(name, true)?)?;
            Ok(others.iter().position(|other| trial.stat(other, false).is_ok()))
        })
    }

    /// True if single directories of the file system may fold names where others do not (`chattr +F`).
    pub fn may_fold_by_directory(&self) -> bool {
        is_one_of(self, &[EXT, F2FS, TMPFS, BCACHEFS])
    }
}
