//! What the output's file system makes of what it is told: tried before the first file, looked at in a dry run.

use std::path::Path;

use crate::error::Error;
use crate::state::private_dir::{Missing, NAME, PrivateDir};
use crate::state::reference_time;
use crate::sys::Dir;
use crate::volume::output_volume::TriedVolume;

/// Tries the file system of the output whose root is `root` and whose private directory is `private`.
pub fn try_out(root: &Dir, private: Option<&PrivateDir>, warnings: &mut Vec<Error>) -> TriedVolume {
    let moved = private.filter(|private| is_with(root, private)).map(|private| {
        let fail = |error| Error::io("keep files of a known time in", private.path(), error);
        reference_time::moved(private, true).map_err(fail)
    });
    let moved = moved.transpose().unwrap_or_else(|warning| {
        warnings.push(warning);
        None
    });
    TriedVolume::try_out(root, moved.unwrap_or_default())
}

/// What can be known of it in a dry run of an output at `path`, where nothing may be made. Its private directory is
/// in `elsewhere`, if that is given.
pub fn look_at(root: &Dir, path: &Path, elsewhere: Option<&Path>) -> TriedVolume {
    let private = PrivateDir::open(root, path, elsewhere, Missing::Leave).ok().flatten();
    let Some(private) = private.filter(|private| is_with(root, private)) else {
        return TriedVolume::default();
    };
    // Without an answer they have not moved.
    let moved = reference_time::moved(&private, false).unwrap_or_default();
    match private.dir().try_clone() {
        Ok(dir) => TriedVolume::look_at(root, dir, NAME, moved),
        Err(_) => TriedVolume::default(),
    }
}

/// Whether the private directory is on the output's file system.
fn is_with(root: &Dir, private: &PrivateDir) -> bool {
    let device = |dir: &Dir| dir.identity().ok().map(|id| id.dev);
    device(root).is_some() && device(root) == device(private.dir())
}
