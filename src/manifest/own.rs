//! The lines of a manifest that dircopy itself wrote, taken more strictly than those of others: a
//! line that is not ended is torn, and says nothing even if it looks whole.

use std::io;

use crate::hash::Digest;

use super::format::{Parsed, Parser};
use super::record::Record;
use super::scan::{Scanner, Text};
use super::window::{RangeReader, Window};

/// After so many lines, a matter of milliseconds, it is asked whether they are still wanted.
const ASK: u64 = 1 << 14;

/// How many lines there are, whatever they say; fewer if `is_to_stop` says so meanwhile.
pub fn count_lines(window: &Window, len: u64, is_to_stop: &dyn Fn() -> bool) -> io::Result<usize> {
    let mut scanner = Scanner::new(window.range(0, len));
    let mut count = 0;
    while scanner.next_line()?.is_some() {
        count += 1;
        if (count as u64).is_multiple_of(ASK) && is_to_stop() {
            break;
        }
    }
    Ok(count)
}

/// The records among the lines of a manifest. Each line is read for itself, in order or not: the
/// lines of ours are all of one style, so none depends on those before it.
pub struct Lines<'a> {
    scanner: Scanner<RangeReader<'a>>,
    seen: u64,
    skipped: u64,
    is_to_stop: &'a dyn Fn() -> bool,
}

impl<'a> Lines<'a> {
    /// The records in the first `len` bytes of the file; they end early once `is_to_stop` says so.
    pub fn new(window: &'a Window, len: u64, is_to_stop: &'a dyn Fn() -> bool) -> Self {
        let scanner = Scanner::new(window.range(0, len));
        Self { scanner, seen: 0, skipped: 0, is_to_stop }
    }

    /// How many lines so far were neither records nor comments nor empty: torn, malformed, too long.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What `see` makes of the next record and its offset.
    pub fn next_record<T>(&mut self, see: impl FnOnce(u64, Record) -> T) -> io::Result<Option<T>> {
        while let Some(line) = self.scanner.next_line()? {
            self.seen += 1;
            if self.seen.is_multiple_of(ASK) && (self.is_to_stop)() {
                break;
            }
            if let Text::Whole(bytes) = line.text
                && line.ended
            {
                match Parser::new().parse(bytes) {
                    Parsed::Record(record) => return Ok(Some(see(line.offset, meant(record)))),
                    Parsed::Comment | Parsed::Blank => continue,
                    Parsed::Malformed(_) => {}
                }
            }
            self.skipped += 1;
        }
        Ok(None)
    }
}

/// The digest on `line`, if the line is a record of the name `path`.
pub fn digest_of(path: &[u8], line: &[u8]) -> Option<Digest> {
    match Parser::new().parse(line) {
        Parsed::Record(record) => {
            let record = meant(record);
            (record.name == path).then_some(record.digest)
        }
        _ => None,
    }
}

/// The record by the path it means: without `./` before it, as in `./-`, which stands for `-` (see
/// [`line`](super::line)), and in the lists of those who let `find .` name the files.
fn meant(mut record: Record<'_>) -> Record<'_> {
    while let Some(name) = record.name.strip_prefix(b"./") {
        record.name = name;
    }
    record
}
