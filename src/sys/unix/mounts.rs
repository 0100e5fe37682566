//! What is mounted where, as `/proc/self/mountinfo` tells (proc_pid_mountinfo(5)).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::sys::types::NoOwnMount;
#[cfg(target_os = "linux")]
use crate::sys::unix::descriptors::patiently;
use crate::sys::unix::dir::Dir;

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

    /// What is mounted: the path of a device, or whatever the file system calls its source.
    pub source: PathBuf,
    /// What follows the mount point: options, kind and source.
    pub rest: Vec<u8>,
}

impl MountLine {
    /// The table, in which later mounts cover earlier ones.
    pub fn all() -> io::Result<Vec<Self>> {
        let table = fs::read("/proc/self/mountinfo")?;
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

    /// Whether the mount shows a file system from its top, and not one of its directories.
    pub fn is_whole(&self) -> bool {
        // A share is named with the directory in it.
        let is_share = [&b"cifs"[..], b"smb3"].contains(&&*self.kind);
        self.root.as_os_str() == "/" || is_share || (self.kind == b"btrfs" && self.is_subvolume())
    }

    /// Whether a subvolume of btrfs begins at the mount point: its directory has the number 256
    /// (`BTRFS_FIRST_FREE_OBJECTID`, linux/btrfs_tree.h).
    fn is_subvolume(&self) -> bool {
        rustix::fs::stat(&self.point).is_ok_and(|stat| stat.st_ino == 256)
    }
}

impl Dir {
    /// Opens the directory `name` in this one, which no link is followed to. Where something is mounted on it, that is
    /// an error (`CrossesDevices`).
    pub fn open_unmounted(&self, name: &OsStr) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags, ResolveFlags};
            use rustix::io::Errno;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let stay = ResolveFlags::NO_XDEV;
            match patiently(|| rustix::fs::openat2(&self.0, name, flags, Mode::empty(), stay)) {
                // Before Linux 5.6, and where calls are filtered.
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
                Err(Errno::XDEV) => return Err(something_mounted()),
                opened => return Ok(Self(opened?)),
            }
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
/// What counts is the mount that `dir` was reached by: it must not be that of `/`, and must show a file system from its
/// top. A directory of another file system that is bound there looks like a mount point and is none: systemd's
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
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(MountLine::parse(b"36 35 98:0 / /mnt rw"), None);
    }
}
