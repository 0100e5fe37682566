//! Where a directory really lies, seen through bind mounts.
//!
//! The same directory can be reached by several paths, and `..` leads out through the mount it was
//! reached by. "Is the output inside the source" is therefore asked of the place inside the file
//! system: the device, and the path from that file system's own root, as `/proc/self/mountinfo`
//! (proc_pid_mountinfo(5), fields 3 to 5) and the handle's own path give it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::path::RelPath;
use crate::sys::unix::dir::Dir;

/// A directory's place: the file system and the path from its root.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    device: Vec<u8>,
    path: PathBuf,
    packs: bool,
}

impl Place {
    /// Where `dir` lies; `None` where the system does not tell (no `/proc`, another OS), and for a
    /// directory that is no longer mounted anywhere.
    pub fn of(dir: &Dir) -> io::Result<Option<Place>> {
        let Ok(here) = path_of(dir) else { return Ok(None) };
        let Ok(mounts) = fs::read("/proc/self/mountinfo") else { return Ok(None) };
        // The last line whose mount point is the longest prefix: later mounts cover earlier ones.
        let mut best: Option<(usize, Place)> = None;
        for line in mounts.split(|&b| b == b'\n') {
            let fields: Vec<&[u8]> = line.splitn(6, |&b| b == b' ').collect();
            let &[_, _, device, root, point, rest] = &fields[..] else { continue };
            let point = PathBuf::from(unescape(point));
            let Ok(below) = here.strip_prefix(&point) else { continue };
            let depth = point.as_os_str().len();
            if best.as_ref().is_none_or(|(longest, _)| depth >= *longest) {
                let path = Path::new(&unescape(root)).join(below);
                // btrfs says compress or compress-force; zfs and bcachefs keep it to themselves.
                let packs = [&b"compress"[..], b" - zfs ", b" - bcachefs "]
                    .iter()
                    .any(|word| memchr::memmem::find(rest, word).is_some());
                best = Some((depth, Place { device: device.to_vec(), path, packs }));
            }
        }
        Ok(best.map(|(_, place)| place))
    }

    /// Whether the file system is known to pack what is written to it, or may do so: it cannot be said
    /// how much room something takes there.
    pub fn packs(&self) -> bool {
        self.packs
    }

    /// Whether anything is mounted below `dir`; where the system does not tell, it may be.
    pub fn has_mounts_below(dir: &Dir) -> bool {
        let Ok(here) = path_of(dir) else { return true };
        let Ok(mounts) = fs::read("/proc/self/mountinfo") else { return true };
        mounts
            .split(|&b| b == b'\n')
            .filter_map(|line| line.split(|&b| b == b' ').nth(4))
            .map(|point| PathBuf::from(unescape(point)))
            .any(|point| point != here && point.starts_with(&here))
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
