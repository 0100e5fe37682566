//! What a bag lists: the lists of the copy, sorted by path, and the payload as it lies there, which must be the same.
//!
//! Sorted, the manifests of two bags of the same source are the same files, and lists and payload are compared side by
//! side in bounded memory.

use std::cmp::Ordering;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::Algorithm;
use crate::manifest::archive::bag::{PAYLOAD, escaped, unescaped};
use crate::manifest::{Entries, Parsed};
use crate::path::Shown;
use crate::sys::Dir;
use crate::sys::stat::Kind;
use crate::tree::below::each_below;
use crate::tree::names::sorter::{RecordReader, SortedRecords, Sorter};

/// What stands between the name of a file, which has no line feed as a bag has it, and what is said of it.
const GAP: u8 = b'\n';

/// Reads the list `name` of the copy in `dir`, which is at `path`, and sorts its lines as a manifest of the bag has
/// them. None if the run is to stop.
///
/// # Errors
/// It cannot be read, or is not what the copy wrote.
pub fn listed(
    dir: &Dir,
    path: &Path,
    name: &str,
    algorithm: Algorithm,
    stop: &Stop,
) -> Result<Option<SortedRecords>> {
    let fail = |error| Error::io("read the list", path.join(name), error);
    let mut entries = Entries::of_all(dir.open_file(name.as_ref(), false).map_err(fail)?);
    let mut sorter = Sorter::new(by_name);
    let mut record = Vec::new();
    while let Some(entry) = entries.next_entry().map_err(fail)? {
        if stop.is_requested() {
            return Ok(None);
        }
        let found = match entry.parsed {
            Parsed::Record(record) if record.digest.algorithm() == algorithm => record,
            _ => {
                let finding = format!("line {} is not as it was written", entry.number);
                return Err(Error::finding("use the list", path.join(name), finding));
            }
        };
        // A name that starts with "-" has this before it.
        begin(&mut record, found.name.strip_prefix(b"./").unwrap_or(found.name));
        found.digest.write(&mut record);
        sorter.add(&record).map_err(fail)?;
    }
    sorter.finish().map(Some).map_err(fail)
}

/// Begins a record of the file at this path below the payload.
fn begin(record: &mut Vec<u8>, path: &[u8]) {
    record.clear();
    record.extend_from_slice(PAYLOAD.as_bytes());
    record.push(b'/');
    record.extend_from_slice(&escaped(path));
    record.push(GAP);
}

/// The name in a record, and what is said of it.
fn parts(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let gap = memchr::memchr(GAP, record)?;
    Some((&record[..gap], &record[gap + 1..]))
}

/// The order of names, whatever is said of them.
fn by_name(one: &[u8], other: &[u8]) -> Ordering {
    parts(one).cmp(&parts(other))
}

/// The lines of a manifest.
pub struct ManifestText {
    records: RecordReader,
    last: Vec<u8>,
}

impl ManifestText {
    pub fn of(records: &SortedRecords) -> Self {
        Self { records: records.reader(), last: Vec::new() }
    }

    /// Appends the next line to `out`; false at the end. A file that the copy listed twice is in it once.
    ///
    /// # Errors
    /// What was sorted cannot be read.
    pub fn next_line(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let Some(record) = self.records.next_record()? else { return Ok(false) };
            if record == self.last {
                continue;
            }
            self.last.clear();
            self.last.extend_from_slice(record);
            let Some((name, digest)) = parts(&self.last) else { continue };
            out.extend_from_slice(digest);
            out.extend_from_slice(b"  ");
            out.extend_from_slice(name);
            out.push(b'\n');
            return Ok(true);
        }
    }
}

/// The payload as it lies there.
pub struct FoundPayload {
    files: SortedRecords,
    pub bytes: u64,
    pub number: u64,
}

impl FoundPayload {
    /// Lists what is in the directory `payload`, which is at `path`. None if the run is to stop.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn list(payload: &Dir, path: &Path, stop: &Stop) -> Result<Option<Self>> {
        let mut sorter = Sorter::new(by_name);
        let (mut bytes, mut number, mut record) = (0_u64, 0, Vec::new());
        let is_whole = each_below(payload, path, stop, &mut |entry| {
            if entry.stat.kind != Kind::Dir {
                (bytes, number) = (bytes.saturating_add(entry.stat.size), number + 1);
                begin(&mut record, entry.path.as_bytes());
                sorter.add(&record).map_err(|error| Error::io("list", path, error))?;
            }
            Ok(true)
        })?;
        if !is_whole {
            return Ok(None);
        }
        let files = sorter.finish().map_err(|error| Error::io("list", path, error))?;
        Ok(Some(Self { files, bytes, number }))
    }

    /// That the files are those that are listed. `path` is that of the bag.
    ///
    /// # Errors
    /// They are not, or what was sorted cannot be read.
    pub fn check(&self, listed: &SortedRecords, path: &Path) -> Result<()> {
        let fail = |error| Error::io("compare with its lists the payload of", path, error);
        let mut there = SortedNames::of(&self.files).map_err(fail)?;
        let mut listed = SortedNames::of(listed).map_err(fail)?;
        loop {
            let order = match (&there.at, &listed.at) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(there), Some(listed)) => there.cmp(listed),
            };
            let (name, what) = match order {
                Ordering::Less => (there.at, "is there and was not copied by this run"),
                Ordering::Greater => (listed.at, "was copied and is not there"),
                Ordering::Equal => {
                    there.advance().and_then(|()| listed.advance()).map_err(fail)?;
                    continue;
                }
            };
            let name = unescaped(name.unwrap_or_default().into());
            let name = Shown::bytes(&name).to_string();
            let finding = format!("{name} {what}, so its lists would not be those of its payload");
            return Err(Error::finding("finish the bag", path, finding));
        }
    }
}

/// The names in sorted records, each once.
struct SortedNames {
    records: RecordReader,
    at: Option<Vec<u8>>,
}

impl SortedNames {
    fn of(records: &SortedRecords) -> io::Result<Self> {
        let mut names = Self { records: records.reader(), at: None };
        names.advance()?;
        Ok(names)
    }

    fn advance(&mut self) -> io::Result<()> {
        let last = self.at.take();
        while let Some(record) = self.records.next_record()? {
            let name = parts(record).map(|(name, _)| name);
            if name.is_some() && name != last.as_deref() {
                self.at = name.map(<[u8]>::to_vec);
                break;
            }
        }
        Ok(())
    }
}
