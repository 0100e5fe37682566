//! A manifest, line by line: the scanner and the parser joined.
//!
//! Whoever checks a manifest wants each line with its number and its meaning, whatever became of
//! it: a record, a line to pass over, or a fault to report.

use std::io::{self, Read};

use crate::hash::Digest;

use super::encoding::{self, UTF8_MARK};
use super::fault::Fault;
use super::format::{Parsed, Parser};
use super::record::Record;
use super::scan::{Line, Scanner, Text};

/// A line of a manifest and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Which line it is, counted from 1.
    pub number: u64,
    /// Where it starts, in bytes from the start of the manifest.
    pub offset: u64,
    /// Whether an LF ended it. Only the last line can lack it. In a manifest of another program
    /// such a line is as good as any; in one of dircopy's it is torn and says nothing.
    pub ended: bool,
    /// What it says.
    pub parsed: Parsed<'a>,
}

/// Reads a manifest of any of the known formats.
///
/// ```
/// use dircopy::{Entries, Parsed};
///
/// let manifest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n?\n";
/// let mut entries = Entries::new(manifest.as_bytes());
/// let mut complaints = Vec::new();
/// while let Some(entry) = entries.next_entry()? {
///     match entry.parsed {
///         Parsed::Record(record) => assert_eq!(record.name, b"empty"),
///         Parsed::Malformed(fault) => complaints.push(format!("line {}: {fault}", entry.number)),
///         Parsed::Comment | Parsed::Blank => {}
///     }
/// }
/// assert!(complaints[0].starts_with("line 2: '?' at column 1 is not a hexadecimal digit"));
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Entries<R> {
    scanner: Scanner<R>,
    parser: Parser,
}

impl<R: Read> Entries<R> {
    /// Reads from `input`, which is a file, a pipe, or either behind a
    /// [`Utf16Reader`](super::encoding::Utf16Reader).
    pub fn new(input: R) -> Self {
        Self::over(Scanner::new(input))
    }

    /// Reads the lines of a scanner that has given out none: one with another limit.
    pub fn over(scanner: Scanner<R>) -> Self {
        Self { scanner, parser: Parser::new() }
    }

    /// The input.
    pub fn input(&self) -> &R {
        self.scanner.input()
    }

    /// The next line, or `None` at the end.
    ///
    /// # Errors
    ///
    /// What reading the input failed with; nothing comes after it.
    #[inline]
    pub fn next_entry(&mut self) -> io::Result<Option<Entry<'_>>> {
        // Nearly every line is of one kind, and that kind can be read before its end is known.
        let (bytes, separator) = self.scanner.ahead();
        if let Some((digest, len)) = self.parser.parse_head(bytes, separator) {
            let Line { number, offset, ended, text } = self.scanner.give(len, true);
            let name = text.shown().get(Digest::HEX_LEN + 2..).unwrap_or_default();
            let parsed = Parsed::Record(Record { digest, name });
            return Ok(Some(Entry { number, offset, ended, parsed }));
        }
        let Some(line) = self.scanner.next_line()? else {
            return Ok(None);
        };
        let Line { number, offset, ended, text } = line;
        let parsed = match text {
            Text::Whole(bytes) if number > 1 => self.parser.parse(bytes),
            Text::Whole(bytes) => parse_first(&mut self.parser, bytes),
            Text::TooLong { len, .. } => Parsed::Malformed(Fault::TooLong { len }),
        };
        Ok(Some(Entry { number, offset, ended, parsed }))
    }
}

/// Reads the line that may have a byte order mark before it.
#[cold]
fn parse_first<'a>(parser: &'a mut Parser, line: &'a [u8]) -> Parsed<'a> {
    if encoding::is_utf16(line) {
        return Parsed::Malformed(Fault::Utf16);
    }
    parser.parse(line.strip_prefix(UTF8_MARK).unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::super::encoding::Utf16Reader;
    use super::*;

    fn summary<R: Read>(input: R) -> Vec<String> {
        let mut entries = Entries::new(input);
        let mut lines = Vec::new();
        while let Some(entry) = entries.next_entry().unwrap() {
            let what = match entry.parsed {
                Parsed::Record(record) => record.name.escape_ascii().to_string(),
                Parsed::Comment => "comment".to_string(),
                Parsed::Blank => "blank".to_string(),
                Parsed::Malformed(fault) => format!("{fault:?}"),
            };
            let torn = if entry.ended { "" } else { " torn" };
            lines.push(format!("{} {what}{torn}", entry.number));
        }
        lines
    }

    fn with_digests(manifest: &str) -> String {
        manifest.replace('@', &"ab".repeat(32))
    }

    #[test]
    fn every_line_is_accounted_for() {
        let manifest = with_digests("# by hand\n\n@  a\r\n?\n\\@  b\\nc\nSHA256 (d) = @\n@  e");
        let expected = [
            "1 comment",
            "2 blank",
            "3 a",
            "4 NotHex { column: 1, byte: 63 }",
            "5 b\\nc",
            "6 d",
            "7 e torn",
        ];
        assert_eq!(summary(manifest.as_bytes()), expected);
        assert!(summary(&b""[..]).is_empty());
    }

    #[test]
    fn a_byte_order_mark_is_dropped_or_named() {
        assert_eq!(summary(with_digests("\u{feff}@  a\n@  b\n").as_bytes()), ["1 a", "2 b"]);
        assert_eq!(
            summary(with_digests("\u{feff}# note\n@  b\n").as_bytes()),
            ["1 comment", "2 b"]
        );
        let second = summary(with_digests("@  a\n\u{feff}@  b\n").as_bytes());
        assert_eq!(second[1], "2 NotHex { column: 1, byte: 239 }");

        let text = with_digests("@  caf\u{e9}\r\n");
        let utf16: Vec<u8> =
            std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        assert_eq!(summary(&utf16[..])[0], "1 Utf16");
        assert_eq!(summary(Utf16Reader::new(&utf16[..])), ["1 caf\\xc3\\xa9"]);
    }

    #[test]
    fn a_line_of_fifty_megabytes_is_one_fault() {
        let (first, last) = (with_digests("@  a\n"), with_digests("\n@  b\n"));
        let long = io::repeat(b'a').take(50_000_000);
        let input = first.as_bytes().chain(long).chain(last.as_bytes());
        assert_eq!(summary(input), ["1 a", "2 TooLong { len: 50000000 }", "3 b"]);
    }
}
