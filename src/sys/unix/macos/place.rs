//! Where a directory lies, as the system tells the path of what is open (`F_GETPATH`), what is mounted, and its labels.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::{fs::File, io, os::unix::ffi::OsStrExt, path::Path, path::PathBuf};

use crate::sys::types::{MountedVolume, NoOwnMount, VolumeDetails};
use crate::{path::RelPath, sys::stat::Identity, sys::unix::dir::Dir};

/// A directory's place: the file system and the path.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    device: u64,
    path: PathBuf,
}

impl Place {
    /// Where `dir` lies; `None` where the system does not tell.
    pub fn of(dir: &Dir) -> io::Result<Option<Place>> {
        let Identity { dev, .. } = dir.identity()?;
        Ok(path_of(dir).ok().map(|path| Place { device: dev, path }))
    }

    /// It may: nobody can say how much room something takes here.
    pub fn packs(&self) -> bool {
        true
    }

    /// Not told here.
    pub fn way_from_top(&self) -> Option<&Path> {
        None
    }

    /// The name of the kind of file system that `dir` is on, where the system tells.
    pub fn file_system(dir: &Dir) -> Option<String> {
        let told = rustix::fs::fstatfs(dir).ok()?;
        Some(text(&told.f_fstypename).to_string_lossy().into_owned())
    }

    /// True if anything is mounted below `dir`; where the system does not tell, it may be.
    pub fn has_mounts_below(dir: &Dir) -> bool {
        Self::mounts_below(dir).is_none_or(|points| !points.is_empty())
    }

    /// The mount points below `dir`; `None` where the system does not tell.
    pub fn mounts_below(dir: &Dir) -> Option<Vec<PathBuf>> {
        let here = path_of(dir).ok()?;
        let points = mounts().ok()?.into_iter().map(|mount| point_of(&mount));
        Some(points.filter(|point| *point != here && point.starts_with(&here)).collect())
    }

    /// The way from `outer` to this place, if it is below `outer` or the same (then there is none to
    /// go).
    pub fn below(&self, outer: &Place) -> Option<Option<RelPath>> {
        if self.device != outer.device {
            return None;
        }
        let way = self.path.strip_prefix(&outer.path).ok()?;
        Some(RelPath::parse(way.as_os_str().as_encoded_bytes()).ok())
    }
}

/// The path by which the system knows an open directory.
fn path_of(dir: &Dir) -> io::Result<PathBuf> {
    Ok(OsStr::from_bytes(rustix::fs::getpath(dir)?.to_bytes()).into())
}

/// All that is mounted.
pub fn mounts() -> io::Result<Vec<rustix::fs::StatFs>> {
    /// More are looked for once if there is no room left.
    const MORE: usize = 16;
    // SAFETY: without room the call only counts.
    let count = unsafe { libc::getfsstat(std::ptr::null_mut(), 0, libc::MNT_NOWAIT) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())? + MORE;
    let mut mounts = Vec::<rustix::fs::StatFs>::with_capacity(count);
    let len = i32::try_from(count * size_of::<rustix::fs::StatFs>()).unwrap_or(i32::MAX);
    // SAFETY: there is room for so many bytes, and as many structures are filled in as is returned.
    unsafe {
        let told = libc::getfsstat(mounts.as_mut_ptr().cast(), len, libc::MNT_NOWAIT);
        let told = usize::try_from(told).map_err(|_| io::Error::last_os_error())?;
        mounts.set_len(told.min(count));
    }
    // Full, so some may be missing.
    if mounts.len() == count { Err(io::ErrorKind::Unsupported.into()) } else { Ok(mounts) }
}

/// Where something is mounted.
pub fn point_of(mount: &rustix::fs::StatFs) -> PathBuf {
    text(&mount.f_mntonname).into()
}

/// The text in a field, up to its 0.
pub fn text(field: &[c_char]) -> &OsStr {
    // SAFETY: `c_char` is a byte, whatever its sign.
    let bytes = unsafe { std::slice::from_raw_parts(field.as_ptr().cast::<u8>(), field.len()) };
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    OsStr::from_bytes(text)
}

impl Dir {
    /// Opens the directory `name` in this one, which no link is followed to. Where something is mounted on it, that is
    /// an error (`CrossesDevices`).
    pub fn open_unmounted(&self, name: &OsStr) -> io::Result<Self> {
        let dir = self.open_dir(name, false)?;
        if self.identity()?.dev == dir.identity()?.dev {
            return Ok(dir);
        }
        Err(io::Error::new(io::ErrorKind::CrossesDevices, "something else is mounted there"))
    }
}

/// Why `dir` does not lie on a file system that was mounted for it, if so; an error where the system does not tell.
pub fn no_own_mount(dir: &Dir) -> io::Result<Option<NoOwnMount>> {
    // The system's own volumes are shown as parts of `/`.
    let point = point_of(&rustix::fs::fstatfs(dir)?);
    let is_system = point == Path::new("/") || point.starts_with("/System/Volumes");
    Ok(is_system.then_some(NoOwnMount::System))
}

// The labels of file systems: the names under which the system mounts them. It would tell identifiers too; they are
// not asked for, so that no disk is known by one.

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
