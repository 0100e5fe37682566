//! The labels of what is not opened for reading, above all of symbolic links: owner, times, and as root attributes.
//!
//! A link is never opened for reading, so it is opened as a path (`O_PATH`), by which no other entry that takes its
//! name meanwhile is meant.

use std::{ffi::CStr, ffi::OsStr, io, os::fd::AsRawFd, os::fd::OwnedFd};

use rustix::{fs::AtFlags, fs::Mode, fs::OFlags, fs::XattrFlags, io::Errno};

use crate::sys::unix::{
    attributes::Attributes, attributes::MOST, dir::Dir, dir::owner_of, dir::stat_from,
    dir::times_of, process::acting_as, process::is_root,
};
use crate::{sys::stat::Kind, sys::stat::Stat};

const LINK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Attributes {
    /// Those of the symbolic link `name` in `dir`. Only root's can be on a link (xattr(7)).
    pub fn of_link(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        if is_root() { Self::of_unopened(dir, name) } else { Ok(Self::default()) }
    }

    /// Those of the entry `name` in `dir`, which is not opened for reading.
    pub fn of_unopened(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        let entry = rustix::fs::openat(dir, name, LINK, Mode::empty())?;
        let path = path_of(&entry);
        let list = |room: Option<&mut [u8]>| match room {
            Some(room) => rustix::fs::listxattr(&*path, room),
            None => rustix::fs::listxattr_query(&*path),
        };
        let get = |name: &CStr, room: Option<&mut [u8]>| match room {
            Some(room) => rustix::fs::getxattr(&*path, name, room),
            None => rustix::fs::getxattr_query(&*path, name),
        };
        Self::collect(MOST, &list, &get)
    }
}

impl Dir {
    /// Gives the symbolic link `name`, which this process has made, owner (as root), times and attributes.
    ///
    /// # Errors
    /// The system's, and that something else has taken its name: the owner of the directory could put a
    /// further name of any file there, for root to give away.
    pub fn set_link_metadata(
        &self,
        name: &OsStr,
        stat: &Stat,
        attributes: &Attributes,
    ) -> io::Result<()> {
        let link = rustix::fs::openat(self, name, LINK, Mode::empty())?;
        let there = stat_from(&rustix::fs::fstat(&link)?);
        let is_ours = !is_root() || there.uid == acting_as().0;
        if there.kind != Kind::Symlink || there.links != 1 || !is_ours {
            return Err(io::Error::other("something else has taken its name"));
        }
        let labelled =
            set_owner_and_times(&link, stat).or_else(|error| match Errno::from_io_error(&error) {
                // Before Linux 5.8 times are not set so.
                Some(Errno::INVAL) => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    Ok(rustix::fs::utimensat(self, name, &times_of(stat), flags)?)
                }
                _ => Err(error),
            });
        let path = path_of(&link);
        let set = attributes.0.iter().try_for_each(|(name, value)| {
            rustix::fs::setxattr(&*path, name, value, XattrFlags::empty())
        });
        labelled.and(Ok(set?))
    }
}

/// The path under which the kernel shows what was opened as a path, whose attributes no call takes by the
/// descriptor. Without /proc none are read.
pub(super) fn path_of(link: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", link.as_raw_fd())
}

fn set_owner_and_times(link: &OwnedFd, stat: &Stat) -> io::Result<()> {
    if is_root() {
        let (uid, gid) = owner_of(stat);
        rustix::fs::chownat(link, c"", uid, gid, AtFlags::EMPTY_PATH)?;
    }
    Ok(rustix::fs::utimensat(link, c"", &times_of(stat), AtFlags::EMPTY_PATH)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directory's owner may win the race between the making of a link and its labelling.
    #[test]
    fn what_took_the_name_of_a_link_is_left_alone() {
        let scene = tempfile::tempdir().unwrap();
        let dir = Dir::open(scene.path()).unwrap();
        let name = OsStr::new;
        std::fs::write(scene.path().join("victim"), "x").unwrap();
        dir.make_link(&"elsewhere".into(), name("link")).unwrap();
        dir.hard_link(&dir, name("link"), name("second name")).unwrap();
        dir.make_link(&"elsewhere".into(), name("ours")).unwrap();
        let mut wanted = dir.stat(name("ours"), false).unwrap();
        wanted.mtime.secs = 1_000_000_000;
        for (victim, is_ours) in [("victim", false), ("link", false), ("ours", true)] {
            let before = dir.stat(name(victim), false).unwrap();
            let set = dir.set_link_metadata(name(victim), &wanted, &Attributes::default());
            let after = dir.stat(name(victim), false).unwrap();
            assert_eq!((set.is_ok(), after.mtime == wanted.mtime), (is_ours, is_ours), "{victim}");
            assert!(is_ours || before.ctime == after.ctime, "{victim}");
        }
    }
}
