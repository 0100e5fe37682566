//! The directory of all generations: its lock, its trash, and who may enter it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::copy::dated_name::DatedName;
use crate::copy::generations::set::path_of;
use crate::copy::mirror::lost_names::LostNames;
use crate::copy::mirror::trash::Trash;
use crate::error::{Error, Result};
use crate::event::{Event, Stop};
use crate::path::RelPath;
use crate::state::private_dir::{Missing, PrivateDir};
use crate::sys::Dir;
use crate::tree::dirs::OutputDir;
use crate::tree::lock::Patience;

/// What is told where generations share files by hard links; it depends on who may enter their directory.
pub fn shared_by_links(root: &Dir) -> String {
    let text = "files that did not change are hard links to those of the last generation: do not write to them at the \
                output, that would change all generations";
    match root.is_private() {
        Ok(true) => format!(
            "{text}; it is closed to others, for who owns a file could do that (--open-generations opens a new one)"
        ),
        _ => format!(
            "{text}; others may enter it, and who owns a file can do that: chmod 700 closes it"
        ),
    }
}

/// Opens its private directory, or makes it.
///
/// # Errors
/// There can be none.
pub fn open_private(dir: &Dir, path: &Path) -> Result<PrivateDir> {
    let opened = PrivateDir::open(dir, path, None, Missing::Make);
    let note = "; generations need it, on a file system with owners";
    let missing =
        || Error::finding("keep private records in", path, "there is no private directory");
    opened.map_err(|error| error.with_note(note))?.ok_or_else(missing)
}

/// Keeps runs away from the directory of all generations, which is at `path`, while what is returned is held.
///
/// # Errors
/// Another run is at work there.
pub fn hold(root: &Dir, path: &Path) -> Result<PrivateDir> {
    let private = open_private(root, path)?;
    let (stop, tell) = (&Stop::default(), &|_: &str| ());
    Patience { wait: false, deed: "change", tell, stop }.lock(&private, path)?;
    Ok(private)
}

/// Moves generations into the trash of their directory, which is at `path`, and removes trash that is older than
/// `keep_trash`, by which files may lose names. Returns where they are.
///
/// # Errors
/// One cannot be moved, or old trash cannot be removed.
pub fn discard(
    root: &Dir,
    path: &Path,
    surplus: &[DatedName],
    keep_trash: Option<Duration>,
    lost: &mut LostNames,
    stop: &Stop,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Option<PathBuf>> {
    let handle = root.try_clone().map_err(|error| Error::io("open", path, error))?;
    let output = OutputDir { handle: Some(handle), ..OutputDir::absent(path.into()) };
    let mut trash = Trash::new(&output);
    for name in surplus {
        let fail = |error| Error::io("move to the trash", path_of(path, *name), error);
        let text = name.to_string();
        let to = trash.dir(&RelPath::root())?;
        root.move_entry(text.as_ref(), to, text.as_ref()).map_err(fail)?;
        to.persist().and_then(|()| root.persist()).map_err(fail)?;
        tell(Event::GenerationRemoved(text.as_bytes()));
    }
    if let Some(keep) = keep_trash {
        trash.expire(keep, stop, lost, |removed| match removed {
            Ok(name) => tell(Event::TrashRemoved(name.as_bytes())),
            Err(error) => tell(Event::Warning(&error)),
        })?;
    }
    Ok(trash.path())
}
