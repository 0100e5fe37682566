//! Copying names from a list instead of everything: the list in the order of a walk, and the walk over it.

pub mod sorter;
pub mod walk;

use std::{
    cmp::Ordering, collections::BTreeMap, ffi::OsStr, io, io::BufRead, io::BufReader, io::Read,
    path::Component, path::MAIN_SEPARATOR, path::Path, sync::Arc, sync::Mutex, sync::PoisonError,
};

use crate::error::{Error, Result};
use crate::tree::{PathRecord, PlannedStat, RecordReader, SortedRecords, Sorter, by_path};
use crate::{path::PathFault, path::RelPath, path::Shown, sys, sys::Uninterrupted};

// The names that a copy is to take, read from a list of the user's or from one of a plan, in the order of a walk.

/// No path is longer; bytes.
const MOST_PATH: u64 = 1 << 20;

/// The byte behind each name of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameEnd {
    /// A line feed, which then can be in no name.
    #[default]
    LineFeed,
    /// NUL, which can be in no name anyway.
    Nul,
}

/// Names below a source. They are sorted, in files without names if they are many, so that a walk over them enters each
/// directory once, and none of them is copied twice.
#[derive(Clone, Debug)]
pub struct NameList {
    records: SortedRecords,
    is_empty: bool,
    /// The notes of files that are not as a plan's list has them.
    changed: Option<ChangedFiles>,
}

/// A name of a list.
#[derive(Debug)]
pub(crate) struct NamedEntry<'a> {
    pub path: &'a [u8],
    /// The file's metadata when it was planned.
    pub planned: Option<PlannedStat>,
}

/// Reads the names of a list, each once.
#[derive(Debug)]
pub struct NameReader {
    records: RecordReader,
    is_planned: bool,
    last: Option<Vec<u8>>,
}

impl NameList {
    /// Reads a list to its end. `path` is where it is, for messages. A name may begin with `./` and end with `/`; empty
    /// ones are passed over.
    ///
    /// # Errors
    /// It cannot be read, or a name leads out of the tree.
    pub fn read(input: impl Read, separator: NameEnd, path: &Path) -> Result<Self> {
        let fail = |error| Error::io("read the list of names", path, error);
        let (mut input, mut sorter) =
            (BufReader::with_capacity(64 << 10, Uninterrupted(input)), Sorter::new(by_path));
        let end = if separator == NameEnd::Nul { 0 } else { b'\n' };
        let (mut name, mut number, mut is_empty) = (Vec::new(), 0_u64, true);
        let mut is_utf16 = false;
        loop {
            name.clear();
            let read = (&mut input).take(MOST_PATH + 1).read_until(end, &mut name).map_err(fail)?;
            if read == 0 {
                break;
            }
            number += 1;
            if name.last() == Some(&end) {
                name.pop();
            } else if name.len() as u64 > MOST_PATH {
                return Err(refuse(path, number, &name[..64], "it is longer than 1 MiB", ""));
            }
            is_utf16 = is_utf16 || number == 1 && crate::manifest::read::is_utf16(&name);
            // Programs of Windows end lines with both, and no name there ends with this one.
            if separator == NameEnd::LineFeed && MAIN_SEPARATOR != '/' && name.ends_with(b"\r") {
                name.pop();
            }
            if name.is_empty() {
                continue;
            }
            let checked = plain(&mut name).map_err(|fault| {
                let note = match (fault, separator) {
                    (PathFault::Nul, _) if is_utf16 => "; it is UTF-16: save it as UTF-8",
                    (PathFault::Nul, NameEnd::LineFeed) => {
                        "; a list whose names end with NUL needs --null"
                    }
                    _ => "",
                };
                refuse(path, number, &name, &fault.to_string(), note)
            })?;
            sorter.add("", checked.as_bytes()).map_err(fail)?;
            is_empty = false;
        }
        Ok(Self { records: sorter.finish().map_err(fail)?, is_empty, changed: None })
    }

