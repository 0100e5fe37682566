//! FIFOs, sockets and devices: what they are, making them, and their labels.

use std::{ffi::OsStr, io};

use rustix::fs::{AtFlags, FileType, Mode};

use crate::{
    sys::Attributes, sys::special::Special, sys::stat::Stat, sys::unix::dir::Dir,
    sys::unix::dir::times_of, sys::unix::process::acting_as, sys::unix::process::is_root,
};

use super::unopened;

impl Dir {
    /// What the FIFO, socket or device `name` is.
    pub fn special(&self, name: &OsStr) -> io::Result<Special> {
        let stat = rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(special_of(&stat))
    }

    /// Makes one, for its owner only; an error if `name` exists.
    pub fn make_special(&self, special: Special, name: &OsStr) -> io::Result<()> {
        let mode = Mode::RUSR | Mode::WUSR;
        let format = FileType::from_raw_mode(special.format as _);
        Ok(rustix::fs::mknodat(self, name, format, mode, special.device as _)?)
    }

    /// Gives the one of this name, which this process has made, owner (as root), permissions and times.
    ///
    /// # Errors
    /// The system's, and that something else has taken its name: see [`Self::set_link_metadata`].
    pub fn set_special_metadata(
        &self,
        special: Special,
        name: &OsStr,
        stat: &Stat,
        attributes: &Attributes,
    ) -> io::Result<()> {
        let made = unopened::open(self, name)?;
        let there = rustix::fs::fstat(&made)?;
        let is_ours = !is_root() || there.st_uid == acting_as().0;
        if special_of(&there) != special || there.st_nlink != 1 || !is_ours {
            return Err(io::Error::other("something else has taken its name"));
        }
        let mut mode = stat.mode;
        if is_root() {
            unopened::set_owner(&made, stat)?;
        } else {
            mode = attributes.mode_of_another(stat, there.st_gid);
        }
        // What was opened as a path is changed by the path under which the kernel shows it.
        let path = unopened::path_of(&made);
        // Its directory may have given it a list, which its own permissions would make count.
        unopened::shed_list(&made)?;
        for (name, value) in &attributes.0 {
            unopened::set(&made, name, value)?;
        }
        rustix::fs::chmod(&*path, Mode::from_raw_mode(mode as _))?;
        Ok(rustix::fs::utimensat(rustix::fs::CWD, &*path, &times_of(stat), AtFlags::empty())?)
    }
}

fn special_of(stat: &rustix::fs::Stat) -> Special {
    let format = FileType::from_raw_mode(stat.st_mode).as_raw_mode();
    Special { format, device: stat.st_rdev }
}
