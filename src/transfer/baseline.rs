//! What the source should hold, by an earlier manifest (`--expect`): a file that has another digest
//! was edited, or it has rotted.
//!
//! An edit changes a file's size or time, rot changes neither. A manifest knows no times, so there are
//! two witnesses for what these were. The copy at the output, if it is what the manifest lists: it has
//! the size and time that the file had then. Otherwise the manifest itself: a file that has another
//! digest, and was not modified since the manifest was written, was changed by no program that sets
//! times. What has rotted is not copied, and whatever is at the output stays.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::io::options::Durability;
use crate::io::read_back::ReadBack;
use crate::io::watched_file::WatchedFile;
use crate::manifest::Index;
use crate::manifest::index::Found;
use crate::part::part_file::Part;
use crate::path::{RelPath, Shown};
use crate::sys::stat::{Kind, Stat, Time};
use crate::sys::{self, Dir, Medium};
use crate::transfer::context::Context;
use crate::transfer::outcome::Fate;
use crate::transfer::prepare::look;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::last_dir::LastDir;

/// The manifest that the source is held against.
#[derive(Debug)]
pub struct Expected {
    index: Index,
    path: PathBuf,
    /// The manifest itself, and its length and time when it was read.
    file: File,
    read: (u64, Time),
    written: Time,
    as_expected: AtomicU64,
    edited: AtomicU64,
}

/// What is at the output in place of a file.
struct There {
    digest: Digest,
    /// Whether it has the size and time of the source's file.
    alike: bool,
}

