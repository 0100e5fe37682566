//! What Linux alone does for a file system as a whole: everything that waits is written out by one call, and room is
//! set aside.

use std::{fs::File, io, sync::OnceLock};

use rustix::io::Errno;

use crate::sys::{
    interrupted::uninterrupted, unix::dir::Dir, unix::kind::*, unix::volume::is_disk_full,
};

use super::process::kernel_at_least;

impl Dir {
    /// True if [`persist_all`](Self::persist_all) can be relied on here: a local file system whose `syncfs` waits for
    /// data and metadata, and a kernel that reports its errors: those of data since Linux 5.8 (syncfs(2)), those of a
    /// failed journal or log, which `->sync_fs` gives, since 5.17 (5679897eb104, 2d86293c7075). Some older kernels have
    /// one of these changes and not the other, which their number does not tell. Overlays, network file systems and
    /// FUSE swallow errors there.
    pub fn can_persist_all(&self) -> bool {
        is_one_of(self, &[EXT, XFS, BTRFS, F2FS, TMPFS, RAMFS])
            && kernel_at_least(5, 17)
            && has_syncfs()
    }

    /// Waits until everything written to this directory's file system is on the device.
    pub fn persist_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// True if this process may call `syncfs`, asked once: filters of system calls, in containers, refuse calls by number,
/// before they look at anything else.
fn has_syncfs() -> bool {
    static IS_ALLOWED: OnceLock<bool> = OnceLock::new();
    *IS_ALLOWED.get_or_init(|| {
        // SAFETY: a number that is no descriptor; nothing is written anywhere.
        let failed = unsafe { libc::syncfs(-1) } == -1;
        let error = io::Error::last_os_error().raw_os_error();
        !(failed && matches!(error, Some(libc::ENOSYS | libc::EPERM)))
    })
}

/// Sets room aside for `len` bytes of the empty file `file`, which stays empty, where that keeps it in
/// one piece: on ext4 and xfs, which choose the place for each part of a file when it is written out.
/// Elsewhere it is of no use (tmpfs would fill it with zeros, btrfs would no longer compress it).
///
/// # Errors
/// There is not that much room.
pub fn reserve(file: &File, len: u64) -> io::Result<()> {
    use rustix::{fs::FallocateFlags, fs::fallocate};
    // ext2 and ext3 cannot.
    if !is_one_of(file, &[EXT, XFS]) {
        return Ok(());
    }
    match uninterrupted(|| Ok(fallocate(file, FallocateFlags::KEEP_SIZE, 0, len)?)) {
        Err(full) if is_disk_full(&full) || Errno::from_io_error(&full) == Some(Errno::FBIG) => {
            Err(full)
        }
        // Not here, or nothing that writing would not tell too.
        _ => Ok(()),
    }
}
