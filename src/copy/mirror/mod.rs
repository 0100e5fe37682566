//! A mirror: what has left the source leaves the output too, into a dated trash there.
//!
//! Before anything is touched the two trees are compared (`search`), and the run is refused where the source may not
//! be what it was, or too much would go (`look`). When everything is copied and the new manifest has its name, what
//! was found is moved (`removal`), and old trash goes (`trash`).

pub mod departures;
pub mod look;
pub mod removal;
pub mod search;

use std::{ffi::OsStr, ffi::OsString, fmt, io, path::PathBuf, time::Duration};

use jiff::Timestamp;

use crate::{
    copy::DatedName, copy::LostNames, copy::mirror::removal::TreeRemoval, error::Error,
    error::Result, event::Stop, path::RelPath, state::private_dir::TRASH, sys, sys::Dir,
    sys::DirListing, tree::OutputDir,
};

// The trash of an output: `.dircopy-trash/2026-11-21T020000Z/`, with each piece at the path that it had.

/// Number of names that are tried for a run's own trash.
const TRIES: usize = 100;

/// The trash of a run.
pub struct Trash<'a> {
    output: &'a OutputDir,
    /// The trash of this run; made when the first piece comes.
    dated: Option<(DatedName, Dir)>,
    /// The directory of the trash that was opened last.
    last: Option<(RelPath, Dir)>,
}

impl<'a> Trash<'a> {
    /// A trash in the output whose root is `output`.
    pub fn new(output: &'a OutputDir) -> Self {
        Self { output, dated: None, last: None }
    }

    /// Where this run's trash is, if there is any.
    pub fn path(&self) -> Option<PathBuf> {
        let (name, _) = self.dated.as_ref()?;
        Some(self.output.root.join(TRASH).join(name.to_string()))
    }

    /// The directory that what comes from `path` goes to; it is made if it is missing.
    pub fn dir(&mut self, path: &RelPath) -> Result<&Dir> {
        let opened = match self.last.take() {
            Some((last, dir)) if last == *path => (last, dir),
            _ => {
                let fail = |error| Error::io("make trash in", self.output.root.join(TRASH), error);
                (path.clone(), self.make(path).map_err(fail)?)
            }
        };
        Ok(&self.last.insert(opened).1)
    }

    fn make(&mut self, path: &RelPath) -> io::Result<Dir> {
        let mut dir = self.dated()?.try_clone()?;
        for name in path.components() {
            let name = sys::name_from_bytes(name)?;
            match dir.make_dir(name, true) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) => dir.persist()?,
                Err(_) => {}
            }
            dir = dir.open_dir(name, false)?;
        }
        Ok(dir)
    }

    fn dated(&mut self) -> io::Result<&Dir> {
        if self.dated.is_some() {
            return self.dated.as_ref().map(|(_, dir)| dir).ok_or(io::ErrorKind::NotFound.into());
        }
        let root = self.output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        match root.make_dir(TRASH.as_ref(), true) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let trash = root.open_dir(TRASH.as_ref(), false)?;
        if !Dir::is_kept_by_us(&trash.stat_self()?) {
            return Err(io::Error::other("another user made it, or may write to it: remove it"));
        }
        let mut name = DatedName::new(Timestamp::now());
        for _ in 0..TRIES {
            let text = OsString::from(name.to_string());
            match trash.make_dir(&text, true) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made?;
                    let dir = trash.open_dir(&text, false)?;
                    trash.persist()?;
                    root.persist()?;
                    return Ok(&self.dated.insert((name, dir)).1);
                }
            }
            name = name.next().ok_or(io::ErrorKind::AlreadyExists)?;
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes the trash of earlier runs that is older than `keep`; `tell` is told the name of each that went, and why
    /// one did not. It ends early once `stop` says so. Which files lost names by that, `lost` knows afterwards.
    ///
    /// # Errors
    /// The trash cannot be listed.
    pub fn expire(
        &self,
        keep: Duration,
        stop: &Stop,
        lost: &mut LostNames,
        mut tell: impl FnMut(Result<String>),
    ) -> Result<()> {
        let path = self.output.root.join(TRASH);
        let fail = |error| Error::io("remove old trash from", &path, error);
        let Some(root) = &self.output.handle else { return Ok(()) };
        let trash = match root.open_unmounted(TRASH.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(fail)?,
        };
        let own = self.dated.as_ref().map(|(name, _)| *name);
        let now = Timestamp::now();
        let is_old = |name: &DatedName| {
            let age = now.duration_since(name.time());
            Duration::try_from(age).is_ok_and(|age| age > keep) && own != Some(*name)
        };
        let mut old = Vec::new();
        for entry in DirListing::of(&trash).map_err(fail)? {
            let name = entry.map_err(fail)?.name;
            old.extend(name.to_str().and_then(DatedName::parse).filter(is_old));
        }
        old.sort();
        for name in old {
            let name = name.to_string();
            let remove = &mut |dir: &Dir, name: &OsStr| lost.remove(dir, name);
            let mut removal = TreeRemoval { stop, enter: &|_| (), remove };
            match removal.run(&trash, name.as_ref()) {
                Ok(true) => tell(Ok(name)),
                Ok(false) => break,
                Err(stuck) => {
                    let stays = path.join(name).join(&stuck.path);
                    let error = Error::io("remove old trash", stays, stuck.error);
                    tell(Err(error.with_note(match stuck.others {
                        0 => String::new(),
                        others => format!("; so it is with {others} more there"),
                    })));
                }
            }
        }
        Ok(())
    }
}

/// Options for making an output a mirror of its source.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// Files that no manifest of an earlier run lists go too.
    pub all: bool,
    /// If more has left the source, the run is refused.
    pub most: MostDepartures,
    /// Trash that is older is removed after a complete run; none is without.
    pub keep_trash: Option<Duration>,
}

/// The limit for entries that leave an output in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MostDepartures {
    /// A number of files and links.
    Number(u64),
    /// A share of the files and links at the output, in percent.
    Percent(u64),
}

impl Default for MostDepartures {
    fn default() -> Self {
        Self::Percent(50)
    }
}

impl MostDepartures {
    /// True if `departed` of `all` entries may go.
    pub fn allows(self, departed: u64, all: u64) -> bool {
        match self {
            Self::Number(most) => departed <= most,
            Self::Percent(most) => u128::from(departed) * 100 <= u128::from(all) * u128::from(most),
        }
    }
}

impl fmt::Display for MostDepartures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(most) => write!(f, "{most}"),
            Self::Percent(most) => write!(f, "{most} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_may_go_by_default() {
        let half = MostDepartures::default();
        assert!(half.allows(0, 0) && half.allows(1, 2) && !half.allows(2, 3));
        let none = MostDepartures::Number(0);
        assert!(none.allows(0, 5) && !none.allows(1, 5));
        assert!(MostDepartures::Percent(100).allows(u64::MAX, u64::MAX));
    }
}
