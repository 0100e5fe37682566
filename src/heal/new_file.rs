//! The file that takes the place of a bad one: made beside it, read back as a whole, and renamed.

use std::{ffi::OsStr, fs::File, io, io::Seek, io::SeekFrom, path::Path};

use crate::{
    error::Deed, error::Error, error::Result, hash::Digest, io::ReadBack, io::Segment,
    io::hash_thread::segments, staged::StagedFile, sys, sys::Attributes, sys::Cloned, sys::Dir,
    sys::Medium, sys::PartOwner, sys::stat::Stat,
};

/// Read and written at once where a whole file is copied.
const BLOCK: usize = 1 << 20;

/// A file that is not complete, under a name by which a later run knows it.
pub struct NewFile<'a> {
    dir: &'a Dir,
    staged: StagedFile,
    /// Where it is to be, for messages.
    path: &'a Path,
    /// True if runs of zeros become holes.
    makes_holes: bool,
}

impl<'a> NewFile<'a> {
    /// Makes it in `dir`, empty, with the mark of `owner`. What a killed run left of it is removed, but for what
    /// `is_data` says is a file of the tree that has such a name.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(
        dir: &'a Dir,
        name: &OsStr,
        path: &'a Path,
        owner: PartOwner,
        is_data: &dyn Fn(&OsStr) -> bool,
    ) -> Result<Self> {
        let staged = StagedFile::of_tree(owner, dir, name, is_data).deed("create", path)?;
        Ok(Self { dir, staged, path, makes_holes: false })
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

    /// Writes all that `from` has. Whether everything came; with why it could not be read, which is not this file's
    /// error.
    ///
    /// # Errors
    /// The system's, about this file.
    pub fn fill_from(
        &self,
        from: &File,
        size: u64,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<io::Result<bool>> {
        let (medium, mut room, mut at) = (Medium::any(from), vec![0; BLOCK], 0);
        while at < size {
            match medium.fill_at(&mut room, at) {
                _ if is_to_stop() => return Ok(Ok(false)),
                Err(error) => return Ok(Err(error)),
                Ok(0) => return Ok(Ok(false)),
                Ok(read) => {
                    self.write_at(&room[..read], at)?;
                    at += read as u64;
                }
            }
        }
        Ok(Ok(true))
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
            .shed_lists(file)
            .map_err(|error| self.cannot("set the permissions of", error))?;
        let failed = |deed, error| failed(Error::io(deed, self.path, error));
        attributes
            .apply_to_written(file, like, gid, None, failed)
            .map_err(|error| self.cannot("write", error))?;
        sys::persist_file(file).map_err(|error| self.cannot("make durable", error))
    }

    /// True if it has the owner and the group of `like`, as far as can be told.
    pub fn has_owner_of(&self, like: &Stat) -> bool {
        let now = self.staged.file().and_then(Dir::stat_file);
        now.map_or(true, |now| (now.uid, now.gid) == (like.uid, like.gid))
    }

    /// Reads it from its device; whether it has the digest that is `listed`. `None` if `is_to_stop` says so before.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn has(
        &self,
        listed: &Digest,
        read_back: &mut ReadBack,
        is_to_stop: impl Fn() -> bool,
        on_read: impl FnMut(u64),
    ) -> Result<Option<bool>> {
        let file = self.file()?;
        let medium = || {
            let mut file = file;
            file.rewind()?;
            Medium::of(file, &Dir::stat_file(file)?)
        };
        has_digest(medium, listed, read_back, is_to_stop, on_read)
            .map_err(|error| self.cannot("read back", error))
    }

    /// Closes it: it waits for its name, for [`publish`] to give it.
    ///
    /// # Errors
    /// The system's; nothing of this file is left.
    pub fn close(self) -> Result<StagedFile> {
        self.staged.close(self.dir, false).deed("close", self.path)
    }

    /// Removes it; why it stays behind, if it does.
    pub fn discard(self) -> Option<Error> {
        remove(&self.staged, self.dir, self.path).err()
    }

    fn file(&self) -> Result<&File> {
        self.staged.file().deed("write", self.path)
    }

    fn cannot(&self, deed: &'static str, error: io::Error) -> Error {
        Error::io(deed, self.path, error)
    }
}

/// Gives a file that is complete, proven and closed the name `name` in `dir`, where it was made, in the place of the
/// bad file if there is one that `replaces` says.
///
/// # Errors
/// The bad file stays what it was; nothing of this one is left.
pub fn publish(
    file: &StagedFile,
    dir: &Dir,
    name: &OsStr,
    path: &Path,
    replaces: bool,
) -> Result<()> {
    file.publish(dir, name, replaces).map_err(|error| {
        let error = Error::io("publish", path, error);
        match remove(file, dir, path) {
            Ok(()) => error,
            Err(stays) => error.with_note(format!("; and {stays}")),
        }
    })
}

fn remove(file: &StagedFile, dir: &Dir, path: &Path) -> Result<()> {
    file.remove(dir).deed_at("remove the part file", || path.with_file_name(file.name()))
}

/// True if a file has the digest that is `listed`. If not, it is read once more: the digest may be of the algorithm
/// whose digests look like it, which a list does not always tell. `None` if `is_to_stop` says so before.
///
/// # Errors
/// It cannot be read.
pub fn has_digest<'m>(
    medium: impl Fn() -> io::Result<Medium<'m>>,
    listed: &Digest,
    read_back: &mut ReadBack,
    is_to_stop: impl Fn() -> bool,
    mut on_read: impl FnMut(u64),
) -> io::Result<Option<bool>> {
    for meant in [Some(*listed), listed.alike()].into_iter().flatten() {
        match read_back.hash(medium()?, meant.algorithm(), &is_to_stop, &mut on_read)? {
            None => return Ok(None),
            Some(read) if read.digest == Some(meant) => return Ok(Some(true)),
            Some(_) => {}
        }
    }
    Ok(Some(false))
}
