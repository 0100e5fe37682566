//! The worth of a sync: who said that everything is kept, when `fsync` came back without an error.
//!
//! `fsync` says yes for a device that was told to flush, for a server that promised, and for a file system that has
//! nothing to ask. Which of these it was is nowhere in its answer, so it is found out from the file system, the options
//! it is mounted with, and what it lies on. What cannot be found out is unknown, and never counts as the device.

use std::{
    fs, os::fd::AsRawFd, os::unix::ffi::OsStrExt, os::unix::fs::FileTypeExt,
    os::unix::fs::MetadataExt, path::Path, path::PathBuf,
};

use crate::{
    sys::types::Durable, sys::unix::dir::Dir, sys::unix::kind::*,
    sys::unix::system::place::MountLine, sys::unix::system::place::Place,
    sys::unix::system::place::btrfs_of, sys::unix::system::place::paths_in,
};

pub use rustix::fs::{fdatasync, fsync};

const IN_MEMORY: Durable = Durable::IN_MEMORY;
const NO_TABLE: Durable = Durable::Unknown("the table of mounts does not show its file system");
const NO_DEVICE: Durable = Durable::Unknown("its device cannot be seen from here");
const NO_LAYER: Durable =
    Durable::Unknown("the upper directory of its overlay cannot be seen from here");
const VOLATILE: Durable = Durable::Unknown("its overlay is mounted volatile, and syncs nothing");
// fuse_fsync() in fs/fuse/file.c: once a server has answered ENOSYS, the kernel says 0 by itself, for ever.
const OF_FUSE: Durable = Durable::Unknown(
    "whether a FUSE file system can sync is not told: without it, every sync succeeds",
);
const NOT_KNOWN: Durable = Durable::Unknown("it is not known of its file system");

/// Options with which a file system tells its device nothing, or its server. Each is shown in the table of mounts
/// where it is in force: ext4, btrfs, f2fs, nilfs2 and old xfs; f2fs; cifs.
const FORGETFUL: [(&[u8], Durable); 4] = [
    (
        b"nobarrier",
        Durable::Unknown("it is mounted with nobarrier: its device is not told to flush"),
    ),
    (
        b"barrier=0",
        Durable::Unknown("it is mounted with barrier=0: its device is not told to flush"),
    ),
    (
        b"fsync_mode=nobarrier",
        Durable::Unknown(
            "it is mounted with fsync_mode=nobarrier: its device is not told to flush",
        ),
    ),
    (
        b"nostrictsync",
        Durable::Unknown("it is mounted with nostrictsync: its server is not told to flush"),
    ),
];

// Those whose sync waits for the device, by their sources. Not among them: hfs, jfs (which flush nothing), zfs
// (`sync=disabled` is not shown).
const LOCAL: [u32; 9] = [EXT, XFS, BTRFS, F2FS, FAT, EXFAT, NTFS3, UDF, NILFS2];
const SERVERS: [u32; 10] = [NFS, SMB, CIFS, SMB2, CEPH, NINE_P, OPENAFS, AFS, CODA, LUSTRE];

/// Images in images, and overlays over overlays, are followed so far.
const DEEPEST: u32 = 8;

/// The worth of a sync of what is in `dir` alone, whatever is mounted below it.
pub fn durable_here(dir: &Dir) -> Durable {
    of(dir, DEEPEST)
}

/// The worth of a sync of what is in `dir`, and in whatever is mounted below it: the least of all of these, whoever
/// keeps `dir` itself.
pub fn durable(dir: &Dir) -> Durable {
    let own = of(dir, DEEPEST);
    if matches!(own, Durable::Unknown(_)) {
        return own;
    }
    let Some(points) = Place::mounts_below(dir) else { return NO_TABLE };
    let mounted = points.iter().map(|point| at(point, DEEPEST));
    least([own].into_iter().chain(mounted))
}

fn at(path: &Path, deepest: u32) -> Durable {
    Dir::open(path).map_or(NO_DEVICE, |dir| of(&dir, deepest))
}