    /// The names in these records, which are sorted and sound.
    pub(crate) fn of_records(records: SortedRecords, is_empty: bool) -> Self {
        Self { records, is_empty, changed: None }
    }

    /// The list of a shard: records of a plan, which are sorted and were looked through.
    pub(crate) fn planned(records: SortedRecords) -> Self {
        Self { records, is_empty: false, changed: Some(ChangedFiles::default()) }
    }

    /// Where files are noted that are not what was planned; `None` for a list of the user's.
    pub(crate) fn changed(&self) -> Option<&ChangedFiles> {
        self.changed.as_ref()
    }

    /// True if there is no name.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The names from the first to the last.
    pub(crate) fn reader(&self) -> NameReader {
        let is_planned = self.changed.is_some();
        NameReader { records: self.records.reader(), is_planned, last: None }
    }
}

impl NameReader {
    /// The next name; the empty one is the source itself.
    pub(crate) fn next_name(&mut self) -> io::Result<Option<NamedEntry<'_>>> {
        let planned = loop {
            let Some(record) = self.records.next_record()? else { return Ok(None) };
            let PathRecord { words, path } = PathRecord::of(record);
            let planned = match self.is_planned {
                true => Some(PlannedStat::parse(words).ok_or(io::ErrorKind::InvalidData)?),
                false => None,
            };
            if self.last.as_deref() != Some(path) {
                let last = self.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(path);
                break planned;
            }
        };
        Ok(self.last.as_deref().map(|path| NamedEntry { path, planned }))
    }
}

/// The path that a name of a list stands for; the empty one for the source itself.
fn plain(name: &mut [u8]) -> std::result::Result<RelPath, PathFault> {
    if MAIN_SEPARATOR != '/' {
        name.iter_mut().filter(|byte| **byte == MAIN_SEPARATOR as u8).for_each(|byte| *byte = b'/');
    }
    let mut rest = &*name;
    while rest.len() > 1
        && let Some(shorter) = rest.strip_suffix(b"/").or(rest.strip_suffix(b"/."))
    {
        rest = shorter;
    }
    // A drive takes the place of whatever stands before it.
    if sys::name_from_bytes(rest).is_ok_and(has_drive) {
        return Err(PathFault::Absolute);
    }
    if rest == b"." { Ok(RelPath::root()) } else { RelPath::parse(rest) }
}

/// True if a path begins with a drive of Windows; elsewhere there are none.
fn has_drive(path: &OsStr) -> bool {
    matches!(Path::new(path).components().next(), Some(Component::Prefix(_)))
}

fn refuse(path: &Path, number: u64, name: &[u8], why: &str, note: &str) -> Error {
    let name = Shown::bytes(name);
    let error = Error::finding("take names from", path, format!("name {number}, {name}: {why}"));
    if note.is_empty() { error } else { error.with_note(note) }
}

// The order of a walk for paths as bytes: a directory comes right before all that is below it. Bytes alone do not give
// it, because `a-b` is less than `a/b`.

/// Compares two paths whose components are joined by `/`.
pub fn compare(one: &[u8], other: &[u8]) -> Ordering {
    // No name has a zero byte, so the separator can take its place.
    let key = |byte: u8| if byte == b'/' { 0 } else { byte };
    // Paths that are compared are mostly alike for long.
    let (words, _) = one.as_chunks::<8>();
    let (others, _) = other.as_chunks::<8>();
    let alike = 8 * words.iter().zip(others).take_while(|(one, other)| one == other).count();
    let differ = one[alike..].iter().zip(&other[alike..]).position(|(one, other)| one != other);
    match differ.map(|at| alike + at) {
        Some(at) => key(one[at]).cmp(&key(other[at])),
        None => one.len().cmp(&other.len()),
    }
}

