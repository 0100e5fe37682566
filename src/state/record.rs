//! The private record as a file: rows appended while a run goes on, closed by sums.
//!
//! ```text
//! dircopy record 1 MARK
//! s=- 3f2 2dc6c0 5e0be100.0 6abcd123.5f5e100 DIGEST  path
//! = 1 SUM
//! ```
//!
//! The first line says which output it is of. Then come [rows](Row) and sums: a sum line has the number
//! of rows before it, and the SHA-256 of everything before it in the file. Only what a good sum closes
//! counts; so a torn end, a hole after a power cut or a flipped bit costs a reading and never a wrong
//! answer. A record that is finished ends with the name of the manifest that was written with it, and a
//! sum.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek};

use crate::hash::{Algorithm, Hasher};
use crate::manifest::Scanner;
use crate::manifest::read::scan::Text;
use crate::state::private_dir::{Mark, PrivateDir};
use crate::state::row;
use crate::sys::{self, Dir};

/// The first line of a record, the mark left out.
const HEAD: &str = "dircopy record 1";

/// What the finished record is called; those of runs on their way have a number behind a point.
pub const FINISHED: &str = "record";

/// Where it is moved to while it is open and another takes its place.
const ASIDE: &str = "record.aside";

/// A record being written.
pub struct RecordFile {
    file: File,
    name: OsString,
    hasher: Hasher,
    rows: u64,
    /// Whether a write failed, perhaps in the middle of a line.
    torn: bool,
}

impl RecordFile {
    /// Begins a record, number `number` of those on their way.
    pub fn create(private: &PrivateDir, number: u64) -> io::Result<Self> {
        let name = OsString::from(format!("{FINISHED}.{number}"));
        let file = private.dir().create_new(&name, true)?;
        let hasher = Algorithm::Sha256.start();
        let mut record = Self { file, name, hasher, rows: 0, torn: false };
        record.put(format!("{HEAD} {}\n", private.mark().text()).as_bytes())?;
        Ok(record)
    }

    /// Appends so many rows, which are whole lines, and their sum.
    pub fn append(&mut self, rows: &[u8], number: u64) -> io::Result<()> {
        if number == 0 {
            return Ok(());
        }
        self.rows += number;
        self.put(rows)?;
        self.close()
    }

    /// Waits until all of it is on the device.
    pub fn persist(&self) -> io::Result<()> {
        sys::persist_file(&self.file)
    }

    /// It is complete, and was written with the manifest of this name: it takes the place of the one
    /// before.
    pub fn finish(mut self, private: &PrivateDir, manifest: &str, durable: bool) -> io::Result<()> {
        self.put(format!(". {manifest}\n").as_bytes())?;
        self.close()?;
        if durable {
            self.persist()?;
        }
        match private.dir().publish(&self.name, FINISHED.as_ref(), true) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.finish_beside_open(private.dir())?;
            }
            published => published?,
        }
        if durable { private.dir().persist() } else { Ok(()) }
    }

    /// The record before is still being read by this run, and systems without POSIX renames (Windows before
    /// version 1709, Wine) replace no file that is open: it is moved aside. Between the two renames there is
    /// no finished record, which costs a reading.
    fn finish_beside_open(&self, private: &Dir) -> io::Result<()> {
        private.publish(FINISHED.as_ref(), ASIDE.as_ref(), true)?;
        private.publish(&self.name, FINISHED.as_ref(), false)?;
        // Where an open file cannot be removed either, the next run replaces it.
        let _ = private.remove(ASIDE.as_ref());
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        let sum = sum_line(&self.hasher, self.rows);
        self.put(sum.as_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.torn {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.hasher.update(bytes);
        let written = sys::write_all(&self.file, bytes);
        self.torn = written.is_err();
        written
    }
}

/// What closes `rows` rows and everything before them, of which `hasher` has the digest.
fn sum_line(hasher: &Hasher, rows: u64) -> String {
    let digest = hasher.clone().finish().map(|digest| digest.to_string()).unwrap_or_default();
    format!("= {rows} {digest}\n")
}

/// What of a record is closed by a good sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// How much of the file, in bytes.
    pub len: u64,
    /// How many rows are in there.
    pub rows: u64,
    /// Whether it is of the output with the mark that was asked for.
    pub fits: bool,
    /// The manifest it was finished with, if it was.
    pub manifest: Option<String>,
}

