//! Where a directory really lies, seen through bind mounts.
//!
//! The same directory can be reached by several paths, and `..` leads out through the mount it was
//! reached by. "Is the output inside the source" is therefore asked of the place inside the file
//! system: the device, and the path from that file system's own root, as `/proc/self/mountinfo`
//! (proc_pid_mountinfo(5), fields 3 to 5) and the handle's own path give it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use crate::path::RelPath;
use crate::sys::unix::dir::Dir;
use crate::sys::unix::mounts::MountLine;

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

    /// Whether the file system is known to pack what is written to it, or may do so: it cannot be said
    /// how much room something takes there.
    pub fn packs(&self) -> bool {
        self.packs
    }

    /// What the kind of file system is called that `dir` is on, where the system tells.
    pub fn file_system(dir: &Dir) -> Option<String> {
        let place = Self::of(dir).ok()??;
        Some(String::from_utf8_lossy(&place.kind).into_owned())
    }

    /// Whether anything is mounted below `dir`; where the system does not tell, it may be.
    pub fn has_mounts_below(dir: &Dir) -> bool {
        let Ok(here) = path_of(dir) else { return true };
        let Ok(mounts) = MountLine::all() else { return true };
        mounts.iter().any(|mount| mount.point != here && mount.point.starts_with(&here))
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

#[cfg(test)]
mod tests {
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
