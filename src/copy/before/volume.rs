//! What the output's file system makes of what it is told: tried before the first file, looked at in a dry run.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::error::Error;
use crate::state::private_dir::{Missing, NAME, PrivateDir, PrivatePlace};
use crate::state::reference_time::{self, MovedTimes};
use crate::sys::Dir;
use crate::volume::output_volume::TriedVolume;

/// Tries the file system of the output whose root is `root` and whose private directory is `private`.
pub fn try_out(root: &Dir, private: Option<&PrivateDir>, warnings: &mut Vec<Error>) -> TriedVolume {
    let traits = root.traits();
    let moved = match private {
        Some(private) if is_with(root, private) => {
            let fail = |error| Error::io("keep files of a known time in", private.path(), error);
            reference_time::moved(private.dir(), true).map_err(fail)
        }
        // Without permissions no directory is private. But a user that can change the time of a file of ours there can
        // change that of any file, so it proves as much as they do.
        None if !traits.permissions => Ok(moved_in_the_open(root).unwrap_or_default()),
        _ => Ok(MovedTimes::default()),
    };
    let moved = moved.unwrap_or_else(|warning| {
        warnings.push(warning);
        MovedTimes::default()
    });
    TriedVolume::new(traits, moved)
}

/// As files of a known time show it in a directory that may be anyone's.
fn moved_in_the_open(root: &Dir) -> io::Result<MovedTimes> {
    let name = OsStr::new(NAME);
    match root.make_dir(name, true) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => reference_time::moved(&root.open_dir(name, false)?, true),
    }
}

/// What can be known of it in a dry run of an output at `path`, where nothing may be made. Its private directory is
/// at `place`.
pub fn look_at(root: &Dir, path: &Path, place: PrivatePlace<'_>) -> TriedVolume {
    let private = PrivateDir::open_at(root, path, place, Missing::Leave).ok().flatten();
    let Some(private) = private.filter(|private| is_with(root, private)) else {
        return TriedVolume::default();
    };
    // Without an answer they have not moved.
    let moved = reference_time::moved(private.dir(), false).unwrap_or_default();
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
