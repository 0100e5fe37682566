//! Before anything is touched: opening both sides, and refusing what could harm the source.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::path::{DirPath, directory_of};
use crate::sys::stat::{Identity, Kind};
use crate::sys::{self, Attributes, Cloned, Dir, DirReader, Lock, Place};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::lock::Patience;

/// Both sides, opened and found to be apart.
pub struct Prepared {
    pub source: Arc<SourceDir>,
    pub source_id: Identity,
    /// The file to copy when the source is one file.
    pub file: Option<SourceEntry>,
    pub output: Arc<OutputDir>,
    pub output_id: Option<Identity>,
    /// Whether both lie on one file system that can share data between files.
    pub may_share: bool,
    /// Whether no other run can be writing to the output.
    pub is_ours_alone: bool,
    /// The directory in which the output was made, if it was, or in a dry run would be.
    pub parent: Option<Dir>,
    /// What could not be learnt of either.
    pub warnings: Vec<Error>,
}

/// Opens the source and the output, makes the output's directory if it is missing (not if `dry`),
/// and refuses a pair that is not apart, or, if it `must_clone`, an output where that is not possible.
/// An error means that nothing was touched.
pub fn prepare(
    from: &Path,
    to: &Path,
    must_clone: bool,
    dry: bool,
    patience: Patience<'_>,
) -> Result<Prepared> {
    let (source, file) = open_source(from)?;
    let cannot_look = |path: &Path, error| Error::io("look at", path, error);
    let source_stat = source.stat_self().map_err(|error| cannot_look(from, error))?;
    let opened = open_output(to)?;
    let there = match &opened {
        Opened::There(dir) | Opened::Parent(dir) => dir,
    };
    let apart = |inside: &str| {
        Error::finding("copy to", to, format!("{inside} {}", crate::path::Shown::path(from)))
    };
    if let Opened::There(dir) = &opened
        && dir.identity().map_err(|error| cannot_look(to, error))? == source_stat.id
    {
        return Err(apart("it is the same directory as the source, or holds the source file"));
    }
    if file.is_none() && is_inside(there, &source, source_stat.id, to)? {
        return Err(apart("it is inside the source; choose an output outside of"));
    }
    let cloned = there.try_clone_within();
    let may_share = matches!(cloned, Some(Cloned::Yes));
    if let Some(Cloned::No { cause, ever: true }) = cloned
        && must_clone
    {
        let error = Error::io("clone to", to, cause);
        return Err(error.with_note("; its file system cannot share data between files"));
    }
    let there_id = there.identity().map_err(|error| cannot_look(to, error))?;
    let may_share = may_share && there_id.dev == source_stat.id.dev;
    let root: Arc<Path> = to.into();
    let mut output = OutputDir { gid: source_stat.gid, ..OutputDir::absent(root) };
    let (mut output_id, mut parent, mut warnings) = (None, None, Vec::new());
    let mut lock = Lock::Unknown;
    let (handle, fresh) = match opened {
        Opened::There(dir) => (Some(dir), false),
        Opened::Parent(above) if dry => {
            parent = Some(above);
            (None, true)
        }
        Opened::Parent(above) => {
            let made = match make_output(&above, to) {
                // Another run made it a moment ago, and is to be waited for, or named.
                Err(_) if Dir::open(to).is_ok() => {
                    return prepare(from, to, must_clone, dry, patience);
                }
                made => made?,
            };
            parent = Some(above);
            (Some(made), true)
        }
    };
    if let Some(made) = handle.as_ref().filter(|_| !dry) {
        lock = patience.lock(made, to)?;
        if fresh && !is_empty(to).map_err(|error| cannot_look(to, error))? {
            // Another run had the lock first. This one's goes with the handle.
            drop(handle);
            return prepare(from, to, must_clone, dry, patience);
        }
    }
    if let Some(handle) = &handle {
        // What it was before, not what another run made of it for a time.
        let stat = handle.stat_self().map_err(|error| cannot_look(to, error))?;
        if !fresh && !dry {
            let opened = handle.open_up(&stat);
            if opened.map_err(|error| Error::io("make writable", to, error))? {
                // As it was before, in the end.
                output.finish = Some((stat, Attributes::default()));
            }
        }
        (output.gid, output.volume.dev) = (stat.gid, stat.id.dev);
        output_id = Some(stat.id);
    }
    if fresh && file.is_none() {
        let attributes = Attributes::read(&source).unwrap_or_else(|error| {
            warnings.push(Error::io("read the attributes of", from, error));
            Attributes::default()
        });
        output.finish = Some((source_stat, attributes));
    }
    (output.handle, output.fresh) = (handle, fresh);
    let root: Arc<Path> = match (&file, from.parent()) {
        (None, _) | (_, None) => from.into(),
        (Some(_), Some(parent)) => parent.into(),
    };
    Ok(Prepared {
        source: Arc::new(SourceDir { handle: source, root, rel: DirPath::root() }),
        source_id: source_stat.id,
        file,
        output: Arc::new(output),
        output_id,
        may_share,
        is_ours_alone: lock == Lock::Held,
        parent,
        warnings,
    })
}

