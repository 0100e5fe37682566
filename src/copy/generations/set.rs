//! The generations at an output: which are there, and which tree is not finished.
//!
//! A directory with the name of a generation counts only if it has a private directory of this user with a finished
//! record, which only a complete run leaves.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::copy::dated_name::DatedName;
use crate::error::{Error, Result};
use crate::state::private_dir::{Missing, PrivateDir};
use crate::state::record::closed::FINISHED;
use crate::sys::stat::Kind;
use crate::sys::{self, Dir, DirListing, Uninterrupted};
use crate::tree::dirs::HeldTree;

/// What stands behind the date while a tree is not finished.
pub const UNFINISHED: &str = ".part";

/// What leads to the newest generation.
pub const LATEST: &str = "latest";

/// A `latest` that is a file, and was made by a run, has fewer bytes.
const MOST_LATEST: u64 = 64;

/// What a generation's private directory says of its run.
const NOTE: &str = "generation";

const NOTE_HEAD: &str = "dircopy generation 1";

/// What the directory of all generations has.
#[derive(Debug, Default)]
pub struct GenerationSet {
    /// The complete ones, the oldest first.
    pub complete: Vec<DatedName>,
    /// Trees that are not finished, the oldest first.
    pub unfinished: Vec<DatedName>,
    /// What only has such a name.
    pub foreign: Vec<DatedName>,
    /// What only has the name of a tree that is not finished.
    pub foreign_trees: Vec<DatedName>,
}

impl GenerationSet {
    /// Reads what is in the directory `root`, at `path`.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn read(root: &Dir, path: &Path) -> Result<Self> {
        let fail = |error| Error::io("list", path, error);
        let mut set = Self::default();
        for entry in DirListing::of(root).map_err(fail)? {
            let listed = entry.map_err(fail)?.name;
            let Some(text) = listed.to_str() else { continue };
            let unfinished = text.strip_suffix(UNFINISHED).and_then(DatedName::parse);
            let Some(name) = unfinished.or_else(|| DatedName::parse(text)) else { continue };
            match is_ours(root, path, &listed, unfinished.is_none()) {
                false => {
                    set.foreign.push(name);
                    set.foreign_trees.extend(unfinished);
                }
                true if unfinished.is_some() => set.unfinished.push(name),
                true => set.complete.push(name),
            }
        }
        set.complete.sort();
        set.unfinished.sort();
        Ok(set)
    }

    /// The newest complete one.
    pub fn newest(&self) -> Option<DatedName> {
        self.complete.last().copied()
    }

    /// The newest complete one of those in `root`, which is at `path`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn last(&self, root: &Dir, path: &Path) -> Result<Option<HeldTree>> {
        let Some(name) = self.newest() else { return Ok(None) };
        let path = path_of(path, name);
        match root.open_dir(name.to_string().as_ref(), false) {
            Ok(dir) => Ok(Some(HeldTree { dir: Arc::new(dir), path })),
            Err(error) => Err(Error::io("open the last generation", path, error)),
        }
    }

    /// All directories at `path`, where the set is, with the name of a generation, whether they are one or not; the
    /// oldest first.
    pub fn named(&self, path: &Path) -> Vec<DatedName> {
        let is_dir = |name: &DatedName| {
            path_of(path, *name).symlink_metadata().is_ok_and(|found| found.is_dir())
        };
        let foreign = self.foreign.iter().copied().filter(is_dir);
        let all: BTreeSet<_> = self.complete.iter().copied().chain(foreign).collect();
        all.into_iter().collect()
    }

    /// The name of a generation that is made now: later than all that are there.
    pub fn next_name(&self, now: DatedName) -> DatedName {
        let all = self.complete.iter().chain(&self.foreign);
        let latest = all.max().copied().filter(|latest| *latest >= now);
        latest.and_then(DatedName::next).unwrap_or(now)
    }
}

/// Whether the directory `name` was made by this user's runs; one that is to be complete, by one that was. One that is
/// not complete is this user's, and nobody else may write to it, or it is not known what was put into it.
fn is_ours(root: &Dir, path: &Path, name: &OsStr, complete: bool) -> bool {
    let Ok(dir) = root.open_dir(name, false) else { return false };
    if !complete && !dir.stat_self().is_ok_and(|stat| Dir::is_kept_by_us(&stat)) {
        return false;
    }
    let private = PrivateDir::open(&dir, &path.join(name), None, Missing::Leave);
    let private = match private {
        Ok(Some(private)) => private,
        // A run was killed when it had made no more.
        Ok(None) => return !complete && DirListing::is_empty(&dir).unwrap_or(false),
        Err(_) => return false,
    };
    !complete || private.dir().stat(FINISHED.as_ref(), false).is_ok_and(|it| it.kind == Kind::File)
}

