//! The proof that a manifest is on its medium as it was written, before it gets its name.

use std::io;

use crate::error::{Error, Result};
use crate::hash::{Algorithm, Digest};
use crate::io::read_back::{FileDigest, ReadBack};
use crate::manifest::writer::ManifestFile;
use crate::sys::{Dir, Medium};

/// Makes a manifest durable and reads it back from its medium. False if the run is to stop before it is proven.
///
/// # Errors
/// The medium does not hold what was written, or cannot be read. The manifest is still there.
pub fn is_proven(manifest: &mut ManifestFile, is_to_stop: &dyn Fn() -> bool) -> Result<bool> {
    manifest.persist()?;
    let written = manifest.digest().map(Digest::from);
    match read_back(manifest, is_to_stop) {
        Ok(None) => Ok(false),
        Ok(Some(hashed)) if written.is_some() && hashed.digest == written => Ok(true),
        Ok(Some(_)) => {
            let finding = "what the disk holds is not what was written";
            Err(Error::finding("prove the manifest", manifest.path(), finding))
        }
        Err(error) => Err(Error::io("read back the manifest", manifest.path(), error)),
    }
}

fn read_back(
    manifest: &mut ManifestFile,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<Option<FileDigest>> {
    let file = manifest.open()?;
    let medium = Medium::of(&file, &Dir::stat_file(&file)?)?;
    ReadBack::new().hash(medium, Algorithm::Sha256, is_to_stop, |_| ())
}
