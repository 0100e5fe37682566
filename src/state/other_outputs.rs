//! Which devices the other outputs of a run were on: `others` in the private directory.
//!
//! Where a disk is not mounted, its output would be made on the disk below the mount point. What knew better lies on
//! the disk that is not there; so the outputs of a run know it of each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::state::private_dir::PrivateDir;
use crate::sys::{self, Dir, Uninterrupted};

const HEAD: &str = "dircopy others 1";

/// More is not read of a note.
const MOST_BYTES: u64 = 1 << 20;

/// The other outputs of a run that were on devices of their own: for each, where its device was mounted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OtherOutputs(BTreeMap<PathBuf, PathBuf>);

impl OtherOutputs {
    /// What its note is called in the private directory.
    pub const FILE: &str = "others";

    /// Notes the output at `path`, if it is on another device than the root of all directories.
    pub fn add(&mut self, path: &Path) {
        if let (Ok(path), Some(top)) = (std::path::absolute(path), top_of(path)) {
            self.0.insert(path, top);
        }
    }

    /// Takes over what was noted of an output of which nothing new is known.
    pub fn keep(&mut self, earlier: &Self, path: &Path) {
        let path = std::path::absolute(path);
        let top = |path: PathBuf| Some((earlier.0.get(&path)?.clone(), path));
        self.0.extend(path.ok().and_then(top).map(|(top, path)| (path, top)));
    }

    /// Where the device was mounted that the output at `path` was on, if none is mounted there now.
    pub fn missing(&self, path: &Path) -> Option<&Path> {
        let top = self.0.get(&std::path::absolute(path).ok()?)?;
        (!is_top(top)).then_some(top)
    }

    /// What the last run noted; nothing if there is no note that can be read.
    pub fn read(private: &PrivateDir) -> Option<Self> {
        let (file, _) = private.dir().open_ours(Self::FILE.as_ref()).ok()??;
        let head = format!("{HEAD} {}\n", private.mark().of_file(&file).text());
        let mut text = String::new();
        Uninterrupted(file).take(MOST_BYTES).read_to_string(&mut text).ok()?;
        let pair = |line: &str| {
            let (path, top) = line.split_once(' ')?;
            Some((from_hex(path)?, from_hex(top)?))
        };
        Some(Self(text.strip_prefix(&head)?.lines().map(pair).collect::<Option<_>>()?))
    }

    /// Notes it for later runs, on the device if `durable`; nothing where nothing is to be noted and was.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, private: &PrivateDir, durable: bool) -> io::Result<()> {
        if Self::read(private).unwrap_or_default() == *self {
            return Ok(());
        }
        private.write(Self::FILE.as_ref(), durable, |file| {
            let mut text = format!("{HEAD} {}\n", private.mark().of_file(file).text());
            for (path, top) in &self.0 {
                text += &format!("{} {}\n", to_hex(path), to_hex(top));
            }
            sys::write_all(&*file, text.as_bytes())
        })
    }
}

/// The highest directory above `path` that is on the same device; none if that is the highest of all.
fn top_of(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let dev = |path: &Path| Some(Dir::open(path).ok()?.identity().ok()?.dev);
    let own = dev(&path)?;
    let below = path.ancestors().take_while(|above| dev(above) == Some(own)).last()?;
    below.parent().is_some().then(|| below.to_path_buf())
}

/// Whether a device is mounted at `path`. What cannot be looked at for another reason may be one.
fn is_top(path: &Path) -> bool {
    let dev = |path: &Path| Ok::<_, io::Error>(Dir::open(path)?.identity()?.dev);
    match (dev(path), path.parent().map(dev)) {
        (Ok(own), Some(Ok(above))) => own != above,
        (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
        _ => true,
    }
}

fn to_hex(path: &Path) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    path.as_os_str().as_encoded_bytes().iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
    text
}

fn from_hex(text: &str) -> Option<PathBuf> {
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = text.as_bytes().chunks(2).map(pair).collect::<Option<_>>()?;
    Some(PathBuf::from(sys::name_from_bytes(&bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn it_is_read_as_it_was_written() {
        let (root, _dir, private) = scratch();
        let mut others = OtherOutputs::default();
        others.write(&private, true).unwrap();
        assert_eq!(OtherOutputs::read(&private), None);
        // With a drive's letter on Windows.
        let absolute = |path: &str| std::path::absolute(path).unwrap();
        others.0.insert(absolute("/mnt/a b\n/out"), root.path().join("gone"));
        others.0.insert(absolute("/other"), "/".into());
        others.write(&private, true).unwrap();
        let read = OtherOutputs::read(&private).unwrap();
        assert_eq!(read, others);
        assert_eq!(read.missing(Path::new("/mnt/a b\n/out")), Some(&*root.path().join("gone")));
        assert_eq!(read.missing(Path::new("/elsewhere")), None);
        let mut kept = OtherOutputs::default();
        kept.keep(&read, Path::new("/other"));
        assert_eq!(kept.0.len(), 1);
    }
}