/// What a generation's run counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationNote {
    pub files: u64,
    pub bytes: u64,
    /// What was not shared with the generation before.
    pub new_bytes: u64,
}

impl GenerationNote {
    /// Writes it into the private directory of a generation.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, private: &PrivateDir) -> io::Result<()> {
        let Self { files, bytes, new_bytes } = self;
        let text = format!("{NOTE_HEAD}\nfiles {files}\nbytes {bytes}\nnew {new_bytes}\n");
        private.write(NOTE.as_ref(), true, |file| sys::write_all(&*file, text.as_bytes()))
    }

    /// What stands in the private directory of the generation `name`; `None` if that cannot be read.
    pub fn read(root: &Dir, path: &Path, name: DatedName) -> Option<Self> {
        let name = name.to_string();
        let dir = root.open_dir(name.as_ref(), false).ok()?;
        let private = PrivateDir::open(&dir, &path.join(&name), None, Missing::Leave).ok()??;
        let (file, _) = private.dir().open_ours(NOTE.as_ref()).ok()??;
        let mut text = String::new();
        Uninterrupted(file).take(4096).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        (lines.next()? == NOTE_HEAD).then_some(())?;
        let mut number = |word: &str| lines.next()?.strip_prefix(word)?.trim().parse().ok();
        Some(Self { files: number("files")?, bytes: number("bytes")?, new_bytes: number("new")? })
    }
}

/// Lets `latest` lead to the generation `name`: a symbolic link, or a file with its name where there are no links. What
/// no run made stays: then the answer is false.
///
/// # Errors
/// It cannot be made.
pub fn lead_to(root: &Dir, name: DatedName) -> io::Result<bool> {
    if matches!(Latest::read(root)?, Latest::Foreign) {
        return Ok(false);
    }
    let name = name.to_string();
    match root.create_part_name_link(name.as_ref()) {
        Ok(link) => {
            let published = root.publish(&link, LATEST.as_ref(), true);
            if published.is_err() {
                let _ = root.remove(&link);
            }
            published?;
            // Who may write to the directory may have put another link in its place before.
            if root.read_name_link(LATEST.as_ref())?.as_deref() != Some(name.as_ref()) {
                return Err(io::Error::other("it leads elsewhere: someone else may write there"));
            }
            root.persist()?;
        }
        Err(_) => {
            let text = format!("{name}\n");
            let fill = |file: &mut std::fs::File| sys::write_all(&*file, text.as_bytes());
            root.write_atomically(false, fill, |temporary| {
                root.publish(temporary, LATEST.as_ref(), true)
            })?;
        }
    }
    Ok(true)
}

/// The generation that `latest` leads to.
pub fn latest(root: &Dir) -> Option<DatedName> {
    match Latest::read(root) {
        Ok(Latest::Of(name)) => Some(name),
        _ => None,
    }
}

/// What there is of the name `latest`.
enum Latest {
    Missing,
    /// One as runs make them: it leads to the name of a generation, and says no more.
    Of(DatedName),
    /// What no run made.
    Foreign,
}

impl Latest {
    fn read(root: &Dir) -> io::Result<Self> {
        let stat = match root.stat(LATEST.as_ref(), false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            stat => stat?,
        };
        let name = match stat.kind {
            Kind::Symlink => {
                let target = root.read_name_link(LATEST.as_ref())?;
                target.as_deref().and_then(OsStr::to_str).and_then(DatedName::parse)
            }
            Kind::File if stat.size <= MOST_LATEST => {
                let mut content = Vec::new();
                let file = root.open_file(LATEST.as_ref(), false)?;
                Uninterrupted(file).take(MOST_LATEST + 1).read_to_end(&mut content)?;
                let text = content.strip_suffix(b"\n").and_then(|text| str::from_utf8(text).ok());
                text.and_then(DatedName::parse)
            }
            _ => None,
        };
        Ok(name.map_or(Self::Foreign, Self::Of))
    }
}

/// The path of the tree `name` in the directory of all.
pub fn path_of(path: &Path, name: DatedName) -> PathBuf {
    path.join(name.to_string())
}
