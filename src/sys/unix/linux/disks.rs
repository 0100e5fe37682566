//! The disks that a directory lies on, by names that two directories have in common if one loss takes both.

use std::{collections::BTreeSet, fs, os::unix::ffi::OsStrExt, path::Path, path::PathBuf};

use crate::{
    sys::ANY_DISK,
    sys::unix::dir::Dir,
    sys::unix::kind::{BTRFS, OVERLAY, ZFS, fs_kind},
    sys::unix::system::durable::{LoopImage, upper},
    sys::unix::system::place::MountLine,
};

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
    let source = source.canonicalize().ok()?;
    let name = source.file_name()?;
    let all = fs::read_dir("/sys/fs/btrfs").ok()?;
    let devices = all.flatten().map(|one| one.path().join("devices"));
    let devices = devices.into_iter().find(|devices| devices.join(name).exists())?;
    Some(fs::read_dir(devices).ok()?.flatten().map(|entry| entry.path()).collect())
}

/// Adds what the block device at `at` in /sys is made of.
fn add_block(at: &Path, deepest: u32, disks: &mut BTreeSet<String>) {
    let (Some(left), Ok(mut at)) = (deepest.checked_sub(1), at.canonicalize()) else { return };
    if at.join("partition").exists() {
        at.pop();
    }
    disks.extend(at.file_name().map(|name| format!("disk {}", name.to_string_lossy())));
    for part in fs::read_dir(at.join("slaves")).into_iter().flatten().flatten() {
        add_block(&part.path(), left, disks);
    }
    // Who may not ask the device itself is told by the path, of which more is taken for one disk at the most.
    disks.extend(LoopImage::of(&at).map(|image| format!("file system {}", image.device)));
    let Ok(text) = fs::read(at.join("loop/backing_file")) else { return };
    let path = Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii_end()));
    if let Some(above) = path.parent().and_then(|above| Dir::open(above).ok()) {
        add_of(&above, left, disks);
    }
}
