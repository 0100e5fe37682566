//! A look at the index of a span, and at the disks that are here: does each have what the index has there?
//!
//! The index is believed where the private note of a disk knows its digest. What the disks hold is another check, by
//! their manifests.

use std::{io, path::Path, path::PathBuf};

use crate::{
    error::Deed, error::Error, error::Result, path::Shown, span::called, span::disks::Member,
    span::disks::SpanNote, span::disks::name_of, span::index::read_list, span::index::split,
    state::FinishedManifest, state::Missing, state::Note, state::PrivateDir, sys::Dir,
    tree::JoinReader, tree::PathRecord, tree::SortedRecords, tree::Sorter, tree::by_path,
};

const HOLD: &str = "hold against the index of the span";

const READ: &str = "read the index of the span on";

/// Disks that are to be held against the index of their span.
#[derive(Clone, Debug, Default)]
pub struct SpanCheck {
    /// The disks.
    pub disks: Vec<PathBuf>,
    /// Where private directories are kept, if not on the disks.
    pub state: Option<PathBuf>,
}

/// What was found.
#[derive(Debug)]
pub enum FoundInIndex {
    /// The disk with this number is not here, in words, with so many files.
    NotHere(String, u64),
    /// A file is on a disk that is not here.
    Elsewhere(String, Vec<u8>),
    /// The index cannot be used, or a disk is not as it has it.
    Amiss(Error),
}

/// A disk that is here.
struct HereDisk {
    path: PathBuf,
    root: Dir,
    private: PrivateDir,
    name: Option<String>,
    note: Option<SpanNote>,
}

/// The disks of a span that are here.
pub struct OpenSpan {
    here: Vec<HereDisk>,
    /// Those that no run was at.
    others: Vec<PathBuf>,
    newest: SpanNote,
}

impl SpanCheck {
    /// Opens the disks.
    ///
    /// # Errors
    /// One cannot be opened, or none has a note of a span that this user's runs made.
    pub fn open(&self) -> Result<OpenSpan> {
        let (mut here, mut others) = (Vec::new(), Vec::new());
        for path in &self.disks {
            let root = Dir::open_named(path).deed("open the directory", path)?;
            let private = PrivateDir::open(&root, path, self.state.as_deref(), Missing::Leave)?;
            let Some(private) = private else {
                others.push(path.clone());
                continue;
            };
            let (name, note) = (name_of(&private), SpanNote::read(&private));
            here.push(HereDisk { path: path.clone(), root, private, name, note });
        }
        let notes = here.iter().filter_map(|disk| disk.note.as_ref());
        let Some(newest) = notes.max_by_key(|note| note.version).cloned() else {
            let path = self.disks.first().cloned().unwrap_or_default();
            let finding =
                "no run of yours left the note of a span there (dircopy SRC --span DISK…)";
            return Err(Error::finding(HOLD, path, finding));
        };
        Ok(OpenSpan { here, others, newest })
    }
}

impl OpenSpan {
    /// True for a disk of the span that has got nothing yet, so that nothing is to be checked there.
    pub fn is_empty(&self, path: &Path) -> bool {
        let disk = self.here.iter().find(|disk| disk.path == path);
        disk.is_some_and(|disk| FinishedManifest::last_named(&disk.private).is_none())
            && self.newest.members.iter().any(|member| member.files > 0)
    }

    /// Looks, and tells what is found.
    ///
    /// # Errors
    /// What is sorted cannot be kept.
    pub fn look(&self, mut tell: impl FnMut(FoundInIndex)) -> Result<()> {
        let Self { here, others, newest } = self;
        for path in others {
            let finding =
                "no run of yours was there, so nothing says that it is a disk of the span";
            tell(FoundInIndex::Amiss(Error::finding(HOLD, path, finding)));
        }
        let mut lines = None;
        for disk in here {
            if let Some(error) = disk.refuse(newest) {
                tell(FoundInIndex::Amiss(error));
            } else if lines.is_none() {
                lines = disk.lines(newest)?;
            }
        }
        let Some(lines) = lines else {
            let finding = "on no disk that is here it is as the last run wrote it";
            let error = Error::finding(READ, &*newest.index, finding);
            tell(FoundInIndex::Amiss(error));
            return Ok(());
        };
        for (number, member) in newest.members.iter().enumerate() {
            match here.iter().find(|disk| disk.name.as_ref() == Some(&member.name)) {
                Some(disk) => disk.hold(number, &lines, &mut tell)?,
                None => tell_absent(number, member, &lines, &mut tell)?,
            }
        }
        Ok(())
    }
}

