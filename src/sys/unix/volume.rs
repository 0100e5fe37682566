//! The abilities of a file system, and its errors when it cannot go on.

use std::{fs::File, io, os::fd::AsFd, os::fd::IntoRawFd};

use rustix::io::Errno;

use crate::sys::unix::{dir::Dir, kind::*, process::is_root, system, system::Place};
use crate::sys::{interrupted::uninterrupted, types::Extent, types::FreeSpace, types::UsedSpace};

/// The next data of a file of `size` bytes at or after `offset`; an extent at `size` without length
/// when only a hole is left. `None` where the file system keeps no such map.
pub fn next_extent(file: &File, offset: u64, size: u64) -> io::Result<Option<Extent>> {
    use rustix::{fs::SeekFrom, fs::seek};
    let seek = |to| {
        let found = uninterrupted(|| Ok(seek(file, to)?));
        found.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let start = match seek(SeekFrom::Data(offset)) {
        Ok(start) => start.min(size),
        // No data at or after the offset (lseek(2)).
        Err(Errno::NXIO) => return Ok(Some(Extent { start: size, end: size })),
        Err(Errno::INVAL | Errno::NOTTY) => return Ok(None),
        Err(error) if is_unsupported(error) => return Ok(None),
        Err(other) => return Err(other.into()),
    };
    let end = match seek(SeekFrom::Hole(start)) {
        Ok(end) => end.min(size),
        Err(Errno::NXIO) => size,
        Err(other) => return Err(other.into()),
    };
    Ok(Some(Extent { start, end }))
}

/// From now on, what is skipped while writing `file` takes no room: here it never does.
pub fn allow_holes(_: &File) {}

/// Waits until a file's content and metadata are on the device. An error is final: the kernel marks
/// the pages clean, so a second call would lie.
pub fn persist_file(file: &File) -> io::Result<()> {
    Ok(system::fsync(file)?)
}

/// Closes a file and says what the file system has to say at the last moment: network file systems
/// report failed writes only here (close(2)).
pub fn close_file(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is open and `into_raw_fd` made it ours alone.
    match unsafe { rustix::io::try_close(file.into_raw_fd()) } {
        // On Linux the descriptor is closed by then, and nothing is known to be wrong.
        Err(Errno::INTR) => Ok(()),
        closed => Ok(closed?),
    }
}

/// Asks for what [`close_file`] would be told, and leaves the file open.
pub fn flush_file(file: &File) -> io::Result<()> {
    close_file(file.try_clone()?)
}

/// With so much free, btrfs has room enough for files that are not written out yet; bytes. For each it sets
/// hundreds of KiB of metadata aside, of an eighth of what is free, and when these run out, a thread that makes a
/// file waits, doing nothing, until others are written out.
///
/// 50,000 files of 4 KiB onto btrfs of 0.9, 2, 4, 5, 8 and 16 GiB in memory, `--no-sync`, two cores, seconds
/// (1 to 3 rounds). Each file written out as soon as it is complete: 2.5, 2.0, 2.5, 2.2, 2.4, 2.3; when the
/// kernel likes: 11.3, 2.9, 2.7, 2.0, 2.0, 1.9; `cp -r`: 5.8, 2.3, 2.0, 1.7, 1.7, 1.5.
const AMPLE: u64 = 4 << 30;

/// True if `dir` is on btrfs.
pub fn is_on_btrfs(dir: &Dir) -> bool {
    is_one_of(dir, &[BTRFS])
}

impl Dir {
    /// True if many small files can be made here side by side. On btrfs, where all directories are in one tree, threads
    /// that make them wait for each other: 50,000 of 4 KiB took one worker 1.91 s, two 1.87 s and eight
    /// 2.07 s, on two cores, with ample room, and 3.0, 2.5 and 3.9 s with less than 1 GiB.
    pub fn takes_many_at_once(&self) -> bool {
        !is_on_btrfs(self)
    }

    /// True if files that are not written out yet take room here that may run short, so that small ones are better
    /// written out one by one.
    pub fn is_short_of_room_for_unwritten(&self) -> bool {
        let is_short = |fs: rustix::fs::StatVfs| fs.f_bavail.saturating_mul(fs.f_frsize) < AMPLE;
        is_on_btrfs(self) && rustix::fs::fstatvfs(&self.0).is_ok_and(is_short)
    }

    /// The largest file that this directory's file system can hold, if that is known to be less than disks are
    /// large; bytes. `pathconf` knows no better: glibc answers 32 bits for every file system that it does not know.
    pub fn largest_file(&self) -> Option<u64> {
        // FAT of every kind: a size has 32 bits there.
        is_one_of(self, &[FAT]).then_some(u32::MAX.into())
    }

    /// True if the file system may be one that shows all directories with the same permissions.
    pub fn may_lack_permissions(&self) -> bool {
        is_one_of(self, &[FAT, EXFAT, NTFS, NTFS3, FUSE, SMB, CIFS, SMB2, NINE_P])
    }

    /// True if the kernel's FAT or exFAT is here.
    pub fn is_fat(&self) -> bool {
        is_one_of(self, &[FAT, EXFAT])
    }
}

/// True if a server in user space answers for this entry, and the kernel passes its answers on.
pub(super) fn is_on_fuse(at: impl AsFd) -> bool {
    is_one_of(at, &[FUSE])
}

/// True if the file system `at` lies on is of a kind that may have one owner, or one mode, for all its entries.
pub fn may_lack_owners(at: impl AsFd) -> bool {
    // An NFS server may give all to one user.
    const KINDS: [u32; 13] =
        [APFS, FAT, EXFAT, NTFS, NTFS3, HFS, HFSPLUS, FUSE, NFS, SMB, CIFS, SMB2, NINE_P];
    fs_kind(at).is_none_or(|kind| KINDS.contains(&kind))
}

/// Number of blocks that are counted as free and that nobody gets, not even root: ext4 keeps a fiftieth of all for its
/// own lists, 4,096 at most. Together with what is kept for root they are what others do not get.
fn kept_from_all(at: impl AsFd, volume: &rustix::fs::StatVfs) -> u64 {
    const MOST: u64 = 4096;
    match is_one_of(at, &[EXT]) {
        true => {
            let kept = volume.f_bfree.saturating_sub(volume.f_bavail);
            kept.min(MOST).min(volume.f_blocks.div_ceil(50))
        }
        false => 0,
    }
}

/// The free space of the file system that `at` lies on; an error where it does not tell.
pub fn room(at: impl AsFd) -> io::Result<FreeSpace> {
    let at = at.as_fd();
    let volume = rustix::fs::fstatvfs(at)?;
    // FUSE and network file systems that have no answer say that all numbers are 0.
    if volume.f_blocks == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // Some of it may be kept for root.
    let (blocks, files) = match is_root() {
        true => (volume.f_bfree.saturating_sub(kept_from_all(at, &volume)), volume.f_ffree),
        false => (volume.f_bavail, volume.f_favail),
    };
    Ok(FreeSpace {
        bytes: blocks.saturating_mul(volume.f_frsize),
        block: volume.f_frsize,
        // File systems that make inodes as they need them (btrfs, vfat) say 0 of 0, and some servers of FUSE say
        // that none is free of a number that means nothing (rclone: of 1,000,000,000).
        files: (volume.f_files > 0 && (files > 0 || !is_on_fuse(at))).then_some(files),
    })
}

/// The longest name that the file system `at` lies on can hold, as far as it tells; bytes.
pub fn longest_name(at: impl AsFd) -> Option<usize> {
    let told = rustix::fs::fstatvfs(at).ok()?.f_namemax;
    usize::try_from(told).ok().filter(|longest| *longest > 0)
}

/// True if anything is mounted below `dir`; where the system does not tell, it may be.
pub fn has_mounts_below(dir: &Dir) -> bool {
    Place::has_mounts_below(dir)
}

/// The most that all files below `dir` may take: what is in use on its file system, provided that
/// nothing else is mounted below and that a copy takes no more than the file did. Names of one file
/// that become files of their own may take more.
pub fn most_below(dir: &Dir) -> Option<UsedSpace> {
    // They neither pack files nor share blocks among them, bar the clones of xfs.
    if !is_one_of(dir, &[EXT, XFS, F2FS, TMPFS]) || Place::has_mounts_below(dir) {
        return None;
    }
    let volume = rustix::fs::fstatvfs(&dir.0).ok()?;
    Some(UsedSpace {
        bytes: volume.f_blocks.checked_sub(volume.f_bfree)?.checked_mul(volume.f_frsize)?,
        files: volume.f_files.checked_sub(volume.f_ffree)?,
    })
}

/// True if this file system's files end where their stated sizes say. FUSE and network file systems state what they
/// know, and may have more to give; so may a system that is not known.
pub fn has_exact_sizes(file: impl AsFd) -> bool {
    const EXACT: [u32; 14] = [
        EXT, XFS, BTRFS, F2FS, TMPFS, RAMFS, ZFS, FAT, EXFAT, NTFS3, ISO9660, UDF, SQUASHFS,
        BCACHEFS,
    ];
    is_one_of(file, &EXACT)
}

/// True if a file or directory belongs to a file system that makes its content up when it is read, so that the size it
/// states means nothing.
pub fn is_synthetic(file: impl AsFd) -> bool {
    // proc, sysfs, debugfs, tracefs, securityfs, cgroup, cgroup2, bpf, configfs, efivarfs, pstore.
    const SYNTHETIC: [u32; 11] = [
        0x9fa0,
        0x6265_6572,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x0027_e0eb,
        0x6367_7270,
        0xcafe_4a11,
        0x6265_6570,
        0xde5e_81e4,
        0x6165_676c,
    ];
    is_one_of(file, &SYNTHETIC)
}

/// True if an error says that this is not to be had here: Linux has one number for that, macOS two.
pub(super) fn is_unsupported(error: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS].contains(&error)
}

/// True if the error says that there is no room left (or no quota).
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}

/// True if the error says nothing about the medium: this process has no descriptor or memory left, or is not allowed
/// to.
pub fn is_for_want_of_means(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::ACCESS | Errno::PERM)
    )
}

/// True if the error says that the device did not do what it was told.
pub fn is_device_error(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// True if the error says that the whole file system is of no use any more: made read-only, unplugged, shut down,
/// disconnected.
pub fn is_output_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::ROFS
                | Errno::NODEV
                | Errno::NXIO
                | Errno::NOTCONN
                | Errno::STALE
                | Errno::SHUTDOWN
                | Errno::CONNABORTED
                | Errno::HOSTDOWN
        )
    )
}
