//! Where a directory really lies, seen through bind mounts, and the labels and identifiers of what is mounted.
//!
//! The same directory can be reached by several paths, and `..` leads out through the mount it was reached by. "Is the
//! output inside the source" is therefore asked of the place inside the file system: the device, and the path from that
//! file system's own root, as `/proc/self/mountinfo` (proc_pid_mountinfo(5), fields 3 to 5) and the handle's own path
//! give it.

use std::{
    ffi::OsStr, ffi::OsString, fmt::Write as _, fs, fs::File, io, io::Read, os::fd::AsFd,
    os::fd::AsRawFd, os::unix::ffi::OsStringExt, path::Path, path::PathBuf,
};

use crate::sys::types::{MountedVolume, NoOwnMount, VolumeDetails};
use crate::{
    path::RelPath, sys::DirListing, sys::unix::dir::Dir, sys::unix::kind::BTRFS,
    sys::unix::kind::fs_kind, sys::unix::process::patiently,
    sys::unix::system::data_place::ExtentMap,
};

/// A directory's place: the file system and the path from its root.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    device: Vec<u8>,
    path: PathBuf,
    packs: bool,
    kind: Vec<u8>,
}

impl Place {
    /// Where `dir` lies; `None` where the system does not tell (no `/proc`, another OS), and for a
    /// directory that is no longer mounted anywhere.
    pub fn of(dir: &Dir) -> io::Result<Option<Place>> {
        let Ok(here) = path_of(dir) else { return Ok(None) };
        let Ok(mounts) = MountLine::all() else { return Ok(None) };
        // The last line whose mount point is the longest prefix: later mounts cover earlier ones.
        let mut best: Option<(usize, Place)> = None;
        for mount in mounts {
            let Ok(below) = here.strip_prefix(&mount.point) else { continue };
            let depth = mount.point.as_os_str().len();
            if best.as_ref().is_none_or(|(longest, _)| depth >= *longest) {
                // btrfs says compress or compress-force; zfs and bcachefs keep it to themselves.
                let packs = [&b"compress"[..], b" - zfs ", b" - bcachefs "]
                    .iter()
                    .any(|word| memchr::memmem::find(&mount.rest, word).is_some());
                let path = mount.root.join(below);
                let MountLine { device, kind, .. } = mount;
                best = Some((depth, Place { device, path, packs, kind }));
            }
        }
        Ok(best.map(|(_, place)| place))
    }

    /// True if the file system is known to pack its data, or may do so: then nobody can say how much room something
    /// takes there.
    pub fn packs(&self) -> bool {
        self.packs
    }

    /// The way from the top of the file system, whatever part of it is mounted.
    pub fn way_from_top(&self) -> Option<&Path> {
        self.path.strip_prefix("/").ok()
    }

    /// The name of the kind of file system that `dir` is on, where the system tells.
    pub fn file_system(dir: &Dir) -> Option<String> {
        let place = Self::of(dir).ok()??;
        Some(String::from_utf8_lossy(&place.kind).into_owned())
    }

    /// True if anything is mounted below `dir`; where the system does not tell, it may be.
    pub fn has_mounts_below(dir: &Dir) -> bool {
        Self::mounts_below(dir).is_none_or(|points| !points.is_empty())
    }

    /// The mount points below `dir`; `None` where the system does not tell.
    pub fn mounts_below(dir: &Dir) -> Option<Vec<PathBuf>> {
        let here = path_of(dir).ok()?;
        let points = MountLine::all().ok()?.into_iter().map(|mount| mount.point);
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
    fs::read_link(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd()))
}

// The table of mounts, as `/proc/self/mountinfo` tells it (proc_pid_mountinfo(5)).

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountLine {
    id: u64,
    /// The device, as `major:minor`.
    pub device: Vec<u8>,
    /// The directory of the file system that is seen at the mount point.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    pub(super) kind: Vec<u8>,

    /// The mounted device, by its path, or whatever else the file system calls its source.
    pub source: PathBuf,
    /// The text behind the mount point: options, kind and source.
    pub rest: Vec<u8>,
}

/// Room for the table of most machines, in bytes.
const TABLE: usize = 16 << 10;

