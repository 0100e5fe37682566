//! Where an output or a manifest goes: something open, or a file that is to be.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::path::directory_of;
use crate::stream::endpoint::{Endpoint, names_directory};
use crate::sys::stat::{Identity, Kind, Stat, Time};
use crate::sys::{self, Dir, StreamEnd};
use crate::tree::dirs::OutputDir;
use crate::tree::overwrite::{Decision, Policy, SourceStat, decide};

pub enum OutputPlace {
    /// To what is open: standard output, a FIFO, a device.
    Open(StreamEnd),
    /// Into a file that gets its name when it is whole.
    File(FilePlace),
    /// Nowhere: what is there stays, for this reason.
    Left(&'static str),
    /// Nowhere: something is in the way.
    Refused(&'static str),
    /// Nowhere: it cannot be found, or cannot be one.
    Failed(Error),
}

/// The place of a file.
#[derive(Clone)]
pub struct FilePlace {
    pub dir: Arc<OutputDir>,
    pub name: OsString,
    /// What gives way for it.
    pub there: Option<Stat>,
    /// What it is taken for before anything is known of it.
    pub coming: Stat,
}

impl FilePlace {
    /// The full path, for messages.
    pub fn path(&self) -> PathBuf {
        self.dir.path_of(&self.name)
    }

    /// The place of the file beside this one that has `suffix` after its name.
    pub fn beside(&self, suffix: &str, policy: Policy) -> Result<OutputPlace> {
        let mut name = self.name.clone();
        name.push(suffix);
        self.sibling(name, policy)
    }

    /// The place of the file of this name beside this one.
    pub fn sibling(&self, name: OsString, policy: Policy) -> Result<OutputPlace> {
        place_in(&self.dir, name, policy)
    }

    /// Whether the two are one file's.
    pub fn is_same(&self, other: &FilePlace) -> bool {
        let id = |place: &FilePlace| place.dir.handle.as_ref().and_then(|dir| dir.identity().ok());
        self.name == other.name && id(self) == id(other)
    }
}

impl OutputPlace {
    /// Finds the place of an output.
    ///
    /// # Errors
    /// It cannot be one.
    pub fn find(endpoint: &Endpoint, policy: Policy, stop: &Stop) -> Result<Self> {
        match (Self::look(endpoint, policy)?, endpoint) {
            (Some(place), _) => Ok(place),
            (None, Endpoint::Standard) => standard_output(),
            (None, Endpoint::Path(path)) => open(path, stop),
        }
    }

    /// The same, as far as it can be told without opening what is written to as it is: of that there is
    /// nothing.
    ///
    /// # Errors
    /// It cannot be one.
    pub fn look(endpoint: &Endpoint, policy: Policy) -> Result<Option<Self>> {
        let Endpoint::Path(path) = endpoint else { return Ok(None) };
        let refuse = |why: &str| Err(Error::finding("write to", path, why.to_owned()));
        if names_directory(path) {
            return refuse("a stream goes into a file, and this names a directory");
        }
        let Some(name) = path.file_name() else { return refuse("it is no name of a file") };
        let parent = directory_of(path);
        let cannot = |error| Error::io("open the directory", parent, error);
        let dir = Dir::open(parent).map_err(cannot)?;
        match dir.stat(name, true).map(|stat| stat.kind) {
            Ok(Kind::Dir) => return refuse("a stream goes into a file, and this is a directory"),
            Ok(Kind::Socket) => return refuse("it is a socket"),
            Ok(Kind::Fifo | Kind::Device) => return Ok(None),
            Ok(Kind::File | Kind::Symlink) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("look at", path, error)),
        }
        if let Some(why) = sys::unusable(name) {
            return refuse(why);
        }
        let stat = dir.stat_self().map_err(cannot)?;
        let mut dir = OutputDir {
            handle: Some(dir),
            fresh: false,
            gid: stat.gid,
            ..OutputDir::absent(parent.into())
        };
        dir.volume.dev = stat.id.dev;
        dir.volume.with_root = false;
        // What comes as a stream has no permissions of its own.
        dir.volume.keep_lists();
        place_in(&Arc::new(dir), name.to_os_string(), policy).map(Some)
    }

    /// Which file is there, if it is a regular one.
    pub fn identity(&self) -> Option<Identity> {
        let stat = match self {
            OutputPlace::Open(end) => Some(end.stat()),
            OutputPlace::File(place) => place.there.as_ref(),
            OutputPlace::Left(_) | OutputPlace::Refused(_) | OutputPlace::Failed(_) => None,
        };
        stat.filter(|stat| stat.kind == Kind::File).map(|stat| stat.id)
    }
}

fn standard_output() -> Result<OutputPlace> {
    let path = Path::new("-");
    if sys::was_closed_at_start(1) {
        return Err(Error::finding("write to", path, "standard output is closed"));
    }
    let end = StreamEnd::standard_output();
    end.map(OutputPlace::Open).map_err(|error| Error::io("write to", path, error))
}

/// Opens what is there, waiting for a FIFO to get a reader.
fn open(path: &Path, stop: &Stop) -> Result<OutputPlace> {
    const NAP: std::time::Duration = std::time::Duration::from_millis(20);
    loop {
        let opened = StreamEnd::open_output(path);
        match opened.map_err(|error| Error::io("open for writing", path, error))? {
            Some(end) => return Ok(OutputPlace::Open(end)),
            None if stop.is_urgent() => {
                return Err(Error::finding("open for writing", path, "it has no reader"));
            }
            None => std::thread::sleep(NAP),
        }
    }
}

/// Decides about a file by the overwrite policy: what comes is of now and of unknown size, so
/// that nothing that is there is the same or a cut-off beginning of it.
fn place_in(dir: &Arc<OutputDir>, name: OsString, policy: Policy) -> Result<OutputPlace> {
    let there = match dir.handle.as_ref().map(|handle| handle.stat(&name, false)) {
        Some(Ok(stat)) => Some(stat),
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("look at", dir.path_of(&name), error));
        }
        _ => None,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let coming = Stat {
        kind: Kind::File,
        size: 0,
        allocated: 0,
        mtime: Time { secs: now.as_secs() as i64, nanos: now.subsec_nanos() },
        ctime: Time::default(),
        id: Identity::default(),
        links: 1,
        mode: 0,
        uid: 0,
        gid: 0,
    };
    let decision = decide(
        policy,
        SourceStat(&coming),
        there.as_ref().map(|there| dir.destination(&coming, there)),
    );
    Ok(match decision {
        Decision::Create | Decision::Replace => {
            OutputPlace::File(FilePlace { dir: Arc::clone(dir), name, there, coming })
        }
        Decision::Keep => OutputPlace::Left("it is there already"),
        Decision::Leave(_) => OutputPlace::Left(
            "it is there already; --overwrite-policy update or always replaces it",
        ),
        Decision::Refuse(why) => OutputPlace::Refused(why),
    })
}
