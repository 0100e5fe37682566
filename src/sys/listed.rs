//! An entry as its directory lists it, before anybody has looked at the file itself.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::sys::stat::Kind;

/// An entry as the directory lists it.
#[derive(Debug)]
pub struct Listed {
    /// Its name, one component. Whoever has to do with the entry shares this piece of memory.
    pub name: Arc<OsStr>,
    /// What the directory says it is; `None` where the file system keeps no such note,
    /// or says only that it is special.
    pub kind: Option<Kind>,
    /// Its number (of the inode), a hint of where it lies on the disk.
    pub ino: u64,
}
