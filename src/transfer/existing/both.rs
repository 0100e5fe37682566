//! Reading a file and its copy for their digests, where nothing is to be made: the content decides what times do not
//! tell.

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::{Algorithm, Digest};
use crate::io::read_back::ReadBack;
use crate::io::watched_file::WatchedFile;
use crate::sys::Medium;
use crate::sys::stat::Stat;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;

/// A file on both sides.
pub struct BothFiles<'a> {
    pub source: &'a SourceDir,
    pub output: &'a OutputDir,
    pub entry: &'a SourceEntry,
    /// What is at the output.
    pub there: &'a Stat,
}

/// The digests of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BothDigests {
    pub source: Digest,
    pub copy: Digest,
}

impl BothFiles<'_> {
    /// Reads both, the source through links if it is to `follow` them; `None` if the run is to stop.
    ///
    /// # Errors
    /// One cannot be read, or changes meanwhile.
    pub fn hash(
        &self,
        algorithm: Algorithm,
        follow: bool,
        stop: &Stop,
    ) -> Result<Option<BothDigests>> {
        let Self { source, output, entry, there } = *self;
        let path = || output.path_of(&entry.name);
        let Some(dir) = &output.handle else {
            return Err(Error::io("read", path(), std::io::ErrorKind::NotFound.into()));
        };
        let hash = |file: &WatchedFile<'_>| {
            let medium = Medium::any(file.file());
            let hashed = ReadBack::new().hash(medium, algorithm, || stop.is_urgent(), |_| ());
            let Some(hashed) = hashed.map_err(|error| file.error("read", error))? else {
                return Ok(None);
            };
            file.check(hashed.bytes)?;
            Ok(hashed.digest)
        };
        let copy = hash(&WatchedFile::open_copy(output, dir, &entry.name, there, &path)?)?;
        let path = || source.path_of(&entry.name);
        let file = WatchedFile::open(&source.handle, &entry.name, follow, &entry.stat, &path)?;
        Ok(hash(&file)?.zip(copy).map(|(source, copy)| BothDigests { source, copy }))
    }
}
