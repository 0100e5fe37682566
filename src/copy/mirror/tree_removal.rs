//! The removal of a directory with everything in it, but for what is mounted there.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::event::Stop;
use crate::sys::stat::Kind;
use crate::sys::{self, Dir, DirReader};
use crate::tree::walk::most_levels;

/// The removal of a directory with everything in it.
pub struct TreeRemoval<'a> {
    pub stop: &'a Stop,
    /// Told of each directory before anything in it goes.
    pub enter: &'a dyn Fn(&Dir),
    /// Removes what is no directory.
    pub remove: &'a mut dyn FnMut(&Dir, &OsStr) -> io::Result<()>,
}

/// What could not be removed.
#[derive(Debug)]
pub struct Stuck {
    /// The first of it, below the directory that was to go.
    pub path: PathBuf,
    pub error: io::Error,
    /// How many others there are.
    pub others: u64,
}

/// A directory that is being removed.
struct EmptiedDir {
    dir: Dir,
    name: OsString,
    /// Where it is below the first one.
    path: PathBuf,
    subdirs: Vec<OsString>,
    /// Whether something in it stays.
    stays: bool,
}

impl TreeRemoval<'_> {
    /// Removes the directory `name` in `above`; false if it was stopped. No link is followed, and nothing that is
    /// mounted is entered.
    ///
    /// # Errors
    /// Something in it cannot be removed; all else is.
    pub fn run(&mut self, above: &Dir, name: &OsStr) -> Result<bool, Stuck> {
        let (mut reader, most_levels) = (DirReader::default(), most_levels(sys::open_file_limit()));
        let mut stuck = None;
        let first = self.empty(above, name, PathBuf::new(), &mut reader, &mut stuck);
        let mut stack = vec![first.map_err(|error| Stuck::at(PathBuf::new(), error))?];
        loop {
            let levels = stack.len();
            let Some(top) = stack.last_mut() else { break };
            if self.stop.is_requested() {
                return Ok(false);
            }
            if let Some(subdir) = top.subdirs.pop() {
                if top.dir.destroy_tree(&subdir) {
                    continue;
                }
                let path = top.path.join(&subdir);
                let entered = match levels > most_levels {
                    true => Err(io::Error::other(
                        "it has too many levels for the files that may be open",
                    )),
                    false => self.empty(&top.dir, &subdir, path.clone(), &mut reader, &mut stuck),
                };
                match entered {
                    Ok(entered) => stack.push(entered),
                    Err(error) => {
                        Stuck::add(&mut stuck, &path, error);
                        stack.last_mut().into_iter().for_each(|top| top.stays = true);
                    }
                }
            } else if let Some(EmptiedDir { dir, name, path, mut stays, .. }) = stack.pop() {
                drop(dir);
                if !stays {
                    let parent = stack.last().map_or(above, |parent| &parent.dir);
                    let removed = parent.remove_dir(&name);
                    stays = removed.is_err();
                    removed.err().into_iter().for_each(|it| Stuck::add(&mut stuck, &path, it));
                }
                stack.last_mut().into_iter().for_each(|parent| parent.stays |= stays);
            }
        }
        stuck.map_or(Ok(true), Err)
    }

    /// Removes everything but directories from the directory `name`, which stays open.
    fn empty(
        &mut self,
        above: &Dir,
        name: &OsStr,
        path: PathBuf,
        reader: &mut DirReader,
        stuck: &mut Option<Stuck>,
    ) -> io::Result<EmptiedDir> {
        let dir = above.open_unmounted(name)?;
        (self.enter)(&dir);
        dir.open_up(&dir.stat_self()?)?;
        let (mut files, mut subdirs) = (Vec::new(), Vec::new());
        loop {
            let batch = reader.next_batch(&dir)?;
            if batch.is_empty() {
                break;
            }
            for listed in batch {
                let kind = match listed.kind {
                    Some(kind) => kind,
                    None => dir.stat(&listed.name, false)?.kind,
                };
                let names = if kind == Kind::Dir { &mut subdirs } else { &mut files };
                names.push(listed.name.to_os_string());
            }
        }
        let mut stays = false;
        for file in &files {
            if let Err(error) = (self.remove)(&dir, file) {
                stays = true;
                Stuck::add(stuck, &path.join(file), error);
            }
        }
        Ok(EmptiedDir { dir, name: name.to_os_string(), path, subdirs, stays })
    }
}

impl Stuck {
    fn at(path: PathBuf, error: io::Error) -> Self {
        Self { path, error, others: 0 }
    }

    fn add(stuck: &mut Option<Self>, path: &Path, error: io::Error) {
        match stuck {
            Some(first) => first.others += 1,
            None => *stuck = Some(Self::at(path.to_path_buf(), error)),
        }
    }
}
