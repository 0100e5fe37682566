//! The held directory, and what is done with it alike on every system: making things under the random
//! names of part files.

use std::{ffi::OsStr, ffi::OsString, fs::File, io};

use crate::sys::part_name::{PartOwner, under_part_name};
use crate::sys::{Attributes, Dir, close_file, dir_listing::DirListing, stat::Kind};

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
