//! Where a file goes that is written when the run ends.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::path::directory_of;
use crate::sys::Dir;
use crate::sys::stat::Kind;

/// Where a file goes that is written when the run ends.
#[derive(Debug)]
pub struct Place {
    dir: Dir,
    name: OsString,
    path: PathBuf,
    what: &'static str,
}

impl Place {
    /// Looks at the place of a file, which is `what` (in messages): its directory must be there, and
    /// what has its name must be a regular file, because it will be replaced.
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

    /// What is there now; nothing if there is no file, or it is longer than `most` bytes.
    pub fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        use std::io::Read;
        let mut bytes = Vec::new();
        self.dir.open_file(&self.name, false)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Makes the file with what `fill` writes, and lets it take the place of the one before, when it
    /// is whole and on the disk. Nobody sees a half of it, and after an error the one before is there.
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
