//! Records of paths, and sorting them in bounded memory: what does not fit is sorted in pieces, which wait in a file
//! without a name and are merged.
//!
//! A record is some words, a line feed, and the path that they are about, which may hold anything but NUL; NUL ends it.
//! Lists of a plan have such records too, with their sum at the end (`manifest::summed`).

use std::{cmp::Ordering, fs::File, io, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{sys, tree::names::compare};

/// A record taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRecord<'a> {
    pub words: &'a [u8],
    pub path: &'a [u8],
}

impl<'a> PathRecord<'a> {
    /// Takes a record apart.
    pub fn of(record: &'a [u8]) -> Self {
        let end = memchr::memchr(b'\n', record).unwrap_or(record.len());
        Self { words: &record[..end], path: record.get(end + 1..).unwrap_or_default() }
    }

    /// Appends the record.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.words);
        out.push(b'\n');
        out.extend_from_slice(self.path);
    }

    /// The words as text; none if they are no text.
    pub fn text(self) -> &'a str {
        std::str::from_utf8(self.words).unwrap_or_default()
    }

    /// What the words say in JSON.
    pub fn json<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_slice(self.words).ok()
    }

    /// The text and the path of a record.
    pub fn told(record: &'a [u8]) -> (&'a str, &'a [u8]) {
        let it = Self::of(record);
        (it.text(), it.path)
    }
}

/// By path in the order of a walk, then by words.
pub fn by_path(one: PathRecord<'_>, other: PathRecord<'_>) -> Ordering {
    compare(one.path, other.path).then_with(|| one.words.cmp(other.words))
}

/// By the bytes of the path, then by words.
pub fn by_bytes(one: PathRecord<'_>, other: PathRecord<'_>) -> Ordering {
    (one.path, one.words).cmp(&(other.path, other.words))
}

/// By words, then by the bytes of the path.
pub fn by_words(one: PathRecord<'_>, other: PathRecord<'_>) -> Ordering {
    (one.words, one.path).cmp(&(other.words, other.path))
}

/// Number of bytes of records that are sorted at a time.
const PIECE: usize = 8 << 20;

/// Number of bytes that are read or written at a time, …
const BUFFER: usize = 64 << 10;

/// … and so many by all pieces together while they are merged.
const MERGE_BUFFERS: usize = 8 << 20;

/// Compares two records.
pub type RecordOrder = fn(PathRecord<'_>, PathRecord<'_>) -> Ordering;

/// Takes records in any order.
#[derive(Debug)]
pub struct Sorter {
    compare: RecordOrder,
    piece: Vec<u8>,
    ends: Vec<usize>,
    most: usize,
    /// Sorted pieces one behind the other, and where each ends.
    spilled: Option<File>,
    piece_ends: Vec<u64>,
}

/// Records that each end with NUL, in memory or in a file.
#[derive(Clone, Debug)]
pub enum SortedRecords {
    Memory(Arc<Vec<u8>>),
    /// The bytes from `start` to `end` of a file.
    File {
        file: Arc<File>,
        start: u64,
        end: u64,
    },
}

/// Reads records from the first to the last.
#[derive(Debug)]
pub struct RecordReader {
    records: SortedRecords,
    /// Number of bytes of the file that were read, or of names in memory that were taken.
    at: u64,
    buffer: Vec<u8>,
    taken: usize,
    room: usize,
}

impl Sorter {
    pub fn new(compare: RecordOrder) -> Self {
        Self::with_pieces_of(PIECE, compare)
    }

    /// Sorts so many bytes at a time.
    pub fn with_pieces_of(most: usize, compare: RecordOrder) -> Self {
        let (piece, ends, piece_ends) = (Vec::new(), Vec::new(), Vec::new());
        Self { compare, piece, ends, most, spilled: None, piece_ends }
    }

    /// Adds what `words`, without a line feed, say of `path`.
    ///
    /// # Errors
    /// The file that it would wait in cannot be made or written.
    pub fn add(&mut self, words: impl AsRef<[u8]>, path: &[u8]) -> io::Result<()> {
        let words = words.as_ref();
        let len = words.len() + 1 + path.len();
        if self.piece.len() + self.ends.len() * size_of::<usize>() + len > self.most {
            self.spill()?;
        }
        PathRecord { words, path }.write(&mut self.piece);
        self.piece.push(0);
        self.ends.push(self.piece.len());
        Ok(())
    }

