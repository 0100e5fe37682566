//! Keeping hard links: the first name of a file is copied, the others become links to that copy.
//!
//! A further name waits until the first has its final name. What is remembered is bounded by the
//! files with several names whose names were not all seen yet.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use crate::copy::special::symlink::{self, LinkOutcome};
use crate::error::{Error, Result};
use crate::event::Gate;
use crate::hash::{Algorithm, Digest, Digests};
use crate::io::read_back::ReadBack;
use crate::path::RelPath;
use crate::sys::stat::{Identity, Kind, Stat};
use crate::sys::{Dir, Medium};
use crate::tree::dirs::OutputDir;
use crate::tree::found::SourceEntry;
use crate::tree::overwrite::{Decision, Policy, SourceStat, decide};

/// So many waiting names are enough to commit the group that they may wait for: each holds a
/// directory open.
const MANY: usize = 256;

/// A further name of a file.
#[derive(Debug)]
pub struct Link {
    pub output: Arc<OutputDir>,
    pub entry: SourceEntry,
}

/// The first name of a file, once its fate is known.
#[derive(Clone, Debug)]
pub struct First {
    pub dir: RelPath,
    pub name: Arc<OsStr>,
    /// What the file was when it was listed under its first name.
    pub stat: Stat,
    /// What is listed of it, if anything is.
    pub digests: Option<Digests>,
    /// Whether it stands at the output.
    pub there: bool,
    /// Whether it has the source's permissions, owner and attributes, as far as is known.
    pub labelled: bool,
}

impl First {
    /// The digest of what is at the output, whose root is `root`, under this name; none if the run is to stop.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hash(
        &self,
        root: &OutputDir,
        algorithm: Algorithm,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<Option<Digest>> {
        let fail = |error| Error::io("read", root.path_below(&self.dir.join(&self.name)), error);
        let handle = root.handle.as_ref().ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
        let file = handle.open_below(&self.dir).and_then(|dir| dir.open_file(&self.name, false));
        let file = file.map_err(fail)?;
        let hashed = ReadBack::new().hash(Medium::any(&file), algorithm, is_to_stop, |_| ());
        Ok(hashed.map_err(fail)?.and_then(|hashed| hashed.digest))
    }
}

#[derive(Debug)]
struct LinkedFile {
    first: Option<First>,
    waiting: Vec<Link>,
    /// Names whose fate is not known yet.
    to_come: u64,
}

/// The files with several names.
#[derive(Debug, Default)]
pub struct HardLinks {
    files: HashMap<Identity, LinkedFile>,
    waiting: usize,
}

impl HardLinks {
    /// Takes a further name in; gives it back with the first if that is known, to be made.
    pub fn add(&mut self, link: Link) -> Option<(Link, First)> {
        let id = link.entry.stat.id;
        let file = self.files.entry(id).or_insert_with(|| LinkedFile::new(&link.entry));
        match &file.first {
            None => {
                file.waiting.push(link);
                self.waiting += 1;
                None
            }
            Some(first) => {
                let first = first.clone();
                self.forget(id, 1);
                Some((link, first))
            }
        }
    }

    /// The fate of a first name is known: returns the names that waited for it.
    pub fn settle(&mut self, entry: &SourceEntry, first: First) -> Vec<(Link, First)> {
        let id = entry.stat.id;
        let file = self.files.entry(id).or_insert_with(|| LinkedFile::new(entry));
        let waiting = std::mem::take(&mut file.waiting);
        file.first = Some(first.clone());
        self.waiting -= waiting.len();
        self.forget(id, 1 + waiting.len() as u64);
        waiting.into_iter().map(|link| (link, first.clone())).collect()
    }

    /// Whether so many names wait that what they wait for should be committed.
    pub fn are_many(&self) -> bool {
        self.waiting >= MANY
    }

    fn forget(&mut self, id: Identity, names: u64) {
        if let Some(file) = self.files.get_mut(&id) {
            file.to_come = file.to_come.saturating_sub(names);
            if file.to_come == 0 {
                self.files.remove(&id);
            }
        }
    }
}

impl LinkedFile {
    fn new(entry: &SourceEntry) -> Self {
        Self { first: None, waiting: Vec::new(), to_come: entry.stat.links }
    }
}

/// Makes a further name of a file whose first name's fate is known.
pub fn make(
    root: &OutputDir,
    link: &Link,
    first: &First,
    policy: Policy,
    gate: &Gate<'_>,
) -> Result<LinkOutcome> {
    let Link { output, entry } = link;
    let path = || output.path_of(&entry.name);
    let fail = |error| Error::io("make the hard link", path(), error);
    let (Some(dir), Some(root_dir)) = (&output.handle, &root.handle) else {
        return Err(fail(io::ErrorKind::NotFound.into()));
    };
    if !first.there {
        let finding = "the file it is another name of is not at the output";
        return Err(Error::finding("make the hard link", path(), finding));
    }
    // A file that changed while it was read was looked at again, and is newer than this name.
    let read_since = first.stat.id == entry.stat.id && first.stat.ctime > entry.stat.ctime;
    if let Some(change) = first.stat.change(&entry.stat).filter(|_| !read_since) {
        let finding = format!("since its first name was listed, {change}");
        return Err(Error::finding("make the hard link", path(), finding));
    }
    let from = root_dir.open_below(&first.dir).map_err(fail)?;
    let there = match dir.stat(&entry.name, false) {
        Ok(there) => Some(there),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(fail(error)),
    };
    if let Some(there) = &there
        && from.stat(&first.name, false).map_err(fail)?.id == there.id
    {
        return Ok(LinkOutcome::Kept);
    }
    let decision = match entry.stat.kind {
        // Links can have several names, too.
        Kind::Symlink => {
            let target = |dir: &Dir, name| dir.read_link(name).map_err(fail);
            let is_same = there.as_ref().is_some_and(|there| there.kind == Kind::Symlink)
                && target(dir, &entry.name)? == target(&from, &first.name)?;
            symlink::decide(policy, &entry.stat, there.as_ref(), is_same)
        }
        _ => {
            let destination = there.as_ref().map(|there| output.destination(&entry.stat, there));
            decide(policy, SourceStat(&entry.stat), destination)
        }
    };
    match decision {
        Decision::Create | Decision::Keep | Decision::Replace if !gate.lets_pass() => {
            return Ok(LinkOutcome::Abandoned);
        }
        Decision::Create => dir.hard_link(&from, &first.name, &entry.name).map_err(|error| {
            fail(error).with_note("; without --hard-links it is copied as a file of its own")
        })?,
        Decision::Leave(why) => return Ok(LinkOutcome::Left(why)),
        Decision::Refuse(why) => return Err(Error::finding("make the hard link", path(), why)),
        // A file of its own that looks the same becomes the link that was asked for.
        Decision::Keep if policy == Policy::Never => {
            return Ok(LinkOutcome::Left("it is a file of its own, and nothing is to be replaced"));
        }
        Decision::Keep | Decision::Replace => {
            let part =
                dir.create_part_hard_link(output.volume.parts, &from, &first.name).map_err(fail)?;
            if let Err(error) = dir.publish(&part, &entry.name, true) {
                let _ = dir.remove(&part);
                return Err(fail(error));
            }
            // A rename onto a name of the same file does nothing (rename(2)). Some file systems of FUSE number each
            // name, so that it is not known for one.
            match dir.remove(&part) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
                _ => {}
            }
        }
    }
    Ok(LinkOutcome::Made)
}