impl MountLine {
    /// The table, in which later mounts cover earlier ones.
    pub fn all() -> io::Result<Vec<Self>> {
        // Its size is not told beforehand, and each small read of it is a call.
        let mut table = Vec::with_capacity(TABLE);
        fs::File::open("/proc/self/mountinfo")?.read_to_end(&mut table)?;
        Ok(table.split(|&byte| byte == b'\n').filter_map(Self::parse).collect())
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = line.splitn(6, |&byte| byte == b' ').collect();
        let &[id, _, device, root, point, rest] = &fields[..] else { return None };
        // Optional fields end with a dash of its own.
        let end = memchr::memmem::find(rest, b" - ")?;
        let mut last = rest[end + 3..].split(|&byte| byte == b' ');
        let (kind, source) = (last.next()?, last.next().unwrap_or_default());
        Some(Self {
            id: std::str::from_utf8(id).ok()?.parse().ok()?,
            device: device.to_vec(),
            root: unescape(root).into(),
            point: unescape(point).into(),
            kind: kind.to_vec(),
            source: unescape(source).into(),
            rest: rest.to_vec(),
        })
    }

    /// The mount that an open directory was reached by; `None` if it is that of something outside of this process'
    /// root.
    pub fn of(dir: &Dir) -> io::Result<Option<Self>> {
        let id = mount_id(dir)?;
        Ok(Self::all()?.into_iter().find(|line| line.id == id))
    }

    /// True if `dir` was reached by this mount.
    pub fn covers(&self, dir: &Dir) -> io::Result<bool> {
        Ok(mount_id(dir)? == self.id)
    }

    /// The options of the file system itself, not those of the mount.
    pub(super) fn options(&self) -> impl Iterator<Item = &[u8]> {
        let end = memchr::memmem::find(&self.rest, b" - ").map_or(self.rest.len(), |at| at + 3);
        let last = self.rest[end..].split(|&byte| byte == b' ').nth(2).unwrap_or_default();
        last.split(|&byte| byte == b',')
    }

    /// The path that the option of this beginning (`upperdir=`) has.
    pub(super) fn option_path(&self, begin: &[u8]) -> Option<PathBuf> {
        self.options().find_map(|option| Some(unescape(option.strip_prefix(begin)?).into()))
    }

    /// True if the mount shows a file system from its top, and not one of its directories.
    pub fn is_whole(&self) -> bool {
        // A share is named with the directory in it.
        let is_share = [&b"cifs"[..], b"smb3"].contains(&&*self.kind);
        self.root.as_os_str() == "/" || is_share || (self.kind == b"btrfs" && self.is_subvolume())
    }

    /// True if a subvolume of btrfs begins at the mount point: its directory has the number 256
    /// (`BTRFS_FIRST_FREE_OBJECTID`, linux/btrfs_tree.h).
    fn is_subvolume(&self) -> bool {
        rustix::fs::stat(&self.point).is_ok_and(|stat| stat.st_ino == 256)
    }
}

impl Dir {
    /// Opens the directory `name` in this one, which no link is followed to. Where something is mounted on it, that is
    /// an error (`CrossesDevices`).
    pub fn open_unmounted(&self, name: &OsStr) -> io::Result<Self> {
        use rustix::io::Errno;
        use rustix::{fs::Mode, fs::OFlags, fs::ResolveFlags};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let stay = ResolveFlags::NO_XDEV;
        match patiently(|| rustix::fs::openat2(&self.0, name, flags, Mode::empty(), stay)) {
            // Before Linux 5.6, and where calls are filtered.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
            Err(Errno::XDEV) => return Err(something_mounted()),
            opened => return Ok(Self(opened?, None)),
        }
        let dir = self.open_dir(name, false)?;
        let is_same = match (mount_id(self), mount_id(&dir)) {
            (Ok(above), Ok(below)) => above == below,
            _ => self.identity()?.dev == dir.identity()?.dev,
        };
        if is_same { Ok(dir) } else { Err(something_mounted()) }
    }
}

fn something_mounted() -> io::Error {
    io::Error::new(io::ErrorKind::CrossesDevices, "something else is mounted there")
}

/// The number of the mount that an open directory was reached by.
fn mount_id(dir: &Dir) -> io::Result<u64> {
    let missing = || io::Error::from(io::ErrorKind::Unsupported);
    // Unlike a path it names one mount, also where several cover each other.
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_fd().as_raw_fd()))?;
    let id = told.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    id.and_then(|id| id.trim().parse().ok()).ok_or_else(missing)
}

