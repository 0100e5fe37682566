//! The entries of a Media Hash List: the file that is there, the run's notes about it, and its line in the history,
//! side by side in the order of paths.

use std::{collections::BTreeSet, fs::File, io, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    copy::media::FoundEntry, copy::media::FoundTree, copy::media::histories::Histories,
    copy::media::histories::KnownFile, copy::media::one_history::MediaRole, copy::media::sorter,
    copy::media::write_generations::DirHasher, error::Error, error::Result, hash::Digest,
    hash::hex, manifest::HashAction, manifest::KeptFile, manifest::archive::mhl_writer::is_text,
    path::RelPath, path::Shown, tree::Filter, tree::JoinReader, tree::PathRecord,
    tree::SortedRecords, tree::Sorter, tree::by_path, tree::by_words,
};

/// So many paths that are missing are named.
const MOST_NAMED: usize = 5;

/// Of so many missing files with the same content the new names are looked for.
const MOST_ALIKE: usize = 1000;

/// The entries to write, and the totals.
pub struct Joined {
    /// Directories, and the files that are listed.
    pub entries: SortedRecords,
    /// The digests of directories.
    pub dirs: SortedRecords,
    /// Names that files had before, in hexadecimal.
    pub renames: SortedRecords,
    /// The directories that have histories …
    pub histories: BTreeSet<RelPath>,
    /// … and those that get a generation.
    pub writing: BTreeSet<RelPath>,
    /// Number of files of the histories that are not there, and some of them.
    pub missing: u64,
    pub examples: Vec<String>,
}

/// What is said of a path in [`Joined::entries`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinedEntry {
    Dir(FoundEntry),
    File(ToList),
}

/// A file to list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToList {
    pub action: HashAction,
    pub found: FoundEntry,
    /// The run's notes about it, in words.
    pub kept: String,
}

/// Reads what a run kept of its files, sorted by path.
pub fn sorted(kept: File) -> io::Result<SortedRecords> {
    let end = kept.metadata()?.len();
    let records = SortedRecords::File { file: Arc::new(kept), start: 0, end };
    let (mut reader, mut sorter) = (records.reader(), sorter(by_path));
    while let Some(record) = reader.next_record()? {
        let PathRecord { words, path } = PathRecord::of(record);
        sorter.add(words, path)?;
    }
    sorter.finish()
}

/// Joins what was found, what was kept, and what is known.
pub struct Join<'a> {
    role: &'a MediaRole,
    histories: &'a Histories,
    path: &'a Path,
    /// The filter of histories: a file that they leave out is not missing.
    ignored: &'a Filter,
    kept: JoinReader,
    known: JoinReader,
    entries: Sorter,
    dirs: DirHasher,
    names: Names,
}

impl<'a> Join<'a> {
    /// Begins, at the output of this path.
    ///
    /// # Errors
    /// Fails if the sorted records cannot be read.
    pub fn new(
        role: &'a MediaRole,
        histories: &'a Histories,
        path: &'a Path,
        ignored: &'a Filter,
        kept: &SortedRecords,
    ) -> io::Result<Self> {
        let known = JoinReader::of(&histories.known)?;
        let names = Names::new(known.peek().is_some());
        Ok(Self {
            role,
            histories,
            path,
            ignored,
            kept: JoinReader::of(kept)?,
            known,
            entries: sorter(by_path),
            dirs: DirHasher::new(role.algorithms),
            names,
        })
    }

