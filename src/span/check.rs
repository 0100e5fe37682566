//! A look at the index of a span, and at the disks that are here: does each have what the index has there?
//!
//! The index is believed where the private note of a disk knows its digest, and the newest counts. A disk that was
//! taken out before the last ones came has an earlier one: what that has on it the newest must have too. What the disks
//! hold is another check, by their manifests.

use std::{io, path::Path, path::PathBuf};

use crate::{
    error::Deed, error::Error, error::Result, path::RelPath, span::Examples, span::called,
    span::disks::Member, span::disks::SpanNote, span::disks::lists_in, span::disks::name_of,
    span::in_words, span::index::read_list, state::FinishedManifest, state::Missing, state::Note,
    state::PrivateDir, state::record::numbers, sys::Dir, tree::JoinReader, tree::PathRecord,
    tree::SortedRecords, tree::Sorter, tree::by_path,
};

const HOLD: &str = "hold against the index of the span";

const CHECK: &str = "check";

const READ: &str = "read the index of the span on";

/// Disks that are to be held against the index of their span.
#[derive(Clone, Debug, Default)]
pub struct SpanCheck {
    /// The disks.
    pub disks: Vec<PathBuf>,
    /// Where private directories are kept, if not on the disks.
    pub state: Option<PathBuf>,
    /// By what those are known that were looked at before, and are not here any more.
    pub before: Vec<String>,
}

/// What was found.
#[derive(Debug)]
pub enum FoundInIndex {
    /// What is to be known.
    Notice(Error),
    /// A file is on a disk that is not here.
    Elsewhere(Error),
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
    before: Vec<String>,
}

/// Whether the directory is a disk of a span that has nothing yet, by this user's record there; `None` if it is no disk
/// of a span.
pub fn is_empty_disk(dir: &Path, state: Option<&Path>) -> Option<bool> {
    let disk = HereDisk::open(dir, state).ok()??;
    let own = disk.note.as_ref()?.members.iter().find(|it| disk.name.as_ref() == Some(&it.name))?;
    Some(own.files == 0 && disk.is_untouched())
}

impl SpanCheck {
    /// Opens the disks.
    ///
    /// # Errors
    /// One cannot be opened, or none has a note of a span that this user's runs made.
    pub fn open(&self) -> Result<OpenSpan> {
        let (mut here, mut others) = (Vec::new(), Vec::new());
        for path in &self.disks {
            match HereDisk::open(path, self.state.as_deref())? {
                Some(disk) => here.push(disk),
                None => others.push(path.clone()),
            }
        }
        let notes = here.iter().filter_map(|disk| disk.note.as_ref());
        let Some(newest) = notes.max_by_key(|note| note.version).cloned() else {
            let path = self.disks.first().cloned().unwrap_or_default();
            let finding =
                "no run of yours left the note of a span there (dircopy SRC --span DISK…)";
            return Err(Error::finding(HOLD, path, finding));
        };
        Ok(OpenSpan { here, others, newest, before: self.before.clone() })
    }
}

