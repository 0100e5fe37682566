//! Names that are one name in a directory: asked of the file system, since each folds names by tables of its own.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use crate::sys::part_name::PartOwner;
use crate::sys::unix::dir::Dir;
use crate::sys::unix::volume::close_file;

impl Dir {
    /// Which of `others` is one name with `name` here, by its number. A file of that name is made in a directory of our
    /// own, which folds names as this one does.
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

    /// Whether single directories of the file system may fold names where others do not (`chattr +F`).
    pub fn may_fold_by_directory(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            // Those of linux/magic.h that have such directories.
            const FOLDING: [u32; 4] = [
                0xef53,      // ext4
                0xf2f5_2010, // f2fs
                0x0102_1994, // tmpfs
                0xca45_1a4e, // bcachefs
            ];
            rustix::fs::fstatfs(self).is_ok_and(|fs| FOLDING.contains(&(fs.f_type as u32)))
        }
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Whether this directory is one that folds names.
    pub fn folds_by_itself(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            // FS_CASEFOLD_FL in linux/fs.h.
            const CASEFOLD: u32 = 0x4000_0000;
            rustix::fs::ioctl_getflags(self).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
        }
        #[cfg(not(target_os = "linux"))]
        false
    }
}
