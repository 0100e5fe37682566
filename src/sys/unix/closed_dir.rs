//! Directories in which their own owner may make nothing, and making that possible for a time.

use std::io;

use rustix::fs::Mode;

use crate::sys::stat::Stat;
use crate::sys::unix::dir::Dir;
use crate::sys::unix::process::{acting_as, is_root};

/// What its owner makes entries in a directory with.
const OWNER_MAKES: u32 = 0o300;

impl Dir {
    /// Whether the owner of a directory that is `stat` could not make entries in it, and is this process. Root
    /// needs no leave.
    pub fn is_closed(stat: &Stat) -> bool {
        !is_root() && stat.mode & OWNER_MAKES != OWNER_MAKES && stat.uid == acting_as().0
    }

    /// Lets the owner make entries in this directory, which is `stat`, if it [is closed](Self::is_closed); whether
    /// that changed anything.
    pub fn open_up(&self, stat: &Stat) -> io::Result<bool> {
        if !Self::is_closed(stat) {
            return Ok(false);
        }
        rustix::fs::fchmod(&self.0, Mode::from_raw_mode((stat.mode | OWNER_MAKES) as _))?;
        Ok(true)
    }

    /// Takes back what [`open_up`](Self::open_up) changed of this directory, which was `stat`.
    pub fn close_up(&self, stat: &Stat) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(stat.mode as _))?)
    }

    /// Whether a directory that is `now` is what [`open_up`](Self::open_up) made of one of the permissions `mode`.
    pub fn is_opened_up(now: &Stat, mode: u32) -> bool {
        now.mode == mode | OWNER_MAKES && now.mode != mode
    }
}
