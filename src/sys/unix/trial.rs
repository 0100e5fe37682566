//! What a file system makes of an entry, found out by a trial: no call asks it.

use std::fs::File;
use std::io;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use crate::sys::unix::dir::Dir;

impl Dir {
    /// Whether owner and times of a symbolic link here can be set without changing what it points to.
    ///
    /// The kernel never follows the link, but a server may: SFTP has no call that does not follow
    /// (draft-ietf-secsh-filexfer-02, section 6.9), so sshfs changes the target, wherever that is. Tried
    /// with a file of our own, on FUSE only; what cannot be tried counts as no.
    pub fn labels_links(&self) -> bool {
        !self.is_on_fuse() || self.tries_a_link().unwrap_or(false)
    }

    fn is_on_fuse(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            // FUSE_SUPER_MAGIC in linux/magic.h.
            rustix::fs::fstatfs(self).is_ok_and(|fs| fs.f_type as u32 == 0x6573_5546)
        }
        #[cfg(not(target_os = "linux"))]
        {
            false
        }
    }

    fn tries_a_link(&self) -> io::Result<bool> {
        let (file, target) = self.create_part()?;
        let tried = self.create_part_link(&target).and_then(|link| {
            let untouched = self.is_untouched_through(&link, &file);
            self.remove(&link)?;
            untouched
        });
        self.remove(&target)?;
        tried
    }

    /// Whether `file` keeps its time when that of the link to it is set.
    fn is_untouched_through(&self, link: &std::ffi::OsStr, file: &File) -> io::Result<bool> {
        let at = |tv_sec| Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            last_modification: Timespec { tv_sec, tv_nsec: 0 },
        };
        let (before, set) = (1_000_000_000, 1_200_000_000);
        rustix::fs::futimens(file, &at(before))?;
        rustix::fs::utimensat(self, link, &at(set), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Dir::stat_file(file)?.mtime.secs != set)
    }
}