/// Opens the source directory; for a source that is a file, the directory it is in, and the file.
pub(crate) fn open_source(from: &Path) -> Result<(Dir, Option<SourceEntry>)> {
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::finding("copy", from, "there is no such file or directory")
        }
        _ => match sys::names_device(from) {
            Some(why) => Error::finding("copy", from, why),
            None => Error::io("open the source", from, error),
        },
    };
    match Dir::open(from) {
        Ok(dir) => return Ok((dir, None)),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
        Err(error) => return Err(fail(error)),
    }
    let Some(name) = from.file_name() else {
        return Err(fail(io::ErrorKind::NotADirectory.into()));
    };
    let parent = Dir::open(directory_of(from)).map_err(fail)?;
    // What the user names may be a link; what it points to is meant.
    let stat = parent.stat(name, true).map_err(fail)?;
    if stat.kind != Kind::File {
        let finding = format!("it is {}, neither a directory nor a file", stat.kind.name());
        return Err(Error::finding("copy", from, finding));
    }
    Ok((parent, Some(SourceEntry { name: name.into(), stat })))
}

pub(crate) enum Opened {
    /// The output's directory.
    There(Dir),
    /// The directory that the output's directory is to be made in.
    Parent(Dir),
}

pub(crate) fn open_output(to: &Path) -> Result<Opened> {
    match Dir::open(to) {
        Ok(dir) => return Ok(Opened::There(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::finding("copy to", to, "it is there and is not a directory"));
        }
        Err(error) => return Err(Error::io("open the output", to, error)),
    }
    new_name(to)?;
    let parent = directory_of(to);
    match Dir::open(parent) {
        Ok(dir) => Ok(Opened::Parent(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::finding(
            "copy to",
            to,
            format!(
                "the directory {} does not exist; make it first, or look for a typing error",
                crate::path::Shown::path(parent)
            ),
        )),
        Err(error) => Err(Error::io("open the directory", parent, error)),
    }
}

/// Makes the output's directory as the user's umask has it, so that a run that is killed leaves a
/// directory like any other; what is in it is private until it is complete.
fn make_output(parent: &Dir, to: &Path) -> Result<Dir> {
    let name = new_name(to)?;
    let fail = |error| Error::io("make the output", to, error);
    parent.make_dir(&name, false).map_err(fail)?;
    parent.open_dir(&name, false).map_err(fail)
}

/// Whether nothing is in the directory at `path`; a handle's own position stays where it is.
fn is_empty(path: &Path) -> io::Result<bool> {
    Ok(DirReader::default().next_batch(&Dir::open(path)?)?.is_empty())
}

/// The last component of a path that is to be made.
fn new_name(to: &Path) -> Result<OsString> {
    match to.components().next_back() {
        Some(Component::Normal(name)) => Ok(name.to_os_string()),
        _ => Err(Error::finding("copy to", to, "there is no such directory")),
    }
}

/// Whether `dir` is the source or below it: by the directories above it, and by its place in the
/// file system, which also sees through bind mounts.
pub(crate) fn is_inside(dir: &Dir, source: &Dir, source_id: Identity, to: &Path) -> Result<bool> {
    let fail = |error| Error::io("look above", to, error);
    // The place is a hint (two mounts of one NFS server look alike): the way to it from the source
    // must lead to the very directory.
    if let (Some(place), Some(outer)) =
        (Place::of(dir).map_err(fail)?, Place::of(source).map_err(fail)?)
        && let Some(way) = place.below(&outer)
    {
        let found = match way {
            Some(way) => source.open_below(&way).and_then(|found| found.identity()),
            None => Ok(source_id),
        };
        match found {
            Ok(found) if found == dir.identity().map_err(fail)? => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(true),
            _ => {}
        }
    }
    let mut here = dir.try_clone().map_err(fail)?;
    let mut id = here.identity().map_err(fail)?;
    loop {
        if id == source_id {
            return Ok(true);
        }
        here = here.parent().map_err(fail)?;
        let above = here.identity().map_err(fail)?;
        if above == id {
            return Ok(false);
        }
        id = above;
    }
}
