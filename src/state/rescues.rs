//! The files of which a run read what could be read, and which are not whole: `rescues` in the private directory.
//!
//! What there is of such a file lies beside where it is to be, as `NAME.dircopy-rescue`. The note says which file that
//! is, and of which version of the source's: so what was planted under the name, or came with a source, is not gone on
//! with, and a run that has the whole file by other means knows what to remove.

use std::{
    collections::BTreeMap, ffi::OsStr, ffi::OsString, fs::File, io, path::Path, sync::Mutex,
    sync::MutexGuard, sync::PoisonError,
};

use serde::{Deserialize, Serialize};

use crate::{
    error::Deed, hash::Algorithm, hash::Digest, path::RelPath, path::Shown, state::Note,
    state::PrivateDir, sys, sys::Dir, sys::stat::Inode, sys::stat::Stat, sys::stat::Time,
};

/// The endings of the names of what was read, and of the map of what is missing.
pub const ENDING: &str = ".dircopy-rescue";
pub const MAP_ENDING: &str = ".dircopy-rescue.map";

/// More are not begun, nor of longer paths together; files and bytes.
const MOST: usize = 4096;
const MOST_BYTES: usize = 1 << 20;

/// What is known of a rescue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescue {
    /// The source's file. Not its number, which on a card is another one each time.
    size: u64,
    mtime: Time,
    ctime: Time,
    /// The file at the output: its number, and when it was made, where the system tells.
    ino: u64,
    birth: Option<Time>,
    /// The digest that the file is to have, if a copy was told (`--expect`): its algorithm, and its text.
    expected: Option<(String, String)>,
    /// The permissions, owner and group of the source's file.
    label: Option<(u32, u32, u32)>,
}

/// The name of a file of the rescue of the file `name`.
pub fn name_of(name: &OsStr, ending: &str) -> OsString {
    [name, OsStr::new(ending)].into_iter().collect()
}

/// The path of the file that takes what is read of the one at `path`.
pub fn path_of(path: &RelPath) -> Option<RelPath> {
    RelPath::parse(&[path.as_bytes(), ENDING.as_bytes()].concat()).ok()
}

impl Rescue {
    /// That of the file `source` in the new file `made`.
    pub fn new(source: &Stat, made: &Inode) -> Self {
        let Stat { size, mtime, ctime, mode, uid, gid, .. } = *source;
        let (ino, birth, expected) = (made.stat.id.ino, made.birth, None);
        let label = Some((mode & 0o777, uid, gid));
        Self { size, mtime, ctime, ino, birth, expected, label }
    }

    /// The metadata of the file of the rescue, with what the whole one is to have of the source's.
    pub fn labelled(&self, made: Stat) -> Stat {
        let (mode, uid, gid) = self.label.unwrap_or((made.mode, made.uid, made.gid));
        Stat { mode, uid, gid, mtime: self.mtime, ..made }
    }

    /// The same of a file that is to have this digest, if one is known.
    #[must_use]
    pub fn expecting(self, digest: Option<Digest>) -> Self {
        let text = |digest: Digest| (digest.algorithm().name().to_owned(), digest.to_string());
        Self { expected: digest.map(text).or(self.expected), ..self }
    }

    /// The digest that the file is to have, if that is known.
    pub fn expected(&self) -> Option<Digest> {
        let (algorithm, text) = self.expected.as_ref()?;
        Digest::parse(Algorithm::named(algorithm)?, text.as_bytes())
    }

    /// True if it is of this version of the source's file.
    pub fn is_of(&self, source: &Stat) -> bool {
        (self.size, self.mtime, self.ctime) == (source.size, source.mtime, source.ctime)
    }

