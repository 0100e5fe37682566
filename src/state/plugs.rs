//! How often the device of an output was away, and what was read back from it after that: `plugged` in the private
//! directory.
//!
//! A drive may answer for minutes from its own memory, so what was read back at once proves less than what is read
//! after the drive was away, or the machine was restarted. A new *epoch* of an output begins when a run finds its
//! device come anew. Each row of the record has the epoch in which its file was recorded. A file that a check read from
//! the device in a later epoch, and that was what its row says, is *replugged*. One that is copied anew gets a row of
//! the present epoch, and is not.

use std::{
    collections::BTreeSet, collections::HashSet, hash::DefaultHasher, hash::Hash, hash::Hasher, io,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    hash::Digest, hash::HashTable, hash::Sha256, manifest::lists, path::RelPath, state::Note,
    state::PrivateDir, state::Row, state::Trace, state::closing::FINISHED, state::record::each_row,
    state::record::numbers, state::row::strip, sys, sys::Dir, sys::PluggedIn,
};

/// Number of files that a note names at most. Where more are not replugged, nothing is noted.
const MOST_EXCEPT: usize = 100_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plugs {
    epoch: u32,
    /// By what that epoch is known.
    since: PluggedIn,
    late: Option<LateState>,
}

impl Note for Plugs {
    const FILE: &str = "plugged";
    const HEAD: &str = "dircopy plugged 1";
}

/// The files that are replugged: those of rows of an epoch before this one, but for some.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LateState {
    epoch: u32,
    /// The day of the oldest of the readings, in UTC.
    day: String,
    /// Hashes of the listed lines of files that are not.
    except: HashSet<u64>,
}

impl LateState {
    fn has(&self, row: &Row, key: impl FnOnce() -> u64) -> bool {
        row.epoch < self.epoch && (self.except.is_empty() || !self.except.contains(&key()))
    }
}

impl Plugs {
    /// What is noted, in a new epoch if the device was away since; `None` where that is not known.
    fn now(private: &PrivateDir, root: &Dir) -> Option<Self> {
        let since = sys::plugged_in(root)?;
        let Some(noted) = Self::read(private) else {
            return Some(Self { epoch: 1, since, late: None });
        };
        let was_away = since.was_away_since(&noted.since)?;
        let epoch = noted.epoch.checked_add(u32::from(was_away))?;
        Some(Self { epoch, since, ..noted })
    }
}

/// The epoch of the output that rows are recorded in; 0 if it is not known whether its device was away, or if that
/// cannot be noted before they are.
pub fn begin_epoch(private: &PrivateDir, root: &Dir) -> u32 {
    let Some(now) = Plugs::now(private, root) else { return 0 };
    let is_noted = Plugs::read(private).is_some_and(|noted| noted.epoch == now.epoch);
    // Durable: rows with its number may be.
    if is_noted || now.write(private, true).is_ok() { now.epoch } else { 0 }
}

/// What is known now of the files of an output that are replugged, by their rows.
#[derive(Debug)]
pub struct KnownPlugs(Plugs);

impl KnownPlugs {
    /// What earlier checks noted; `None` where it is not known whether the device was away.
    pub fn of(private: &PrivateDir, root: &Dir) -> Option<Self> {
        Plugs::now(private, root).map(Self)
    }

    /// True if the untouched file of this row was read from its device after that was away; now, if `is_read_now`.
    pub fn is_replugged(&self, row: &Row, path: &RelPath, is_read_now: bool) -> bool {
        let key = || {
            let mut line = Vec::new();
            lists::write_known(&mut line, &row.digest, path.as_bytes());
            key_of(line.strip_suffix(b"\n").unwrap_or(&line))
        };
        let is_late = || self.0.late.as_ref().is_some_and(|late| late.has(row, key));
        row.epoch > 0 && (is_read_now && row.epoch < self.0.epoch || is_late())
    }
}

/// The listed files that are replugged, or a part of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replugged {
    /// The day of the oldest of the readings.
    pub day: String,
    pub files: u64,
    /// Number of listed files.
    pub of: u64,
}

impl Replugged {
    /// In words: the day alone only if it is true of all files.
    pub fn words(&self) -> String {
        match self.files == self.of {
            true => self.day.clone(),
            false => format!("{}: {} of {} files", self.day, self.files, self.of),
        }
    }

    /// Those at the output, by what earlier checks noted; `None` if there are none, or it cannot be told.
    pub fn noted(private: &PrivateDir, root: &Dir) -> Option<Self> {
        let late = Plugs::read(private)?.late?;
        let (files, of) = count(private, root, |row, key| late.has(row, key))?;
        (files > 0).then_some(Self { day: late.day, files, of })
    }
}

