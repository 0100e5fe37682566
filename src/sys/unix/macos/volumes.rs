//! The labels of file systems: the names under which the system mounts them. It would tell identifiers too; they are
//! not asked for, so that no disk is known by one.

use std::{ffi::OsString, fs::File, io, os::unix::ffi::OsStrExt, path::Path};

use super::place::{Place, mounts, point_of, text};
use crate::sys::types::{MountedVolume, VolumeDetails};
use crate::sys::unix::dir::Dir;

/// The file systems that are mounted from disks, each once.
pub fn mounted_volumes() -> io::Result<Vec<MountedVolume>> {
    let mut mounts = mounts()?;
    mounts.retain(|mount| text(&mount.f_mntfromname).as_bytes().starts_with(b"/dev/"));
    let points = mounts.iter().map(point_of);
    Ok(points.map(|point| MountedVolume { label: label(&point), uuid: None, point }).collect())
}

/// The label of the file system that `dir` lies on, if it has one.
pub fn volume_label(dir: &Dir) -> io::Result<Option<OsString>> {
    Ok(label(&point_of(&rustix::fs::fstatfs(dir)?)))
}

/// Not asked for.
///
/// # Errors
/// None.
pub fn volume_uuid(_: &Dir) -> io::Result<Option<String>> {
    Ok(None)
}

/// The facts about the file system that `dir` lies on.
pub fn volume_details(dir: &Dir) -> VolumeDetails {
    let size = rustix::fs::fstatvfs(dir).ok();
    let size = size.map(|volume| volume.f_blocks.saturating_mul(volume.f_frsize));
    VolumeDetails {
        label: volume_label(dir).ok().flatten(),
        file_system: Place::file_system(dir),
        size: size.filter(|size| *size > 0),
        ..VolumeDetails::default()
    }
}

/// Not told: no disk is taken for one that turns.
pub fn is_on_turning_disk(_: &Dir) -> bool {
    false
}

/// Not told.
pub fn place_on_disk(_: &File) -> Option<u64> {
    None
}

/// The name under which a disk is mounted.
fn label(point: &Path) -> Option<OsString> {
    Some(point.strip_prefix("/Volumes").ok()?.file_name()?.to_owned())
}
