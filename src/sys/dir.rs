//! The held directory, and what is done with it alike on every system: making things under the random names of part
//! files, and listing it.

use std::{ffi::OsStr, ffi::OsString, fs::File, io, path::Path, vec};

use crate::sys::{Attributes, Dir, DirReader, close_file};
use crate::{
    error::is_absent, sys::part_name::PartOwner, sys::part_name::under_part_name, sys::stat::Kind,
    sys::types::ListedEntry,
};

/// The error of what is used as a regular file and is none.
pub(super) fn is_not_plain(kind: Kind) -> io::Error {
    io::Error::other(format!("it is {}, and only a regular file is used", kind.name()))
}

impl Dir {
    /// Opens the regular file `name` for reading, in a directory that is this user's alone.
    ///
    /// # Errors
    /// It is something else: a FIFO would be waited for. Or the system's.
    pub fn open_plain(&self, name: &OsStr) -> io::Result<File> {
        self.check_plain(name)?;
        self.open_file(name, false)
    }

    /// Refuses the entry `name` if it is no regular file.
    ///
    /// # Errors
    /// It is none. Or the system's.
    pub fn check_plain(&self, name: &OsStr) -> io::Result<()> {
        match self.stat(name, false)?.kind {
            Kind::File => Ok(()),
            kind => Err(is_not_plain(kind)),
        }
    }

    /// True if `path` leads to this directory, or that cannot be told.
    pub fn is_at(&self, path: &Path) -> bool {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match (Self::open(path).and_then(|dir| dir.identity()), self.identity()) {
            (Ok(there), Ok(here)) => there == here,
            // Any other error (no descriptor left, no memory) says nothing about the place.
            (Err(error), _) => !is_absent(&error),
            (_, Err(_)) => true,
        }
    }

    /// True if there is an entry of exactly this name: on some systems a look at one finds an entry that is called
    /// otherwise.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn lists(&self, name: &OsStr) -> io::Result<bool> {
        for listed in DirListing::of(self)? {
            if *listed?.name == *name {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if everyone may list and enter this directory: no permission and no access list keeps anybody out.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn shows_everyone(&self) -> io::Result<bool> {
        Ok(self.stat_self()?.is_open_to_everyone() && !Attributes::read(self)?.deny_somebody())
    }

    /// Makes a new, empty file under a random name that no other program uses, readable by its
    /// owner only where that can be said. Returns it with its name, which tells whose it is.
    pub fn create_part(&self, owner: PartOwner) -> io::Result<(File, OsString)> {
        under_part_name(owner, |name| self.create_new(name, true))
    }

    /// The same with these permissions.
    pub fn create_part_as(&self, owner: PartOwner, mode: u32) -> io::Result<(File, OsString)> {
        under_part_name(owner, |name| self.create_as(name, mode))
    }

    /// Makes a directory under a random name, for its owner only; returns the name.
    pub fn create_part_dir(&self, owner: PartOwner) -> io::Result<OsString> {
        under_part_name(owner, |name| self.make_dir(name, true)).map(|((), name)| name)
    }

    /// Has `make` make an entry under a random name, to be published; returns the name.
    pub fn create_part_by(
        &self,
        owner: PartOwner,
        make: impl Fn(&OsStr) -> io::Result<()>,
    ) -> io::Result<OsString> {
        under_part_name(owner, make).map(|((), name)| name)
    }

    /// Gives the file `original` in the directory `from` a further, random name here, to be
    /// published; returns the name.
    pub fn create_part_hard_link(
        &self,
        owner: PartOwner,
        from: &Dir,
        original: &OsStr,
    ) -> io::Result<OsString> {
        under_part_name(owner, |name| self.hard_link(from, original, name)).map(|((), name)| name)
    }

    /// True if files keep their numbers, and the times of their making, when they get their names: where these are new,
    /// and where they take the place of another. Some file systems of FUSE number each name, FAT numbers the place of
    /// the name, and some servers say of a file that it is as old as the one whose place it takes.
    pub(super) fn keeps_identity(&self) -> io::Result<(bool, bool)> {
        let owner = PartOwner::default();
        let make = || {
            let (file, part) = self.create_part(owner)?;
            let made = Self::inode_of(&file)?;
            close_file(file)?;
            Ok::<_, io::Error>((made, part))
        };
        let (made, part) = make()?;
        let ((), name) = under_part_name(owner, |name| self.publish(&part, name, false))?;
        let new = (made, self.inode(&name)?);
        let (made, part) = make()?;
        self.publish(&part, &name, true)?;
        let replaced = (made, self.inode(&name)?);
        self.remove(&name)?;
        let both = [new, replaced];
        let numbers = both.iter().all(|(made, now)| made.stat.id == now.stat.id);
        Ok((numbers, both.iter().all(|(made, now)| made.birth == now.birth)))
    }
}

// One directory, listed from its first entry to its last.

/// The entries of a directory, without `.` and `..`, in the order of the file system; after an error none.
pub struct DirListing {
    dir: Option<Dir>,
    reader: DirReader,
    batch: vec::IntoIter<ListedEntry>,
}

impl DirListing {
    /// A listing of `dir`, through a handle of its own: all who list through one handle share one position.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn of(dir: &Dir) -> io::Result<Self> {
        let dir = dir.open_dir(OsStr::new("."), false)?;
        Ok(Self { dir: Some(dir), reader: DirReader::default(), batch: Vec::new().into_iter() })
    }

    /// A listing of the directory at `path`. That of the standard library panics where a directory cannot be closed.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::of(&Dir::open(path)?)
    }

    /// True if `dir` has no entries.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn is_empty(dir: &Dir) -> io::Result<bool> {
        Self::of(dir)?.next().transpose().map(|first| first.is_none())
    }
}

impl Iterator for DirListing {
    type Item = io::Result<ListedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(entry) = self.batch.next() {
            return Some(Ok(entry));
        }
        match self.reader.next_batch(self.dir.as_ref()?) {
            Ok(batch) => {
                self.batch = batch.into_iter();
                self.batch.next().map(Ok)
            }
            Err(error) => {
                self.dir = None;
                Some(Err(error))
            }
        }
    }
}

// FIFOs, sockets and devices, which are copied as what they are: none is ever opened. Only Linux has calls for that
// which no other entry that takes their name is meant by.

/// What such an entry is besides its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// The kind, as the system has it.
    pub(super) format: u32,
    /// Of a device: which.
    pub(super) device: u64,
}
