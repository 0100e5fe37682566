//! Directories in which their own owner may make nothing: there are none, because the read-only attribute of a
//! directory keeps no program from making entries in it.

use std::io;

use crate::sys::part_name::PartOwner;
use crate::sys::stat::Stat;
use crate::sys::windows::dir::Dir;

impl Dir {
    /// No.
    pub fn is_closed(_: &Stat) -> bool {
        false
    }

    /// Changes nothing.
    pub fn open_up(&self, _: &Stat) -> io::Result<bool> {
        Ok(false)
    }

    /// Changes nothing.
    pub fn close_up(&self, _: &Stat) -> io::Result<()> {
        Ok(())
    }

    /// Changes nothing: who may enter a directory comes from the one that it is in.
    pub fn take_over(&self) -> io::Result<()> {
        Ok(())
    }

    /// What is told of a directory does not say whose it is.
    pub fn is_kept_by_us(_: &Stat) -> bool {
        true
    }

    /// No: who may enter a directory comes from the one that it is in.
    pub fn lets_in_more_than(&self, _: &Dir, _: bool) -> io::Result<bool> {
        Ok(false)
    }

    /// What is told of a file does not say whose it is.
    ///
    /// # Errors
    /// None.
    pub fn keeps_labels(&self, _: PartOwner) -> io::Result<bool> {
        Ok(false)
    }

    /// No.
    pub fn is_opened_up(_: &Stat, _: u32) -> bool {
        false
    }
}
