//! The entries of a report while the run goes on: on the disk, because there may be millions.
//!
//! They are in a file without a name, in the directory that the report goes to. So a copy of that very
//! directory does not come upon them, and a run that is killed leaves nothing. On Windows every file has a
//! name: there the system removes it when it is closed, also by the end of the process.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use crate::sys::{self, Uninterrupted};

/// So many bytes are written at a time.
const BUFFER: usize = 64 << 10;

/// Entries, each the JSON of one.
#[derive(Debug)]
pub struct Spool {
    file: File,
    /// Whole entries that are not written yet, and how many.
    buffer: Vec<u8>,
    waiting: u64,
    /// So much of the file is whole entries; bytes.
    good: u64,
    any: bool,
    left_out: u64,
}

impl Spool {
    /// An empty spool in the directory `dir`.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(dir)?;
        Ok(Self { file, buffer: Vec::new(), waiting: 0, good: 0, any: false, left_out: 0 })
    }

    pub fn add(&mut self, json: &str) {
        if self.left_out > 0 {
            self.left_out += 1;
            return;
        }
        let between: &[u8] = if self.any { b",\n    " } else { b"\n    " };
        self.any = true;
        self.buffer.extend_from_slice(between);
        self.buffer.extend_from_slice(json.as_bytes());
        self.waiting += 1;
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    /// After an error no more entries are written; later ones are counted, and the report has the number.
    fn flush(&mut self) {
        match sys::write_all(&self.file, &self.buffer) {
            Ok(()) => self.good += self.buffer.len() as u64,
            Err(_) => self.left_out += self.waiting,
        }
        self.buffer.clear();
        self.waiting = 0;
    }

    /// How many entries could not be kept.
    pub fn left_out(&mut self) -> u64 {
        self.flush();
        self.left_out
    }

    /// Writes the entries, commas between them.
    pub fn copy_to(&mut self, to: &mut impl Write) -> io::Result<()> {
        self.flush();
        self.file.rewind()?;
        let copied = io::copy(&mut Uninterrupted(&self.file).take(self.good), to)?;
        match copied == self.good {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(dir.path()).unwrap();
        let names = || std::fs::read_dir(dir.path()).unwrap().count();
        assert!(cfg!(windows) || names() == 0, "it has a name");
        (0..10_000).for_each(|i| spool.add(&format!("{{\"n\":{i}}}")));
        let mut out = b"[".to_vec();
        // Twice: a report that could not be written may be tried again.
        spool.copy_to(&mut Vec::new()).unwrap();
        spool.copy_to(&mut out).unwrap();
        out.push(b']');
        let values: Vec<serde_json::Value> = serde_json::from_slice(&out).unwrap();
        assert_eq!((values.len(), spool.left_out()), (10_000, 0));
        assert_eq!(values[9_999]["n"], 9_999);
        drop(spool);
        assert_eq!(names(), 0, "it stays behind");
    }
}
