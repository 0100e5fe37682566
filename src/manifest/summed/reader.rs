//! Reading a summed file.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::manifest::summed::ahead::ReadAhead;
use crate::manifest::summed::blocks::{Blocks, SummedFile};
use crate::manifest::summed::trailer::{END, Trailer};

/// No record is longer; bytes.
const MOST_RECORD: usize = 4 << 20;

const LIST: &str = "read the list of the plan";

/// Reads such a file from the first record to the last, and is content only if it is whole.
#[derive(Debug)]
pub struct SummedReader<B = SummedFile> {
    blocks: B,
    /// What the file is read for; completes "cannot …".
    deed: &'static str,
    path: PathBuf,
    end: u8,
    block: Vec<u8>,
    /// How much of the block was looked at, and where in it the record is.
    taken: usize,
    span: Range<usize>,
    /// The record, if it began in an earlier block.
    carried: Vec<u8>,
    records: u64,
    at: u64,
    trailer: Option<Trailer>,
}

impl SummedReader {
    /// Opens a list of a plan at `path`, whose first record must be `header`.
    pub fn open(path: &Path, end: u8, header: &str) -> Result<Self> {
        Self::open_to(LIST, path, end, header)
    }

    /// Opens any such file, to do this with it.
    pub fn open_to(deed: &'static str, path: &Path, end: u8, header: &str) -> Result<Self> {
        let blocks = SummedFile::open(path).map_err(|error| Error::io(deed, path, error))?;
        Self::begin(blocks, deed, path, end, header)
    }

    pub fn into_file(self) -> File {
        self.blocks.into_file()
    }
}

impl<'a> SummedReader<&'a mut ReadAhead> {
    /// Goes on to the next list that is read ahead, which is that at `path`.
    pub fn open_next(ahead: &'a mut ReadAhead, path: &Path, end: u8, header: &str) -> Result<Self> {
        ahead.next_file();
        Self::begin(ahead, LIST, path, end, header)
    }
}

impl<B: Blocks> SummedReader<B> {
    fn begin(blocks: B, deed: &'static str, path: &Path, end: u8, header: &str) -> Result<Self> {
        let mut reader = Self {
            blocks,
            deed,
            path: path.to_path_buf(),
            end,
            block: Vec::new(),
            taken: 0,
            span: 0..0,
            carried: Vec::new(),
            records: 0,
            at: 0,
            trailer: None,
        };
        if reader.read()? && reader.record() == header.as_bytes() {
            return Ok(reader);
        }
        let finding = format!(
            "it does not begin with {header:?}: it is of another plan or shard, or is none"
        );
        Err(Error::finding(deed, path, finding))
    }

    /// Reads a record; false at the end of the file.
    fn read(&mut self) -> Result<bool> {
        self.carried.clear();
        loop {
            let rest = &self.block[self.taken..];
            if let Some(len) = memchr::memchr(self.end, rest) {
                self.span = self.taken..self.taken + len;
                self.taken += len + 1;
                if !self.carried.is_empty() {
                    self.carried.extend_from_slice(&rest[..len]);
                }
                self.at += self.record().len() as u64 + 1;
                return Ok(true);
            }
            self.carried.extend_from_slice(rest);
            if self.carried.len() > MOST_RECORD {
                return Err(self.torn("its last record has no end"));
            }
            self.taken = 0;
            let more = self.blocks.next_block(&mut self.block);
            if !more.map_err(|error| Error::io(self.deed, &self.path, error))? {
                self.block.clear();
                return match self.carried.is_empty() {
                    true => Ok(false),
                    false => Err(self.torn("its last record has no end")),
                };
            }
        }
    }

    /// The record that was read last.
    pub fn record(&self) -> &[u8] {
        if self.carried.is_empty() { &self.block[self.span.clone()] } else { &self.carried }
    }

    /// Goes on to the next record; false after the last, if the file is whole.
    pub fn advance(&mut self) -> Result<bool> {
        if self.trailer.is_some() {
            return Ok(false);
        }
        let before = self.at;
        if !self.read()? {
            return Err(self.torn("it has no end"));
        }
        if !self.record().starts_with(END.as_bytes()) {
            self.records += 1;
            return Ok(true);
        }
        let found = Trailer::parse(self.record());
        if self.read()? {
            return Err(self.torn("something follows its end"));
        }
        match found {
            Some(found)
                if Some(found.sum) == self.blocks.sum() && found.records == self.records =>
            {
                self.trailer = Some(found);
            }
            _ => return Err(self.torn("its sum or its number of records is not what its end says")),
        }
        self.at = before;
        Ok(false)
    }

    /// The next record; `None` after the last, if the file is whole.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.advance()?.then(|| self.record()))
    }

    /// Reads to the end.
    pub fn check(&mut self) -> Result<Trailer> {
        while self.advance()? {}
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::summed::blocks::BLOCK;
    use crate::manifest::summed::writer::SummedWriter;

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
            assert!(read(&other).is_err(), "changed at {at}");
        }
        assert!(read(&[&whole[..], b"x\0"].concat()).is_err());
        assert!(SummedReader::open(&path, 0, "# other").is_err());
    }

    #[test]
    fn records_lie_across_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        // The end of the file falls before, on and behind that of a block, with its last record in either.
        for more in [0, 1, 60, 110, 111, 112, 113, 114, 200, 300_000] {
            let mut writer =
                SummedWriter::new(File::create(&path).unwrap(), b'\n', "head").unwrap();
            let first = vec![b'a'; BLOCK - 120 + more];
            writer.add(&first).unwrap();
            writer.add(b"").unwrap();
            let trailer = writer.finish(1).unwrap();
            let mut reader = SummedReader::open(&path, b'\n', "head").unwrap();
            assert_eq!(reader.next_record().unwrap(), Some(&first[..]), "{more}");
            assert_eq!(reader.next_record().unwrap(), Some(&b""[..]), "{more}");
            assert_eq!(reader.next_record().unwrap(), None, "{more}");
            assert_eq!(reader.trailer(), Some(trailer), "{more}");
            assert_eq!(reader.at(), first.len() as u64 + 7, "{more}");
        }
    }

    #[test]
    fn files_are_read_ahead_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> =
            (0..6).map(|number| dir.path().join(number.to_string())).collect();
        for (number, path) in paths.iter().enumerate().filter(|(number, _)| *number != 3) {
            let mut writer = SummedWriter::new(File::create(path).unwrap(), 0, "head").unwrap();
            for record in 0..number * 50_000 {
                writer.add(format!("{number} {record}").as_bytes()).unwrap();
            }
            writer.finish(7).unwrap();
        }
        std::thread::scope(|scope| {
            let mut ahead = ReadAhead::start(scope, paths.clone().into_iter()).unwrap();
            for (number, path) in paths.iter().enumerate() {
                let opened = SummedReader::open_next(&mut ahead, path, 0, "head");
                if number == 3 {
                    assert!(opened.unwrap_err().to_string().contains("cannot read the list"));
                    continue;
                }
                let mut reader = opened.unwrap();
                // Of the second not all is taken.
                for record in 0..if number == 2 { 10 } else { number * 50_000 } {
                    let expected = format!("{number} {record}");
                    assert_eq!(reader.next_record().unwrap(), Some(expected.as_bytes()));
                }
                let whole = (number != 2).then(|| reader.check().unwrap().records);
                assert_eq!(whole, (number != 2).then_some(number as u64 * 50_000));
            }
        });
    }
}
