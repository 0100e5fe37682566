//! The destination of a file that is written when the run ends. What is there is replaced only if an earlier run
//! wrote it, which its first bytes say: a slip of the keyboard costs nobody a file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::cli::report::page::MARK;
use crate::cli::report::render::is_page;
use crate::error::{Error, Result};
use crate::path::{Shown, directory_of};
use crate::sys::stat::Kind;
use crate::sys::{Dir, Uninterrupted};

/// The destination of a file that is written when the run ends.
#[derive(Debug)]
pub struct Destination {
    dir: Dir,
    name: OsString,
    path: PathBuf,
    kind: RecordKind,
}

/// What a file is that a run leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Receipt,
    Page,
    Metrics,
}

impl RecordKind {
    /// That of the report at `path`.
    pub fn of_report(path: &Path) -> Self {
        if is_page(path) { Self::Page } else { Self::Receipt }
    }

    /// The deed of writing one, in messages.
    fn deed(self) -> &'static str {
        match self {
            Self::Receipt | Self::Page => "write the report",
            Self::Metrics => "write the metrics",
        }
    }

    /// What every such file begins with, and what it is called.
    fn mark(self) -> (&'static str, &'static str) {
        match self {
            Self::Receipt => ("{\n  \"format\": \"dircopy-report\",\n", "is no report of dircopy"),
            Self::Page => (MARK, "is no page of dircopy"),
            Self::Metrics => ("# HELP dircopy_", "has no figures of dircopy"),
        }
    }
}

/// That a record at `path`, which is to lie in `dir`, cannot be made: that directory may be missing.
pub fn cannot(deed: &'static str, path: &Path, dir: &Path, error: io::Error) -> Error {
    let is_missing = || dir.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if error.kind() != io::ErrorKind::NotFound || !is_missing() {
        return Error::io(deed, path, error);
    }
    let dir = Shown::path(dir);
    let finding =
        format!("the directory {dir} does not exist, and no run makes it for this; make it first");
    Error::finding(deed, path, finding)
}

impl Destination {
    /// Opens the directory of the file.
    ///
    /// # Errors
    /// Something else than such a file has its name.
    pub fn new(kind: RecordKind, path: &Path) -> Result<Self> {
        let Some(name) = path.file_name() else {
            let finding = "the last component is no name of a file";
            return Err(Error::finding(kind.deed(), path, finding));
        };
        let dir = Dir::open(directory_of(path));
        let dir = dir.map_err(|error| cannot(kind.deed(), path, directory_of(path), error))?;
        let place = Self { dir, name: name.to_os_string(), path: path.to_path_buf(), kind };
        place.refuse_foreign()?;
        Ok(place)
    }

    /// Refuses to replace what no earlier run wrote; an empty file may be replaced.
    fn refuse_foreign(&self) -> Result<()> {
        let Self { kind, path, .. } = self;
        match self.dir.stat(&self.name, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io(kind.deed(), path, error)),
            Ok(stat) if stat.kind != Kind::File => {
                let is = stat.kind.name();
                let finding = format!("{is} has this name, and only a file is replaced");
                return Err(Error::finding(kind.deed(), path, finding));
            }
            Ok(_) => {}
        }
        let (mark, is_none) = kind.mark();
        let begin = self.read(mark.len() as u64);
        let begin = begin.map_err(|error| Error::io("replace", path, error))?;
        if begin.is_empty() || begin == mark.as_bytes() {
            return Ok(());
        }
        let finding = format!("it is there and {is_none}; give another name, or remove it first");
        Err(Error::finding("replace", path, finding))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first `most` bytes of the file that is there now.
    pub fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = self.dir.open_file(&self.name, false)?;
        Uninterrupted(file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the file by `fill`, syncs it and then replaces the earlier one, so that no reader sees half of
    /// it. After an error the earlier one is still there, and so is what has come there since the run began.
    pub fn write(&self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        self.refuse_foreign()?;
        let publish = |temporary: &OsStr| self.dir.publish(temporary, &self.name, true);
        let private = self.kind != RecordKind::Metrics;
        let fill = |file: &mut File| {
            self.keep_permissions(file)?;
            fill(file)
        };
        let written = self.dir.write_atomically(private, fill, publish);
        written.map_err(|error| Error::io(self.kind.deed(), &self.path, error))
    }

    /// Gives the new file the permissions of the one that it replaces, if that is this user's too: who opened a report
    /// to others once has it so every night.
    fn keep_permissions(&self, new: &File) -> io::Result<()> {
        let Ok(old) = self.dir.open_file(&self.name, false) else { return Ok(()) };
        match Dir::stat_file(&old)?.uid == Dir::stat_file(new)?.uid {
            true => new.set_permissions(old.metadata()?.permissions()),
            false => Ok(()),
        }
    }
}