/// The first of these that is not the device; the device if all are.
fn least(all: impl IntoIterator<Item = Durable>) -> Durable {
    let mut least = Durable::Device;
    for one in all {
        match (least, one) {
            (_, Durable::Unknown(_)) => return one,
            (Durable::Device, _) => least = one,
            _ => {}
        }
    }
    least
}

fn of(dir: &Dir, deepest: u32) -> Durable {
    let Some(left) = deepest.checked_sub(1) else { return NOT_KNOWN };
    let Some(kind) = fs_kind(dir) else { return NOT_KNOWN };
    match kind {
        FUSE => return OF_FUSE,
        TMPFS | RAMFS => return IN_MEMORY,
        OVERLAY | BTRFS => {}
        _ if SERVERS.contains(&kind) || LOCAL.contains(&kind) => {}
        _ => return NOT_KNOWN,
    }
    let Ok(Some(mount)) = MountLine::of(dir) else { return NO_TABLE };
    let is_given = |option: &[u8]| mount.options().any(|given| given == option);
    if let Some((_, why)) = FORGETFUL.iter().find(|(option, _)| is_given(option)) {
        return *why;
    }
    match kind {
        OVERLAY if is_given(b"volatile") || is_given(b"fsync=volatile") => VOLATILE,
        OVERLAY => upper(&mount).map_or(NO_LAYER, |upper| of(&upper, left)),
        _ if SERVERS.contains(&kind) => Durable::Server,
        BTRFS => of_btrfs(&mount.source, left),
        _ => of_device(&String::from_utf8_lossy(&mount.device), left),
    }
}

/// The directory in which an overlay keeps what is written. In a container the path may be that of something else,
/// so it must have the overlay's own times and owner.
pub(super) fn upper(mount: &MountLine) -> Option<Dir> {
    let path = unescaped(&mount.option_path(b"upperdir=")?);
    let below = mount.root.strip_prefix("/").ok()?;
    let path = if below.as_os_str().is_empty() { path } else { path.join(below) };
    if !path.is_absolute() {
        return None;
    }
    let upper = Dir::open(&path).ok()?;
    let (shown, kept) = (fs::metadata(&mount.point).ok()?, rustix::fs::fstat(&upper.0).ok()?);
    let is_same = shown.uid() == kept.st_uid
        && (shown.ctime(), shown.ctime_nsec()) == (kept.st_ctime, kept.st_ctime_nsec as i64)
        && (shown.mtime(), shown.mtime_nsec()) == (kept.st_mtime, kept.st_mtime_nsec as i64);
    is_same.then_some(upper)
}

/// The path of a layer, which an overlay shows as it was given, with backslashes before commas (ovl_unescape() in
/// fs/overlayfs/params.c).
fn unescaped(given: &Path) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), given.as_os_str().as_bytes());
    while let [first, tail @ ..] = rest {
        (rest, _) = match (first, tail) {
            (b'\\', [next, tail @ ..]) => (tail, bytes.push(*next)),
            _ => (tail, bytes.push(*first)),
        };
    }
    std::ffi::OsStr::from_bytes(&bytes).into()
}

/// A file system on several devices is worth what the least of them is.
fn of_btrfs(source: &Path, left: u32) -> Durable {
    let devices = btrfs_of(source).and_then(|it| paths_in(&it.join("devices")));
    let Some(devices) = devices else { return NO_DEVICE };
    least(devices.iter().map(|device| of_block(device, left)))
}

/// … of the device with these numbers, as `8:1`.
fn of_device(numbers: &str, left: u32) -> Durable {
    of_block(&Path::new("/sys/dev/block").join(numbers), left)
}