    /// Adds what is said of `path`, in JSON.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn add_json(&mut self, said: &impl Serialize, path: &[u8]) -> io::Result<()> {
        self.add(serde_json::to_vec(said)?, path)
    }

    /// The piece in its order.
    fn sorted(&mut self) -> Vec<u8> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let mut spans: Vec<(usize, usize)> = starts.zip(self.ends.iter().copied()).collect();
        let record = |&(start, end): &(usize, usize)| PathRecord::of(&self.piece[start..end - 1]);
        spans.sort_unstable_by(|one, other| (self.compare)(record(one), record(other)));
        let mut sorted = Vec::with_capacity(self.piece.len());
        spans.iter().for_each(|&(start, end)| sorted.extend_from_slice(&self.piece[start..end]));
        self.piece.clear();
        self.ends.clear();
        sorted
    }

    fn spill(&mut self) -> io::Result<()> {
        let sorted = self.sorted();
        let file = match &mut self.spilled {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        sys::write_all(&*file, &sorted)?;
        let before = self.piece_ends.last().copied().unwrap_or(0);
        self.piece_ends.push(before + sorted.len() as u64);
        Ok(())
    }

    /// All records in their order.
    ///
    /// # Errors
    /// A file cannot be made, read or written.
    pub fn finish(mut self) -> io::Result<SortedRecords> {
        if self.spilled.is_none() {
            return Ok(SortedRecords::Memory(Arc::new(self.sorted())));
        }
        self.spill()?;
        let Some(file) = self.spilled.take().map(Arc::new) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let starts = [0].into_iter().chain(self.piece_ends.iter().copied());
        let room = (MERGE_BUFFERS / self.piece_ends.len()).clamp(4 << 10, BUFFER);
        let mut pieces: Vec<RecordReader> = starts
            .zip(self.piece_ends.iter().copied())
            .map(|(start, end)| SortedRecords::File { file: Arc::clone(&file), start, end })
            .map(|records| RecordReader { room, ..records.reader() })
            .collect();
        self.merge(&mut pieces)
    }

    /// Merges pieces by a heap of their first records.
    fn merge(&self, pieces: &mut [RecordReader]) -> io::Result<SortedRecords> {
        let merged = tempfile::tempfile()?;
        let (mut out, mut len) = (Vec::new(), 0);
        let mut firsts: Vec<(Vec<u8>, usize)> = Vec::new();
        let descending = |one: &(Vec<u8>, usize), other: &(Vec<u8>, usize)| {
            (self.compare)(PathRecord::of(&other.0), PathRecord::of(&one.0))
                .then(other.1.cmp(&one.1))
        };
        for (number, piece) in pieces.iter_mut().enumerate() {
            firsts.extend(piece.next_record()?.map(|record| (record.to_vec(), number)));
        }
        firsts.sort_by(descending);
        while let Some((record, number)) = firsts.pop() {
            out.extend_from_slice(&record);
            out.push(0);
            if out.len() >= BUFFER {
                sys::write_all(&merged, &out)?;
                len += out.len() as u64;
                out.clear();
            }
            if let Some(next) = pieces[number].next_record()? {
                let next = (next.to_vec(), number);
                let at = firsts.partition_point(|it| descending(it, &next) == Ordering::Less);
                firsts.insert(at, next);
            }
        }
        sys::write_all(&merged, &out)?;
        len += out.len() as u64;
        Ok(SortedRecords::File { file: Arc::new(merged), start: 0, end: len })
    }
}

impl SortedRecords {
    /// A reader of its own: several may read side by side.
    pub fn reader(&self) -> RecordReader {
        let at = match self {
            SortedRecords::Memory(_) => 0,
            SortedRecords::File { start, .. } => *start,
        };
        RecordReader { records: self.clone(), at, buffer: Vec::new(), taken: 0, room: BUFFER }
    }
}

