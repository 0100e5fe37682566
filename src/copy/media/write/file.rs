//! A Media Hash List while it is written: under the name of a part file, until it is whole and durable.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::{Algorithm, Digest, Hasher};
use crate::io::read_back::ReadBack;
use crate::sys::{self, Dir, DirListing, Medium, PartOwner};

/// So many bytes are written at a time.
const BUFFER: usize = 256 << 10;

/// How lists are written.
#[derive(Clone, Copy)]
pub struct MediaWriting<'a> {
    pub durable: bool,
    /// Read them back from their medium.
    pub verify: bool,
    pub stop: &'a Stop,
    /// Whose part files are made.
    pub parts: PartOwner,
    /// The permissions of lists.
    pub mode: u32,
}

/// A list that is not complete.
pub struct MediaFile<'a> {
    with: MediaWriting<'a>,
    dir: Dir,
    /// What it will be called.
    path: PathBuf,
    part: OsString,
    file: File,
    hasher: Hasher,
    text: Vec<u8>,
}

impl<'a> MediaFile<'a> {
    /// Begins one in `dir`, which will be at `path`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(with: MediaWriting<'a>, dir: &Dir, path: PathBuf) -> Result<Self> {
        let fail = |error| Error::io("begin", &path, error);
        let dir = dir.try_clone().map_err(fail)?;
        let (file, part) = dir.create_part(with.parts).map_err(fail)?;
        Ok(Self { with, dir, part, file, hasher: Algorithm::C4.start(), text: Vec::new(), path })
    }

    /// Appends what `text` makes of the digest of all so far.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn mark(&mut self, text: &dyn Fn(&Digest) -> String) -> Result<()> {
        self.flush().map_err(|error| self.fail("write", error))?;
        if let Some(digest) = self.hasher.clone().finish() {
            self.text.extend_from_slice(text(&digest).as_bytes());
        }
        Ok(())
    }

    /// Gives it its name, in place of what has it if it `replaces` that; returns its C4 digest.
    ///
    /// # Errors
    /// It cannot be written, or is not on its medium as it was written: it is removed.
    pub fn publish(mut self, replaces: bool) -> Result<Digest> {
        let published = self.finish(replaces);
        if published.is_err() {
            self.discard();
        }
        published
    }

    /// Removes it.
    pub fn discard(self) {
        // What matters is the error that led here; a run removes what others left.
        let _ = self.dir.remove(&self.part);
    }

    fn finish(&mut self, replaces: bool) -> Result<Digest> {
        self.flush().map_err(|error| self.fail("write", error))?;
        let digest = self.hasher.clone().finish();
        let missing = || io::Error::other("it has no digest; this is a defect of dircopy");
        let digest = digest.ok_or_else(|| self.fail("hash", missing()))?;
        sys::let_read(&self.file, |_| self.with.mode).map_err(|error| self.fail("write", error))?;
        match self.with.durable {
            true => sys::persist_file(&self.file).map_err(|error| self.fail("make durable", error)),
            false => sys::flush_file(&self.file).map_err(|error| self.fail("close", error)),
        }?;
        if self.with.verify
            && self.read_back().map_err(|error| self.fail("read back", error))? != Some(digest)
        {
            let other = io::Error::other("what the disk holds is not what was written");
            return Err(self.fail("prove", other));
        }
        let name = self.path.file_name().unwrap_or_default();
        let published = self.dir.publish(&self.part, name, replaces);
        published.map_err(|error| self.fail("publish", error))?;
        let persisted = if self.with.durable { self.dir.persist() } else { Ok(()) };
        persisted.map_err(|error| self.fail("make durable the name of", error))?;
        Ok(digest)
    }

    fn read_back(&self) -> io::Result<Option<Digest>> {
        let file = self.dir.open_file(&self.part, false)?;
        let medium = Medium::of(&file, &Dir::stat_file(&file)?)?;
        let is_to_stop = || self.with.stop.is_at_once();
        let hashed = ReadBack::new().hash(medium, Algorithm::C4, is_to_stop, |_| ())?;
        Ok(hashed.and_then(|hashed| hashed.digest))
    }

    fn fail(&self, deed: &'static str, error: io::Error) -> Error {
        Error::io(deed, &self.path, error)
    }
}

impl Write for MediaFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() >= BUFFER {
            self.flush()?;
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hasher.update(&self.text);
        let written = sys::write_all(&self.file, &self.text);
        self.text.clear();
        written
    }
}

/// Removes from `dir` what killed runs left.
///
/// # Errors
/// It cannot be listed, or one cannot be removed.
pub fn remove_leftovers(dir: &Dir) -> io::Result<()> {
    let entries: Vec<_> = DirListing::of(dir)?.collect::<io::Result<_>>()?;
    let mut left = entries.iter().filter(|entry| sys::is_part_name(&entry.name));
    left.try_for_each(|entry| dir.remove(&entry.name))
}
