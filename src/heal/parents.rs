//! The directories on the way to a file that is made whole: those that are missing are made as a good tree has
//! them, and what their times were is what they are afterwards.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::path::RelPath;
use crate::state::opened::OpenedDir;
use crate::state::private_dir::PrivateDir;
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

/// Which directory is meant.
#[derive(Clone, Copy)]
pub struct DirPlace<'a> {
    pub root: &'a Dir,
    pub below: &'a RelPath,
    /// Where it is, for messages.
    pub path: &'a Path,
}

impl Parents {
    /// Opens a directory; what is missing of it is made as it is below `good`, if that is given. That it was made
    /// writable is noted in `private`.
    ///
    /// # Errors
    /// It cannot be opened or made.
    pub fn open(
        place: DirPlace<'_>,
        good: Option<&Dir>,
        private: Option<&PrivateDir>,
    ) -> Result<Self> {
        let DirPlace { root, below, path } = place;
        let opened = match root.open_below(below) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match good {
                Some(good) => Self::make(root, below, good, private),
                None => Err(error),
            },
            Err(error) => Err(error),
            Ok(dir) => HeldDir::of(dir, below, private).map(|held| Self(vec![held])),
        };
        opened.map_err(|error| Error::io("open the directory", path, error))
    }

    fn make(
        root: &Dir,
        path: &RelPath,
        good: &Dir,
        private: Option<&PrivateDir>,
    ) -> io::Result<Self> {
        let (mut held, mut good) = (Vec::<HeldDir>::new(), good.try_clone()?);
        // The last that was there, which alone is changed.
        let (mut there, mut below) = (root.try_clone()?, RelPath::root());
        for name in path.components() {
            let name: &OsStr = sys::name_from_bytes(name)?;
            good = good.open_dir(name, false)?;
            if held.is_empty() {
                match there.open_dir(name, false) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        held.push(HeldDir::of(there.try_clone()?, &below, private)?);
                    }
                    opened => {
                        (there, below) = (opened?, below.join(name));
                        continue;
                    }
                }
            }
            let above = held.last().ok_or(io::ErrorKind::NotFound)?;
            // Until it has the permissions of the copy, only its owner may enter it.
            above.dir.make_dir(name, true)?;
            let dir = above.dir.open_dir(name, false)?;
            let (like, made) = (good.stat_self()?, Some(Attributes::read(&good)?));
            let gid = above.like.gid;
            held.push(HeldDir { dir, like, made, gid, opened_up: false });
        }
        if held.is_empty() {
            held.push(HeldDir::of(there, &below, private)?);
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
    pub fn settle(
        self,
        path: &Path,
        private: Option<&PrivateDir>,
        mut warn: impl FnMut(Error),
    ) -> Result<()> {
        let mut settled = Ok(());
        let was_opened = self.0.iter().any(|held| held.opened_up);
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
        if let Some(private) = private.filter(|_| was_opened)
            && let Err(error) = OpenedDir::forget(private)
        {
            warn(Error::io("remove the note of an opened directory in", private.path(), error));
        }
        settled
    }
}

impl HeldDir {
    /// One that is there. Before it is made writable that is noted: a run that is killed closes nothing again.
    fn of(dir: Dir, below: &RelPath, private: Option<&PrivateDir>) -> io::Result<Self> {
        let like = dir.stat_self()?;
        if let Some(private) = private.filter(|_| Dir::is_closed(&like)) {
            OpenedDir::new(below, &like).write(private)?;
        }
        let opened_up = dir.open_up(&like)?;
        Ok(Self { dir, like, made: None, gid: 0, opened_up })
    }
}
