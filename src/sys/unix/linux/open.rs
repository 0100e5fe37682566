//! Opening by the calls of Linux.

use rustix::{fs::Mode, fs::OFlags, fs::ResolveFlags};

use crate::{path::RelPath, sys::unix::dir::Dir};

/// A file that is opened so keeps its access time; only for its owner and root, `EPERM` otherwise (open(2)).
pub const UNNOTICED: OFlags = OFlags::NOATIME;

/// A directory that may only be gone through, as what homes are in often is, is opened for that alone.
pub const ONLY_THROUGH: OFlags = OFlags::PATH;

impl Dir {
    /// Opens the directory at `path` below this one in one call (`openat2`, Linux 5.6), which no link on the way is
    /// followed in; `None` where that does not succeed.
    pub(in crate::sys::unix) fn open_at_once(&self, path: &RelPath, how: OFlags) -> Option<Dir> {
        let stay = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(&self.0, path.as_bytes(), how, Mode::empty(), stay).map(Self).ok()
    }
}
