//! A note: a small file of the private directory in which a run leaves one thing to later ones.
//!
//! `dircopy NAME VERSION MARK SUM⏎JSON⏎`. The [`Mark`](crate::state::Mark) says which private directory it was written
//! in, and when the file was made; the sum is the SHA-256 of the JSON. A note that is damaged, that someone made up,
//! or that is of an older version is taken for absent, and the next run writes it anew.

use std::{fs::File, io, io::Read};

use serde::{Serialize, de::DeserializeOwned};

use crate::{hash::Sha256, state::PrivateDir, sys, sys::Uninterrupted};

/// More is not read of a note, in bytes.
pub const MOST_BYTES: u64 = 4 << 20;

/// The thing that a note is bound to.
#[derive(Clone, Copy)]
pub enum Bound {
    /// To the very file that it was written in.
    File,
    /// To the private directory.
    Directory,
}

/// Why a note that is there is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteDoubt {
    /// It is whole, and was written in another place, or where that had another number.
    Elsewhere,
    /// It is damaged, of another version, or cannot be read.
    Unreadable,
}

/// A note of one run for the next, in the private directory.
pub trait Note: Serialize + DeserializeOwned {
    /// Its file.
    const FILE: &str;

    /// Its name and version. A form that cannot be read as the one before gets the next number.
    const HEAD: &str;

    const BOUND: Bound = Bound::File;

    /// The note; `None` if there is none that can be believed.
    fn read(private: &PrivateDir) -> Option<Self> {
        Self::read_told(private).ok()?
    }

    /// The same, for what must not be begun anew because it could not be read.
    ///
    /// # Errors
    /// It cannot be read, which does not say that it is damaged.
    fn read_told(private: &PrivateDir) -> io::Result<Option<Self>> {
        let opened = private.dir().open_private(Self::FILE.as_ref())?;
        let Some((file, _)) = opened else { return Ok(None) };
        let head = head::<Self>(private, &file);
        Ok(parse(&text_of(file)?, &head))
    }

    /// Why there is no note that can be believed; `None` also if there is nothing of its name.
    fn doubt(private: &PrivateDir) -> Option<NoteDoubt> {
        let text = match private.dir().open_private(Self::FILE.as_ref()) {
            Ok(None) => return None,
            Ok(Some((file, _))) => {
                let head = head::<Self>(private, &file);
                text_of(file).ok().map(|text| (text, head))
            }
            Err(_) => None,
        };
        let Some((text, own)) = text else { return Some(NoteDoubt::Unreadable) };
        if parse::<Self>(&text, &own).is_some() {
            return None;
        }
        let of_version = || text.lines().next()?.strip_prefix(Self::HEAD)?.strip_prefix(' ');
        let mark = of_version().and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        match parse::<Self>(&text, &format!("{} {mark}", Self::HEAD)) {
            Some(_) => Some(NoteDoubt::Elsewhere),
            None => Some(NoteDoubt::Unreadable),
        }
    }

    /// Notes it in place of what was noted, on the device if `durable`.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&self, private: &PrivateDir, durable: bool) -> io::Result<()> {
        private.write(Self::FILE.as_ref(), durable, |file| {
            let text = text(&head::<Self>(private, file), self)?;
            sys::write_all(&*file, text.as_bytes())
        })
    }

    /// Removes the note, if there is one.
    ///
    /// # Errors
    /// It cannot be removed.
    fn forget(private: &PrivateDir) -> io::Result<()> {
        private.forget(Self::FILE)
    }
}

/// The beginning of the first line of the note in `file`.
fn head<T: Note>(private: &PrivateDir, file: &File) -> String {
    let mark = match T::BOUND {
        Bound::File => &private.mark().of_file(file),
        Bound::Directory => private.mark(),
    };
    format!("{} {}", T::HEAD, mark.text())
}

/// The text of a note whose first line begins with `head`.
///
/// # Errors
/// It has no JSON.
pub fn text(head: &str, note: &impl Serialize) -> io::Result<String> {
    let json = serde_json::to_string(note)?;
    Ok(format!("{head} {}\n{json}\n", Sha256::of(&[json.as_bytes()])))
}

/// Reads such a text from a file. Some notes had no sum at first, and those that say nothing but their head no JSON.
pub fn read_from<T: DeserializeOwned>(file: File, head: &str) -> Option<T> {
    parse(&text_of(file).ok()?, head)
}