impl RecordReader {
    /// The next record without its NUL; `None` after the last.
    ///
    /// # Errors
    /// The file cannot be read, or its last record has no end.
    pub fn next_record(&mut self) -> io::Result<Option<&[u8]>> {
        if matches!(self.records, SortedRecords::Memory(_)) {
            return Ok(self.next_in_memory());
        }
        let end = loop {
            if let Some(end) = memchr::memchr(0, &self.buffer[self.taken..]) {
                break end;
            }
            if !self.fill()? {
                return match self.buffer.len() == self.taken {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        };
        let record = self.taken..self.taken + end;
        self.taken += end + 1;
        Ok(Some(&self.buffer[record]))
    }

    fn next_in_memory(&mut self) -> Option<&[u8]> {
        let SortedRecords::Memory(bytes) = &self.records else { return None };
        let rest = bytes.get(self.at as usize..)?;
        let end = memchr::memchr(0, rest)?;
        self.at += end as u64 + 1;
        Some(&rest[..end])
    }

    /// Reads more of the file; false at its end.
    fn fill(&mut self) -> io::Result<bool> {
        let SortedRecords::File { file, end, .. } = &self.records else { return Ok(false) };
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let wanted = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(self.room);
        let old = self.buffer.len();
        self.buffer.resize(old + wanted, 0);
        let read = sys::read_at(file, &mut self.buffer[old..], self.at)?;
        self.buffer.truncate(old + read);
        self.at += read as u64;
        Ok(read > 0)
    }
}

/// Reads sorted records with a look at the next one, so that several lists of paths are read side by side.
pub struct JoinReader {
    records: RecordReader,
    next: Option<Vec<u8>>,
}

impl JoinReader {
    /// Reads from the first.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn of(records: &SortedRecords) -> io::Result<Self> {
        let mut reader = Self { records: records.reader(), next: None };
        reader.take()?;
        Ok(reader)
    }

    /// The next one.
    pub fn peek(&self) -> Option<PathRecord<'_>> {
        self.next.as_deref().map(PathRecord::of)
    }

    /// Takes the next one.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let next = self.records.next_record()?.map(<[u8]>::to_vec);
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Takes the next one if it stands before `path` in the order of a walk.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take_before(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let is_before = |next: PathRecord<'_>| compare(next.path, path) == Ordering::Less;
        if self.peek().is_some_and(is_before) { self.take() } else { Ok(None) }
    }

    /// Takes the next one if it is of `path`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take_of(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if self.peek().is_some_and(|next| next.path == path) { self.take() } else { Ok(None) }
    }

    /// Takes those of `path`; returns the last.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take_all_of(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut last = None;
        while let Some(record) = self.take_of(path)? {
            last = Some(record);
        }
        Ok(last)
    }

    /// The last one of `path`; those before it are passed over.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn last_of(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        while self.take_before(path)?.is_some() {}
        self.take_all_of(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(records: &SortedRecords) -> Vec<String> {
        let (mut reader, mut found) = (records.reader(), Vec::new());
        while let Some(record) = reader.next_record().unwrap() {
            found.push(String::from_utf8(PathRecord::of(record).path.to_vec()).unwrap());
        }
        found
    }

    #[test]
    fn pieces_are_merged_in_order() {
        let mut expected: Vec<String> =
            (0..5000).map(|i| format!("{}/{:04}", i % 7, (i * 7919) % 5000)).collect();
        let mut small = Sorter::with_pieces_of(1000, by_path);
        let mut large = Sorter::new(by_path);
        for record in &expected {
            small.add("", record.as_bytes()).unwrap();
            large.add("", record.as_bytes()).unwrap();
        }
        expected.sort_by(|one, other| compare(one.as_bytes(), other.as_bytes()));
        let (small, large) = (small.finish().unwrap(), large.finish().unwrap());
        assert!(
            matches!(small, SortedRecords::File { .. })
                && matches!(large, SortedRecords::Memory(_))
        );
        assert_eq!(all(&small), expected);
        assert_eq!(all(&large), expected);
        assert_eq!(all(&small), expected, "a second reader");
        assert_eq!(all(&Sorter::new(by_path).finish().unwrap()), [""; 0]);
    }

    #[test]
    fn records_are_in_the_order_of_paths_and_hold_their_words() {
        let bytes: [&[u8]; 9] =
            [b"", b"\x01", b"\x01\n", b"\n", b"a", b"a\n", b"a-b", b"a/b", b"\xff"];
        let walk = [0, 1, 2, 3, 4, 7, 5, 6, 8].map(|at| bytes[at]);
        for (order, expected) in [(by_bytes as RecordOrder, bytes), (by_path, walk)] {
            let mut sorter = Sorter::new(order);
            for path in bytes.iter().rev() {
                sorter.add("2 \x01", path).unwrap();
                sorter.add("1", path).unwrap();
            }
            let mut reader = JoinReader::of(&sorter.finish().unwrap()).unwrap();
            for path in expected {
                for words in [&b"1"[..], b"2 \x01"] {
                    let record = reader.take().unwrap().unwrap();
                    assert_eq!(PathRecord::of(&record), PathRecord { words, path });
                }
            }
            assert_eq!(reader.take().unwrap(), None);
        }
    }
}
