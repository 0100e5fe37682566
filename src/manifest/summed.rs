//! Files of records with their count and sum at the end, so that one that is torn, or was put together from pieces, is
//! not taken for a whole one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::hash::{Algorithm, Hasher, Sha256};
use crate::sys::{self, PlainUse, Uninterrupted};

/// No record is longer; bytes.
const MOST_RECORD: u64 = 4 << 20;

/// How the last record begins.
const END: &str = "# end ";

/// What stands at the end of such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    pub records: u64,
    /// What the records are of; bytes.
    pub bytes: u64,
    /// Over everything before.
    pub sum: Sha256,
}

/// Writes records that each end with the same byte.
pub struct SummedWriter<W: Write> {
    out: BufWriter<W>,
    hasher: Hasher,
    end: u8,
    records: u64,
}

/// Reads such a file from the first record to the last, and is content only if it is whole.
#[derive(Debug)]
pub struct SummedReader {
    input: BufReader<Uninterrupted<File>>,
    /// What the file is read for; completes "cannot …".
    deed: &'static str,
    path: PathBuf,
    hasher: Option<Hasher>,
    end: u8,
    record: Vec<u8>,
    records: u64,
    at: u64,
    trailer: Option<Trailer>,
}

impl<W: Write> SummedWriter<W> {
    /// Begins with `header`, which is a record that says what the file is.
    pub fn new(out: W, end: u8, header: &str) -> io::Result<Self> {
        let (out, hasher) = (BufWriter::with_capacity(256 << 10, out), Algorithm::Sha256.start());
        let mut writer = Self { out, hasher, end, records: 0 };
        writer.write(header.as_bytes())?;
        Ok(writer)
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        for bytes in [record, &[self.end]] {
            self.hasher.update(bytes);
            self.out.write_all(bytes)?;
        }
        Ok(())
    }

    /// Adds a record, which must not hold what ends one.
    pub fn add(&mut self, record: &[u8]) -> io::Result<()> {
        self.records += 1;
        self.write(record)
    }

    /// Ends the file, whose records are of so many bytes.
    pub fn finish(self, bytes: u64) -> io::Result<Trailer> {
        let Self { mut out, hasher, end, records } = self;
        let sum = finish(hasher).ok_or(io::ErrorKind::Unsupported)?;
        let hex = sum.to_hex();
        write!(out, "{END}{records} {bytes} {}", String::from_utf8_lossy(&hex))?;
        out.write_all(&[end])?;
        out.flush()?;
        Ok(Trailer { records, bytes, sum })
    }
}

impl SummedReader {
    /// Opens a list of a plan at `path`, whose first record must be `header`.
    pub fn open(path: &Path, end: u8, header: &str) -> Result<Self> {
        Self::open_to("read the list of the plan", path, end, header)
    }

    /// Opens any such file, to do this with it.
    pub fn open_to(deed: &'static str, path: &Path, end: u8, header: &str) -> Result<Self> {
        // A FIFO in its place would be waited for.
        let opened = sys::open_plain(path, PlainUse::Read);
        let file = opened.map_err(|error| Error::io(deed, path, error))?;
        let mut reader = Self {
            input: BufReader::with_capacity(256 << 10, Uninterrupted(file)),
            deed,
            path: path.to_path_buf(),
            hasher: Some(Algorithm::Sha256.start()),
            end,
            record: Vec::new(),
            records: 0,
            at: 0,
            trailer: None,
        };
        if reader.read()? && reader.record == header.as_bytes() {
            return Ok(reader);
        }
        let finding = format!(
            "it does not begin with {header:?}: it is of another plan or shard, or is none"
        );
        Err(Error::finding(deed, path, finding))
    }

    /// Reads a record; false at the end of the file.
    fn read(&mut self) -> Result<bool> {
        self.record.clear();
        let mut input = (&mut self.input).take(MOST_RECORD);
        let read = input.read_until(self.end, &mut self.record);
        let read = read.map_err(|error| Error::io(self.deed, &self.path, error))?;
        if read == 0 {
            return Ok(false);
        }
        if self.record.pop() != Some(self.end) {
            return Err(self.torn("its last record has no end"));
        }
        if let Some(hasher) =
            self.hasher.as_mut().filter(|_| !self.record.starts_with(END.as_bytes()))
        {
            hasher.update(&self.record);
            hasher.update(&[self.end]);
        }
        self.at += read as u64;
        Ok(true)
    }

    /// The next record; `None` after the last, if the file is whole.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        if self.trailer.is_some() {
            return Ok(None);
        }
        let before = self.at;
        if !self.read()? {
            return Err(self.torn("it has no end"));
        }
        if !self.record.starts_with(END.as_bytes()) {
            self.records += 1;
            return Ok(Some(&self.record));
        }
        let parsed = std::str::from_utf8(&self.record[END.len()..]).ok().and_then(parse_trailer);
        let sum = self.hasher.take().and_then(finish);
        match parsed {
            Some(found) if Some(found.sum) == sum && found.records == self.records => {
                self.trailer = Some(found);
            }
            _ => return Err(self.torn("its sum or its number of records is not what its end says")),
        }
        if self.read()? {
            return Err(self.torn("something follows its end"));
        }
        self.at = before;
        Ok(None)
    }

    /// Reads to the end.
    pub fn check(&mut self) -> Result<Trailer> {
        while self.next_record()?.is_some() {}
        self.trailer.ok_or_else(|| self.torn("it has no end"))
    }

    /// What stands at the end, once that was reached.
    pub fn trailer(&self) -> Option<Trailer> {
        self.trailer
    }

    /// How much was read in front of what comes next, or of the end; bytes.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The file is not whole.
    pub fn torn(&self, finding: &'static str) -> Error {
        Error::finding(self.deed, &self.path, format!("{finding}: it is torn or was changed"))
    }

    pub fn into_file(self) -> File {
        self.input.into_inner().0
    }
}

fn finish(hasher: Hasher) -> Option<Sha256> {
    hasher.finish().and_then(|digest| digest.as_sha256())
}

fn parse_trailer(text: &str) -> Option<Trailer> {
    let mut parts = text.split(' ');
    let records = parts.next()?.parse().ok()?;
    let bytes = parts.next()?.parse().ok()?;
    let sum = Sha256::from_hex(parts.next()?.as_bytes())?;
    parts.next().is_none().then_some(Trailer { records, bytes, sum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_file_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        let mut writer = SummedWriter::new(File::create(&path).unwrap(), 0, "# head").unwrap();
        ["one", "two\nlines", "three"].iter().for_each(|it| writer.add(it.as_bytes()).unwrap());
        let trailer = writer.finish(42).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            SummedReader::open(&path, 0, "# head").and_then(|mut reader| reader.check())
        };
        assert_eq!(read(&whole).unwrap(), trailer);
        assert_eq!((trailer.records, trailer.bytes), (3, 42));
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            // What the records are of has no sum of its own.
            let in_bytes = whole[at..].starts_with(b"42 ") || whole[at..].starts_with(b"2 ");
            assert!(in_bytes || read(&other).is_err(), "changed at {at}");
        }
        assert!(read(&[&whole[..], b"x\0"].concat()).is_err());
        assert!(SummedReader::open(&path, 0, "# other").is_err());
    }
}
