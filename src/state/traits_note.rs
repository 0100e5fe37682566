//! What trials showed of the output's file system, kept for dry runs: `traits` in the private directory.
//!
//! A dry run makes nothing, so it can try nothing. What the last run found out tells it which names, times and links
//! that run could not make, so that it comes to the same end. Nothing else believes it: a run tries for itself.

use std::ffi::OsStr;
use std::io::{self, Read};

use crate::state::private_dir::PrivateDir;
use crate::state::reference_time;
use crate::sys::stat::Kind;
use crate::sys::traits::Traits;
use crate::sys::{self, Dir, Uninterrupted};

const FILE: &str = "traits";

const HEAD: &str = "dircopy traits 1";

/// More is not read of a note; bytes.
const MOST_BYTES: u64 = 1 << 12;

/// Where the note is.
pub enum NotePlace<'a> {
    /// In the private directory of this very output.
    Private(&'a PrivateDir),
    /// In a directory that may be anyone's, where no directory can be private.
    Open(&'a Dir),
}

impl NotePlace<'_> {
    /// The directory that it is in.
    pub fn dir(&self) -> &Dir {
        match self {
            Self::Private(private) => private.dir(),
            Self::Open(dir) => dir,
        }
    }

    /// The first line: of which output it is.
    fn head(&self) -> String {
        match self {
            Self::Private(private) => format!("{HEAD} {}", private.mark().text()),
            Self::Open(_) => HEAD.to_owned(),
        }
    }

    /// What the last run noted; `None` if there is no note of this output.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self) -> io::Result<Option<Traits>> {
        let file = match self.dir().open_file(FILE.as_ref(), false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if Dir::stat_file(&file)?.kind != Kind::File {
            return Ok(None);
        }
        let mut text = Vec::new();
        Uninterrupted(file).take(MOST_BYTES).read_to_end(&mut text)?;
        let head = format!("{}\n", self.head());
        let traits = text.strip_prefix(head.as_bytes());
        Ok(traits.and_then(|traits| serde_json::from_slice(traits).ok()))
    }

    /// Notes `traits`, if they are not what is noted. Of a file system that holds everything there is no note, but one
    /// that takes back another.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn write(&self, traits: &Traits) -> io::Result<()> {
        if self.read()?.unwrap_or(Traits::FAITHFUL) == *traits {
            return Ok(());
        }
        let text = format!("{}\n{}\n", self.head(), serde_json::to_string(traits)?);
        let name = OsStr::new(FILE);
        match self {
            Self::Private(private) => {
                private.write(name, false, |file| sys::write_all(&*file, text.as_bytes()))
            }
            Self::Open(dir) => {
                match dir.remove(name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                let file = dir.create_new(name, true)?;
                sys::write_all(&file, text.as_bytes())?;
                sys::close_file(file)
            }
        }
    }
}

/// Whether a file of this name and so many bytes in the directory of an output that may be anyone's is what runs keep
/// there.
pub fn is_kept_in_the_open(name: &OsStr, size: u64) -> bool {
    match size {
        0 => reference_time::is_name(name),
        _ => name == FILE && size <= MOST_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;
    use crate::sys::traits::NameTraits;

    #[test]
    fn it_is_read_as_it_was_written() {
        let (root, dir, private) = scratch();
        for place in [NotePlace::Private(&private), NotePlace::Open(&dir)] {
            place.write(&Traits::FAITHFUL).unwrap();
            assert_eq!(place.read().unwrap(), None);
            let names = NameTraits { ends: false, longest: 31, ..NameTraits::EVERY };
            for traits in [Traits { names, links: false, ..Traits::FAITHFUL }, Traits::FAITHFUL] {
                place.write(&traits).unwrap();
                assert_eq!(place.read().unwrap(), Some(traits));
            }
        }
        std::fs::copy(private.path().join(FILE), root.path().join(FILE)).unwrap();
        assert_eq!(NotePlace::Open(&dir).read().unwrap(), None, "that of another place");
    }
}