/// Counts the files of the finished record that are so, and all that its manifest lists; `None` if the record is not
/// that of the manifest, or a run on its way may have written files.
fn count(
    private: &PrivateDir,
    root: &Dir,
    mut is_so: impl FnMut(&Row, &dyn Fn() -> u64) -> bool,
) -> Option<(u64, u64)> {
    let (file, _) = private.dir().open_private(FINISHED.as_ref()).ok()??;
    numbers(private.dir()).ok().filter(BTreeSet::is_empty)?;
    let (mut files, mut rows) = (0, 0);
    let see = |text: &[u8]| {
        rows += 1;
        let row = Row::read(text, Digest::sha256([0; 32])).filter(|row| row.epoch > 0);
        let key = || key_of(strip(text).unwrap_or_default());
        files += u64::from(row.is_some_and(|row| is_so(&row, &key)));
    };
    let closed = each_row(&file, private.mark(), see).ok()?;
    let is_whole = closed.fits && closed.later.is_none() && closed.rows == rows;
    let listed = closed.manifest.filter(|_| is_whole)?.lines_in(root)?;
    Some((files, listed.max(rows)))
}

/// The hash of a listed line.
fn key_of(line: &[u8]) -> u64 {
    let Sha256([a, b, c, d, e, f, g, h, ..]) = Sha256::of(&[line]);
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The hash of what a file was when it was read; never 0.
fn hash_of(trace: &Trace) -> u32 {
    let mut hasher = DefaultHasher::new();
    trace.hash(&mut hasher);
    hasher.finish() as u32 | 1
}

/// What a check reads of an output after its device was away.
#[derive(Debug)]
pub struct LateCheck {
    private: PrivateDir,
    began: Plugs,
    /// By the hashes of their lines the files that were read, each with the hash of what it was; 0 if it was not good,
    /// or came from a cache.
    read: HashTable<u32>,
}

impl LateCheck {
    /// Begins one; `None` where the device was not away since rows were first recorded, or that is not known.
    pub fn begin(private: PrivateDir, root: &Dir) -> Option<Self> {
        let began = Plugs::now(&private, root).filter(|now| now.epoch > 1)?;
        Some(Self { private, began, read: HashTable::default() })
    }

    /// A listed file was read, and `proven` as this if it came from the device and is as listed.
    pub fn note(&mut self, path: &RelPath, listed: &Digest, proven: Option<&Trace>) {
        let mut line = Vec::new();
        lists::write_known(&mut line, listed, path.as_bytes());
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        self.read.insert(key_of(line), proven.map_or(0, hash_of));
    }

    /// Notes for later runs what is replugged now.
    ///
    /// # Errors
    /// It cannot be noted.
    pub fn finish(self, root: &Dir) -> (Option<Replugged>, io::Result<()>) {
        let Self { private, began, read } = self;
        let now = Plugs::now(&private, root);
        // The device went in the middle, or another run noted something.
        let is_same = |now: &Plugs| (now.epoch, &now.since) == (began.epoch, &began.since);
        let Some(now) = now.filter(is_same) else { return (None, Ok(())) };
        let (mut except, mut keeps_earlier) = (HashSet::new(), false);
        let counted = count(&private, root, |row, key| {
            let key = key();
            // A row of this epoch is none before the next, whatever is noted.
            let is_proven = row.epoch < now.epoch
                && match read.get(&key) {
                    Some(found) => *found == hash_of(&row.trace),
                    None => {
                        let was = now.late.as_ref().is_some_and(|late| late.has(row, || key));
                        keeps_earlier |= was;
                        was
                    }
                };
            if !is_proven && row.epoch < now.epoch {
                except.insert(key);
            }
            is_proven
        });
        let Some((files, of)) = counted.filter(|(files, _)| *files > 0) else {
            return (None, Ok(()));
        };
        let earlier = now.late.as_ref().filter(|_| keeps_earlier).map(|late| late.day.clone());
        let day = earlier.unwrap_or_else(|| Timestamp::now().strftime("%Y-%m-%d").to_string());
        let replugged = Some(Replugged { day: day.clone(), files, of });
        if except.len() > MOST_EXCEPT {
            let many = format!(
                "{} files are not replugged, and no more than {MOST_EXCEPT} are noted",
                except.len()
            );
            return (replugged, Err(io::Error::other(many)));
        }
        let late = Some(LateState { epoch: now.epoch, day, except });
        (replugged, Plugs { late, ..now }.write(&private, true))
    }
}
