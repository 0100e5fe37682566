//! The directories on the way to a file that is made whole: those that are missing are made as a good tree has
//! them, and what their times were is what they are afterwards.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::path::RelPath;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{self, Attributes, Dir};

/// A directory that is changed by what is made in it.
struct HeldDir {
    dir: Dir,
    /// What it is to be like afterwards.
    like: Stat,
    /// … and have, if it was made.
    made: Option<Attributes>,
    /// The group of the directory that it was made in.
    gid: u32,
    /// Whether it was opened for writing.
    opened_up: bool,
}

/// The directory of a file, and those above it that were made.
pub struct Parents(Vec<HeldDir>);

impl Parents {
    /// Opens the directory `path` below `root`, which is at `full`; what is missing of it is made as it is below
    /// `good`, if that is given.
    ///
    /// # Errors
    /// It cannot be opened or made.
    pub fn open(root: &Dir, path: &RelPath, good: Option<&Dir>, full: &Path) -> Result<Self> {
        let opened = match root.open_below(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match good {
                Some(good) => Self::make(root, path, good),
                None => Err(error),
            },
            Err(error) => Err(error),
            Ok(dir) => HeldDir::of(dir).map(|held| Self(vec![held])),
        };
        opened.map_err(|error| Error::io("open the directory", full, error))
    }

    fn make(root: &Dir, path: &RelPath, good: &Dir) -> io::Result<Self> {
        let (mut held, mut good) = (vec![HeldDir::of(root.try_clone()?)?], good.try_clone()?);
        for name in path.components() {
            let name: &OsStr = sys::name_from_bytes(name)?;
            good = good.open_dir(name, false)?;
            let above = held.last().ok_or(io::ErrorKind::NotFound)?;
            match above.dir.open_dir(name, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // Until it has the permissions of the copy, only its owner may enter it.
                    above.dir.make_dir(name, true)?;
                    let dir = above.dir.open_dir(name, false)?;
                    let (like, made) = (good.stat_self()?, Some(Attributes::read(&good)?));
                    let gid = above.like.gid;
                    held.push(HeldDir { dir, like, made, gid, opened_up: false });
                }
                // Those above are not changed.
                opened => held = vec![HeldDir::of(opened?)?],
            }
        }
        Ok(Self(held))
    }

    /// The directory of the file itself.
    pub fn dir(&self) -> Option<&Dir> {
        self.0.last().map(|held| &held.dir)
    }

    /// Gives the directories their times back, and those that were made all else; then waits until they are on the
    /// device. What they could not be given is told to `warn`, about `path`.
    ///
    /// # Errors
    /// One of them may not be on the device. It is not tried again: the system reports a lost write only once.
    pub fn settle(self, path: &Path, mut warn: impl FnMut(Error)) -> Result<()> {
        let mut settled = Ok(());
        for held in self.0.into_iter().rev() {
            let HeldDir { dir, like, made, gid, opened_up } = held;
            let mut warn = |deed, error| warn(Error::io(deed, path, error));
            match (made, opened_up) {
                (Some(attributes), _) => {
                    if let Err(error) = attributes.shed_inherited(&dir) {
                        warn("set the permissions of", error);
                    }
                    attributes.apply_to_new(&dir, &like, gid, None, &mut warn);
                }
                (None, true) => Attributes::default().apply(&dir, &like, true, &mut warn),
                (None, false) => {
                    let set = dir.stat_self().and_then(|now| match now.kind {
                        Kind::Dir => Attributes::set_time(&dir, &now, &like),
                        _ => Ok(()),
                    });
                    if let Err(error) = set {
                        warn("set the modification time of", error);
                    }
                }
            }
            let durable = dir.persist();
            settled = settled
                .and(durable.map_err(|error| Error::io("make durable the directory", path, error)));
        }
        settled
    }
}

impl HeldDir {
    fn of(dir: Dir) -> io::Result<Self> {
        let like = dir.stat_self()?;
        let opened_up = dir.open_up(&like)?;
        Ok(Self { dir, like, made: None, gid: 0, opened_up })
    }
}
