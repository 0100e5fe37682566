//! A text file of a bag while it is written: under the name of a part file, until it is whole and durable.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::copy::bag::place::BagRoot;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::{Algorithm, Algorithms, Digest, Digests, Hasher};
use crate::io::read_back::ReadBack;
use crate::sys::stat::Kind;
use crate::sys::{self, Dir, Medium, PartOwner};

/// So many bytes are written at a time.
const BUFFER: usize = 256 << 10;

/// What a text file is written with.
#[derive(Clone, Copy)]
pub struct TagWriting<'a> {
    pub root: &'a BagRoot,
    /// The digests that tag manifests are to have of it.
    pub algorithms: Algorithms,
    pub durable: bool,
    /// Read it back from its medium.
    pub verify: bool,
    pub stop: &'a Stop,
}

/// A text file that is not complete.
pub struct TagFile<'a> {
    with: TagWriting<'a>,
    name: String,
    part: OsString,
    file: File,
    hasher: Hasher,
    /// Its permissions.
    pub mode: u32,
    /// What is not written yet.
    pub text: Vec<u8>,
}

/// A text file that is complete.
pub struct WrittenTag {
    pub name: String,
    pub digests: Digests,
    /// Whether it is another than the one that was there.
    pub is_new: bool,
}

impl<'a> TagWriting<'a> {
    /// Begins the file `name`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(self, name: &str) -> Result<TagFile<'a>> {
        let path = self.root.path.join(name);
        let made = self.root.dir.create_part(PartOwner::default());
        let (file, part) = made.map_err(|error| Error::io("begin", path, error))?;
        let (name, text, mode) = (name.to_owned(), Vec::new(), sys::new_file_mode());
        let hasher = self.algorithms.start();
        Ok(TagFile { with: self, name, part, file, hasher, mode, text })
    }

    /// Writes the file `name` with this text. None if the run is to stop at once.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(self, name: &str, text: &[u8]) -> Result<Option<WrittenTag>> {
        let mut file = self.begin(name)?;
        file.text.extend_from_slice(text);
        file.finish()
    }
}

impl TagFile<'_> {
    /// Writes what waits, if that is much.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush_much(&mut self) -> Result<()> {
        if self.text.len() < BUFFER { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        self.hasher.update(&self.text);
        let written = sys::write_all(&self.file, &self.text);
        self.text.clear();
        written.map_err(|error| self.fail("write", error))
    }

    /// Gives it its name, in place of what has it; a file with the same content stays as it is. None if the run is to
    /// stop before it is read back: it is removed.
    ///
    /// # Errors
    /// It cannot be written, or is not on its medium as it was written: it is removed.
    pub fn finish(mut self) -> Result<Option<WrittenTag>> {
        let finished = self.publish();
        if !matches!(finished, Ok(Some((_, true)))) {
            // What matters is the first error.
            let _ = self.with.root.dir.remove(&self.part);
        }
        let name = self.name;
        Ok(finished?.map(|(digests, is_new)| WrittenTag { name, digests, is_new }))
    }

    /// The digests, and whether it has its name now. None if the run is to stop at once.
    fn publish(&mut self) -> Result<Option<(Digests, bool)>> {
        self.flush()?;
        let TagWriting { root, algorithms, durable, .. } = self.with;
        let digests = self.hasher.clone().finish_all(algorithms);
        let missing = || io::Error::other("it has no digest; this is a defect of dircopy");
        let digests = digests.ok_or_else(|| self.fail("hash", missing()))?;
        if self.is_there(&digests) {
            return Ok(Some((digests, false)));
        }
        sys::let_read(&self.file, |_| self.mode).map_err(|error| self.fail("write", error))?;
        match durable {
            true => sys::persist_file(&self.file).map_err(|error| self.fail("make durable", error)),
            false => sys::flush_file(&self.file).map_err(|error| self.fail("close", error)),
        }?;
        if self.with.verify {
            let file = root.dir.open_file(&self.part, false);
            let hashed = file.and_then(|file| self.hash(&file, digests.proof.algorithm()));
            match hashed.map_err(|error| self.fail("read back", error))? {
                None => return Ok(None),
                Some(hashed) if hashed == digests.proof => {}
                Some(_) => {
                    let other = io::Error::other("what the disk holds is not what was written");
                    return Err(self.fail("prove", other));
                }
            }
        }
        let published = root.dir.publish(&self.part, self.name.as_ref(), true);
        published.map_err(|error| self.fail("publish", error))?;
        Ok(Some((digests, true)))
    }

    /// Whether a file of its name has this content already.
    fn is_there(&self, digests: &Digests) -> bool {
        let root = &self.with.root.dir;
        let is_file = |stat: sys::stat::Stat| stat.kind == Kind::File;
        if !root.stat(self.name.as_ref(), false).is_ok_and(is_file) {
            return false;
        }
        let file = root.open_file(self.name.as_ref(), false);
        let hashed = file.and_then(|file| self.hash(&file, digests.proof.algorithm()));
        hashed.is_ok_and(|hashed| hashed == Some(digests.proof))
    }

    /// The digest of a file; none if the run is to stop at once.
    fn hash(&self, file: &File, algorithm: Algorithm) -> io::Result<Option<Digest>> {
        let medium = match self.with.verify {
            true => Medium::of(file, &Dir::stat_file(file)?)?,
            false => Medium::any(file),
        };
        let is_to_stop = || self.with.stop.is_at_once();
        let hashed = ReadBack::new().hash(medium, algorithm, is_to_stop, |_| ())?;
        Ok(hashed.and_then(|hashed| hashed.digest))
    }

    fn fail(&self, deed: &'static str, error: io::Error) -> Error {
        Error::io(deed, self.path(), error)
    }

    fn path(&self) -> PathBuf {
        self.with.root.path.join(&self.name)
    }
}
