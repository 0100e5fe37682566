//! A list at an output while it is written: under the name of a part file, until it is whole, on its device, and read
//! back where that is asked for.

use std::{ffi::OsStr, fs::File, io, io::Write, path::PathBuf, sync::Arc};

use crate::{
    error::Deed, error::Error, error::Result, event::Stop, hash::Algorithms, hash::Digest,
    hash::Digests, hash::Hasher, io::ReadBack, staged::StagedFile, sys, sys::Dir, sys::DirListing,
    sys::Medium, sys::PartOwner, sys::stat::Kind,
};

/// Number of bytes that wait at most.
const BUFFER: usize = 256 << 10;

/// The means to write lists.
#[derive(Clone, Copy)]
pub struct ListWriting<'a> {
    /// Whose part files are made.
    pub parts: PartOwner,
    /// Those that they are hashed by.
    pub algorithms: Algorithms,
    pub durable: bool,
    /// Read them back from their medium.
    pub verify: bool,
    /// Ends the reading; without it nothing does.
    pub stop: Option<&'a Stop>,
}

/// A list that has not got its name. After an error nothing of it is left; a caller that gives it up discards it.
pub struct ListFile<'a> {
    with: ListWriting<'a>,
    dir: Arc<Dir>,
    /// The path that it will have.
    path: PathBuf,
    /// Its file, once one is needed.
    staged: Option<StagedFile>,
    hasher: Hasher,
    /// What is not written yet.
    pub text: Vec<u8>,
}

impl<'a> ListFile<'a> {
    /// Begins the list that will be at `path`, in `dir`.
    pub fn new(with: ListWriting<'a>, dir: &Arc<Dir>, path: PathBuf) -> Self {
        let (hasher, text, dir) = (with.algorithms.start(), Vec::new(), Arc::clone(dir));
        Self { with, dir, path, staged: None, hasher, text }
    }

    /// Makes its file.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(mut self) -> Result<Self> {
        self.write_out().deed("begin", &self.path)?;
        Ok(self)
    }

    /// The path that it will have.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The name that it will have.
    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// True if nothing came.
    pub fn is_empty(&self) -> bool {
        self.staged.is_none() && self.text.is_empty()
    }

    /// Writes what waits, if that is much.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush_much(&mut self) -> io::Result<()> {
        if self.text.len() < BUFFER { Ok(()) } else { self.write_out() }
    }

    fn write_out(&mut self) -> io::Result<()> {
        if self.staged.is_none() {
            self.staged = Some(StagedFile::in_tree(&self.dir, self.with.parts)?);
        }
        self.hasher.update(&self.text);
        let written = self.file().and_then(|file| sys::write_all(file, &self.text));
        self.text.clear();
        written.inspect_err(|_| self.discard())
    }

    fn file(&self) -> io::Result<&File> {
        self.staged.as_ref().ok_or(io::ErrorKind::NotFound)?.file()
    }

    /// The digests of all that came.
    ///
    /// # Errors
    /// It has none.
    pub fn digests(&self) -> Result<Digests> {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.text);
        let missing = || io::Error::other("it has no digest; this is a defect of dircopy");
        hasher.finish_all(self.with.algorithms).ok_or_else(missing).deed("hash", &self.path)
    }

    /// The digest of what has its name; of something that is no file none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn there(&self) -> io::Result<Option<Option<Digest>>> {
        match self.dir.stat(self.name(), false).if_there()? {
            None => Ok(None),
            Some(stat) if stat.kind != Kind::File => Ok(Some(None)),
            Some(_) => self.read(self.name()).map(Some),
        }
    }

    /// The digest of a file of its directory; none if the run is to stop at once.
    fn read(&self, name: &OsStr) -> io::Result<Option<Digest>> {
        let file = self.dir.open_file(name, false)?;
        let medium = match self.with.verify {
            true => Medium::of(&file, &Dir::stat_file(&file)?)?,
            false => Medium::any(&file),
        };
        let is_to_stop = || self.with.stop.is_some_and(Stop::is_at_once);
        let hashed =
            ReadBack::new().hash(medium, self.with.algorithms.proof(), is_to_stop, |_| ())?;
        Ok(hashed.and_then(|hashed| hashed.digest))
    }

    /// All came: with the permissions that `mode` says for its group it waits for its name. False, and nothing of it
    /// is left, if the run is to stop before it is read back.
    ///
    /// # Errors
    /// It cannot be written, or is not on its medium as it was written.
    pub fn end(&mut self, mode: impl Fn(u32) -> u32) -> Result<bool> {
        let ended = self.close(mode).and_then(|()| self.is_proven());
        if !matches!(ended, Ok(true)) {
            self.discard();
        }
        ended
    }

    fn close(&mut self, mode: impl Fn(u32) -> u32) -> Result<()> {
        let written = self.write_out().and_then(|()| sys::let_read(self.file()?, mode));
        written.deed("write", &self.path)?;
        let deed = if self.with.durable { "make durable" } else { "close" };
        let closed = self.staged.take().map(|it| it.close(&self.dir, self.with.durable));
        self.staged = closed.transpose().deed(deed, &self.path)?;
        Ok(())
    }

    fn is_proven(&self) -> Result<bool> {
        let Some(staged) = self.staged.as_ref().filter(|_| self.with.verify) else {
            return Ok(true);
        };
        match self.read(staged.name()).deed("read back", &self.path)? {
            None => Ok(false),
            Some(read) if read == self.digests()?.proof => Ok(true),
            Some(_) => {
                let other = io::Error::other("what the disk holds is not what was written");
                Err(Error::io("prove", &self.path, other))
            }
        }
    }

    /// Gives one that is [ended](Self::end) its name, which may be another's if it `replaces` that.
    ///
    /// # Errors
    /// It cannot get it.
    pub fn publish(&mut self, replaces: bool) -> Result<()> {
        let staged = self.staged.take();
        let published = staged.map(|it| it.publish(&self.dir, self.name(), replaces));
        published.unwrap_or(Ok(())).deed("publish", &self.path)
    }

    /// Waits until its name is on the device, if that is asked for.
    ///
    /// # Errors
    /// It may not be there.
    pub fn persist_name(&self) -> Result<()> {
        let persisted = if self.with.durable { self.dir.persist() } else { Ok(()) };
        persisted.deed("make durable the name of", &self.path)
    }

    /// Gives it up.
    pub fn discard(&mut self) {
        if let Some(staged) = self.staged.take() {
            // What matters is the error that led here; the next run removes one that stays.
            let _ = staged.remove(&self.dir);
        }
    }
}

impl Write for ListFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() >= BUFFER {
            self.write_out()?;
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_out()
    }
}

/// Removes from `dir` all that is to go by its name.
///
/// # Errors
/// It cannot be listed, or one cannot be removed.
pub fn remove_all(dir: &Dir, is_to_go: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    let entries: Vec<_> = DirListing::of(dir)?.collect::<io::Result<_>>()?;
    let mut to_go = entries.iter().filter(|entry| is_to_go(&entry.name));
    to_go.try_for_each(|entry| dir.remove(&entry.name))
}