    /// Joins with what is at the output. Files that are not what their history has are handed to `tell`.
    ///
    /// # Errors
    /// Fails if the sorted records cannot be read or written.
    pub fn run(mut self, tree: &FoundTree, tell: &mut dyn FnMut(Error)) -> Result<Joined> {
        let (path, mut writing) = (self.path, BTreeSet::new());
        let fail = |error| Error::io("compare with its histories what is at", path, error);
        let mut found = JoinReader::of(&tree.entries).map_err(fail)?;
        while let Some(record) = found.take().map_err(fail)? {
            let at = PathRecord::of(&record).path;
            let Some(entry) = PathRecord::of(&record).json::<FoundEntry>() else { continue };
            if entry.size.is_none() {
                self.entries
                    .add_json(&JoinedEntry::Dir(entry), at)
                    .and_then(|()| self.dirs.directory(at))
                    .map_err(fail)?;
                continue;
            }
            let rel = RelPath::parse(at).unwrap_or_default();
            let of = closest(&rel, &tree.histories);
            let listed = self.file(entry, &rel, &of).map_err(fail)?;
            if let Some(action) = listed {
                writing.insert(of);
                if action == HashAction::Failed {
                    let finding =
                        "its content is not what its history has; it is listed there as failed";
                    let full = rel.full_path(path);
                    tell(Error::finding("take for good", full, finding));
                }
            }
        }
        self.pass_over(None).map_err(fail)?;
        with_those_above(&mut writing, &tree.histories);
        let Self { entries, dirs, names, histories, .. } = self;
        let FoundNames { renames, missing, examples } =
            names.finish(&|path| histories.closest(path)).map_err(fail)?;
        Ok(Joined {
            entries: entries.finish().map_err(fail)?,
            dirs: dirs.finish().map_err(fail)?,
            renames,
            histories: tree.histories.clone(),
            writing,
            missing,
            examples,
        })
    }

    /// Lists a file that is there and belongs to the history of `of`, if it is to be; what is said of it.
    fn file(
        &mut self,
        found: FoundEntry,
        rel: &RelPath,
        of: &RelPath,
    ) -> io::Result<Option<HashAction>> {
        let at = rel.as_bytes();
        self.pass_over(Some(at))?;
        let known = KnownFile::read(&mut self.known, at, of)?;
        let kept = self.kept.last_of(at)?;
        let words = kept.as_deref().map(|kept| PathRecord::of(kept).text().to_owned());
        let kept = words.and_then(|words| {
            let file = KeptFile::parse(&words, self.role.algorithms)?;
            (Some(file.size) == found.size && is_text(at)).then_some((words, file))
        });
        let Some((words, file)) = kept else {
            self.dirs.unlisted(at)?;
            return Ok(None);
        };
        let of_kept = |known: &Digest| {
            file.digests.iter().find(|it| it.algorithm() == known.algorithm()).map(|it| it == known)
        };
        // All that were computed must be what the history has: one that is not fails the file.
        let is_same = known.digests.iter().filter_map(of_kept).reduce(|one, other| one && other);
        let action = match is_same {
            Some(true) if file.is_read => HashAction::Verified,
            Some(false) => HashAction::Failed,
            None if known.digests.is_empty() => HashAction::Original,
            // It was not read, so there is nothing to say.
            _ => {
                self.dirs.unlisted(at)?;
                return Ok(None);
            }
        };
        self.dirs.file(at, &file.digests)?;
        if action == HashAction::Original && file.size > 0 {
            self.names.new_file(at, &file.digests)?;
        }
        let listed = ToList { action, found, kept: words };
        self.entries.add_json(&JoinedEntry::File(listed), at)?;
        Ok(Some(action))
    }

    /// Takes what is known of paths before `at`, or of all that are left: they are not there.
    fn pass_over(&mut self, at: Option<&[u8]>) -> io::Result<()> {
        loop {
            let next = match at {
                Some(at) => self.known.take_before(at)?,
                None => self.known.take()?,
            };
            let Some(record) = next else { return Ok(()) };
            let path = PathRecord::of(&record).path.to_vec();
            let rel = RelPath::parse(&path).unwrap_or_default();
            let of = self.histories.closest(&rel);
            let mut file = KnownFile::default();
            file.add(PathRecord::of(&record).text(), &of);
            while let Some(more) = self.known.take_of(&path)? {
                file.add(PathRecord::of(&more).text(), &of);
            }
            if file.is_listed && !file.is_renamed && !self.ignored.leaves_out(&rel) {
                // One that new files have too, so that it can be told to be one of them.
                let is_comparable = |it: &&Digest| self.role.algorithms.has(it.algorithm());
                self.names.missing_file(&path, file.digests.iter().find(is_comparable))?;
            }
        }
    }
}

