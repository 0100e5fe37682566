//! The name of a directory that a run makes for itself, and what a generation keeps about the run that made it.
//!
//! The name is when the run began, as `2026-11-21T020000Z`, in UTC; names sort by time. Who may write to the directory
//! of all generations can give them each other's names, hide the newest, and move one of another output among them. So
//! the name, and which directory that was, is noted in the private directory of each, and the newest name in that of
//! all.

use std::{fmt, io, io::Read, path::Path};

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::Offset};
use serde::{Deserialize, Serialize};

use crate::{
    error::Error, manifest::is_ahead, state::FinishedManifest, state::Missing, state::Note,
    state::PrivateDir, state::private_dir::is_marked, state::private_dir::mark_of, sys, sys::Dir,
    sys::Uninterrupted,
};

/// The ending behind the date of a tree that is not finished.
pub const UNFINISHED: &str = ".part";

/// The file of the note.
const NOTE: &str = "generation";

const NOTE_HEAD: &str = "dircopy generation 1";

/// More is not read of it, in bytes.
const MOST_NOTE: u64 = 4096;

/// A time in whole seconds, as the name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatedName(Timestamp);

impl DatedName {
    /// The date of a run that began at `time`.
    pub fn new(time: Timestamp) -> Self {
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        Self(time.max(Timestamp::UNIX_EPOCH))
    }

    /// `None` if the text is not what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let time = DateTime::strptime("%Y-%m-%dT%H%M%SZ", text).ok()?;
        let name = Self(Offset::UTC.to_timestamp(time).ok()?);
        (name.to_string() == text).then_some(name)
    }

    /// The one to try when this one is taken.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(1)).ok().map(Self)
    }

    pub fn time(self) -> Timestamp {
        self.0
    }

    /// True if that is still to come, whoever's clock it is by.
    pub fn is_ahead(self) -> bool {
        is_ahead(self.0)
    }
}

impl fmt::Display for DatedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = Offset::UTC.to_datetime(self.0);
        let (year, month, day) = (t.year(), t.month(), t.day());
        let (hour, minute, second) = (t.hour(), t.minute(), t.second());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}{minute:02}{second:02}Z")
    }
}

/// What a generation keeps about the run that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationNote {
    pub files: u64,
    pub bytes: u64,
    /// Bytes that were not shared with the generation before.
    pub new_bytes: u64,
    /// The name that it was given. Earlier versions did not note it.
    pub name: Option<DatedName>,
    /// By what the directory of all is known again that it was made in. Earlier versions did not note it.
    pub made_in: Option<String>,
}

impl GenerationNote {
    /// By what a directory of all generations is known again.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn mark_of_all(root: &Dir) -> io::Result<String> {
        mark_of(root)
    }

    /// Writes it into the private directory of a generation.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, private: &PrivateDir) -> io::Result<()> {
        let Self { files, bytes, new_bytes, name, made_in } = self;
        let mut text = format!("{NOTE_HEAD}\nfiles {files}\nbytes {bytes}\nnew {new_bytes}\n");
        text.extend(name.iter().map(|name| format!("name {name}\n")));
        text.extend(made_in.iter().map(|mark| format!("in {mark}\n")));
        private.write(NOTE.as_ref(), true, |file| sys::write_all(&*file, text.as_bytes()))
    }

    /// The note in the private directory of a generation; `None` if it cannot be read.
    pub fn read(private: &PrivateDir) -> Option<Self> {
        let (file, _) = private.dir().open_private(NOTE.as_ref()).ok()??;
        let mut text = String::new();
        Uninterrupted(file).take(MOST_NOTE).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        (lines.next()? == NOTE_HEAD).then_some(())?;
        let mut number = |word: &str| lines.next()?.strip_prefix(word)?.trim().parse().ok();
        let (files, bytes, new_bytes) = (number("files")?, number("bytes")?, number("new")?);
        let mut lines = lines.peekable();
        let name = lines.next_if(|line| line.starts_with("name "));
        let name = name.and_then(|line| DatedName::parse(line.strip_prefix("name ")?));
        let made_in = lines.next().and_then(|line| line.strip_prefix("in ")).map(str::to_owned);
        Some(Self { files, bytes, new_bytes, name, made_in })
    }

    /// The note of the generation at `path`, if that is one.
    pub fn at(path: &Path) -> Option<Self> {
        let dir = Dir::open(path).ok()?;
        Self::read(&PrivateDir::open(&dir, path, None, Missing::Leave).ok()??)
    }

    /// True if the generation with this private directory has noted that it was made in `root`.
    pub fn is_made_in(private: &PrivateDir, root: &Dir) -> bool {
        let made_in = Self::read(private).and_then(|note| note.made_in);
        made_in.is_some_and(|mark| is_marked(root, &mark).unwrap_or(false))
    }

    /// The error about the tree at `path` with this private directory, if it is a generation that was given the name of
    /// another time.
    pub fn misnamed(private: &PrivateDir, path: &Path) -> Option<Error> {
        let is = DatedName::parse(path.file_name()?.to_str()?)?;
        let was = Self::read(private)?.name.filter(|was| *was != is)?;
        let finding = format!(
            "it is the generation {was}, as its own record says: whoever may write there gave it another name; give it its \
             own again (mv), and close the directory to others (chmod 700)"
        );
        Some(Error::finding("take for the generation of its name", path, finding))
    }
}

/// The error about the generation at `path` with this private directory, if it was made in another directory of all
/// than in `root`, which it is in. What was copied there does not tell that, nor does it where directories are numbered
/// anew at each mount.
pub fn misplaced(private: &PrivateDir, path: &Path, root: &Dir) -> Option<Error> {
    let was = GenerationNote::read(private)?.made_in?;
    if is_marked(root, &was).unwrap_or(false) || !FinishedManifest::is_of_here(private) {
        return None;
    }
    let finding = "it was made in another directory, as its own record says, and may be of another source: whoever may \
                   write here moved it; move it back, and close the directory to others (chmod 700), or, if you moved it \
                   yourself, let it forget that (sed -i '/^in /d' .dircopy/generation)";
    Some(Error::finding("take for a generation of this directory", path, finding))
}

/// The name of the newest generation, in the private directory of all. It is noted when that generation is there and
/// `latest` leads to it: so one that is noted was there, whenever a run was killed.
#[derive(Debug, Serialize, Deserialize)]
pub struct NewestGeneration(String);

impl Note for NewestGeneration {
    const FILE: &str = "newest";
    const HEAD: &str = "dircopy newest 1";
}

impl NewestGeneration {
    pub fn of(name: DatedName) -> Self {
        Self(name.to_string())
    }

    pub fn name(&self) -> Option<DatedName> {
        DatedName::parse(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = DatedName::parse("2026-11-21T020000Z").unwrap();
        assert_eq!(name.to_string(), "2026-11-21T020000Z");
        assert_eq!(name.next().unwrap().to_string(), "2026-11-21T020001Z");
        for text in ["2026-11-21T020000", "2026-11-21T0200Z", "2026-1-21T020000Z", "latest", ""] {
            assert_eq!(DatedName::parse(text), None, "{text}");
        }
    }
}
