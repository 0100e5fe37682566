//! Subvolumes of btrfs: directories that are trees of their own, of which a snapshot costs nothing but its making.

use std::{ffi::OsStr, io, os::fd::AsFd, os::fd::AsRawFd, os::unix::ffi::OsStrExt};

use rustix::io::Errno;

use crate::{sys::unix::dir::Dir, sys::unix::system::place::Place, sys::unix::volume::is_on_btrfs};

// _IOW(0x94, …, struct btrfs_ioctl_vol_args) and _IOW(0x94, 23, struct btrfs_ioctl_vol_args_v2) (linux/btrfs.h).
const SUBVOL_CREATE: u32 = 0x5000_940e;
const SNAP_DESTROY: u32 = 0x5000_940f;
const SNAP_CREATE_V2: u32 = 0x5000_9417;

/// The number of a subvolume's root directory (`BTRFS_FIRST_FREE_OBJECTID`, linux/btrfs_tree.h).
const ROOT: u64 = 256;

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolArgs {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct VolArgs2 {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

impl Dir {
    /// Makes the directory `name`, for its owner only; on btrfs as a subvolume, of which there can be snapshots.
    pub fn make_tree(&self, name: &OsStr) -> io::Result<()> {
        let made = is_on_btrfs(self).then(|| {
            let args = VolArgs { fd: 0, name: field(name)? };
            self.order(SUBVOL_CREATE, &args)?;
            self.open_dir(name, false)?.close_to_others()
        });
        match made {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            _ => self.make_dir(name, true),
        }
    }

    /// Makes `name` a snapshot of `tree`, for its owner only; false where that cannot be, and then nothing was made.
    pub fn make_snapshot(&self, tree: &Dir, name: &OsStr) -> io::Result<bool> {
        if !tree.is_subvolume() {
            return Ok(false);
        }
        let (fd, name_field) = (tree.as_fd().as_raw_fd().into(), field(name)?);
        let args = VolArgs2 { fd, transid: 0, flags: 0, unused: [0; 4], name: name_field };
        if self.order(SNAP_CREATE_V2, &args).is_err() {
            return Ok(false);
        }
        let made = self.open_dir(name, false)?;
        // What it was taken of may be protected.
        made.unprotect();
        made.take_over().map(|()| true)
    }

    /// Removes the subvolume `name` with everything in it at once; false where that cannot be or may not be done, and
    /// where something is mounted in it: no message would name that.
    pub fn destroy_tree(&self, name: &OsStr) -> bool {
        let is_whole = |dir: &Dir| dir.is_subvolume() && !Place::has_mounts_below(dir);
        let is_one = || self.open_unmounted(name).is_ok_and(|dir| is_whole(&dir));
        let destroy = |name| self.order(SNAP_DESTROY, &VolArgs { fd: 0, name });
        is_one() && field(name).is_ok_and(|name| destroy(name).is_ok())
    }

    /// True if it is the root of a subvolume.
    pub fn is_subvolume(&self) -> bool {
        self.identity().is_ok_and(|id| id.ino == ROOT) && is_on_btrfs(self)
    }

    /// Orders something of the file system.
    fn order<T>(&self, order: u32, args: &T) -> io::Result<()> {
        // SAFETY: each of these calls reads the structure that belongs to it, and keeps no pointer.
        let failed = unsafe { libc::ioctl(self.as_fd().as_raw_fd(), order as _, args) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// A name with zeros behind it.
fn field<const N: usize>(name: &OsStr) -> io::Result<[u8; N]> {
    let (mut field, bytes) = ([0; N], name.as_bytes());
    // One zero must stay behind it.
    let room = field.get_mut(..bytes.len()).filter(|_| bytes.len() < N);
    room.ok_or(Errno::NAMETOOLONG)?.copy_from_slice(bytes);
    Ok(field)
}
