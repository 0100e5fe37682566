//! The lines of a manifest that dircopy itself wrote, taken more strictly than those of others: a
//! line that is not ended is torn, and says nothing even if it looks whole.

use std::io;

use crate::hash::{Digest, Sha256};
use crate::sys::FileRange;

use super::window::Window;
use crate::manifest::read::format::{Parsed, Parser};
use crate::manifest::read::record::Record;
use crate::manifest::read::scan::{Scanner, Text};

/// After so many lines, a matter of milliseconds, it is asked whether they are still wanted.
const ASK: u64 = 1 << 14;

/// The shortest line that can be a record, in bytes without its end: a digest of 64 bits, a blank and a name.
pub const SHORTEST: usize = 16 + 2;

/// How many lines are long enough for a record, whatever they say; fewer if `is_to_stop` says so
/// meanwhile. Shorter ones would let a list of empty lines claim twelve times its size in memory.
pub fn count_lines(window: &Window, len: u64, is_to_stop: &dyn Fn() -> bool) -> io::Result<usize> {
    let mut scanner = Scanner::new(window.range(0, len));
    let mut count = 0;
    while let Some(line) = scanner.next_line()? {
        count += usize::from(line.text.shown().len() >= SHORTEST);
        if line.number.is_multiple_of(ASK) && is_to_stop() {
            break;
        }
    }
    Ok(count)
}

/// What of a line is the line of a manifest: where more stands before it, that is taken off; `None` where
/// the line is none.
pub type Strip = fn(&[u8]) -> Option<&[u8]>;

/// All of it.
pub fn plain(line: &[u8]) -> Option<&[u8]> {
    Some(line)
}

/// The records among the lines of a manifest. Each line is read for itself, in order or not: the
/// lines of ours are all of one style, so none depends on those before it.
pub struct Lines<'a> {
    scanner: Scanner<FileRange<'a>>,
    seen: u64,
    skipped: u64,
    strip: Strip,
    is_to_stop: &'a dyn Fn() -> bool,
}

impl<'a> Lines<'a> {
    /// The records in the first `len` bytes of the file; they end early once `is_to_stop` says so.
    pub fn new(
        window: &'a Window,
        len: u64,
        strip: Strip,
        is_to_stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let scanner = Scanner::new(window.range(0, len));
        Self { scanner, seen: 0, skipped: 0, strip, is_to_stop }
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
                && let Some(bytes) = (self.strip)(bytes)
            {
                match Parser::of_all().parse(bytes) {
                    Parsed::Record(record) => return Ok(Some(see(line.offset, meant(record)))),
                    Parsed::Comment | Parsed::Blank => continue,
                    Parsed::Unhashed { .. } | Parsed::Malformed(_) => {}
                }
            }
            self.skipped += 1;
        }
        Ok(None)
    }
}

/// The digest on `line`, if the line is a record of the name `path`.
pub fn digest_of(path: &[u8], line: &[u8]) -> Option<Digest> {
    with_record(line, |record| (record.name == path).then_some(record.digest)).flatten()
}

/// What `see` makes of the record on `line`; `None` if there is none.
pub fn with_record<T>(line: &[u8], see: impl FnOnce(Record) -> T) -> Option<T> {
    match Parser::of_all().parse(line) {
        Parsed::Record(record) => Some(see(meant(record))),
        _ => None,
    }
}

/// The name on `line`, where it stands as it is behind what has the length of a digest of SHA-256, and is one word: a
/// short cut, for lines of which nearly all are so.
pub fn plain_name(line: &[u8]) -> Option<&[u8]> {
    let (word, name) = line.split_at_checked(Sha256::HEX_LEN)?;
    let name = name.strip_prefix(b"  ")?;
    let is_word = line[0] != b'\\' && memchr::memchr(b' ', word).is_none();
    (is_word && !name.is_empty() && !name.starts_with(b"./")).then_some(name)
}

/// The record by the path it means: without `./` before it, as in `./-`, which stands for `-` (see
/// [`line`](crate::manifest::line)), and in lists whose names come from `find .`.
fn meant(mut record: Record<'_>) -> Record<'_> {
    while let Some(name) = record.name.strip_prefix(b"./") {
        record.name = name;
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_lines_with_room_for_a_record_count() {
        let mut file = tempfile::tempfile().unwrap();
        let record = format!("{}  a\n", "ab".repeat(32));
        let reversed = format!("{} a\n", "ab".repeat(32));
        file.write_all(&[b"\n".repeat(100_000).as_slice(), b"# comment\nshort\n"].concat())
            .unwrap();
        file.write_all([record, reversed].concat().as_bytes()).unwrap();
        let len = file.metadata().unwrap().len();
        let window = Window::new(file);
        assert_eq!(count_lines(&window, len, &|| false).unwrap(), 2);
    }
}
