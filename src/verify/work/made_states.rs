//! Making states of large files for a manifest that has none of them, while the files are checked.
//!
//! Only a file that was hashed from its beginning to its end and has the listed digest gives states. What the side
//! file that is there has of other files stays. It is replaced by a rename when the check is over.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::chain::side_file::SideFile;
use crate::chain::states::StatesFile;
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::hash::chain::{Chain, LEAST_SPAN};
use crate::manifest::readers::Readers;
use crate::manifest::states_name;
use crate::path::{RelPath, directory_of};
use crate::sys::Dir;
use crate::sys::stat::Kind;
use crate::verify::target::open_states;

/// What is to be done about states that cannot be written; completes "cannot …".
const DEED: &str = "write the states of large files to";

/// The side files that a check makes, each by its manifest.
#[derive(Debug, Default)]
pub struct MadeStates {
    files: Mutex<Vec<(PathBuf, Option<Arc<StatesFile>>)>>,
    /// Files that got states.
    pub number: AtomicU64,
    errors: Mutex<Vec<Error>>,
}

impl MadeStates {
    /// Whether a file of this size is to have states.
    pub fn wants(&self, size: u64) -> bool {
        size > LEAST_SPAN
    }

    /// The file at `path`, which `manifest` lists, has this digest and this chain.
    pub fn put(&self, manifest: &Path, path: &RelPath, size: u64, digest: &Digest, chain: Chain) {
        if let Some(file) = self.of(manifest) {
            file.put(path.as_bytes(), size, digest, chain);
            self.number.fetch_add(1, Relaxed);
        }
    }

    /// The side file of a manifest, begun with the first file.
    fn of(&self, manifest: &Path) -> Option<Arc<StatesFile>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = files.iter().find(|(known, _)| known == manifest) {
            return file.clone();
        }
        let file = begin(manifest).map(Arc::new);
        let file = file.map_err(|error| self.note(error)).ok();
        files.push((manifest.to_path_buf(), file.clone()));
        file
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
            let Some((file, name)) = file.zip(states_name(&manifest)) else { continue };
            if !is_whole {
                file.give_up();
                continue;
            }
            // What cannot be read says nothing.
            if let Ok(Some(earlier)) = open_states(&manifest) {
                file.carry_rest(&earlier);
            }
            // As open as the manifest, which names the same.
            let readers = readers_of(&manifest);
            if let Err(error) = file.publish(&name, true, true, |group| readers.mode(group)) {
                errors.push(Error::io(DEED, manifest.with_file_name(&name), error));
            }
        }
        errors
    }
}

/// Who may read the manifest at this path.
fn readers_of(manifest: &Path) -> Readers {
    let mut readers = Readers::default();
    let dir = Dir::open(directory_of(manifest));
    match dir.and_then(|dir| dir.stat(manifest.file_name().unwrap_or_default(), true)) {
        Ok(stat) => readers.note(&stat),
        Err(_) => readers = Readers::Owner,
    }
    readers
}

/// Begins the side file of a manifest.
fn begin(manifest: &Path) -> Result<StatesFile> {
    let fail = |error| Error::io(DEED, manifest.with_extension("states"), error);
    let name = states_name(manifest).ok_or(std::io::ErrorKind::InvalidFilename);
    let name = name.map_err(|error| fail(error.into()))?;
    let dir = Dir::open(directory_of(manifest)).map_err(fail)?;
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
    let file = StatesFile::default();
    file.begin(dir, unfinished, Vec::new());
    Ok(file)
}