/// True if `path` is `dir` or below it; everything is below the empty path.
pub fn is_within(path: &[u8], dir: &[u8]) -> bool {
    match path.strip_prefix(dir) {
        Some(rest) => dir.is_empty() || rest.is_empty() || rest[0] == b'/',
        None => false,
    }
}

// The changed files of a shard: files that are not as they were when they were planned. The walk and all workers note
// them in one place, and the record of the shard is made from it.

/// Files that are not what they were when they were planned. A clone notes in the same place.
#[derive(Clone, Debug, Default)]
pub struct ChangedFiles(Arc<Mutex<BTreeMap<Vec<u8>, u64>>>);

impl ChangedFiles {
    /// Notes the file at `path`, which has so many bytes now.
    pub fn note(&self, path: &RelPath, size: u64) {
        let mut changed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changed.insert(path.as_bytes().to_vec(), size);
    }

    /// Takes out what was noted: paths, with the size of each.
    pub fn take(&self) -> BTreeMap<Vec<u8>, u64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod list_tests {
    use super::*;

    fn names(text: &str, separator: NameEnd) -> Result<Vec<String>> {
        let list = NameList::read(text.as_bytes(), separator, Path::new("list"))?;
        let (mut reader, mut found) = (list.reader(), Vec::new());
        while let Some(name) = reader.next_name().unwrap() {
            found.push(String::from_utf8(name.path.to_vec()).unwrap());
        }
        Ok(found)
    }

    #[test]
    fn names_come_sorted_and_once() {
        let lines = names("b/\n./a/x\n\na\n./b\na-b\na/x", NameEnd::LineFeed).unwrap();
        assert_eq!(lines, ["a", "a/x", "a-b", "b"]);
        let records = names("two\nlines\0./\0./././a\0", NameEnd::Nul).unwrap();
        assert_eq!(records, ["", "a", "two\nlines"]);
        assert_eq!(names("", NameEnd::Nul).unwrap(), [""; 0]);
    }

    #[test]
    fn a_list_in_utf_16_is_called_that() {
        for (start, to_bytes) in
            [(b"\xff\xfe", u16::to_le_bytes as fn(u16) -> [u8; 2]), (b"\xfe\xff", u16::to_be_bytes)]
        {
            for text in ["a\r\nb\r\n", "\u{e9}\u{4e2d}\nb\n"] {
                let list = text.encode_utf16().flat_map(to_bytes);
                let list: Vec<u8> = start.iter().copied().chain(list).collect();
                let error = NameList::read(&*list, NameEnd::LineFeed, Path::new("list"));
                let error = error.unwrap_err().to_string();
                assert!(error.contains("UTF-16: save it as UTF-8"), "{error}");
            }
        }
    }

    #[test]
    fn what_leads_out_is_refused() {
        for (text, word) in [
            ("ok\n../x", "name 2"),
            ("/etc", "absolute"),
            ("a/../b", ".."),
            ("a//b", "component"),
            ("/", "absolute"),
            ("a\0b\0", "--null"),
            ("a\n\u{0}b\n", "--null"),
            (&"x".repeat(3 << 20), "longer"),
        ] {
            let error = names(text, NameEnd::LineFeed).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

#[cfg(test)]
mod order_tests {
    use super::*;

    #[test]
    fn a_directory_comes_right_before_what_is_in_it() {
        let mut paths = ["b", "a/b/c", "a-b", "a", "a/b-c", "", "a/b", "a.b", "a/b/\u{1}"];
        paths.sort_by(|one, other| compare(one.as_bytes(), other.as_bytes()));
        assert_eq!(paths, ["", "a", "a/b", "a/b/\u{1}", "a/b/c", "a/b-c", "a-b", "a.b", "b"]);
        for (path, dir, within) in
            [("a/b", "a", true), ("a", "a", true), ("ab", "a", false), ("x", "", true)]
        {
            assert_eq!(is_within(path.as_bytes(), dir.as_bytes()), within, "{path} {dir}");
        }
    }
}