/// Why `dir` does not lie on a file system that was mounted for it, if so; an error where the system does not tell.
///
/// The mount that counts is the one that `dir` was reached by: it must not be that of `/`, and must show a file system
/// from its top. A directory of another file system that is bound there looks like a mount point and is none: systemd's
/// `ReadWritePaths=` and the volumes of containers make one of whatever directory is at the path, mounted or not.
pub fn no_own_mount(dir: &Dir) -> io::Result<Option<NoOwnMount>> {
    Ok(match MountLine::of(dir)? {
        None => Some(NoOwnMount::System),
        Some(mount) if mount.point.as_os_str() == "/" => Some(NoOwnMount::System),
        Some(mount) if mount.is_whole() => None,
        Some(MountLine { root, source, .. }) => Some(NoOwnMount::Bound { directory: root, source }),
    })
}

/// mountinfo writes space, tab, line feed and backslash as three octal digits.
fn unescape(field: &[u8]) -> OsString {
    unescaped(field, b"\\", 3, 8)
}

/// A text in which bytes may be written as `mark` and so many `digits` in this `radix`.
pub(super) fn unescaped(text: &[u8], mark: &[u8], digits: usize, radix: u32) -> OsString {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, tail @ ..] = rest {
        let number = rest.strip_prefix(mark).and_then(|number| number.split_at_checked(digits));
        let byte = number.and_then(|(number, after)| {
            let number = std::str::from_utf8(number).ok()?;
            Some((u8::from_str_radix(number, radix).ok()?, after))
        });
        let (byte, after) = byte.unwrap_or((*first, tail));
        bytes.push(byte);
        rest = after;
    }
    OsString::from_vec(bytes)
}

// The labels and identifiers of file systems that are mounted from block devices.
//
// The file system itself is asked first, because its answer needs neither udev nor device nodes, which services and
// containers do not see. Those that have no such call (FAT and others) are looked up in udev's database.

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

/// The directory in /sys of a btrfs, one of whose devices is `source`. It is called by the UUID.
pub fn btrfs_of(source: &Path) -> Option<PathBuf> {
    let source = source.canonicalize().ok()?;
    let name = source.file_name()?;
    let mut all = paths_in(Path::new("/sys/fs/btrfs"))?.into_iter();
    all.find(|one| one.join("devices").join(name).exists())
}

/// The paths of all that is in a directory of the system's; `None` if it cannot be listed.
pub fn paths_in(dir: &Path) -> Option<Vec<PathBuf>> {
    DirListing::at(dir).ok()?.map(|entry| Some(dir.join(&*entry.ok()?.name))).collect()
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
        // It has no device of its own, by which udev would know it.
        Ok(Some(mount)) if fs_kind(dir) == Some(BTRFS) => {
            btrfs_of(&mount.source).and_then(|it| Some(it.file_name()?.to_owned()))
        }
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
mod place_tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_directory_is_within_its_parent() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("a b");
        fs::create_dir(&inner).unwrap();
        let place = |path: &Path| Place::of(&Dir::open(path).unwrap()).unwrap();
        let (Some(outer), Some(inner)) = (place(outer.path()), place(&inner)) else { return };
        assert_eq!(inner.below(&outer), Some(RelPath::parse(b"a b").ok()));
        assert_eq!(outer.below(&outer), Some(None));
        assert_eq!(outer.below(&inner), None);
    }
}

#[cfg(test)]
mod mounts_tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn octal_escapes() {
        assert_eq!(unescape(b"/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescape(b"/a\\9"), "/a\\9");
        assert_eq!(unescape(b"/\xff").as_bytes(), b"/\xff");
    }

    #[test]
    fn a_line_is_taken_apart() {
        let line =
            b"36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let line = MountLine::parse(line).unwrap();
        assert_eq!((line.id, &*line.device), (36, &b"98:0"[..]));
        assert_eq!((line.root.to_str(), line.point.to_str()), (Some("/mnt1"), Some("/mnt 2")));
        assert_eq!((&*line.kind, line.source.to_str()), (&b"ext3"[..], Some("/dev/root")));
        assert!(!line.is_whole());
        assert_eq!(line.options().collect::<Vec<_>>(), [&b"rw"[..], b"errors=continue"]);
        assert_eq!(line.option_path(b"errors="), Some("continue".into()));
        assert_eq!(MountLine::parse(b"36 35 98:0 / /mnt rw"), None);
    }
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
