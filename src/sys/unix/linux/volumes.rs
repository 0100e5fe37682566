//! The labels and identifiers of file systems that are mounted from block devices.
//!
//! The file system itself is asked first, because its answer needs neither udev nor device nodes, which services and
//! containers do not see. Those that have no such call (FAT and others) are looked up in udev's database.

use std::os::{fd::AsFd, fd::AsRawFd, unix::ffi::OsStringExt};
use std::{ffi::OsString, fmt::Write as _, fs, fs::File, io, path::Path};

use crate::sys::types::{MountedVolume, VolumeDetails};
use crate::sys::unix::system::data_place::ExtentMap;
use crate::{
    sys::unix::dir::Dir, sys::unix::system::place::MountLine, sys::unix::system::place::unescaped,
};

/// The file systems that are mounted from block devices as a whole, each once. Where the system does not tell, there
/// are none.
pub fn mounted_volumes() -> io::Result<Vec<MountedVolume>> {
    let mut seen = Vec::new();
    let mut volumes = Vec::new();
    for mount in MountLine::all()? {
        // A network file system that does not answer must not hold up the look at disks.
        let is_disk = mount.source.starts_with("/dev/");
        if !is_disk || seen.contains(&mount.device) || !mount.is_whole() {
            continue;
        }
        let Ok(dir) = Dir::open(&mount.point) else { continue };
        // Something else may be mounted over it.
        if mount.covers(&dir).is_ok_and(|covers| !covers) {
            continue;
        }
        volumes.push(MountedVolume {
            label: label(&dir, &mount),
            uuid: own_uuid(&dir)
                .ok()
                .flatten()
                .or_else(|| in_udev(&mount, "ID_FS_UUID_ENC")?.into_string().ok()),
            point: mount.point,
        });
        seen.push(mount.device);
    }
    Ok(volumes)
}

/// The label of the file system that `dir` lies on, if it has one.
pub fn volume_label(dir: &Dir) -> io::Result<Option<OsString>> {
    Ok(MountLine::of(dir)?.and_then(|mount| label(dir, &mount)))
}

/// The facts about the file system that `dir` lies on.
pub fn volume_details(dir: &Dir) -> VolumeDetails {
    let mount = MountLine::of(dir).ok().flatten();
    let size = rustix::fs::fstatvfs(dir.as_fd()).ok();
    let size = size.map(|volume| volume.f_blocks.saturating_mul(volume.f_frsize));
    let noted = |key: &str| in_udev(mount.as_ref()?, key);
    VolumeDetails {
        label: mount.as_ref().and_then(|mount| label(dir, mount)),
        uuid: volume_uuid(dir).ok().flatten(),
        serial: noted("ID_SERIAL_SHORT").or_else(|| device_serial(mount.as_ref()?)),
        file_system: mount.as_ref().map(|mount| String::from_utf8_lossy(&mount.kind).into_owned()),
        size: size.filter(|size| *size > 0),
    }
}

/// The UUID of the file system that `dir` lies on, if it has one.
///
/// # Errors
/// It cannot be asked now.
pub fn volume_uuid(dir: &Dir) -> io::Result<Option<String>> {
    if let Some(uuid) = own_uuid(dir)? {
        return Ok(Some(uuid));
    }
    let noted = match MountLine::of(dir) {
        Ok(mount) => {
            mount.map(|mount| noted_in_udev(&mount, "ID_FS_UUID_ENC")).transpose()?.flatten()
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported) =>
        {
            None
        }
        Err(error) => return Err(error),
    };
    Ok(noted.and_then(|uuid| uuid.into_string().ok()))
}

/// The serial number that the kernel has of the disk that is mounted, or that the mounted partition is on.
fn device_serial(mount: &MountLine) -> Option<OsString> {
    let device = std::str::from_utf8(&mount.device).ok()?;
    let block = Path::new("/sys/dev/block").join(device);
    let places = ["device/serial", "../device/serial", "serial", "../serial"];
    let serial = places.iter().find_map(|place| fs::read(block.join(place)).ok())?;
    let serial = serial.trim_ascii();
    (!serial.is_empty()).then(|| OsString::from_vec(serial.to_vec()))
}

fn label(dir: &Dir, mount: &MountLine) -> Option<OsString> {
    let label = own_label(dir).or_else(|| in_udev(mount, "ID_FS_LABEL_ENC"));
    label.filter(|label| !label.is_empty())
}

/// The label by the file system itself.
fn own_label(dir: &Dir) -> Option<OsString> {
    // _IOR(0x94, 49, char[FSLABEL_MAX]) (linux/fs.h).
    const FS_IOC_GETFSLABEL: u32 = 0x8100_9431;
    let mut label = [0u8; 256];
    // SAFETY: the call writes at most 256 bytes, which is what there is room for, and keeps no pointer.
    let failed =
        unsafe { libc::ioctl(dir.as_fd().as_raw_fd(), FS_IOC_GETFSLABEL as _, label.as_mut_ptr()) };
    let label = label.split(|&byte| byte == 0).next().unwrap_or_default();
    (failed == 0).then(|| OsString::from_vec(label.to_vec()))
}

/// Number of times that a file system is asked whose answer a signal cuts off.
const ASKED: u32 = 3;