/// The directory whose history the file at `path` belongs to.
fn closest(path: &RelPath, histories: &BTreeSet<RelPath>) -> RelPath {
    let mut at = path.split().map(|(dir, _)| dir).unwrap_or_default();
    while !at.is_root() && !histories.contains(&at) {
        at = at.split().map(|(dir, _)| dir).unwrap_or_default();
    }
    at
}

/// Adds the histories above, which refer to those below.
fn with_those_above(writing: &mut BTreeSet<RelPath>, histories: &BTreeSet<RelPath>) {
    for dir in writing.clone() {
        let mut at = dir;
        while !at.is_root() {
            at = closest(&at, histories);
            writing.insert(at.clone());
        }
    }
}

/// Files that are new to a history, and such that are missing: two with the same content are one that has another name.
struct Names {
    /// True if a history lists anything, so that a new file may have had another name.
    is_wanted: bool,
    by_digest: Sorter,
    missing: u64,
    examples: Vec<String>,
}

struct FoundNames {
    renames: SortedRecords,
    missing: u64,
    examples: Vec<String>,
}

/// In this order among those of one digest.
const MISSING: &str = "1";
const NEW: &str = "2";

impl Names {
    fn new(is_wanted: bool) -> Self {
        Self { is_wanted, by_digest: sorter(by_words), missing: 0, examples: Vec::new() }
    }

    fn new_file(&mut self, path: &[u8], digests: &[Digest]) -> io::Result<()> {
        for digest in digests.iter().filter(|_| self.is_wanted) {
            self.by_digest.add(format!("{digest:?} {NEW}"), path)?;
        }
        Ok(())
    }

    fn missing_file(&mut self, path: &[u8], digest: Option<&Digest>) -> io::Result<()> {
        self.missing += 1;
        if self.examples.len() < 2 * MOST_NAMED {
            self.examples.push(Shown::bytes(path).to_string());
        }
        match digest {
            Some(digest) => self.by_digest.add(format!("{digest:?} {MISSING}"), path),
            None => Ok(()),
        }
    }

    fn finish(self, history_of: &dyn Fn(&RelPath) -> RelPath) -> io::Result<FoundNames> {
        let Self { by_digest, mut missing, mut examples, .. } = self;
        let mut renames = sorter(by_path);
        let mut all = JoinReader::of(&by_digest.finish()?)?;
        let (mut digest, mut gone) = (String::new(), Vec::<RelPath>::new());
        while let Some(record) = all.take()?.filter(|_| missing > 0) {
            let (words, path) = PathRecord::told(&record);
            let Some((of, kind)) = words.rsplit_once(' ') else { continue };
            if of != digest {
                of.clone_into(&mut digest);
                gone.clear();
            }
            let rel = RelPath::parse(path).unwrap_or_default();
            if kind == MISSING {
                if gone.len() < MOST_ALIKE {
                    gone.push(rel);
                }
                continue;
            }
            let is_of_same = |old: &RelPath| history_of(old) == history_of(&rel);
            let Some(at) = gone.iter().position(is_of_same) else { continue };
            let old = gone.remove(at);
            renames.add(hex::text(old.as_bytes()), path)?;
            missing -= 1;
            let shown = Shown::bytes(old.as_bytes()).to_string();
            examples.retain(|example| *example != shown);
        }
        examples.truncate(MOST_NAMED);
        Ok(FoundNames { renames: renames.finish()?, missing, examples })
    }
}

/// The name that a record of [`Joined::renames`] has.
pub fn old_name(words: &str) -> Option<String> {
    String::from_utf8(hex::parse(words.as_bytes())?).ok()
}
