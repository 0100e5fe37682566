//! What the output's file system makes of what it is told: tried before the first file, looked at in a dry run.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::error::Error;
use crate::state::private_dir::{Missing, NAME, PrivateDir, PrivatePlace};
use crate::state::reference_time::{self, MovedTimes};
use crate::state::traits_note::NotePlace;
use crate::sys::traits::Traits;
use crate::sys::{Dir, PartOwner};
use crate::volume::output_volume::{NotedTraits, TriedVolume, UntriedNames};

/// Tries the file system of the output whose root is `root` and whose private directory is `private`, with part files
/// of this owner.
pub fn try_out(
    root: &Dir,
    parts: PartOwner,
    private: Option<&PrivateDir>,
    warnings: &mut Vec<Error>,
) -> TriedVolume {
    let traits = root.traits(parts);
    let moved = match private {
        Some(private) => {
            let fail = |deed| move |error| Error::io(deed, private.path(), error);
            let noted = NotePlace::Private(private).write(&traits);
            let noted = noted.map_err(fail("keep the private note of trials in"));
            let moved = match is_with(root, private) {
                true => reference_time::moved(private.dir(), true),
                false => Ok(MovedTimes::default()),
            };
            let moved = moved.map_err(fail("keep files of a known time in"));
            warnings.extend(noted.err());
            moved.unwrap_or_else(|warning| {
                warnings.push(warning);
                MovedTimes::default()
            })
        }
        None if !traits.permissions => in_the_open(root, &traits).unwrap_or_default(),
        None => MovedTimes::default(),
    };
    TriedVolume::new(traits, moved)
}

/// The same where without permissions no directory is private. But a user that can change the time of a file of ours
/// there can change that of any file, so it proves as much as they do.
fn in_the_open(root: &Dir, traits: &Traits) -> io::Result<MovedTimes> {
    let name = OsStr::new(NAME);
    let own = match root.make_dir(name, true) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => root.open_dir(name, false)?,
    };
    // Without the note a dry run knows less, and no other.
    let _ = NotePlace::Open(&own).write(traits);
    reference_time::moved(&own, true)
}

/// What can be known of it in a dry run of an output at `path`, where nothing may be made. Its private directory is
/// at `place`. `names` tells what becomes of names that would have to be tried.
pub fn look_at(
    root: &Dir,
    path: &Path,
    place: PrivatePlace<'_>,
    names: UntriedNames,
) -> TriedVolume {
    let private = PrivateDir::open_at(root, path, place, Missing::Leave).ok().flatten();
    let open = || root.open_dir(NAME.as_ref(), false).ok();
    let (traits, own) = match &private {
        Some(private) => {
            let own = match is_with(root, private) {
                true => private.dir().try_clone().ok(),
                // That of the lock, which says as much of names.
                false => open(),
            };
            (NotePlace::Private(private).read().ok().flatten(), own)
        }
        // Only where nothing can be private a run keeps anything in the open.
        None => match open().map(|own| (NotePlace::Open(&own).read(), own)) {
            Some((Ok(Some(traits)), own)) if !traits.permissions => (Some(traits), Some(own)),
            _ => (None, None),
        },
    };
    let Some(own) = own else { return TriedVolume::default() };
    // Without an answer they have not moved.
    let moved = reference_time::moved(&own, false).unwrap_or_default();
    TriedVolume::look_at(root, own, NAME, NotedTraits { traits, moved }, names)
}

/// Whether the private directory is on the output's file system.
fn is_with(root: &Dir, private: &PrivateDir) -> bool {
    let device = |dir: &Dir| dir.identity().ok().map(|id| id.dev);
    device(root).is_some() && device(root) == device(private.dir())
}
