//! Sorting records in bounded memory: what does not fit is sorted in pieces, which wait in a file without a name
//! and are merged.

use std::{cmp::Ordering, fs::File, io, sync::Arc};

use crate::sys;

/// Number of bytes of records that are sorted at a time.
const PIECE: usize = 8 << 20;

/// Number of bytes that are read or written at a time, …
const BUFFER: usize = 64 << 10;

/// … and so many by all pieces together while they are merged.
const MERGE_BUFFERS: usize = 8 << 20;

/// Compares two records, both without the NUL that ends them.
pub type RecordOrder = fn(&[u8], &[u8]) -> Ordering;

/// Takes records in any order. A record holds no NUL.
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

    /// Adds a record.
    ///
    /// # Errors
    /// The file that it would wait in cannot be made or written.
    pub fn add(&mut self, record: &[u8]) -> io::Result<()> {
        if self.piece.len() + self.ends.len() * size_of::<usize>() + record.len() > self.most {
            self.spill()?;
        }
        self.piece.extend_from_slice(record);
        self.piece.push(0);
        self.ends.push(self.piece.len());
        Ok(())
    }

    /// The piece in its order.
    fn sorted(&mut self) -> Vec<u8> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let mut spans: Vec<(usize, usize)> = starts.zip(self.ends.iter().copied()).collect();
        let record = |&(start, end): &(usize, usize)| &self.piece[start..end - 1];
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
            (self.compare)(&other.0, &one.0).then(other.1.cmp(&one.1))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::names::compare;

    fn all(records: &SortedRecords) -> Vec<String> {
        let (mut reader, mut found) = (records.reader(), Vec::new());
        while let Some(record) = reader.next_record().unwrap() {
            found.push(String::from_utf8(record.to_vec()).unwrap());
        }
        found
    }

    #[test]
    fn pieces_are_merged_in_order() {
        let mut expected: Vec<String> =
            (0..5000).map(|i| format!("{}/{:04}", i % 7, (i * 7919) % 5000)).collect();
        let mut small = Sorter::with_pieces_of(1000, compare);
        let mut large = Sorter::new(compare);
        for record in &expected {
            small.add(record.as_bytes()).unwrap();
            large.add(record.as_bytes()).unwrap();
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
        assert_eq!(all(&Sorter::new(compare).finish().unwrap()), [""; 0]);
    }
}
