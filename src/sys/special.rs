//! FIFOs, sockets and devices, which are copied as what they are: none is ever opened. Only Linux has calls for that
//! which no other entry that takes their name is meant by.

use std::{ffi::OsString, io};

use crate::sys::{Dir, part_name::PartOwner, part_name::under_part_name};

/// What such an entry is besides its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// The kind, as the system has it.
    pub(super) format: u32,
    /// Of a device: which.
    pub(super) device: u64,
}

impl Dir {
    /// Makes one under a random name, to be published; returns the name.
    pub fn create_part_special(&self, owner: PartOwner, special: Special) -> io::Result<OsString> {
        under_part_name(owner, |name| self.make_special(special, name)).map(|((), name)| name)
    }
}