/// … of a device by its directory in /sys. Devices that are made of others are worth what these are.
fn of_block(at: &Path, left: u32) -> Durable {
    let Some(left) = left.checked_sub(1) else { return NOT_KNOWN };
    let Ok(mut at) = at.canonicalize() else { return NO_DEVICE };
    if at.join("partition").exists() {
        at.pop();
    }
    let name = at.file_name().map_or(&b""[..], |name| name.as_bytes());
    let is_one_of = |names: &[&[u8]]| {
        let is_number = |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit);
        names.iter().any(|one| name.strip_prefix(*one).is_some_and(is_number))
    };
    match () {
        () if is_one_of(&[b"ram", b"zram"]) => IN_MEMORY,
        () if is_one_of(&[b"nbd", b"rbd"]) => Durable::Server,
        () if is_one_of(&[b"loop"]) => of_image(&at, left),
        () => match paths_in(&at.join("slaves")) {
            Some(below) => least(below.iter().map(|device| of_block(device, left))),
            None => NO_DEVICE,
        },
    }
}

/// … of a file, or a device, that the loop device at `loop_device` in /sys shows as a device. What has its path now
/// may be another file, which something was mounted over since: it counts only if it has the numbers that the
/// device itself tells.
fn of_image(loop_device: &Path, left: u32) -> Durable {
    let Some(image) = LoopImage::of(loop_device) else { return NO_DEVICE };
    let Ok(text) = fs::read(loop_device.join("loop/backing_file")) else { return NO_DEVICE };
    let path = Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii_end()));
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return NO_DEVICE };
    let Ok(above) = Dir::open(above) else { return NO_DEVICE };
    match rustix::fs::statat(&above.0, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) if (there.st_dev, there.st_ino) != (image.device, image.inode) => NO_DEVICE,
        Ok(there) => match rustix::fs::FileType::from_raw_mode(there.st_mode) {
            rustix::fs::FileType::BlockDevice => {
                let numbers = there.st_rdev;
                let (major, minor) = (rustix::fs::major(numbers), rustix::fs::minor(numbers));
                of_device(&format!("{major}:{minor}"), left)
            }
            rustix::fs::FileType::RegularFile => of(&above, left),
            _ => NO_DEVICE,
        },
        Err(_) => NO_DEVICE,
    }
}

/// The file behind a loop device, as the device itself tells it: `struct loop_info64` of linux/loop.h.
#[repr(C)]
pub(super) struct LoopImage {
    pub device: u64,
    inode: u64,
    _rest: [u64; 27],
}

impl LoopImage {
    /// `LOOP_GET_STATUS64` in linux/loop.h.
    const GET_STATUS: u32 = 0x4c05;

    /// The one behind the loop device that is at `at` in /sys. `None` where this user may not ask the device.
    pub fn of(at: &Path) -> Option<Self> {
        let node = fs::File::open(Path::new("/dev").join(at.file_name()?)).ok()?;
        let there = node.metadata().ok()?;
        let numbers =
            format!("{}:{}", rustix::fs::major(there.rdev()), rustix::fs::minor(there.rdev()));
        let is_it = fs::read_to_string(at.join("dev")).is_ok_and(|dev| dev.trim() == numbers);
        if !is_it || !there.file_type().is_block_device() {
            return None;
        }
        let mut image = Self { device: 0, inode: 0, _rest: [0; 27] };
        // SAFETY: an open descriptor, and room for the structure, which has 232 bytes.
        let asked = unsafe { libc::ioctl(node.as_raw_fd(), Self::GET_STATUS as _, &raw mut image) };
        (asked == 0).then_some(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_counts() {
        use Durable::{Device, Server};
        assert_eq!(least([]), Device);
        assert_eq!(least([Device, Server, Device]), Server);
        assert_eq!(least([Device, Server, IN_MEMORY, OF_FUSE]), IN_MEMORY);
    }

    #[test]
    fn a_layer_is_unescaped() {
        assert_eq!(unescaped(Path::new(r"/a\, b\\c\")), Path::new(r"/a, b\c\"));
    }

    #[test]
    fn nothing_is_known_of_a_device_that_is_not_there() {
        assert_eq!(of_device("0:0", DEEPEST), NO_DEVICE);
        assert_eq!(at(Path::new("/proc"), DEEPEST), NOT_KNOWN);
    }
}
