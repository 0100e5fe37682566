//! What this machine remembers of a span whose disks come one after the other: what is on those that are not here.
//!
//! It is a directory among the user's data, with a private directory as an output has. It gets the note and the index
//! of the span as each disk does, and beside them what no index has: of each entry of the source on which disk it is,
//! with its size and time, or that it is on none yet. Which disk a run begins with is noted before its first byte, so
//! that nothing goes to another one while it is not known what that has.

use std::{
    collections::BTreeMap, collections::BTreeSet, ffi::OsStr, io, io::ErrorKind::AlreadyExists,
    path::Path, path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::{
    copy::CopyJob, error::Deed, error::Error, error::Result, manifest::SummedReader,
    manifest::SummedWriter, path::directory_of, span::SPAN, span::SpanDisk, span::disks::SpanNote,
    state::Missing, state::Note, state::PrivateDir, state::user_data, sys, sys::Dir,
    sys::DirListing, sys::stat::Kind, sys::stat::Stat, sys::stat::Time, tree::PathRecord,
    tree::Patience, tree::SortedRecords, tree::Sorter, tree::by_path,
};

/// The file with what is remembered of entries, and its first record.
const SEEN: &str = "seen";
const SEEN_HEAD: &str = "dircopy span entries 1";

/// So many spans of one user are looked through.
const MOST_SPANS: usize = 1000;

/// What is noted before a run copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    pub source: String,
    /// The names by which the disks were given, by their numbers.
    pub given: Vec<Option<String>>,
    /// The numbers of those to which a run began to copy that did not come to its end.
    pub begun: BTreeSet<usize>,
    /// By what those are known, as far as they were there before: one that has taken another's place is in no note yet.
    pub names: BTreeMap<usize, String>,
    /// The room that each had when it was here last; bytes.
    pub room: BTreeMap<usize, u64>,
}

impl Note for Series {
    const FILE: &str = "series";
    const HEAD: &str = "dircopy series 1";
}

/// An entry of the source as it was when it was seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The disk that has it.
    pub at: Option<usize>,
    pub kind: String,
    pub size: u64,
    pub time: Time,
    /// The change time that the source's file had when a run held it against that: with any other one it is in doubt …
    #[serde(default)]
    pub changed: Option<Time>,
    /// … and where that run failed with it: …
    #[serde(default)]
    pub in_doubt: bool,
    /// … it tried, and was not kept from it by want of room.
    #[serde(default)]
    pub failed: bool,
}

impl Seen {
    /// That of an entry with this metadata, which was given this time.
    pub fn of(stat: &Stat, time: Time, at: Option<usize>) -> Self {
        let kind = stat.kind.name().into();
        Self { at, kind, size: stat.size, time, ..Self::default() }
    }

    /// The metadata of the file, as far as it is remembered.
    pub fn stat(&self) -> Stat {
        let kinds = [Kind::File, Kind::Dir, Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::Device];
        let kind = kinds.into_iter().find(|kind| kind.name() == self.kind);
        let stat = Stat::of_kind(kind.unwrap_or(Kind::Device));
        Stat { size: self.size, mtime: self.time, ..stat }
    }
}

/// Where spans are remembered.
fn place() -> Option<PathBuf> {
    Some(sys::data_directory()?.join("dircopy").join("spans"))
}

/// Refuses a directory in which others may put what is remembered, or in the place of which another one.
fn refuse_others(above: &Path) -> Result<()> {
    let remedy = "set XDG_DATA_HOME to a directory of your own";
    user_data::refuse_others(SPAN, &above.join("1"), remedy)
}

/// The source, as it is known again.
fn source_of(job: &CopyJob) -> String {
    let source = job.source.canonicalize().unwrap_or_else(|_| job.source.clone());
    source.to_string_lossy().into_owned()
}

/// The memory of a span.
pub struct Memory {
    pub path: PathBuf,
    pub root: Dir,
    pub private: PrivateDir,
    pub series: Series,
    /// True if a run that it does not know of was at a disk: of another machine, or by the disks' places.
    pub is_outdated: bool,
}