/// Reads a record up to the last good sum. It ends early once `is_to_stop` says so.
///
/// # Errors
/// What reading failed with.
pub fn measure(file: &mut File, mark: &Mark, is_to_stop: &dyn Fn() -> bool) -> io::Result<Closed> {
    let mut hasher = Algorithm::Sha256.start();
    let (mut good, mut open) = (Closed::default(), Closed::default());
    file.rewind()?;
    let mut scanner = Scanner::new(&mut *file);
    while let Some(line) = scanner.next_line()? {
        let (Text::Whole(text), true) = (line.text, line.ended) else { break };
        match text.first() {
            Some(b's' | b't') if line.number > 1 && row::strip(text).is_some() => open.rows += 1,
            Some(b'=') if line.number > 1 => {
                if sum_line(&hasher, open.rows).as_bytes().strip_suffix(b"\n") != Some(text) {
                    break;
                }
                open.len = line.offset + text.len() as u64 + 1;
                good = open.clone();
                if is_to_stop() {
                    break;
                }
            }
            Some(b'.') if line.number > 1 => {
                let Some(name) = text.strip_prefix(b". ").map(String::from_utf8_lossy) else {
                    break;
                };
                open.manifest = Some(name.into_owned());
            }
            Some(b'd') if line.number == 1 => {
                let Some(of) = text.strip_prefix(HEAD.as_bytes()) else { break };
                open.fits = of.strip_prefix(b" ") == Some(mark.text().as_bytes());
            }
            _ => break,
        }
        hasher.update(text);
        hasher.update(b"\n");
    }
    file.rewind()?;
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Digest;
    use crate::state::private_dir::Missing;
    use crate::state::row::{Origin, Row, Trace};
    use crate::sys::Dir;
    use crate::sys::stat::Time;
    use proptest::prelude::*;
    use std::io::Write;
    use std::path::Path;

    fn private(root: &Path) -> PrivateDir {
        PrivateDir::open(&Dir::open(root).unwrap(), root, None, Missing::Make).unwrap().unwrap()
    }

    fn row(path: &str) -> Vec<u8> {
        let time = Time { secs: -5, nanos: 7 };
        let trace = Trace { ino: 3, size: 4, mtime: time, ctime: time };
        let digest = Digest([7; 32]);
        let row = Row { digest, origin: Origin::Source, trace, sure: true, late: false };
        let mut line = Vec::new();
        row.write(&mut line, path.as_bytes());
        line
    }

    /// The bytes of a finished record of two groups, and of the private directory it is of.
    fn record(root: &Path) -> (PrivateDir, Vec<u8>) {
        let private = private(root);
        let mut record = RecordFile::create(&private, 1).unwrap();
        record.append(&[row("a"), row("b\n")].concat(), 2).unwrap();
        record.append(&row("c"), 1).unwrap();
        record.finish(&private, "dircopy-x.sha256sum", false).unwrap();
        let bytes = std::fs::read(private.path().join(FINISHED)).unwrap();
        (private, bytes)
    }

    fn measured(bytes: &[u8], private: &PrivateDir) -> Closed {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        measure(&mut file, private.mark(), &|| false).unwrap()
    }

    #[test]
    fn a_whole_record_counts_whole() {
        let root = tempfile::tempdir().unwrap();
        let (own, bytes) = record(root.path());
        let manifest = Some("dircopy-x.sha256sum".to_owned());
        let whole = Closed { len: bytes.len() as u64, rows: 3, fits: true, manifest };
        assert_eq!(measured(&bytes, &own), whole);
        let other = tempfile::tempdir().unwrap();
        let fits = measured(&bytes, &private(other.path())).fits;
        assert!(!fits, "it is of another output");
    }

    proptest! {
        /// What is torn off or turned counts for nothing, with what stands behind it.
        #[test]
        fn only_what_a_good_sum_closes_counts(at in any::<proptest::sample::Index>(), tear: bool) {
            let root = tempfile::tempdir().unwrap();
            let (own, whole) = record(root.path());
            let at = at.index(whole.len());
            let mut bytes = whole.clone();
            if tear { bytes.truncate(at) } else { bytes[at] ^= 1 }
            let closed = measured(&bytes, &own);
            prop_assert!(closed.len <= at as u64);
            prop_assert!([0, 2, 3].contains(&closed.rows));
            prop_assert!(closed.len == 0 || whole[..closed.len as usize].ends_with(b"\n"));
        }

        #[test]
        fn whatever_stands_there_is_measured_without_harm(bytes in any::<Vec<u8>>()) {
            let root = tempfile::tempdir().unwrap();
            prop_assert_eq!(measured(&bytes, &private(root.path())).rows, 0);
        }
    }
}