impl OpenSpan {
    /// By what the disks that are here are known.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.here.iter().filter_map(|disk| disk.name.as_ref())
    }

    /// Looks, and tells what is found.
    ///
    /// # Errors
    /// What is sorted cannot be kept.
    pub fn look(&self, mut tell: impl FnMut(FoundInIndex)) -> Result<()> {
        let Self { here, others, newest, before } = self;
        for path in others {
            let finding =
                "no run of yours was there, so nothing says that it is a disk of the span";
            tell(FoundInIndex::Amiss(Error::finding(HOLD, path, finding)));
        }
        let (mut lines, mut earlier) = (None, Vec::new());
        for disk in here {
            match disk.note.as_ref().filter(|note| *note != newest) {
                _ if disk.refuse(newest, &mut tell) => {}
                Some(note) => earlier.push((disk, note)),
                None if lines.is_none() => {
                    lines = disk.lines(newest)?;
                    let (files, were) =
                        (newest.waiting, if newest.waiting == 1 { "was" } else { "were" });
                    if files > 0 {
                        let finding = format!(
                            "{} {were} on no disk yet when the newest index that is here was written",
                            in_words(files)
                        );
                        tell(notice(&disk.path, finding));
                    }
                }
                None => {}
            }
        }
        let Some(lines) = lines else {
            let finding = "on no disk that is here it is as the last run wrote it";
            let error = Error::finding(READ, &*newest.index, finding);
            tell(FoundInIndex::Amiss(error));
            return Ok(());
        };
        for (disk, note) in earlier {
            disk.agree(note, newest, &lines, &mut tell)?;
        }
        for (number, member) in newest.members.iter().enumerate() {
            match here.iter().find(|disk| disk.name.as_ref() == Some(&member.name)) {
                Some(disk) if member.files == 0 && disk.is_untouched() => {
                    let finding = "no file was copied to it yet, and the index has none on it";
                    tell(notice(&disk.path, finding.into()));
                }
                Some(disk) => disk.hold(newest, &lines, &mut tell)?,
                None if before.contains(&member.name) => {}
                None => tell_absent(number, member, &lines, &mut tell)?,
            }
        }
        Ok(())
    }
}

fn notice(path: &Path, finding: String) -> FoundInIndex {
    FoundInIndex::Notice(Error::finding(CHECK, path, finding))
}

/// Tells what is on a disk that is not here.
fn tell_absent(
    number: usize,
    member: &Member,
    lines: &SortedRecords,
    tell: &mut impl FnMut(FoundInIndex),
) -> Result<()> {
    let finding = format!("it is not here: the index has {} on it", in_words(member.files));
    tell(notice(member.words(number).as_ref(), finding));
    let finding = format!("it is on {}", called(number, member.path.as_ref()));
    let mut reader = lines.reader();
    while let Some(record) = reader.next_record().deed(READ, &member.path)? {
        let (text, path) = PathRecord::told(record);
        if text.split(' ').next() == Some(&number.to_string()) {
            let path = RelPath::parse(path).unwrap_or_default().full_path(Path::new(""));
            tell(FoundInIndex::Elsewhere(Error::finding(CHECK, path, finding.clone())));
        }
    }
    Ok(())
}

/// The lines that an index has on the disk of this name, each with its digest.
fn on(lines: &SortedRecords, note: &SpanNote, name: Option<&String>) -> io::Result<SortedRecords> {
    let number = note.members.iter().position(|member| Some(&member.name) == name);
    let number = number.map(|number| number.to_string());
    let (mut sorter, mut reader) = (Sorter::new(by_path), lines.reader());
    while let Some(record) = reader.next_record()? {
        let (text, path) = PathRecord::told(record);
        if let Some((of, digest)) = text.split_once(' ')
            && number.as_deref() == Some(of)
        {
            sorter.add(digest, path)?;
        }
    }
    sorter.finish()
}

/// The first of those that are not listed as `is_as` will have it, and their number, in words.
fn lacking(
    wanted: &SortedRecords,
    listed: &SortedRecords,
    is_as: impl Fn(&str, &str) -> bool,
) -> io::Result<Option<String>> {
    let (mut wanted, mut listed) = (wanted.reader(), JoinReader::of(listed)?);
    let mut missing = Examples::default();
    while let Some(record) = wanted.next_record()? {
        let (digest, path) = PathRecord::told(record);
        let there = listed.last_of(path)?;
        if there.as_deref().is_none_or(|there| !is_as(PathRecord::told(there).0, digest)) {
            missing.add(path);
        }
    }
    Ok(missing.names())
}

impl HereDisk {
    /// `None` if no run of this user was there.
    fn open(path: &Path, state: Option<&Path>) -> Result<Option<Self>> {
        let root = Dir::open_named(path).deed("open the directory", path)?;
        let private = PrivateDir::open(&root, path, state, Missing::Leave)?;
        Ok(private.map(|private| {
            let (name, note) = (name_of(&private), SpanNote::read(&private));
            Self { path: path.to_path_buf(), root, private, name, note }
        }))
    }

