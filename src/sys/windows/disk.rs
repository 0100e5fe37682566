//! What kind of disk something lies on, and where: neither is asked of Windows.

use std::fs::File;

use crate::sys::windows::dir::Dir;

/// Not known here.
pub fn is_on_turning_disk(_: &Dir) -> bool {
    false
}

/// Not known here.
pub fn place_on_disk(_: &File) -> Option<u64> {
    None
}
