//! Which of the manifests of dircopy in a directory holds.
//!
//! A name proves nothing: a manifest may have been copied there from a source, with a time that is still to
//! come. The private record of this user names the manifest that it was finished with, and that one holds.
//! Without a record it is the one with the latest name. Where both are there and are two, it is said.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::manifest::ManifestName;
use crate::state::private_dir::{Missing, PrivateDir};
use crate::state::record::{FINISHED, measure};
use crate::sys::stat::Kind;
use crate::sys::{Dir, DirReader};

/// A manifest that may be taken for the one that holds, or was taken for want of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// It has a later name than the one that this user's last run finished, and is not checked.
    Unrecorded(ManifestName),
    /// A later run finished it: what that run replaced is not as the given manifest says.
    Superseding(ManifestName),
    /// This user's last run finished it, and it is gone: one with a later name is checked instead.
    Gone(ManifestName),
}

/// The manifest that holds, open.
pub struct ValidManifest {
    pub name: ManifestName,
    pub file: File,
    /// The newest of those of runs that were cut short.
    pub unfinished: Option<ManifestName>,
    pub rival: Option<Rival>,
}

/// The manifests of dircopy in a directory.
pub struct OwnManifests {
    /// The regular files among them that have the name of a finished one, the latest first.
    finished: Vec<ManifestName>,
    /// The latest that has the name of an unfinished one.
    unfinished: Option<ManifestName>,
    /// The one that the private record was finished with.
    recorded: Option<ManifestName>,
}

impl OwnManifests {
    /// Looks at the directory `dir`, whose private directory is below `state`, if that is given.
    ///
    /// # Errors
    /// It cannot be read. A private record that cannot be read, or is another user's, is as good as none.
    pub fn look(dir: &Path, state: Option<&Path>) -> Result<Self> {
        let fail = |error: io::Error| {
            let is_file = error.kind() == io::ErrorKind::NotADirectory;
            let hint = "; a manifest is given with --manifest";
            let error = Error::io("look for a manifest in", dir, error);
            error.with_note(if is_file { hint } else { "" })
        };
        let here = Dir::open(dir).map_err(fail)?;
        let mut found = Self { finished: Vec::new(), unfinished: None, recorded: None };
        found.list(&here).map_err(fail)?;
        let is_file = |name: &ManifestName| {
            let stat = here.stat(name.to_string().as_ref(), false);
            stat.is_ok_and(|stat| stat.kind == Kind::File)
        };
        found.finished.retain(is_file);
        found.finished.sort_unstable_by(|a, b| b.cmp(a));
        found.recorded = recorded(&here, dir, state);
        Ok(found)
    }

    fn list(&mut self, here: &Dir) -> io::Result<()> {
        let mut listing = DirReader::default();
        loop {
            let batch = listing.next_batch(here)?;
            if batch.is_empty() {
                return Ok(());
            }
            for name in batch.iter().filter_map(|listed| ManifestName::parse(&listed.name)) {
                match name.is_finished() {
                    true => self.finished.push(name),
                    false => self.unfinished = self.unfinished.max(Some(name)),
                }
            }
        }
    }

    /// The one that holds. An older one than the last that this user's runs finished does not.
    pub fn valid(&self) -> Option<ManifestName> {
        let is_there = |name: &ManifestName| self.finished.contains(name);
        let latest = self.finished.first().copied();
        self.recorded.filter(is_there).or(latest.filter(|latest| Some(*latest) > self.recorded))
    }

    /// Opens the one that holds, of the directory `dir`.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn open_valid(&self, dir: &Path) -> Result<ValidManifest> {
        let name = self.valid().ok_or_else(|| self.none(dir))?;
        let latest = self.finished.first().copied();
        let rival = match self.recorded {
            Some(recorded) if recorded != name => Some(Rival::Gone(recorded)),
            Some(_) => latest.filter(|latest| *latest > name).map(Rival::Unrecorded),
            None => None,
        };
        let file_name = name.to_string();
        let opened = Dir::open(dir).and_then(|here| here.open_file(file_name.as_ref(), false));
        let cannot = |error| Error::io("open the manifest", dir.join(&file_name), error);
        let file = opened.map_err(cannot)?;
        Ok(ValidManifest { name, file, unfinished: self.unfinished, rival })
    }

    /// Why there is nothing to check against.
    fn none(&self, dir: &Path) -> Error {
        let finding = match (self.finished.first(), self.recorded, self.unfinished) {
            (Some(older), Some(recorded), _) => format!(
                "{recorded}, which the last run finished, is gone, and older ones may no longer hold; \
                 run the copy again, or give {older} with --manifest"
            ),
            (_, _, None) => {
                "there is no finished manifest of dircopy in it (dircopy-<UTC time>.sha256sum); \
                 another is given with --manifest"
                    .to_owned()
            }
            (_, _, Some(name)) => format!(
                "there is only {name}, the manifest of a run that was cut short; \
                 run the copy again, or give that one with --manifest"
            ),
        };
        Error::finding("check", dir, finding)
    }
}

/// The manifest that the private record of the directory `here`, at `dir`, was finished with.
fn recorded(here: &Dir, dir: &Path, state: Option<&Path>) -> Option<ManifestName> {
    let private = PrivateDir::open(here, dir, state, Missing::Leave).ok().flatten()?;
    let (mut file, _) = private.dir().open_ours(FINISHED.as_ref()).ok().flatten()?;
    let closed = measure(&mut file, private.mark(), &|| false).ok()?;
    let name = closed.manifest.filter(|_| closed.fits)?;
    ManifestName::parse(name.as_ref()).filter(ManifestName::is_finished)
}
