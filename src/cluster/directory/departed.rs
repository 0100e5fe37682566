//! Files of a plan that are not in the source any more. A file that is gone alone has left. Where its directory is gone
//! or empty, too, it may be away only for a while: a file system is not mounted on this machine, for one.

use std::io;
use std::ops::AddAssign;

use crate::cluster::directory::done::{DoneFile, DoneReader};
use crate::cluster::directory::plan_dir::PlanDir;
use crate::error::{Error, Result};
use crate::path::RelPath;
use crate::sys::{self, Dir, DirListing};
use crate::tree::dirs::open_source_below;

/// Where a file of the source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    /// It is not in its directory, which has other entries.
    Gone,
    /// Its directory is gone, or there is nothing in it.
    Away,
    /// It cannot be looked at.
    Unknown,
}

/// How many files are gone or away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departed {
    pub gone: u64,
    pub away: u64,
}

impl AddAssign<Presence> for Departed {
    fn add_assign(&mut self, presence: Presence) {
        match presence {
            Presence::Gone => self.gone += 1,
            Presence::Away => self.away += 1,
            Presence::There | Presence::Unknown => {}
        }
    }
}

/// Looks for files in the source of a plan; the directory that was looked into last stays open.
pub struct SourceSearch {
    root: Dir,
    follow_links: bool,
    /// `None` in place of a directory that is gone or empty.
    last: Option<(RelPath, Option<Dir>)>,
}

impl SourceSearch {
    /// Opens the source.
    pub fn new(plan: &PlanDir) -> Result<Self> {
        let source = &plan.plan.source;
        let root = Dir::open(source).map_err(|error| Error::io("open", source, error))?;
        Ok(Self { root, follow_links: plan.plan.options.follow_links, last: None })
    }

    /// Looks for a file.
    pub fn look(&mut self, path: &RelPath) -> Presence {
        self.find(path).unwrap_or(Presence::Unknown)
    }

    fn find(&mut self, path: &RelPath) -> io::Result<Presence> {
        let (above, name) = path.split().ok_or(io::ErrorKind::InvalidInput)?;
        let name = sys::name_from_bytes(name)?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != above) {
            let opened = match open_source_below(&self.root, &above, self.follow_links) {
                Err(error) if is_absent(&error) => None,
                opened => Some(opened?),
            };
            let opened = match opened {
                Some(dir) if DirListing::is_empty(&dir)? => None,
                opened => opened,
            };
            self.last = Some((above, opened));
        }
        let Some((_, Some(dir))) = &self.last else { return Ok(Presence::Away) };
        match dir.stat(name, false) {
            Err(error) if is_absent(&error) => Ok(Presence::Gone),
            found => found.map(|_| Presence::There),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Looks once more for the files that the record of a shard says have left. `None` if one of them is back, or cannot be
/// looked at.
pub fn look_again(plan: &PlanDir, shard: u32) -> Result<Option<Departed>> {
    let (mut search, mut departed) = (SourceSearch::new(plan)?, Departed::default());
    let mut done = DoneReader::open(plan, shard)?;
    while let Some(file) = done.next_file()? {
        let DoneFile::Gone(path) = file else { continue };
        match search.look(&path) {
            Presence::There | Presence::Unknown => return Ok(None),
            presence => departed += presence,
        }
    }
    Ok(Some(departed))
}
