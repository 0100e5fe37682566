//! Directories of both trees, held open while anything in them is on its way.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::{Error, Result};
use crate::path::{DirPath, RelPath};
use crate::sys::stat::Stat;
use crate::sys::{self, Attributes, Dir};

/// A directory of the source.
#[derive(Debug)]
pub struct SourceDir {
    pub handle: Dir,
    /// Where the source's root is, for messages.
    pub root: Arc<Path>,
    /// Where below the root this directory is.
    pub rel: DirPath,
}

/// A directory of the output.
#[derive(Debug)]
pub struct OutputDir {
    /// The open directory; `None` in a dry run for one that is not there yet.
    pub handle: Option<Dir>,
    /// Where the output's root is, for messages.
    pub root: Arc<Path>,
    /// Where below the root this directory is.
    pub rel: DirPath,
    /// Whether this run made it, so that nothing can be in it yet.
    pub fresh: bool,
    /// The directory's group: new entries may take it.
    pub gid: u32,
    /// The file system it is on.
    pub volume: OutputVolume,
    /// What to give the directory when everything in it is done; `None` to leave it as it is.
    pub finish: Option<(Stat, Attributes)>,
    /// What is still on its way in it.
    pub work: OpenWork,
}

/// What is known of the file system that a directory of the output is on.
#[derive(Debug)]
pub struct OutputVolume {
    /// The device number; 0 in a dry run for a directory that is not there yet.
    pub dev: u64,
    /// Whether everything in the directory can be made durable through the root's file system at once.
    pub with_root: bool,
    /// What was found out by trials; shared with the directory that it was made in.
    pub trials: Arc<Trials>,
    /// Whether small files here are written out as soon as they are complete, once that was asked.
    pub hurries: OnceLock<bool>,
}

impl OutputVolume {
    /// It will be that of `dir`, in which the output is to be made.
    pub fn is_that_of(&self, dir: &Dir) {
        self.trials.largest_file.get_or_init(|| dir.largest_file());
    }
}

/// What only a trial tells of a file system, each made when it is first asked for.
#[derive(Debug, Default)]
pub struct Trials {
    /// The permissions that files without a name can be born with.
    born: OnceLock<u32>,
    /// Whether owner and times of symbolic links can be set.
    labels_links: OnceLock<bool>,
    /// Whether the user was told that they cannot.
    told_of_links: AtomicBool,
    /// The largest file that it can hold, if that is known to be small; bytes.
    largest_file: OnceLock<Option<u64>>,
    /// Which permissions and owners files here can have, of those that were tried.
    labels: Mutex<HashMap<Label, bool>>,
}

/// Permissions, owner and group.
type Label = (u32, u32, u32);

/// So many results of trials are kept.
const MOST_LABELS: usize = 256;

/// What is still to be done in a directory of the output, and for it.
#[derive(Debug)]
pub struct OpenWork {
    /// The directory it was made in, if this run made it: until its name there is durable, nothing
    /// in it is.
    pub made_in: Mutex<Option<Arc<OutputDir>>>,
    /// Whether something in it is missing that a later run will have to add.
    pub left_open: AtomicBool,
    /// What is still on its way in it: entries, and the walker itself.
    pub pending: AtomicUsize,
}

impl Default for OpenWork {
    /// Nothing but the walker.
    fn default() -> Self {
        Self {
            made_in: Mutex::new(None),
            left_open: AtomicBool::new(false),
            pending: AtomicUsize::new(1),
        }
    }
}

impl SourceDir {
    /// The full path of an entry here, for messages.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        path_of(&self.root, &self.rel.path()).join(name)
    }

    /// The full path of this directory, for messages only: it is never opened by it.
    pub fn path(&self) -> PathBuf {
        path_of(&self.root, &self.rel.path())
    }
}

impl OutputDir {
    /// The root of an output that is at `root` and not open.
    pub fn absent(root: Arc<Path>) -> Self {
        Self {
            handle: None,
            root,
            rel: DirPath::root(),
            fresh: true,
            gid: 0,
            volume: OutputVolume {
                dev: 0,
                with_root: true,
                trials: Arc::default(),
                hurries: OnceLock::new(),
            },
            finish: None,
            work: OpenWork::default(),
        }
    }

    /// The directory `name` in `parent`, not open yet, for the directory `source` of the source.
    pub fn below(parent: &OutputDir, name: &OsStr, source: &Stat) -> Self {
        let OutputVolume { dev, with_root, trials, .. } = &parent.volume;
        let (dev, with_root, trials) = (*dev, *with_root, Arc::clone(trials));
        Self {
            rel: parent.rel.below(name),
            gid: source.gid,
            volume: OutputVolume { dev, with_root, trials, hurries: OnceLock::new() },
            ..Self::absent(Arc::clone(&parent.root))
        }
    }

