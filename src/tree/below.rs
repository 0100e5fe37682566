//! Everything that lies below a directory, in no order: for what looks at an output as it lies there.

use std::ffi::OsStr;
use std::path::Path;

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::path::RelPath;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{Dir, DirReader};

/// Something that lies below a directory.
pub struct EntryBelow<'a> {
    /// The directory that it is in.
    pub dir: &'a Dir,
    /// The path of that.
    pub above: &'a RelPath,
    pub name: &'a OsStr,
    /// Its own path.
    pub path: &'a RelPath,
    pub stat: Stat,
}

/// Hands `see` everything below `root`, which is at `path`, and goes into the directories for which it says so. No
/// symbolic link is followed. False if the run is to stop.
///
/// # Errors
/// A directory cannot be listed, or what `see` failed with.
pub fn each_below(
    root: &Dir,
    path: &Path,
    stop: &Stop,
    see: &mut dyn FnMut(EntryBelow<'_>) -> Result<bool>,
) -> Result<bool> {
    let (mut dirs, mut reader) = (vec![RelPath::root()], DirReader::default());
    while let Some(above) = dirs.pop() {
        let fail = |error| Error::io("list", above.full_path(path), error);
        let opened = match above.is_root() {
            // A handle of its own: a directory that is listed has one position for all.
            true => root.open_dir(".".as_ref(), false),
            false => root.open_below(&above),
        };
        let dir = opened.map_err(fail)?;
        loop {
            if stop.is_requested() {
                return Ok(false);
            }
            let batch = reader.next_batch(&dir).map_err(fail)?;
            if batch.is_empty() {
                break;
            }
            for listed in batch {
                let stat = dir.stat(&listed.name, false).map_err(fail)?;
                let path = above.join(&listed.name);
                let entry =
                    EntryBelow { dir: &dir, above: &above, name: &listed.name, path: &path, stat };
                if see(entry)? && stat.kind == Kind::Dir {
                    dirs.push(path);
                }
            }
        }
    }
    Ok(true)
}