    /// True if no run of any kind copied there: no list is there, and no record was begun.
    fn is_untouched(&self) -> bool {
        FinishedManifest::last_named(&self.private).is_none()
            && lists_in(&self.root).is_ok_and(|lists| lists.is_empty())
            && numbers(self.private.dir()).is_ok_and(|begun| begun.is_empty())
    }

    /// Tells why it cannot be held against the index of the newest note, if so.
    fn refuse(&self, newest: &SpanNote, tell: &mut impl FnMut(FoundInIndex)) -> bool {
        let is_member = |name: &String| newest.members.iter().any(|member| member.name == *name);
        let finding = match &self.note {
            _ if !self.name.as_ref().is_some_and(is_member) => "it is no disk of this span",
            None => "the note of the span is missing there: run the same copy again",
            Some(note) if note != newest && note.version >= newest.version => {
                "it has another index than the others: run the same copy again"
            }
            Some(note) => match note.each_line(&self.root, |_, _, _| Ok(())) {
                Ok(true) => return false,
                _ => {
                    "its index is not what the last run wrote, or is missing: run the same copy again"
                }
            },
        };
        tell(FoundInIndex::Amiss(Error::finding(HOLD, &self.path, finding)));
        true
    }

    /// The lines of the index, each with the number of its disk and the digest; `None` if it is another.
    fn lines(&self, note: &SpanNote) -> Result<Option<SortedRecords>> {
        let mut sorter = Sorter::new(by_path);
        let read = note.each_line(&self.root, |number, digest, path| {
            sorter.add(format!("{number} {digest}"), path)
        });
        match read.deed(READ, &self.path)? {
            true => sorter.finish().map(Some).deed("sort the names of", &self.path),
            false => Ok(None),
        }
    }

    /// Holds what its own, earlier index has on it against the newest.
    fn agree(
        &self,
        note: &SpanNote,
        newest: &SpanNote,
        lines: &SortedRecords,
        tell: &mut impl FnMut(FoundInIndex),
    ) -> Result<()> {
        let Some(own) = self.lines(note)? else { return Ok(()) };
        let name = self.name.as_ref();
        let held =
            on(&own, note, name).and_then(|own| lacking(&own, &on(lines, newest, name)?, str::eq));
        tell(match held.deed(HOLD, &self.path)? {
            None => {
                let finding = "its index is of an earlier run, and agrees with the newest";
                notice(&self.path, finding.into())
            }
            Some(names) => {
                let finding = format!("the newest index does not list as its own does: {names}");
                FoundInIndex::Amiss(Error::finding(HOLD, &self.path, finding))
            }
        });
        Ok(())
    }

    /// Holds what its manifest lists against what the newest index has on it.
    fn hold(
        &self,
        newest: &SpanNote,
        lines: &SortedRecords,
        tell: &mut impl FnMut(FoundInIndex),
    ) -> Result<()> {
        let mut listed = Sorter::new(by_path);
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
        } else if !self.is_untouched() {
            let finding = "no run to it came to its end: run the same copy again";
            tell(FoundInIndex::Amiss(Error::finding(HOLD, &self.path, finding)));
        }
        let listed = listed.finish().deed(HOLD, &self.path)?;
        let held = on(lines, newest, self.name.as_ref())
            .and_then(|wanted| lacking(&wanted, &listed, str::eq));
        if let Some(names) = held.deed(HOLD, &self.path)? {
            let finding = format!("its manifest does not list as the index does: {names}");
            tell(FoundInIndex::Amiss(Error::finding(HOLD, &self.path, finding)));
        }
        // What a later copy of its own added is no matter of the span; but all of it is no addition.
        let has_none = |it: &Member| Some(&it.name) == self.name.as_ref() && it.files == 0;
        if newest.members.iter().any(has_none)
            && let Some(names) = lacking(&listed, lines, |_, _| true).deed(HOLD, &self.path)?
        {
            let finding = format!(
                "the index has nothing on it, and its manifest lists what is on no disk there: {names}"
            );
            tell(FoundInIndex::Amiss(Error::finding(HOLD, &self.path, finding)));
        }
        Ok(())
    }
}