impl Expected {
    /// Reads the manifest at `path`, twice; it takes 13 to 14 bytes and 1 bit of memory a line. Nothing more
    /// is read once `is_to_stop` says so.
    ///
    /// # Errors
    /// It is not a regular file, cannot be read, or lists nothing.
    pub fn open(path: &Path, is_to_stop: &dyn Fn() -> bool) -> Result<Self> {
        let fail = |error| Error::io("read the expected manifest", path, error);
        let file = Self::look(path)?;
        let stat = Dir::stat_file(&file).map_err(fail)?;
        let read = (stat.size, stat.mtime);
        let index = Index::build(file.try_clone().map_err(fail)?, is_to_stop).map_err(fail)?;
        if index.is_empty() && !is_to_stop() {
            let finding = "it has no line with a SHA-256 digest and a name";
            return Err(Error::finding("expect what is listed in", path, finding));
        }
        // A time that was set by hand does not make it later than it is.
        let written = stat.mtime.min(stat.ctime);
        let (as_expected, edited) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { index, path: path.to_path_buf(), file, read, written, as_expected, edited })
    }

    /// Opens what may be a manifest.
    ///
    /// # Errors
    /// It is not a regular file, or cannot be opened.
    fn look(path: &Path) -> Result<File> {
        let fail = |error| Error::io("read the expected manifest", path, error);
        // Opening a FIFO would wait.
        if !std::fs::metadata(path).map_err(fail)?.is_file() {
            let finding = "it is not a regular file";
            return Err(Error::finding("read the expected manifest", path, finding));
        }
        File::open(path).map_err(fail)
    }

    /// Lines that say nothing that could be expected: malformed, torn or too long ones.
    pub fn malformed(&self) -> u64 {
        self.index.skipped()
    }

    /// That the manifest is what was read. An index knows of most lines only where they stand, so of one that
    /// is written to meanwhile nobody knows what it did not say any more.
    ///
    /// # Errors
    /// It is not.
    pub fn is_as_read(&self) -> Result<()> {
        let stat = Dir::stat_file(&self.file).map_err(|error| self.unreadable(error))?;
        if (stat.size, stat.mtime) == self.read {
            return Ok(());
        }
        let finding =
            "it was changed while the source was held against it; run again with one that stays";
        Err(Error::finding("rely on the expected manifest", &self.path, finding))
    }

    /// What is to be told if so many lines were of no use.
    pub fn warning(&self, unusable: u64) -> Option<Error> {
        let finding = format!(
            "{unusable} of its lines say nothing that can be expected of a file in the source, so what \
             they were to list is held against nothing"
        );
        let is_any = unusable > 0;
        is_any.then(|| Error::finding("use all of the expected manifest", &self.path, finding))
    }

    /// Files that were read and found to have the listed digest.
    pub fn as_expected(&self) -> u64 {
        self.as_expected.load(Relaxed)
    }

    /// … and those that had been edited since.
    pub fn edited(&self) -> u64 {
        self.edited.load(Relaxed)
    }

    /// What is expected of the file `path`.
    fn listed(&self, path: &[u8]) -> Result<Found> {
        self.index.peek(path).map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, error: io::Error) -> Error {
        Error::io("read the expected manifest", &self.path, error)
    }

    /// Why nothing can be done with a file of which the manifest says different things. What is at the output
    /// may be the good one.
    fn unclear(&self, deed: &'static str, path: PathBuf) -> Error {
        let finding = format!(
            "{} lists it with different digests, so nobody can say whether it has rotted; what is at the \
             output stays",
            Shown::path(&self.path)
        );
        Error::finding(deed, path, finding)
    }

    /// Counts what was found of the file `path`, unless that was done before: a file may be read again.
    fn note(&self, path: &[u8], count: &AtomicU64) -> Result<()> {
        let first = self.index.visit(path).map_err(|error| self.unreadable(error))?;
        count.fetch_add(first.into(), Relaxed);
        Ok(())
    }

    /// The listed files that this run did not come upon and that are not in `source` as regular files:
    /// a link counts if it is to `follow` them. Nothing more is looked for once `is_to_stop` says so.
    ///
    /// Returns how many lines have names that no tree can hold.
    ///
    /// # Errors
    /// The manifest could not be read.
    pub fn gone(
        &self,
        source: &Dir,
        follow: bool,
        is_to_stop: &dyn Fn() -> bool,
        mut tell: impl FnMut(&RelPath),
    ) -> Result<u64> {
        let mut last = LastDir::default();
        let mut unvisited = self.index.unvisited(is_to_stop);
        for listed in unvisited.by_ref() {
            let (path, _) = listed.map_err(|error| self.unreadable(error))?;
            let is_gone = match last.stat(source, &path, follow) {
                Ok(stat) => stat.kind != Kind::File,
                // Any other error hides the file; the walk told it.
                Err(error) => is_absent(&error),
            };
            if is_gone {
                tell(&path);
            }
        }
        Ok(unvisited.refused())
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether an earlier manifest expects something of a file, so that it has to be read.
pub fn is_expected(context: &Context<'_>, output: &OutputDir, entry: &SourceEntry) -> Result<bool> {
    match context.shared.baseline {
        None => Ok(false),
        Some(expected) => {
            let path = output.rel.join(&entry.name);
            expected.listed(path.as_bytes()).map(|listed| !matches!(listed, Found::Nothing))
        }
    }
}

/// What becomes of a file that was read and has this digest, if it must not be copied: it has rotted, or
/// that could not be found out. `read_back` is for reading its copy, if that has to be asked.
pub fn objection(
    context: &Context<'_>,
    (source, output): (&SourceDir, &OutputDir),
    entry: &SourceEntry,
    digest: Option<Digest>,
    read_back: Option<&mut ReadBack>,
) -> Option<Fate> {
    let (expected, digest) = (context.shared.baseline?, digest?);
    let path = output.rel.join(&entry.name);
    let judged = match expected.listed(path.as_bytes()) {
        Ok(Found::Nothing) => return None,
        Ok(Found::Unclear) => {
            let noted = expected.note(path.as_bytes(), &AtomicU64::new(0));
            noted.and_then(|()| Err(expected.unclear("copy", source.path_of(&entry.name))))
        }
        Ok(Found::Agreed { digest: listed, .. }) if listed == digest => {
            expected.note(path.as_bytes(), &expected.as_expected).map(|()| None)
        }
        Ok(Found::Agreed { digest: listed, .. }) => {
            let judge = Judge { context, expected, source, output, entry, listed };
            judge.differing(&path, read_back)
        }
        Err(error) => Err(error),
    };
    judged.unwrap_or_else(|error| Some(Fate::Failed(error)))
}

/// The same for a further name of a file, which is not read: `digest` is of its first name. The name
/// counts for nothing more than that one, unless something else is expected of it.
///
/// What is wrong if it cannot be made: the file has rotted, by what is expected of this name.
///
/// # Errors
/// That cannot be said.
pub fn further_name(
    expected: &Expected,
    output: &OutputDir,
    entry: &SourceEntry,
    digest: Option<Digest>,
) -> Result<Option<Error>> {
    const DEED: &str = "make the hard link";
    let path = output.rel.join(&entry.name);
    let path = path.as_bytes();
    let to = || output.path_of(&entry.name);
    match (expected.listed(path)?, digest) {
        (Found::Unclear, _) => Err(expected.unclear(DEED, to())),
        (Found::Agreed { digest: listed, .. }, Some(digest)) if listed != digest => {
            if entry.stat.mtime > expected.written {
                return expected.note(path, &expected.edited).map(|()| None);
            }
            let manifest = Shown::path(&expected.path);
            let finding = format!("it is not what {manifest} lists, {NOT_SINCE}");
            Ok(Some(Error::finding(DEED, to(), finding)))
        }
        _ => expected.note(path, &AtomicU64::new(0)).map(|()| None),
    }
}

const NOT_SINCE: &str = "although it was not modified since that was written";

/// A file that has another digest than the `listed` one.
struct Judge<'a> {
    context: &'a Context<'a>,
    expected: &'a Expected,
    source: &'a SourceDir,
    output: &'a OutputDir,
    entry: &'a SourceEntry,
    listed: Digest,
}

