//! The held directory, and what is done with it alike on every system: making things under the random names of part
//! files, and listing it.

use std::{
    ffi::OsStr, ffi::OsString, fs::File, hash::BuildHasher, hash::RandomState, io, path::Path,
    time::Duration, time::SystemTime, time::UNIX_EPOCH, vec,
};

use crate::sys::{Attributes, Dir, DirReader, close_file};
use crate::{
    error::is_absent, sys::part_name::PartOwner, sys::part_name::under_part_name, sys::stat::Kind,
    sys::stat::Time, sys::types::ListedEntry,
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

    /// True if no other user can give a name in this directory to a file of this user's, neither by renaming that nor
    /// by putting another directory in the place of this one.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn keeps_names_by_path(&self) -> io::Result<bool> {
        Ok(self.keeps_names()? && self.is_place_kept()?)
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

// A directory that may change while it is listed.
//
// No system promises that a listing has what is renamed meanwhile (readdir(3p)). Most put another file under its name
// where the old one was; btrfs puts it behind all others, and what was put there after the directory was opened is in
// no listing of it (btrfs_dir_llseek, Linux 6.5): of a file that an editor saved, neither the old one nor the new one.

/// A listing that has whatever was in its directory all the time, as far as its times tell: of one that changed it is
/// looked at again what else is there.
#[derive(Default)]
pub struct SteadyListing {
    /// The times of the directory before its last reading, and whether it may have changed since without another one.
    before: Option<([Time; 2], bool)>,
    /// Hashes of the names that were listed; in order, once it is read again.
    names: Vec<u64>,
    hashing: RandomState,
    again: u32,
}

impl SteadyListing {
    /// A directory that changes all the time is read so many times again.
    const MOST_AGAIN: u32 = 8;

    /// One with so many entries is not: 32 MiB.
    const MOST_NAMES: usize = 1 << 22;

    /// A change so long after another may have the same time: the longest tick of Linux is 10 ms.
    const TICK: Duration = Duration::from_millis(20);

    /// The next entries of `dir`; none when all were listed. No other thread may list through it.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn next_batch(
        &mut self,
        dir: &Dir,
        reader: &mut DirReader,
    ) -> io::Result<Vec<ListedEntry>> {
        if self.before.is_none() {
            self.begin(dir)?;
        }
        loop {
            let mut batch = reader.next_batch(dir)?;
            if batch.is_empty() && !self.may_lack_some(dir)? {
                self.names = Vec::new();
                return Ok(batch);
            }
            self.keep_new(&mut batch);
            if !batch.is_empty() {
                return Ok(batch);
            }
        }
    }

    /// Begins at the first entry; false where that cannot be had.
    fn begin(&mut self, dir: &Dir) -> io::Result<bool> {
        let stat = dir.stat_self()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = Duration::new(stat.ctime.secs.try_into().unwrap_or(0), stat.ctime.nanos);
        self.before = Some(([stat.mtime, stat.ctime], now.abs_diff(changed) < Self::TICK));
        DirReader::begin_anew(dir)
    }

    /// True if what was listed may not be all, and the directory is read again.
    fn may_lack_some(&mut self, dir: &Dir) -> io::Result<bool> {
        let Some((before, in_doubt)) = &self.before else { return Ok(false) };
        let now = dir.stat_self()?;
        let is_changed = [now.mtime, now.ctime] != *before;
        if !is_changed && !in_doubt {
            return Ok(false);
        }
        if self.again == Self::MOST_AGAIN || self.names.len() > Self::MOST_NAMES {
            let why = "it changed each time that it was listed, and what was renamed in it meanwhile may be missing: run \
                       again";
            return match is_changed && DirReader::passes_over(dir) {
                true => Err(io::Error::other(why)),
                false => Ok(false),
            };
        }
        self.again += 1;
        self.names.sort_unstable();
        self.begin(dir)
    }

    /// Leaves only those entries that were not listed before.
    fn keep_new(&mut self, batch: &mut Vec<ListedEntry>) {
        let (again, listed) = (self.again > 0, self.names.len());
        batch.retain(|entry| {
            let name = self.hashing.hash_one(&entry.name);
            let is_new = !again || self.names[..listed].binary_search(&name).is_err();
            if is_new {
                self.names.push(name);
            }
            is_new
        });
        if again {
            self.names.sort_unstable();
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
