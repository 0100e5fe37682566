//! Entries as they are to be known again.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use crate::sys::stat::Inode;
use crate::sys::windows::dir::Dir;

impl Dir {
    /// What the system says of `name`, not following links. A number of NTFS is not given twice, and a file that takes
    /// the place of another within 15 seconds is said to be as old as that: when it was made tells nothing.
    pub fn inode(&self, name: &OsStr) -> io::Result<Inode> {
        Ok(Inode { stat: self.stat(name, false)?, birth: None })
    }

    /// The same of an open file.
    pub fn inode_of(file: &File) -> io::Result<Inode> {
        Ok(Inode { stat: Self::stat_file(file)?, birth: None })
    }
}
