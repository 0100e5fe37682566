//! Records of files and directories, in the order of their paths: some words, a line feed, and the path, which may hold
//! anything but NUL.

use std::cmp::Ordering;
use std::io;

use crate::tree::names::order::compare;
use crate::tree::names::sorter::{RecordOrder, RecordReader, SortedRecords, Sorter};

/// So many bytes are sorted at a time: several are at work, beside what the run holds.
pub const PIECE: usize = 1 << 20;

/// A record taken apart.
#[derive(Clone, Copy, Debug)]
pub struct PathRecord<'a> {
    /// What is said.
    pub words: &'a str,
    /// Of which path.
    pub path: &'a [u8],
}

impl<'a> PathRecord<'a> {
    /// Takes a record apart.
    pub fn of(record: &'a [u8]) -> Self {
        let RecordBytes { words, path } = RecordBytes::of(record);
        Self { words: std::str::from_utf8(words).unwrap_or_default(), path }
    }
}

/// The same without a look at the words, for comparisons.
#[derive(Clone, Copy)]
pub struct RecordBytes<'a> {
    pub words: &'a [u8],
    pub path: &'a [u8],
}

impl<'a> RecordBytes<'a> {
    /// Takes a record apart.
    pub fn of(record: &'a [u8]) -> Self {
        let end = memchr::memchr(b'\n', record).unwrap_or(record.len());
        Self { words: &record[..end], path: record.get(end + 1..).unwrap_or_default() }
    }
}

/// By path, then by what is said.
pub fn by_path(one: &[u8], other: &[u8]) -> Ordering {
    let (one, other) = (RecordBytes::of(one), RecordBytes::of(other));
    compare(one.path, other.path).then_with(|| one.words.cmp(other.words))
}

/// Takes records in any order.
pub struct PathSorter {
    sorter: Sorter,
    record: Vec<u8>,
}

impl PathSorter {
    /// Sorts by path.
    pub fn by_path() -> Self {
        Self::by(by_path)
    }

    /// Sorts by `order`.
    pub fn by(order: RecordOrder) -> Self {
        Self { sorter: Sorter::with_pieces_of(PIECE, order), record: Vec::new() }
    }

    /// Adds what `words` say of `path`.
    ///
    /// # Errors
    /// The file that it would wait in cannot be made or written.
    pub fn add(&mut self, words: &str, path: &[u8]) -> io::Result<()> {
        self.record.clear();
        self.record.extend_from_slice(words.as_bytes());
        self.record.push(b'\n');
        self.record.extend_from_slice(path);
        self.sorter.add(&self.record)
    }

    /// All in their order.
    ///
    /// # Errors
    /// A file cannot be made, read or written.
    pub fn finish(self) -> io::Result<SortedRecords> {
        self.sorter.finish()
    }
}

/// Reads sorted records, with a look at the next one.
pub struct PathReader {
    records: RecordReader,
    next: Option<Vec<u8>>,
}

impl PathReader {
    /// Reads from the first.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn of(records: &SortedRecords) -> io::Result<Self> {
        let mut reader = Self { records: records.reader(), next: None };
        reader.next = reader.records.next_record()?.map(<[u8]>::to_vec);
        Ok(reader)
    }

    /// The next one.
    pub fn peek(&self) -> Option<PathRecord<'_>> {
        self.next.as_deref().map(PathRecord::of)
    }

    /// The bytes of the next one.
    pub fn peek_bytes(&self) -> Option<&[u8]> {
        self.next.as_deref()
    }

    /// Takes the next one.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let next = self.records.next_record()?.map(<[u8]>::to_vec);
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Takes the next one if it stands before `path`.
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

    /// The last one of `path`; those before it are passed over.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn last_of(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        while self.take_before(path)?.is_some() {}
        let mut last = None;
        while let Some(record) = self.take_of(path)? {
            last = Some(record);
        }
        Ok(last)
    }
}

/// Appends bytes in hexadecimal.
pub fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
        out.extend([digit(byte >> 4), digit(byte & 15)]);
    }
}

/// The bytes that [`push_hex`] wrote.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |letter: u8| char::from(letter).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}