impl Memory {
    /// True if there is to be one. There is none where all disks are given by their places, as none of them can come
    /// later, and where records are kept by those.
    ///
    /// # Errors
    /// It is needed and cannot be had.
    pub fn is_wanted(job: &CopyJob, given: &[SpanDisk<'_>]) -> Result<bool> {
        let finding = match (&job.state, place()) {
            (Some(_), _) => "it is not here, and with --state a disk is known by its place alone",
            (None, None) => {
                "it is not here, and where your data is kept is not known, to remember what it has"
            }
            (None, Some(_)) => return Ok(given.iter().any(|disk| disk.name.is_some())),
        };
        match given.iter().find(|disk| !disk.is_here) {
            Some(disk) => Err(Error::finding(SPAN, disk.called(), finding)),
            None => Ok(false),
        }
    }

    /// The one of this source and these disks.
    ///
    /// # Errors
    /// Another run is at work on the span.
    pub fn find(
        job: &CopyJob,
        given: &[SpanDisk<'_>],
        patience: Patience<'_>,
    ) -> Result<Option<Self>> {
        let source = source_of(job);
        let is_one = |series: &Series| {
            let has = |name: &str| series.given.iter().flatten().any(|it| it == name);
            series.source == source && given.iter().any(|disk| disk.name.is_some_and(has))
        };
        let memory =
            place().and_then(|above| Self::all(&above).find(|memory| is_one(&memory.series)));
        if let Some(memory) = memory.as_ref().filter(|_| !job.dry_run) {
            refuse_others(directory_of(&memory.path))?;
            patience.lock(&memory.private, &memory.path)?;
        }
        Ok(memory)
    }

    /// The one of a span that has the disk at this path by its name, where no run was yet.
    pub fn of_unused(path: &Path) -> Option<Self> {
        let has_it = |memory: &Self| {
            SpanNote::read(&memory.private).is_some_and(|note| note.has_unused(path))
        };
        Self::all(&place()?).find(has_it)
    }

    /// Forgets what is remembered of the entries of this span: a run that does not remember goes to its disks.
    ///
    /// # Errors
    /// It cannot be forgotten.
    pub fn forget(span: &SpanNote) -> Result<()> {
        let is_of =
            |memory: &Self| SpanNote::read(&memory.private).is_some_and(|note| note.shares(span));
        let Some(place) = place() else { return Ok(()) };
        Self::all(&place).filter(is_of).try_for_each(|memory| {
            memory.private.forget(SEEN).deed("remember the disks in", &memory.path)
        })
    }

    /// True if this is what was noted last of a span.
    pub fn has_noted(note: &SpanNote) -> bool {
        let is_it = |memory: Self| SpanNote::read(&memory.private).as_ref() == Some(note);
        place().is_some_and(|above| Self::all(&above).any(is_it))
    }

    /// Those of all spans. What cannot be looked at is none.
    fn all(above: &Path) -> impl Iterator<Item = Self> {
        let listed = Dir::open(above).and_then(|dir| DirListing::of(&dir));
        let listed = listed.into_iter().flatten().map_while(io::Result::ok).take(MOST_SPANS);
        let paths: Vec<PathBuf> = listed.map(|entry| above.join(&*entry.name)).collect();
        paths.into_iter().filter_map(|path| Self::at(path, Missing::Leave).ok()?)
    }

    fn at(path: PathBuf, missing: Missing) -> Result<Option<Self>> {
        let root = Dir::open(&path).deed("open the directory", &path)?;
        let private = PrivateDir::open(&root, &path, None, missing)?;
        Ok(private.map(|private| {
            let series = Series::read(&private).unwrap_or_default();
            Self { path, root, private, series, is_outdated: false }
        }))
    }

    /// Makes one for this source.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(job: &CopyJob, patience: Patience<'_>) -> Result<Self> {
        let above = &place().unwrap_or_default();
        user_data::make_private(above).deed("make the directory", above)?;
        refuse_others(above)?;
        let dir = Dir::open(above).deed("open the directory", above)?;
        for number in 1..=MOST_SPANS {
            let name = number.to_string();
            let path = above.join(&name);
            // Nobody else is to see the names in it.
            match dir.make_dir(name.as_ref(), true) {
                Err(error) if error.kind() == AlreadyExists => continue,
                made => made.deed("make the directory", &path)?,
            }
            let Some(made) = Self::at(path, Missing::Make)? else { break };
            patience.lock(&made.private, &made.path)?;
            let series = Series { source: source_of(job), ..Series::default() };
            return Ok(Self { series, ..made });
        }
        Err(Error::finding(SPAN, above, "more spans are remembered there than are looked through"))
    }

    /// Notes this before a run copies, or after it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note(&mut self, series: Series, durable: bool) -> Result<()> {
        if self.series != series {
            series.write(&self.private, durable).deed("remember the disks in", &self.path)?;
            self.series = series;
        }
        Ok(())
    }

    /// What is remembered of each entry; `None` if nothing is that is of now.
    ///
    /// # Errors
    /// It cannot be sorted.
    pub fn seen(&self) -> Result<Option<SortedRecords>> {
        let path = self.private.path().join(SEEN);
        if self.is_outdated {
            return Ok(None);
        }
        let Ok(Some((file, _))) = self.private.dir().open_private(OsStr::new(SEEN)) else {
            return Ok(None);
        };
        let Ok(mut reader) = SummedReader::of(file, SPAN, &path, 0, SEEN_HEAD) else {
            return Ok(None);
        };
        let mut sorter = Sorter::new(by_path);
        loop {
            match reader.next_record() {
                Ok(Some(record)) => {
                    let PathRecord { words, path: of } = PathRecord::of(record);
                    sorter.add(words, of).deed("sort the names of", &path)?;
                }
                Ok(None) => return sorter.finish().map(Some).deed("sort the names of", &path),
                // What is torn says nothing.
                Err(_) => return Ok(None),
            }
        }
    }

    /// Remembers these entries in place of those before.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn remember(&self, seen: &SortedRecords, durable: bool) -> Result<()> {
        let write = self.private.write(SEEN.as_ref(), durable, |file| {
            let (mut reader, mut bytes) = (seen.reader(), 0);
            let mut writer = SummedWriter::new(file, 0, SEEN_HEAD)?;
            while let Some(record) = reader.next_record()? {
                bytes += record.len() as u64 + 1;
                writer.add(record)?;
            }
            writer.finish(bytes).map(drop)
        });
        write.deed("remember the disks in", &self.path)
    }
}