impl Judge<'_> {
    fn differing(&self, path: &RelPath, read_back: Option<&mut ReadBack>) -> Result<Option<Fate>> {
        let Self { context, expected, listed, .. } = *self;
        let there = look(self.output, self.entry)?.filter(|there| there.kind == Kind::File);
        let is_there = there.is_some();
        // A copy that cannot be read tells nothing.
        let there = there.and_then(|there| self.there(path, &there, read_back).ok().flatten());
        if context.control.stop.is_urgent() {
            return Ok(Some(Fate::Abandoned));
        }
        let manifest = Shown::path(&expected.path);
        let finding = match &there {
            Some(There { digest, alike: true }) if *digest == listed => format!(
                "it has rotted: it is not what {manifest} lists, and its copy, which is, has the \
                 same size and time; the copy stays"
            ),
            Some(There { digest, alike: false }) if *digest == listed => {
                expected.note(path.as_bytes(), &expected.edited)?;
                return Ok(None);
            }
            _ if self.entry.stat.mtime > expected.written => {
                expected.note(path.as_bytes(), &expected.edited)?;
                return Ok(None);
            }
            _ => {
                let kept =
                    if is_there { "what is at the output stays" } else { "it is not copied" };
                format!("it is not what {manifest} lists, {NOT_SINCE}; {kept}")
            }
        };
        expected.note(path.as_bytes(), &AtomicU64::new(0))?;
        let error = Error::finding("copy", self.source.path_of(&self.entry.name), finding);
        Ok(Some(Fate::Rotten { error, stands: there.map(|there| there.digest) }))
    }

    /// What the file's copy at the output holds. It is read only if no earlier manifest tells, and if that
    /// matters.
    fn there(
        &self,
        path: &RelPath,
        there: &Stat,
        read_back: Option<&mut ReadBack>,
    ) -> Result<Option<There>> {
        let Self { context, output, entry, .. } = *self;
        let alike = entry.stat.size == there.size && entry.stat.mtime.is_stored_as(there.mtime);
        let known = context.shared.reused.and_then(|carry| carry.digest_of(path.as_bytes(), there));
        if let Some(digest) = known {
            return Ok(Some(There { digest, alike }));
        }
        // One of another time says no more than that the file is newer than the list.
        let matters = alike || entry.stat.mtime <= self.expected.written;
        let (Some(dir), true) = (&output.handle, matters) else { return Ok(None) };
        let full = || output.path_of(&entry.name);
        let file = WatchedFile::open(dir, &entry.name, false, there, &full)?;
        let is_to_stop = || context.control.stop.is_urgent();
        let (medium, mut own) = (Medium::any(file.file()), None);
        let read_back = read_back.unwrap_or_else(|| own.insert(ReadBack::new()));
        let hashed = read_back.hash(medium, context.options.algorithm, is_to_stop, |_| ());
        let Some(hashed) = hashed.map_err(|error| file.error("read", error))? else {
            return Ok(None);
        };
        file.check(hashed.bytes)?;
        if context.options.durability == (Durability::Grouped { at_once: false }) {
            // It will be listed, and nobody knows how it came here.
            sys::persist_file(file.file()).map_err(|error| file.error("make durable", error))?;
        }
        Ok(hashed.digest.map(|digest| There { digest, alike }))
    }
}

/// Removes the part file of a file that comes to `fate` instead.
pub fn discard(part: Part, fate: Fate, warnings: &mut Vec<Error>) -> Fate {
    match fate {
        Fate::Rotten { error, stands } => Fate::Rotten { error: part.discard(error), stands },
        Fate::Failed(error) => Fate::Failed(part.discard(error)),
        other => {
            part.abandon(warnings);
            other
        }
    }
}