/// What a file has; that is damaged where it is no text.
fn text_of(file: File) -> io::Result<String> {
    let mut text = Vec::new();
    Uninterrupted(file).take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(String::from_utf8(text).unwrap_or_default())
}

fn parse<T: DeserializeOwned>(text: &str, head: &str) -> Option<T> {
    let (first, body) = text.split_once('\n')?;
    let json = if body.is_empty() { "null" } else { body.strip_suffix('\n')? };
    let sum = first.strip_prefix(head)?;
    let is_whole = sum.is_empty() || sum == format!(" {}", Sha256::of(&[json.as_bytes()]));
    is_whole.then(|| serde_json::from_str(json).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;
    use serde::Deserialize;
    use std::{fs, io::Write, path::Path};

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Counted {
        files: u64,
    }

    impl Note for Counted {
        const FILE: &str = "counted";
        const HEAD: &str = "dircopy counted 2";
    }

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Here;

    impl Note for Here {
        const FILE: &str = "here";
        const HEAD: &str = "dircopy here 1";
        const BOUND: Bound = Bound::Directory;
    }

    /// Puts bytes into the file that is there, as a damaged medium would have them, or whoever made it up.
    fn put(path: &Path, bytes: &[u8]) {
        let mut file = File::options().write(true).truncate(true).open(path).unwrap();
        file.write_all(bytes).unwrap();
    }

    #[test]
    fn a_damaged_one_says_nothing() {
        let (_root, _, private) = scratch();
        assert_eq!(Counted::read(&private), None);
        for files in [7, 8] {
            Counted { files }.write(&private, true).unwrap();
            assert_eq!(Counted::read(&private), Some(Counted { files }));
        }
        let path = private.path().join(Counted::FILE);
        assert_eq!(Counted::doubt(&private), None);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            put(&path, &damaged);
            assert_eq!(Counted::read(&private), None, "{at}");
            assert!(Counted::doubt(&private).is_some(), "{at}");
            put(&path, &whole[..at]);
            assert_eq!(Counted::read(&private), None, "{at}");
        }
        put(&path, &whole);
        assert_eq!(Counted::read(&private), Some(Counted { files: 8 }));
        Counted::forget(&private).unwrap();
        Counted::forget(&private).unwrap();
        assert_eq!(Counted::read(&private), None);
    }

    #[test]
    fn one_that_was_made_elsewhere_is_not_believed() {
        let ((_root, _, private), (_other_root, _, other)) = (scratch(), scratch());
        Counted { files: 7 }.write(&private, false).unwrap();
        Here.write(&private, false).unwrap();
        for name in [Counted::FILE, Here::FILE] {
            fs::copy(private.path().join(name), other.path().join(name)).unwrap();
        }
        assert_eq!((Counted::read(&other), Here::read(&other)), (None, None));
        let elsewhere = Some(NoteDoubt::Elsewhere);
        assert_eq!((Counted::doubt(&other), Here::doubt(&other)), (elsewhere, elsewhere));
        // Where the system tells when a file was made, one that is bound to its file is of no use in another.
        let text = fs::read(private.path().join(Counted::FILE)).unwrap();
        fs::remove_file(private.path().join(Counted::FILE)).unwrap();
        fs::write(private.path().join(Counted::FILE), text).unwrap();
        let tells = private.dir().birth().is_some();
        assert!(Counted::read(&private).is_none() || !tells);
    }

    #[test]
    fn those_of_earlier_versions_are_read_or_taken_for_absent() {
        let (_root, _, private) = scratch();
        let mark = private.mark().text();
        let at = |name: &str| private.path().join(name);
        fs::write(at(Here::FILE), format!("dircopy here 1 {mark}\n")).unwrap();
        assert_eq!(Here::read(&private), Some(Here), "as the note of a bag was");
        fs::write(at(Counted::FILE), "").unwrap();
        let mark = private.mark().of_file(&File::open(at(Counted::FILE)).unwrap());
        let counted = |head: &str, rest: &str| {
            put(&at(Counted::FILE), format!("{head} {}\n{rest}", mark.text()).as_bytes());
            Counted::read(&private)
        };
        let json = "{\"files\":7}\n";
        assert_eq!(counted(Counted::HEAD, json), Some(Counted { files: 7 }), "as `traits` was");
        assert_eq!(counted("dircopy counted 1", json), None);
        assert_eq!(Counted::doubt(&private), Some(NoteDoubt::Unreadable));
        assert_eq!(counted(Counted::HEAD, "files 7\n"), None);
        assert_eq!(counted(Counted::HEAD, ""), None);
    }
}
