//! Where a directory really lies.

use std::io;

use crate::path::RelPath;
use crate::sys::windows::dir::Dir;

/// A directory's place. The way up from it ([`Dir::parent`]) tells all there is to tell, so none is
/// ever known.
#[derive(Debug, PartialEq, Eq)]
pub struct Place(());

impl Place {
    /// Not known here.
    pub fn of(_: &Dir) -> io::Result<Option<Place>> {
        Ok(None)
    }

    /// Not known here.
    pub fn packs(&self) -> bool {
        false
    }

    /// Not known here.
    pub fn file_system(_: &Dir) -> Option<String> {
        None
    }

    /// The way from `outer` to this place.
    pub fn below(&self, _: &Place) -> Option<Option<RelPath>> {
        None
    }
}