/// Tells what is on a disk that is not here.
fn tell_absent(
    number: usize,
    member: &Member,
    lines: &SortedRecords,
    tell: &mut impl FnMut(FoundInIndex),
) -> Result<()> {
    let (words, mut reader) = (member.words(number), lines.reader());
    tell(FoundInIndex::NotHere(words, member.files));
    let disk = called(number, member.path.as_ref());
    while let Some(record) = reader.next_record().deed(READ, &member.path)? {
        let (text, path) = PathRecord::told(record);
        if text.split(' ').next() == Some(&number.to_string()) {
            tell(FoundInIndex::Elsewhere(disk.clone(), path.to_vec()));
        }
    }
    Ok(())
}

impl HereDisk {
    /// Why it is not as the newest note has it, if so.
    fn refuse(&self, newest: &SpanNote) -> Option<Error> {
        let is_member = |name: &String| newest.members.iter().any(|member| member.name == *name);
        let finding = match &self.note {
            _ if !self.name.as_ref().is_some_and(is_member) => "it is no disk of this span",
            None => "the note of the span is missing there: run the same copy again",
            Some(note) if note != newest => {
                "it has an earlier index than another disk: run the same copy again"
            }
            Some(_) => {
                let read = read_list(&self.root, &newest.index, &newest.digest, |_, _| Ok(()));
                match read {
                    Ok(true) => return None,
                    _ => {
                        "its index is not what the last run wrote, or is missing: run the same copy again"
                    }
                }
            }
        };
        Some(Error::finding(HOLD, &self.path, finding))
    }

    /// The lines of the index, each with the number of its disk and the digest; `None` if it is another.
    fn lines(&self, newest: &SpanNote) -> Result<Option<SortedRecords>> {
        let mut sorter = Sorter::new(by_path);
        let read =
            read_list(&self.root, &newest.index, &newest.digest, |digest, name| {
                match split(name) {
                    Some((number, path)) => sorter.add(format!("{number} {digest}"), path),
                    None => Err(io::ErrorKind::InvalidData.into()),
                }
            });
        match read.deed(READ, &self.path)? {
            true => sorter.finish().map(Some).deed("sort the names of", &self.path),
            false => Ok(None),
        }
    }

    /// Holds what its manifest lists against what the index has on it.
    fn hold(
        &self,
        number: usize,
        lines: &SortedRecords,
        tell: &mut impl FnMut(FoundInIndex),
    ) -> Result<()> {
        let mut listed = Sorter::new(by_path);
        let fail = |error| Error::io(HOLD, &self.path, error);
        if let Some(manifest) = FinishedManifest::last_named(&self.private) {
            let read = read_list(
                &self.root,
                &manifest.name,
                &manifest.digest.to_string(),
                |digest, name| listed.add(digest.to_string(), name),
            );
            if !matches!(read, Ok(true)) {
                let finding = "its manifest is not what the last run wrote";
                tell(FoundInIndex::Amiss(Error::finding(HOLD, &self.path, finding)));
                return Ok(());
            }
        }
        let listed = listed.finish().map_err(fail)?;
        let (mut listed, mut lines) = (JoinReader::of(&listed).map_err(fail)?, lines.reader());
        let (mut missing, mut examples) = (0_u64, Vec::new());
        while let Some(record) = lines.next_record().map_err(fail)? {
            let (text, path) = PathRecord::told(record);
            let Some((of, digest)) = text.split_once(' ') else { continue };
            if of != number.to_string() {
                continue;
            }
            let there = listed.last_of(path).map_err(fail)?;
            if there.as_deref().is_none_or(|there| PathRecord::told(there).0 != digest) {
                missing += 1;
                if examples.len() < super::MOST_EXAMPLES {
                    examples.push(path.to_vec());
                }
            }
        }
        if missing > 0 {
            let names = Shown::first_of(missing, examples.iter().map(|path| Shown::bytes(path)));
            let finding = format!("its manifest does not list as the index does: {names}");
            tell(FoundInIndex::Amiss(Error::finding(HOLD, &self.path, finding)));
        }
        Ok(())
    }
}
