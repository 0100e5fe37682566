//! The file that takes the place of a bad one: made beside it, read back as a whole, and renamed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::io::read_back::ReadBack;
use crate::io::zero_runs::{Segment, segments};
use crate::part::claim;
use crate::sys::stat::Stat;
use crate::sys::{self, Attributes, Cloned, Dir, Medium};

/// Read and written at once where a whole file is copied.
const BLOCK: usize = 1 << 20;

/// A file that is not complete, under a name by which a later run knows it.
pub struct NewFile<'a> {
    dir: &'a Dir,
    /// What it is called meanwhile.
    part: OsString,
    file: Option<File>,
    /// What it is to be called, with the whole path for messages.
    name: &'a OsStr,
    path: &'a Path,
    /// Whether runs of zeros become holes.
    makes_holes: bool,
}

impl<'a> NewFile<'a> {
    /// Makes it in `dir`, empty. What a killed run left of it is removed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(dir: &'a Dir, name: &'a OsStr, path: &'a Path) -> Result<Self> {
        claim::sweep(dir, name);
        let made = claim::create(dir, name);
        let (file, part) = made.map_err(|error| Error::io("create", path, error))?;
        Ok(Self { dir, part, file: Some(file), name, path, makes_holes: false })
    }

    /// Lets it share the data of `base`; whether that is possible.
    ///
    /// # Errors
    /// It is not known what it holds now.
    pub fn clone_of(&self, base: &File) -> Result<bool> {
        let cloned = sys::clone_file(base, self.file()?);
        cloned
            .map(|cloned| matches!(cloned, Cloned::Yes))
            .map_err(|error| self.cannot("clone", error))
    }

    /// Looks whether so many bytes can be written.
    ///
    /// # Errors
    /// There is no room for them.
    pub fn look_for_room(&self, bytes: u64) -> Result<()> {
        // Without an answer there is nothing to go by; writing will tell.
        let Ok(free) = sys::room(self.dir) else { return Ok(()) };
        if bytes <= free.bytes {
            return Ok(());
        }
        let finding = format!(
            "there are {} MiB free, and it takes {} MiB",
            free.bytes >> 20,
            bytes.div_ceil(1 << 20)
        );
        Err(Error::finding("heal", self.path, finding))
    }

    /// Sets its length; it is to have room for all of it, unless it is cloned or has holes as `like`.
    ///
    /// # Errors
    /// There is no room.
    pub fn set_length(&mut self, size: u64, like: Option<&Stat>) -> Result<()> {
        let file = self.file()?;
        let set = file.set_len(size).and_then(|()| match like {
            Some(like) if !like.is_sparse() => sys::reserve(file, size),
            _ => Ok(()),
        });
        set.map_err(|error| self.cannot("make room for", error))?;
        self.makes_holes = like.is_some_and(Stat::is_sparse);
        Ok(())
    }

    /// Writes bytes where they belong.
    ///
    /// # Errors
    /// The system's.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let (mut file, mut at) = (self.file()?, at);
        let mut write = |bytes: &[u8], at| {
            file.seek(SeekFrom::Start(at))?;
            sys::write_all(file, bytes)
        };
        if !self.makes_holes {
            return write(bytes, at).map_err(|error| self.cannot("write", error));
        }
        for segment in segments(bytes) {
            at += match segment {
                Segment::Zeros(len) => len as u64,
                Segment::Data(data) => {
                    write(data, at).map_err(|error| self.cannot("write", error))?;
                    data.len() as u64
                }
            };
        }
        Ok(())
    }

    /// Writes all that `from` has; what cannot be read is not its error. Whether everything came.
    ///
    /// # Errors
    /// The system's, about this file.
    pub fn fill_from(&self, from: &File, size: u64, is_to_stop: &dyn Fn() -> bool) -> Result<bool> {
        let (medium, mut room, mut at) = (Medium::any(from), vec![0; BLOCK], 0);
        while at < size {
            match medium.fill_at(&mut room, at) {
                _ if is_to_stop() => return Ok(false),
                Err(_) | Ok(0) => return Ok(false),
                Ok(read) => {
                    self.write_at(&room[..read], at)?;
                    at += read as u64;
                }
            }
        }
        Ok(true)
    }

    /// Gives it the times, permissions, owner and attributes of `like`, and waits until all of it is on its device.
    ///
    /// # Errors
    /// It cannot be made durable.
    pub fn settle(
        &self,
        attributes: &Attributes,
        like: &Stat,
        mut failed: impl FnMut(Error),
    ) -> Result<()> {
        let file = self.file()?;
        let gid = self.dir.stat_self().map_err(|error| self.cannot("look at", error))?.gid;
        attributes
            .shed_inherited(file)
            .map_err(|error| self.cannot("set the permissions of", error))?;
        attributes.apply_to_new(file, like, gid, None, |deed, error| {
            failed(Error::io(deed, self.path, error));
        });
        sys::persist_file(file).map_err(|error| self.cannot("make durable", error))
    }

    /// Whether it has the owner and the group of `like`, as far as can be told.
    pub fn has_owner_of(&self, like: &Stat) -> bool {
        let now = self.file.as_ref().and_then(|file| Dir::stat_file(file).ok());
        now.is_none_or(|now| (now.uid, now.gid) == (like.uid, like.gid))
    }

    /// Reads it from its device; whether it has this digest. `None` if `is_to_stop` says so before.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn has(
        &self,
        digest: &Digest,
        read_back: &mut ReadBack,
        is_to_stop: impl Fn() -> bool,
        on_read: impl FnMut(u64),
    ) -> Result<Option<bool>> {
        let mut file = self.file()?;
        let read = file.rewind().and_then(|()| {
            let medium = Medium::of(file, &Dir::stat_file(file)?)?;
            read_back.hash(medium, digest.algorithm(), is_to_stop, on_read)
        });
        let read = read.map_err(|error| self.cannot("read back", error))?;
        Ok(read.map(|read| read.digest == Some(*digest)))
    }

    /// Gives it its name, in the place of the bad file if there is one that `replaces` says, and waits until
    /// that is on the device.
    ///
    /// # Errors
    /// It stays what it was; nothing of this file is left.
    pub fn publish(mut self, replaces: bool) -> Result<()> {
        let closed = self.file.take().map_or(Ok(()), sys::close_file);
        let published = closed.and_then(|()| self.dir.publish(&self.part, self.name, replaces));
        published.map_err(|error| {
            let error = self.cannot("publish", error);
            match self.remove() {
                Ok(()) => error,
                Err(stays) => error.with_note(format!("; and {stays}")),
            }
        })
    }

    /// Removes it; why it stays behind, if it does.
    pub fn discard(mut self) -> Option<Error> {
        self.file = None;
        self.remove().err()
    }

    fn remove(&self) -> Result<()> {
        match self.dir.remove(&self.part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let part: PathBuf = self.path.with_file_name(&self.part);
                Err(Error::io("remove the part file", part, error))
            }
            _ => Ok(()),
        }
    }

    fn file(&self) -> Result<&File> {
        let closed = || self.cannot("write", io::ErrorKind::BrokenPipe.into());
        self.file.as_ref().ok_or_else(closed)
    }

    fn cannot(&self, deed: &'static str, error: io::Error) -> Error {
        Error::io(deed, self.path, error)
    }
}