/// The UUID by the file system itself (Linux 6.9); `None` if it has no answer, or the kernel none for this program.
fn own_uuid(dir: &Dir) -> io::Result<Option<String>> {
    let mut asked = 0;
    loop {
        asked += 1;
        match ask_uuid(dir) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted && asked < ASKED => {}
            Err(error) => {
                let none = [
                    libc::ENOTTY,
                    libc::EOPNOTSUPP,
                    libc::ENOSYS,
                    libc::EINVAL,
                    libc::EPERM,
                    libc::EACCES,
                ];
                return match error.raw_os_error().is_some_and(|code| none.contains(&code)) {
                    true => Ok(None),
                    false => Err(error),
                };
            }
            told => return told,
        }
    }
}

fn ask_uuid(dir: &Dir) -> io::Result<Option<String>> {
    // _IOR(0x15, 0, struct fsuuid2) (linux/fs.h).
    const FS_IOC_GETFSUUID: u32 = 0x8011_1500;
    #[repr(C)]
    #[derive(Default)]
    struct FsUuid2 {
        len: u8,
        uuid: [u8; 16],
    }
    let mut told = FsUuid2::default();
    // SAFETY: the call writes that structure, and keeps no pointer.
    let failed =
        unsafe { libc::ioctl(dir.as_fd().as_raw_fd(), FS_IOC_GETFSUUID as _, &raw mut told) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((told.len == 16).then(|| {
        told.uuid.iter().enumerate().fold(String::new(), |mut text, (at, byte)| {
            let dash = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
            // Writing to a string does not fail.
            let _ = write!(text, "{dash}{byte:02x}");
            text
        })
    }))
}

/// The note of udev about the mounted device, as far as it tells now.
fn in_udev(mount: &MountLine, key: &str) -> Option<OsString> {
    noted_in_udev(mount, key).ok().flatten()
}

/// The note of udev about the mounted device.
fn noted_in_udev(mount: &MountLine, key: &str) -> io::Result<Option<OsString>> {
    let Ok(device) = std::str::from_utf8(&mount.device) else { return Ok(None) };
    // btrfs makes numbers up; the device has its own.
    let device = match device.strip_prefix("0:") {
        None => device.to_owned(),
        Some(_) => {
            let name = mount.source.canonicalize().unwrap_or_else(|_| mount.source.clone());
            let Some(name) = name.file_name() else { return Ok(None) };
            match read_if_there(&Path::new("/sys/class/block").join(name).join("dev"))? {
                Some(device) => String::from_utf8_lossy(device.trim_ascii()).into_owned(),
                None => return Ok(None),
            }
        }
    };
    let Some(noted) = read_if_there(Path::new(&format!("/run/udev/data/b{device}")))? else {
        return Ok(None);
    };
    let value = noted.split(|&byte| byte == b'\n').find_map(|line| {
        line.strip_prefix(b"E:")?.strip_prefix(key.as_bytes())?.strip_prefix(b"=")
    });
    Ok(value.map(decoded))
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    use io::{ErrorKind::NotADirectory, ErrorKind::NotFound, ErrorKind::PermissionDenied};
    match fs::read(path) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// udev writes what is no plain character as `\xNN`.
fn decoded(value: &[u8]) -> OsString {
    unescaped(value, b"\\x", 2, 16)
}

// The kind of disk that something lies on, and its place there.

/// True if `dir` lies on a disk that turns, where reading several files at a time costs more than it gains. Devices of
/// virtual machines often say so and are not believed.
pub fn is_on_turning_disk(dir: &Dir) -> bool {
    const NOT_BELIEVED: [&str; 5] = ["vd", "xvd", "loop", "nbd", "ram"];
    let Ok(id) = dir.identity() else { return false };
    let (major, minor) = (rustix::fs::major(id.dev), rustix::fs::minor(id.dev));
    let place = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"));
    let Ok(place) = place else { return false };
    // A partition is a directory in that of its disk, which has the queue.
    place.ancestors().take(2).any(|disk| {
        let name = disk.file_name().unwrap_or_default().to_string_lossy();
        let told = std::fs::read_to_string(disk.join("queue/rotational"));
        told.is_ok_and(|told| told.trim() == "1")
            && !NOT_BELIEVED.iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Where on its disk the content of `file` begins, in bytes, if the file system tells and has given
/// it a place: for reading files in the order in which they lie there.
pub fn place_on_disk(file: &File) -> Option<u64> {
    let map = ExtentMap::<1>::of(file, 0..u64::MAX, 0)?;
    map.extents().first().map(|extent| extent.on_disk).filter(|place| *place > 0)
}

#[cfg(test)]
mod volumes_tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn udev_escapes() {
        assert_eq!(decoded(b"EOS\\x20DIGITAL"), "EOS DIGITAL");
        assert_eq!(decoded(b"\\x2f\\x5c\\xg"), "/\\\\xg");
        assert_eq!(decoded(b"\\xff").as_bytes(), b"\xff");
    }
}

#[cfg(test)]
mod disk_tests {
    use super::*;

    #[test]
    fn written_files_lie_somewhere_and_not_at_the_same_place() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let place = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            let file = File::open(&path).unwrap();
            file.sync_all().unwrap();
            place_on_disk(&file)
        };
        assert_eq!(place("empty", b""), None);
        let (one, other) = (place("one", &[1; 50_000]), place("other", &[2; 50_000]));
        // Where the file system does not tell, it tells of none.
        assert_eq!(one.is_some(), other.is_some());
        assert!(one.is_none() || one != other, "{one:?}");
    }
}
