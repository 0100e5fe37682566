//! Making what only Linux can make, or tell apart from what takes its name: files without a name, FIFOs, sockets and
//! devices, and subvolumes.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::{ffi::OsStr, fs::File, io, os::unix::ffi::OsStrExt};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::sys::unix::dir::{Dir, PRIVATE, times_of};
use crate::sys::unix::process::{acting_as, is_root, patiently};
use crate::{
    sys::Attributes, sys::dir::Special, sys::part_name::PartOwner, sys::part_name::under_part_name,
    sys::stat::Stat, sys::unix::system::place::Place, sys::unix::volume::is_on_btrfs,
};

use super::{unopened, xattr, xattr::ACCESS_LIST};

// Files without a name, which nobody sees before they are complete.

impl Dir {
    /// Makes a new, empty file without a name, of these permissions but for those that the umask or a
    /// default ACL takes away; `None` where the file system has no such files.
    pub fn create_nameless(&self, mode: u32) -> io::Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode as _);
        let make = || patiently(|| rustix::fs::openat(&self.0, ".", flags, mode));
        match self.with_room(make) {
            // Old kernels and file systems without (open(2)).
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => Ok(None),
            opened => Ok(Some(File::from(opened?))),
        }
    }

    /// The permissions that a file without a name can have from the start here, and in directories
    /// made here; none where that cannot be told. A file born with its final ones need not be given
    /// them: a fourteenth of the time that 4 KiB take on tmpfs.
    pub fn modes_at_birth(&self) -> u32 {
        let stat = self.create_nameless(0o777).ok().flatten().map(|file| Self::stat_file(&file));
        stat.and_then(Result::ok).map_or(0, |stat| stat.mode & 0o777)
    }

    /// Gives a file without a name its final one; an entry that is there already is an error
    /// (`AlreadyExists`) and stays.
    pub fn publish_nameless(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let link = || rustix::fs::linkat(file, "", &self.0, name, AtFlags::EMPTY_PATH);
        Ok(self.with_room(link)?)
    }

    /// Does once more what found no room, when all that waits to be written has been. For data that waits, xfs sets
    /// aside many times what it takes in the end, and only `open` with a name and `write` write it out before they
    /// give up, not what concerns files without a name (fs/xfs/xfs_inode.c): of 50,000 files of 4 KiB 37,000 fitted
    /// into 900 MiB.
    fn with_room<T>(&self, deed: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match deed() {
            Err(Errno::NOSPC) => {
                // What could not be written is told once, so it must not be passed over here.
                rustix::fs::syncfs(&self.0)?;
                deed()
            }
            done => done,
        }
    }

    /// True if files without a name can be made and published here: before Linux 6.10 the latter is for root only
    /// (linkat(2), `AT_EMPTY_PATH`).
    pub fn can_publish_nameless(&self, owner: PartOwner) -> bool {
        let Ok(Some(file)) = self.create_nameless(PRIVATE) else { return false };
        under_part_name(owner, |name| self.publish_nameless(&file, name))
            .is_ok_and(|((), name)| self.remove(&name).is_ok())
    }
}

// FIFOs, sockets and devices: what they are, making them, and their labels.

impl Dir {
    /// What the FIFO, socket or device `name` is.
    pub fn special(&self, name: &OsStr) -> io::Result<Special> {
        let stat = rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(special_of(&stat))
    }

    /// Makes one, for its owner only; an error if `name` exists.
    pub fn make_special(&self, special: Special, name: &OsStr) -> io::Result<()> {
        let mode = Mode::RUSR | Mode::WUSR;
        let format = FileType::from_raw_mode(special.format as _);
        Ok(rustix::fs::mknodat(self, name, format, mode, special.device as _)?)
    }

    /// Gives the one of this name, which this process has made, owner (as root), permissions and times.
    ///
    /// # Errors
    /// The system's, and that something else has taken its name: see [`Self::set_link_metadata`].
    pub fn set_special_metadata(
        &self,
        special: Special,
        name: &OsStr,
        stat: &Stat,
        attributes: &Attributes,
    ) -> io::Result<()> {
        let made = unopened::open(self, name)?;
        let there = rustix::fs::fstat(&made)?;
        let is_ours = !is_root() || there.st_uid == acting_as().0;
        if special_of(&there) != special || there.st_nlink != 1 || !is_ours {
            return Err(io::Error::other("something else has taken its name"));
        }
        let mut mode = stat.mode;
        if is_root() {
            unopened::set_owner(&made, stat)?;
        } else {
            mode = attributes.mode_of_another(stat, there.st_gid);
        }
        // What was opened as a path is changed by the path under which the kernel shows it.
        let path = unopened::path_of(&made);
        // Its directory may have given it a list, which its own permissions would make count.
        shed_list(&made)?;
        for (name, value) in &attributes.0 {
            unopened::set(&made, name, value)?;
        }
        rustix::fs::chmod(&*path, Mode::from_raw_mode(mode as _))?;
        Ok(rustix::fs::utimensat(rustix::fs::CWD, &*path, &times_of(stat), AtFlags::empty())?)
    }
}

/// Takes its access list from it, if it has one.
fn shed_list(of: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::removexattr(unopened::path_of(of), ACCESS_LIST) {
        Err(error) if error == xattr::NONE || error == Errno::OPNOTSUPP => Ok(()),
        removed => removed,
    }
}

fn special_of(stat: &rustix::fs::Stat) -> Special {
    let format = FileType::from_raw_mode(stat.st_mode).as_raw_mode();
    Special { format, device: stat.st_rdev }
}

// Subvolumes of btrfs: directories that are trees of their own, of which a snapshot costs nothing but its making.

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