    /// The full path of an entry here, for messages.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        path_of(&self.root, &self.rel.path()).join(name)
    }

    /// The full path of this directory, for messages only: it is never opened by it.
    pub fn path(&self) -> PathBuf {
        path_of(&self.root, &self.rel.path())
    }

    /// The full path of what is at `rel` below the output's root, for messages.
    pub fn path_below(&self, rel: &RelPath) -> PathBuf {
        path_of(&self.root, rel)
    }

    /// What is in it under this name.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn look(&self, name: &OsStr) -> Result<Option<Stat>> {
        let Some(dir) = self.handle.as_ref().filter(|_| !self.fresh) else { return Ok(None) };
        match dir.stat(name, false) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("look at", self.path_of(name), error)),
        }
    }

    /// The permissions that files without a name can have from the start here; found out by a trial.
    pub fn modes_at_birth(&self) -> u32 {
        let trial = || self.handle.as_ref().map_or(0, Dir::modes_at_birth);
        *self.volume.trials.born.get_or_init(trial)
    }

    /// Whether owner and times of symbolic links can be set here without changing what they point to.
    pub fn labels_links(&self) -> bool {
        let trial = || self.handle.as_ref().is_some_and(Dir::labels_links);
        *self.volume.trials.labels_links.get_or_init(trial)
    }

    /// The largest file that can be here, if that is known to be small; bytes.
    pub fn largest_file(&self) -> Option<u64> {
        let ask = || self.handle.as_ref().and_then(Dir::largest_file);
        *self.volume.trials.largest_file.get_or_init(ask)
    }

    /// Whether a file here can have these attributes, and the permissions and the owner of `source`; found out
    /// by a trial with a file of our own.
    pub fn can_hold(&self, attributes: &Attributes, source: &Stat) -> bool {
        let label = (source.mode, source.uid, source.gid);
        let labels = || self.volume.trials.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = labels().get(&label).copied();
        if let Some(holds) = tried.filter(|holds| !holds || attributes.is_empty()) {
            return holds;
        }
        let dir = self.handle.as_ref();
        let holds = dir.is_some_and(|dir| holds(dir, attributes, source).unwrap_or(false));
        // A trial with attributes says nothing of files that have none.
        if attributes.is_empty() && labels().len() < MOST_LABELS {
            labels().insert(label, holds);
        }
        holds
    }

    /// Whether this is the first to ask, among the directories that share their trials: then it is to tell
    /// that links keep the owner and times they were made with.
    pub fn is_first_unlabelled_link(&self) -> bool {
        !self.volume.trials.told_of_links.swap(true, Relaxed)
    }

    /// Whether small files here had better be written out as soon as they are complete.
    pub fn hurries(&self) -> bool {
        let is_short = || self.handle.as_ref().is_some_and(Dir::is_short_of_room_for_unwritten);
        *self.volume.hurries.get_or_init(is_short)
    }

    /// Waits until the entries of this directory are on the device, and its own name with those of
    /// the directories above that this run made.
    pub fn persist(&self) -> io::Result<()> {
        if let Some(handle) = &self.handle {
            handle.persist()?;
        }
        let mut made_in = self.work.made_in.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(above) = &*made_in {
            above.persist()?;
        }
        *made_in = None;
        Ok(())
    }

    /// Notes that something which belongs here is missing: the directory must stay writable for its owner.
    pub fn leave_open(&self) {
        self.work.left_open.store(true, Relaxed);
    }

    /// Whether something that belongs here is missing.
    pub fn is_left_open(&self) -> bool {
        self.work.left_open.load(Relaxed)
    }

    /// Counts `more` things that are on their way here.
    pub fn announce(&self, more: usize) {
        self.work.pending.fetch_add(more, AcqRel);
    }

    /// Counts one thing as arrived; whether it was the last that was on its way.
    pub fn arrived(&self) -> bool {
        self.work.pending.fetch_sub(1, AcqRel) == 1
    }
}

/// A path below a root in the system's own form.
fn path_of(root: &Path, rel: &RelPath) -> PathBuf {
    let mut path = root.to_path_buf();
    path.extend(rel.components().filter_map(|name| sys::name_from_bytes(name).ok()));
    path
}

/// Whether a file in `dir` that is given these attributes and those of `source` has them then.
fn holds(dir: &Dir, attributes: &Attributes, source: &Stat) -> io::Result<bool> {
    let (file, name) = dir.create_part()?;
    let takes = |attributes: &Attributes, stat: &Stat| {
        attributes.apply(&file, stat, false, |_, _| ());
        Dir::stat_file(&file).is_ok_and(|now| attributes.are_at(&now, &file, stat))
    };
    // It may have been made with the permissions in question: they must be seen to change.
    let other = Stat { mode: source.mode ^ 0o044, ..*source };
    let holds = takes(&Attributes::default(), &other) && takes(attributes, source);
    dir.remove(&name)?;
    Ok(holds)
}
