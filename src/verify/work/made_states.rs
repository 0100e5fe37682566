//! Making states of large files for a manifest that has none of them, while the files are checked.
//!
//! Only a file that was hashed from its beginning to its end and has the listed digest gives states. What the side
//! file that is there has of other files stays. It is replaced by a rename when the check is over.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::chain::side_file::{MOST_RECORDS, SideFile};
use crate::chain::states::StatesFile;
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::hash::chain::{Chain, LEAST_SPAN};
use crate::manifest::readers::Readers;
use crate::manifest::states_name;
use crate::path::RelPath;
use crate::sys::Dir;
use crate::sys::stat::Kind;
use crate::verify::target::Target;

/// What is to be done about states that cannot be written; completes "cannot …".
const DEED: &str = "write the states of large files to";

/// A side file that is made.
#[derive(Debug)]
struct MadeFile {
    states: Arc<StatesFile>,
    /// The directory of the manifest, as it was opened with that.
    dir: Dir,
}

/// The side files that a check makes, each by its manifest.
#[derive(Debug, Default)]
pub struct MadeStates {
    files: Mutex<Vec<(PathBuf, Option<MadeFile>)>>,
    /// Files that got states.
    pub number: AtomicU64,
    errors: Mutex<Vec<Error>>,
}

impl MadeStates {
    /// Whether a file of this size is to have states.
    pub fn wants(&self, size: u64) -> bool {
        size > LEAST_SPAN
    }

    /// The file at `path`, which the manifest of `target` lists, has this digest and this chain.
    pub fn put(&self, target: &Target, path: &RelPath, size: u64, digest: &Digest, chain: Chain) {
        if let Some(file) = self.of(target) {
            file.put(path.as_bytes(), size, digest, chain);
            self.number.fetch_add(1, Relaxed);
        }
    }

    /// The side file of a manifest, begun with the first file.
    fn of(&self, target: &Target) -> Option<Arc<StatesFile>> {
        let manifest = &target.manifest;
        let states = |file: &Option<MadeFile>| Some(Arc::clone(&file.as_ref()?.states));
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = files.iter().find(|(known, _)| known == manifest) {
            return states(file);
        }
        let file = begin(target).map_err(|error| self.note(error)).ok();
        let made = states(&file);
        files.push((manifest.clone(), file));
        made
    }

    fn note(&self, error: Error) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }

    /// Gives the side files their names, with what others had of the same manifests; nothing of them is left if
    /// the check did not come to its end. What could not be written.
    pub fn finish(self, is_whole: bool) -> Vec<Error> {
        let files = self.files.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut errors = self.errors.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (manifest, file) in files {
            let Some((MadeFile { states, dir }, name)) = file.zip(states_name(&manifest)) else {
                continue;
            };
            if !is_whole {
                states.give_up();
                continue;
            }
            // What cannot be read says nothing.
            if let Ok(Some(earlier)) = SideFile::open_in(&dir, &name, MOST_RECORDS, &|| false) {
                states.carry_rest(&earlier);
            }
            // As open as the manifest, which names the same.
            let readers = readers_of(&dir, &manifest);
            if let Err(error) = states.publish(&name, true, true, |group| readers.mode(group)) {
                errors.push(Error::io(DEED, manifest.with_file_name(&name), error));
            }
        }
        errors
    }
}

/// Who may read the manifest, which is in `dir`.
fn readers_of(dir: &Dir, manifest: &Path) -> Readers {
    let mut readers = Readers::default();
    match dir.stat(manifest.file_name().unwrap_or_default(), true) {
        Ok(stat) => readers.note(&stat),
        Err(_) => readers = Readers::Owner,
    }
    readers
}

/// Begins the side file of a manifest, in the directory that this was opened in.
fn begin(target: &Target) -> Result<MadeFile> {
    let manifest = &target.manifest;
    let fail = |error| Error::io(DEED, manifest.with_extension("states"), error);
    let name = states_name(manifest).ok_or(std::io::ErrorKind::InvalidFilename);
    let name = name.map_err(|error| fail(error.into()))?;
    let dir = target.beside().and_then(Dir::try_clone).map_err(fail)?;
    let mut unfinished = name.clone();
    unfinished.push(".part");
    for name in [&name, &unfinished] {
        let path = manifest.with_file_name(name);
        match dir.stat(name, false) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(DEED, path, error)),
            Ok(there) => {
                let is_file = there.kind == Kind::File;
                let is_one =
                    is_file && dir.open_file(name, false).is_ok_and(|f| SideFile::is_one(&f));
                let is_empty = is_file && there.size == 0;
                if !is_one && !is_empty {
                    return Err(Error::finding(DEED, path, "what has this name is no side file"));
                }
            }
        }
    }
    // What a killed run left.
    match dir.remove(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let states = StatesFile::default();
    states.begin(dir.try_clone().map_err(fail)?, unfinished, Vec::new());
    Ok(MadeFile { states: Arc::new(states), dir })
}
