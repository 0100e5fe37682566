//! The destination of a file that is written when the run ends.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::path::directory_of;
use crate::sys::stat::Kind;
use crate::sys::{Dir, Uninterrupted};

/// The destination of a file that is written when the run ends.
#[derive(Debug)]
pub struct Destination {
    dir: Dir,
    name: OsString,
    path: PathBuf,
    what: &'static str,
}

impl Destination {
    /// Opens the directory of the file. `what` is the deed in messages. A file of that name will be replaced,
    /// so it must be a regular file.
    pub fn new(what: &'static str, path: &Path) -> Result<Self> {
        let finding = |text: &str| Error::finding(what, path, text.to_owned());
        let Some(name) = path.file_name() else {
            return Err(finding("the last component is no name of a file"));
        };
        let dir = Dir::open(directory_of(path)).map_err(|error| Error::io(what, path, error))?;
        match dir.stat(name, false) {
            Ok(stat) if stat.kind != Kind::File => {
                let is = stat.kind.name();
                return Err(finding(&format!("{is} has this name, and only a file is replaced")));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(what, path, error));
            }
            _ => {}
        }
        Ok(Self { dir, name: name.to_os_string(), path: path.to_path_buf(), what })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first `most` bytes of the file that is there now.
    pub fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let file = self.dir.open_file(&self.name, false)?;
        Uninterrupted(file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the file by `fill`, syncs it and then replaces the earlier one, so that no reader sees half of
    /// it. After an error the earlier one is still there.
    pub fn write(&self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        let publish = |temporary: &OsStr| self.dir.publish(temporary, &self.name, true);
        let written = self.dir.write_atomically(fill, publish);
        written.map_err(|error| Error::io(self.what, &self.path, error))
    }
}

/// Whether a file at `path` is, or would be, inside the directory `root`.
pub fn is_inside(path: &Path, root: &Path) -> bool {
    let (Ok(dir), Ok(root)) = (directory_of(path).canonicalize(), root.canonicalize()) else {
        return false;
    };
    let file = path.file_name().map_or(dir.clone(), |name| dir.join(name));
    file.starts_with(root)
}
