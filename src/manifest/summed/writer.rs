//! Writing a summed file.

use std::io::{self, Write};

use crate::hash::Hasher;
use crate::manifest::summed::trailer::{SUM, Trailer, numbers};
use crate::sys;

/// So many bytes are hashed and written at a time.
const TOGETHER: usize = 256 << 10;

/// Writes records that each end with the same byte.
pub struct SummedWriter<W: Write> {
    out: W,
    hasher: Hasher,
    /// What is not hashed and written yet.
    text: Vec<u8>,
    end: u8,
    records: u64,
}

impl<W: Write> SummedWriter<W> {
    /// Begins with `header`, which is a record that says what the file is.
    pub fn new(out: W, end: u8, header: &str) -> io::Result<Self> {
        let (hasher, text) = (SUM.start(), Vec::new());
        let mut writer = Self { out, hasher, text, end, records: 0 };
        writer.put(header.as_bytes())?;
        Ok(writer)
    }

    fn put(&mut self, record: &[u8]) -> io::Result<()> {
        self.text.extend_from_slice(record);
        self.text.push(self.end);
        if self.text.len() >= TOGETHER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hasher.update(&self.text);
        sys::write_all(&mut self.out, &self.text)?;
        self.text.clear();
        Ok(())
    }

    /// Adds a record, which must not hold what ends one.
    pub fn add(&mut self, record: &[u8]) -> io::Result<()> {
        self.records += 1;
        self.put(record)
    }

    /// Ends the file, whose records are of so many bytes.
    pub fn finish(mut self, bytes: u64) -> io::Result<Trailer> {
        let numbers = numbers(self.records, bytes);
        self.text.extend_from_slice(numbers.as_bytes());
        self.flush()?;
        let Self { mut out, hasher, end, records, .. } = self;
        let sum = hasher.finish().ok_or(io::ErrorKind::Unsupported)?;
        sys::write_all(&mut out, &[sum.to_string().as_bytes(), &[end]].concat())?;
        out.flush()?;
        Ok(Trailer { records, bytes, sum })
    }
}
