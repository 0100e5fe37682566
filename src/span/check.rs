//! A look at the index of a span, and at the disks that are here: does each have what the index has there?
//!
//! The index is believed where the private note of a disk knows its digest, and the newest counts. A disk that was
//! taken out before the last ones came has an earlier one: what that has on it the newest must have too. What the disks
//! hold is another check, by their manifests.

use std::{io, path::Path, path::PathBuf};

use crate::{
    error::Deed, error::Error, error::Result, path::Examples, path::RelPath, path::count,
    span::called, span::disks::Member, span::disks::SpanNote, span::disks::is_called,
    span::disks::lists_in, span::disks::name_of, span::in_words, span::index::read_list,
    span::memory::Memory, state::FinishedManifest, state::Missing, state::Note, state::PrivateDir,
    state::record::numbers, sys::Dir, tree::JoinReader, tree::PathRecord, tree::SortedRecords,
    tree::Sorter, tree::by_path,
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
    /// Those that no run was at: disks that the span has by their names and that were in no drive yet, …
    unused: Vec<PathBuf>,
    /// … and all others.
    others: Vec<PathBuf>,
    /// What this machine remembers of the span, where no disk that is here has a note.
    memory: Option<HereDisk>,
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

/// Which disk of a span the directory is, in words, where others have files too: by this user's record there.
pub fn one_of_several(dir: &Path, state: Option<&Path>) -> Option<String> {
    let disk = HereDisk::open(dir, state).ok()??;
    let all = &disk.note.as_ref()?.members;
    let is_it = |it: &Member| disk.name.as_ref() == Some(&it.name);
    let number = all.iter().position(is_it)? + 1;
    let elsewhere: u64 = all.iter().filter(|it| !is_it(it)).map(|it| it.files).sum();
    let (of, files) = (all.len(), count(elsewhere, "file"));
    (elsewhere > 0).then(|| format!("disk {number} of {of} of a span, whose others have {files}"))
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
        let mut notes = here.iter().filter_map(|disk: &HereDisk| disk.note.as_ref());
        let memory = match notes.next() {
            Some(_) => None,
            None => others.iter().find_map(|path| Memory::of_unused(path)).map(HereDisk::from),
        };
        let notes = here.iter().chain(&memory).filter_map(|disk| disk.note.as_ref());
        let Some(newest) = notes.max_by_key(|note| note.version).cloned() else {
            let path = self.disks.first().cloned().unwrap_or_default();
            let finding =
                "no run of yours left the note of a span there (dircopy SRC --span DISK…)";
            return Err(Error::finding(HOLD, path, finding));
        };
        // An earlier note may not know of what was copied there since, and the private directory may be lost.
        let is_newest = memory.is_some() || Memory::has_noted(&newest);
        let is_unused = |path: &PathBuf| is_newest && newest.has_unused(path);
        let (unused, others) = others.into_iter().partition(is_unused);
        Ok(OpenSpan { here, unused, others, memory, newest, before: self.before.clone() })
    }
}

impl OpenSpan {
    /// By what the disks that are here are known.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.here.iter().filter_map(|disk| disk.name.as_ref())
    }

    /// True if the disk at this path has no file of the span, neither by the newest note nor by what runs left there.
    pub fn has_no_file(&self, path: &Path) -> bool {
        let has_none = |disk: &HereDisk| disk.path == path && disk.has_none_by(&self.newest);
        self.unused.iter().any(|unused| unused == path) || self.here.iter().any(has_none)
    }

    /// True if the disk of this name was in no drive yet, by the newest note of all: only what this machine
    /// remembers is as new as any disk that is not here.
    pub fn is_unused(&self, name: &Path) -> bool {
        let is_it = |it: &Member| it.is_unused() && Path::new(&it.path) == name;
        self.newest.members.iter().any(is_it) && Memory::has_noted(&self.newest)
    }

    /// Looks, and tells what is found.
    ///
    /// # Errors
    /// What is sorted cannot be kept.
    pub fn look(&self, mut tell: impl FnMut(FoundInIndex)) -> Result<()> {
        let Self { here, unused, others, memory, newest, before } = self;
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
                    newest.tell_waiting(&disk.path, &mut tell);
                }
                None => {}
            }
        }
        if let Some(memory) = memory {
            lines = memory.lines(newest)?;
            newest.tell_waiting(&memory.path, &mut tell);
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
        let none_yet = "no file was copied to it yet, and the index has none on it";
        unused.iter().for_each(|path| tell(notice(path, none_yet.into())));
        for (number, member) in newest.members.iter().enumerate() {
            match here.iter().find(|disk| disk.name.as_ref() == Some(&member.name)) {
                Some(disk) if member.files == 0 && disk.is_untouched() => {
                    tell(notice(&disk.path, none_yet.into()));
                }
                Some(disk) if disk.has_none_by(newest) => {
                    let finding = "neither its manifest nor the index has a file on it";
                    tell(notice(&disk.path, finding.into()));
                }
                Some(disk) => disk.hold(newest, &lines, &mut tell)?,
                None if before.contains(&member.name) => {}
                None if unused.iter().any(|path| member.is_unused_at(path)) => {}
                None => tell_absent(number, member, &lines, &mut tell)?,
            }
        }
        Ok(())
    }
}

impl SpanNote {
    /// True if it has the disk at this path by its name, and no run was there.
    pub fn has_unused(&self, path: &Path) -> bool {
        self.members.iter().any(|member| member.is_unused_at(path))
    }

    /// Tells how many files were on no disk, of the index at `path`.
    fn tell_waiting(&self, path: &Path, tell: &mut impl FnMut(FoundInIndex)) {
        let (files, were) = (self.waiting, if self.waiting == 1 { "was" } else { "were" });
        if files > 0 {
            let finding = format!(
                "{} {were} on no disk yet when the newest index that is here was written",
                in_words(files)
            );
            tell(notice(path, finding));
        }
    }
}

impl Member {
    fn is_unused(&self) -> bool {
        self.name.is_empty() && self.files == 0
    }

    /// True if it is the disk at this path, which it has by the name that was given, and nothing was copied there.
    fn is_unused_at(&self, path: &Path) -> bool {
        let is_it = |root: Dir| {
            is_called(&root, &self.path) && lists_in(&root).is_ok_and(|lists| lists.is_empty())
        };
        self.is_unused() && Dir::open_named(path).is_ok_and(is_it)
    }
}

impl From<Memory> for HereDisk {
    fn from(Memory { path, root, private, .. }: Memory) -> Self {
        let note = SpanNote::read(&private);
        Self { path, root, private, name: None, note }
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
        let private = PrivateDir::need(&root, path, state, Missing::Leave)?;
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

    /// True if the note has no file on it and none is listed there: no run copied there, or the last one found none.
    fn has_none_by(&self, note: &SpanNote) -> bool {
        let is_it = |member: &&Member| self.name.as_ref() == Some(&member.name);
        let member = note.members.iter().find(is_it);
        member.is_some_and(|it| it.files == 0) && (self.is_untouched() || self.lists_none())
    }

    /// True if its manifest is what the last run wrote, and lists no file.
    fn lists_none(&self) -> bool {
        let Some(manifest) = FinishedManifest::last_named(&self.private) else { return false };
        let (digest, mut listed) = (manifest.digest.to_string(), 0_u64);
        let read = read_list(&self.root, &manifest.name, &digest, |_, _| {
            listed += 1;
            Ok(())
        });
        matches!(read, Ok(true)) && listed == 0
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
