//! What lies below a directory: its disks, whether they were away, and what Linux alone does for a file system as a
//! whole.

use std::{
    collections::BTreeSet, fs, fs::File, io, os::unix::ffi::OsStrExt, path::Path, path::PathBuf,
    sync::OnceLock,
};

use rustix::io::Errno;

use crate::sys::unix::kind::{BTRFS, OVERLAY, ZFS, fs_kind, *};
use crate::sys::unix::system::durable::{LoopImage, durable, upper};
use crate::{
    sys::ANY_DISK, sys::interrupted::uninterrupted, sys::types::Durable, sys::types::PluggedIn,
    sys::unix::dir::Dir, sys::unix::system::place::MountLine, sys::unix::system::place::btrfs_of,
    sys::unix::system::place::paths_in, sys::unix::volume::is_disk_full, sys::unix::volume::room,
};

use super::process::kernel_at_least;

/// Images in images, and overlays over overlays, are followed so far.
const DEEPEST: u32 = 8;

/// True if the disks below file systems are known.
pub const KNOWS_DISKS: bool = true;

/// The names of the file system and of all disks below it, and of the server that it is of. What cannot be seen from
/// here is not among them.
pub fn disks_of(dir: &Dir) -> BTreeSet<String> {
    let mut disks = BTreeSet::new();
    add_of(dir, DEEPEST, &mut disks);
    disks
}

fn add_of(dir: &Dir, deepest: u32, disks: &mut BTreeSet<String>) {
    let (Some(left), Ok(id)) = (deepest.checked_sub(1), dir.identity()) else { return };
    disks.insert(format!("file system {}", id.dev));
    let Ok(Some(mount)) = MountLine::of(dir) else { return };
    let source = mount.source.as_os_str().as_bytes();
    match fs_kind(dir) {
        Some(OVERLAY) => {
            // In a container its directories have the names that they have outside.
            match upper(&mount) {
                Some(upper) => add_of(&upper, left, disks),
                None => _ = disks.insert(ANY_DISK.into()),
            }
            mount.options().for_each(|option| add_layers(option, left, disks));
        }
        Some(BTRFS) => {
            // Subvolumes have numbers of their own.
            for device in btrfs_devices(&mount.source).unwrap_or_default() {
                add_block(&device, left, disks);
            }
        }
        _ => {
            let device = String::from_utf8_lossy(&mount.device).into_owned();
            add_block(&Path::new("/sys/dev/block").join(device), left, disks);
        }
    }
    let until = |end: u8| source.split(|&byte| byte == end).next().unwrap_or_default();
    let common = match source {
        [b'/', b'/', share @ ..] => {
            Some(share.split(|&byte| byte == b'/').next().unwrap_or_default())
        }
        _ if fs_kind(dir) == Some(ZFS) => Some(until(b'/')),
        [b'/', ..] => {
            // A directory that is shown elsewhere, as by bindfs.
            Dir::open(&mount.source).iter().for_each(|shown| add_of(shown, left, disks));
            None
        }
        _ if source.contains(&b':') => Some(until(b':')),
        _ => None,
    };
    disks.extend(common.map(|name| format!("server or pool {}", String::from_utf8_lossy(name))));
}

/// Adds what lies below an overlay, by an option that it is mounted with.
fn add_layers(option: &[u8], deepest: u32, disks: &mut BTreeSet<String>) {
    let Some(layers) = option
        .strip_prefix(b"lowerdir")
        .and_then(|rest| rest.strip_prefix(b"=").or_else(|| rest.strip_prefix(b"+=")))
    else {
        return;
    };
    for layer in layers.split(|&byte| byte == b':') {
        let path = Path::new(std::ffi::OsStr::from_bytes(layer));
        Dir::open(path).iter().for_each(|layer| add_of(layer, deepest, disks));
    }
}

/// The devices of a btrfs, one of which is `source`, by their directories in /sys.
fn btrfs_devices(source: &Path) -> Option<Vec<PathBuf>> {
    paths_in(&btrfs_of(source)?.join("devices"))
}

/// Adds what the block device at `at` in /sys is made of.
fn add_block(at: &Path, deepest: u32, disks: &mut BTreeSet<String>) {
    let (Some(left), Ok(mut at)) = (deepest.checked_sub(1), at.canonicalize()) else { return };
    if at.join("partition").exists() {
        at.pop();
    }
    disks.extend(at.file_name().map(|name| format!("disk {}", name.to_string_lossy())));
    for part in paths_in(&at.join("slaves")).unwrap_or_default() {
        add_block(&part, left, disks);
    }
    // Who may not ask the device itself is told by the path, of which more is taken for one disk at the most.
    disks.extend(LoopImage::of(&at).map(|image| format!("file system {}", image.device)));
    let Ok(text) = fs::read(at.join("loop/backing_file")) else { return };
    let path = Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii_end()));
    // It may be of a disk or a partition, and of no file.
    if let Ok(Some(number)) = device_number(path) {
        add_block(&Path::new("/sys/dev/block").join(number), left, disks);
    }
    if let Some(above) = path.parent().and_then(|above| Dir::open(above).ok()) {
        add_of(&above, left, disks);
    }
}

/// The number of a block device, as `/sys/dev/block` has it; `None` of anything else.
fn device_number(path: &Path) -> io::Result<Option<String>> {
    let found = rustix::fs::stat(path)?;
    let is_block = rustix::fs::FileType::from_raw_mode(found.st_mode).is_block_device();
    let (major, minor) = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    Ok(is_block.then(|| format!("{major}:{minor}")))
}

// Whether the device of a directory was away: by numbers that the kernel gives anew when one comes, or it starts.

/// When the device of `dir` came; `None` where that is not told, and where nothing is known to reach a device: servers,
/// FUSE and memory are never away.
pub fn plugged_in(dir: &Dir) -> Option<PluggedIn> {
    if !matches!(durable(dir), Durable::Device) {
        return None;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    let device = rustix::fs::fstat(&dir.0).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    // A partition is away when its disk is.
    let at = if block.join("partition").exists() { block.join("..") } else { block };
    // One that is made of others comes and goes while they stay. That it has none is read, not supposed.
    let is_whole = paths_in(&at.join("slaves")).is_some_and(|parts| parts.is_empty());
    let number = fs::read_to_string(at.join("diskseq")).ok().filter(|_| is_whole);
    let disk = number.and_then(|number| number.trim().parse().ok());
    Some(PluggedIn { boot, disk })
}

// What Linux alone does for a file system as a whole: everything that waits is written out by one call, and room is
// set aside.

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
    // ext4 takes all that is left before it says no: what fits beside would find a full disk meanwhile.
    if room(file).is_ok_and(|room| room.bytes < len) {
        return Err(Errno::NOSPC.into());
    }
    match uninterrupted(|| Ok(fallocate(file, FallocateFlags::KEEP_SIZE, 0, len)?)) {
        Err(full) if is_disk_full(&full) || Errno::from_io_error(&full) == Some(Errno::FBIG) => {
            Err(full)
        }
        // Not here, or nothing that writing would not tell too.
        _ => Ok(()),
    }
}