    /// True if `there` is its file; where the system does not tell, if it is as large.
    pub fn is_in(&self, there: &Inode, keeps_numbers: bool) -> bool {
        let birth = there.birth.filter(|_| keeps_numbers).zip(self.birth);
        let is_it = |(birth, made)| birth == made && there.stat.id.ino == self.ino;
        birth.map_or(there.stat.size == self.size, is_it)
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Noted(BTreeMap<RelPath, Rescue>);

impl Note for Noted {
    const FILE: &str = "rescues";
    const HEAD: &str = "dircopy rescues 1";
}

/// The rescues at an output.
#[derive(Debug)]
pub struct Rescues<'a> {
    private: &'a PrivateDir,
    /// True if files that cannot be read are to be rescued.
    pub are_wanted: bool,
    noted: Mutex<Noted>,
}

impl<'a> Rescues<'a> {
    /// Those that earlier runs noted.
    pub fn read(private: &'a PrivateDir, are_wanted: bool) -> Self {
        let noted = Noted::read(private).unwrap_or_default();
        Self { private, are_wanted, noted: Mutex::new(noted) }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if nothing was begun.
    pub fn are_none(&self) -> bool {
        self.noted().0.is_empty()
    }

    /// That of the file at `path`.
    pub fn of(&self, path: &RelPath) -> Option<Rescue> {
        self.noted().0.get(path).cloned()
    }

    /// The paths of all files that are rescued, in order.
    pub fn paths(&self) -> Vec<RelPath> {
        self.noted().0.keys().cloned().collect()
    }

    /// Opens what was rescued of the file at `path`, which is in `dir`, if a run of this user made it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self, dir: &Dir, path: &RelPath, keeps_numbers: bool) -> io::Result<Option<File>> {
        let Some((rescue, (_, name))) = self.of(path).zip(path.split()) else { return Ok(None) };
        let opened = dir.open_ours(&name_of(sys::name_from_bytes(name)?, ENDING))?;
        let is_that = |file: &File| {
            Dir::inode_of(file).is_ok_and(|there| rescue.is_in(&there, keeps_numbers))
        };
        Ok(opened.map(|(file, _)| file).filter(is_that))
    }

    /// The path of the file of which that is what was rescued.
    fn whose(&self, there: &Inode, keeps_numbers: bool) -> Option<RelPath> {
        let noted = self.noted();
        let mut all = noted.0.iter();
        all.find(|(_, rescue)| rescue.is_in(there, keeps_numbers)).map(|(path, _)| path.clone())
    }

    /// Removes what was rescued of the file at `path`, which is in `dir`. The note stays.
    ///
    /// # Errors
    /// It stays behind; or what has its name is of another file, for which it may be needed.
    pub fn remove(&self, dir: &Dir, path: &RelPath, keeps_numbers: bool) -> io::Result<()> {
        let Some((_, name)) = path.split().filter(|_| self.of(path).is_some()) else {
            return Ok(());
        };
        let name = sys::name_from_bytes(name)?;
        let kept = name_of(name, ENDING);
        if self.open(dir, path, keeps_numbers)?.is_some() {
            dir.remove(&kept)?;
        } else if let Some(there) = dir.inode(&kept).if_there()?
            && let Some(other) = self.whose(&there, keeps_numbers)
        {
            let finding = format!(
                "{} is what was rescued of {}, so somebody exchanged them: when that is whole, remove it, with its map",
                Shown::path(Path::new(&kept)),
                Shown::bytes(other.as_bytes())
            );
            return Err(io::Error::other(finding));
        }
        let map = name_of(name, MAP_ENDING);
        if dir.open_ours(&map)?.is_some() {
            dir.remove(&map)?;
        }
        Ok(())
    }

    /// True if the file at `path` is one of a rescue.
    pub fn have(&self, path: &RelPath) -> bool {
        let text = path.as_bytes();
        let whole =
            [ENDING, MAP_ENDING].into_iter().find_map(|end| text.strip_suffix(end.as_bytes()));
        whole
            .and_then(|path| RelPath::parse(path).ok())
            .is_some_and(|path| self.of(&path).is_some())
    }

    /// Notes one, on the device.
    ///
    /// # Errors
    /// It cannot be written, or there are too many.
    pub fn add(&self, path: &RelPath, rescue: Rescue) -> io::Result<()> {
        let mut noted = self.noted();
        noted.0.insert(path.clone(), rescue);
        let bytes: usize = noted.0.keys().map(|path| path.as_bytes().len()).sum();
        let written = match noted.0.len() > MOST || bytes > MOST_BYTES {
            true => Err(io::Error::other("too many files are begun: rescue or remove those first")),
            false => noted.write(self.private, true),
        };
        if written.is_err() {
            noted.0.remove(path);
        }
        written
    }

    /// Forgets one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn forget(&self, path: &RelPath) -> io::Result<()> {
        let mut noted = self.noted();
        match noted.0.remove(path) {
            None => Ok(()),
            Some(_) if noted.0.is_empty() => Noted::forget(self.private),
            Some(_) => noted.write(self.private, false),
        }
    }
}
