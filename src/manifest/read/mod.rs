//! Reading manifests: lines of bounded length, the formats that are known, and what is wrong with the rest.
//!
//! [`Entries`] is the one reader; everything else here is a part of it.

pub mod encoding;
pub mod escape;
pub mod format;
mod gnu;
mod other;
pub mod scan;

pub use encoding::is_utf16;
pub use format::{Parsed, Parser};
pub use scan::Scanner;

use std::{fmt, io, io::Read, ops::Range};

use memchr::memchr2;

use crate::manifest::{OtherName, Text, read::encoding::UTF8_MARK, read::scan::Line};
use crate::{hash::Algorithm, hash::Digest, hash::Sha256};

// A manifest, line by line: the scanner and the parser joined.
//
// A check of a manifest wants each line with its number and its meaning, whatever became of
// it: a record, a line to pass over, or a fault to report.

/// A line of a manifest and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The line's number, counted from 1.
    pub number: u64,
    /// Where it starts, in bytes from the start of the manifest.
    pub offset: u64,
    /// True if an LF ended it. Only the last line can lack it. In a manifest of another program such a line is as good
    /// as any; in one of dircopy's it is torn and says nothing.
    pub ended: bool,
    /// The name and digest, or why the line has none.
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
///         Parsed::Unhashed { .. } | Parsed::Comment | Parsed::Blank => {}
///     }
/// }
/// assert!(complaints[0].starts_with("line 2: '?' at column 1 is not a hexadecimal digit"));
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Entries<R> {
    scanner: Scanner<R>,
    parser: Parser,
    /// True once the first line is there: only then the line separator is known.
    is_begun: bool,
    /// True if lines end with NUL, because the first does.
    is_raw: bool,
}

impl<R: Read> Entries<R> {
    /// Reads from `input`, which is a file, a pipe, or either behind a
    /// [`Utf16Reader`](crate::manifest::Utf16Reader).
    pub fn new(input: R) -> Self {
        Self::over(Scanner::new(input))
    }

    /// The same, where digests of other algorithms than SHA-256 are of use too.
    pub fn of_all(input: R) -> Self {
        Self { parser: Parser::of_all(), ..Self::new(input) }
    }

    /// Reads the lines of a scanner that has given out none: one with another limit.
    pub fn over(scanner: Scanner<R>) -> Self {
        Self { scanner, parser: Parser::new(), is_begun: false, is_raw: false }
    }

    /// The input that the lines are read from, at its present position.
    pub fn input(&self) -> &R {
        self.scanner.input()
    }

    /// True inside the envelope of a signature, until its end is read.
    pub fn is_enclosed(&self) -> bool {
        self.parser.is_enclosed()
    }

    /// True if files so far had digests that cannot be computed here beside the one that is given.
    pub fn has_other(&self) -> bool {
        self.parser.has_other()
    }

    /// The digests that the last record has beside its own, which is the strongest: rows of hashdeep and entries of
    /// mtree have several.
    pub fn further(&self) -> &[Digest] {
        self.parser.further()
    }

    /// Looks whether lines end with NUL.
    fn ends_with_nul(&mut self) -> io::Result<bool> {
        let is_record = |line: &[u8]| self.parser.is_raw_record(line);
        let is_all =
            self.scanner.read_start(|bytes| first_nul(bytes, false, is_record).is_some())?;
        let is_raw = first_nul(self.scanner.ahead().0, is_all, is_record) == Some(true);
        if is_raw {
            self.scanner.end_with_nul();
        }
        Ok(is_raw)
    }

    /// The next line, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be read; nothing comes after it.
    #[inline]
    pub fn next_entry(&mut self) -> io::Result<Option<Entry<'_>>> {
        // Nearly every line is of one kind, and that kind can be read before its end is known.
        let (bytes, separator) = self.scanner.ahead();
        if let Some((digest, len)) = self.parser.parse_head(bytes, separator) {
            let Line { number, offset, ended, text } = self.scanner.give(len, true);
            let name = text.shown().get(Sha256::HEX_LEN + 2..).unwrap_or_default();
            let parsed = Parsed::Record(Record { digest, name });
            return Ok(Some(Entry { number, offset, ended, parsed }));
        }
        if !self.is_begun {
            self.is_begun = true;
            self.is_raw = self.ends_with_nul()?;
        }
        let Some(line) = self.scanner.next_line()? else {
            return Ok(None);
        };
        let Line { number, offset, ended, text } = line;
        let parsed = match text {
            Text::Whole(bytes) if self.is_raw => self.parser.parse_raw(bytes),
            Text::Whole(bytes) if number > 1 => self.parser.parse(bytes),
            Text::Whole(bytes) => parse_first(&mut self.parser, bytes),
            Text::TooLong { len, .. } => Parsed::Malformed(Fault::TooLong { len }),
        };
        Ok(Some(Entry { number, offset, ended, parsed }))
    }
}

/// Where the first line ends with NUL, if it does and is a record that another one or nothing follows: as
/// `sha256sum -z` writes them.
fn first_nul(bytes: &[u8], is_all: bool, is_record: impl Fn(&[u8]) -> bool) -> Option<bool> {
    let Some(end) = memchr2(b'\n', 0, bytes) else { return is_all.then_some(false) };
    let (first, rest) = (&bytes[..end], &bytes[end + 1..]);
    if bytes[end] != 0 || !is_record(first) {
        return Some(false);
    }
    match rest.iter().position(|&byte| byte == 0) {
        None if rest.is_empty() && is_all => Some(true),
        None => is_all.then(|| is_record(rest)),
        Some(next) => Some(is_record(&rest[..next])),
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

// The faults of a line that is not a record.

/// Why a line is malformed. Shown, it says what was found and what was expected; the number of the
/// line is told by the caller. Columns are bytes of the line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A byte where a hexadecimal digit should be.
    NotHex {
        /// Where that byte is.
        column: usize,
        /// The byte that stands there.
        byte: u8,
    },
    /// Hexadecimal digits, but not as many as SHA-256 has.
    DigestLength {
        /// Number that was found.
        found: usize,
    },
    /// A digest of a known algorithm that is not as long as those are.
    OtherLength {
        /// The algorithm.
        algorithm: Algorithm,
        /// Number of characters that were found.
        found: usize,
    },
    /// A digest, and no name with it.
    NoName,
    /// `TAG (name) = digest` with another algorithm's tag.
    OtherAlgorithm(&'static str),
    /// The digest is of a kind that is not computed here.
    NotComputed(OtherName),
    /// `SHA256 (name` without a `)`.
    TagOpen,
    /// `SHA256 (name)` without a `=` after it.
    TagWithoutEquals {
        /// Where it should be.
        column: usize,
    },
    /// The line is flagged as escaped, and a `\` in the name starts none of the three escapes.
    BadEscape {
        /// Where that `\` is.
        column: usize,
    },
    /// The name holds a NUL byte.
    Nul {
        /// Where that NUL is.
        column: usize,
    },
    /// One space before the name, in a file whose earlier lines have two characters there: a name
    /// that starts with a space could be taken for another.
    MixedStyles,
    /// The line is longer than any line can be.
    TooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// A `\` in a name of an mtree specification starts no escape of vis(3).
    UnknownEscape {
        /// Where in the name.
        column: usize,
    },
    /// Not a row of the table that the first line began.
    Columns {
        /// Number of columns of the table.
        expected: usize,
    },
    /// The file is UTF-16 text, so no line of it can be read.
    Utf16,
    /// A fault, in words, of a list that has a form of its own.
    Form(&'static str),
}

/// Other algorithms by the length of their digests in hexadecimal digits.
const LENGTHS: [(usize, &str); 5] =
    [(32, "MD5"), (40, "SHA-1"), (56, "SHA-224"), (96, "SHA-384"), (128, "SHA-512")];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WANT: usize = Sha256::HEX_LEN;
        match *self {
            Fault::NotHex { column, byte } => write!(
                f,
                "'{}' at column {column} is not a hexadecimal digit; \
                 a line starts with {WANT} of them and a blank",
                byte.escape_ascii()
            ),
            Fault::DigestLength { found: 0 } => {
                write!(f, "there is no digest; expected {WANT} hexadecimal digits")
            }
            Fault::DigestLength { found } => {
                write!(f, "the digest has {found} hexadecimal digits; SHA-256 has {WANT}")?;
                match LENGTHS.iter().find(|(len, _)| *len == found) {
                    Some((_, name)) => write!(f, ", this is the length of {name}"),
                    None => Ok(()),
                }
            }
            Fault::OtherLength { algorithm, found } => write!(
                f,
                "the digest has {found} characters; {} has {}",
                algorithm.shown(),
                algorithm.text_len()
            ),
            Fault::NoName => f.write_str("there is no name"),
            Fault::OtherAlgorithm(tag) => write!(f, "the digest is {tag}, not SHA-256"),
            Fault::NotComputed(OtherName::Usual("null")) => f.write_str("it has no digest"),
            Fault::NotComputed(tag) => write!(f, "the digest is {tag}, which cannot be checked"),
            Fault::TagOpen => f.write_str("\"SHA256 (\" without a closing \")\""),
            Fault::TagWithoutEquals { column } => {
                write!(f, "no \"=\" at column {column}, between the name and the digest")
            }
            Fault::BadEscape { column } => write!(
                f,
                "the \"\\\" at column {column} is not part of \"\\\\\", \"\\n\" or \"\\r\", \
                 and the line is marked as escaped"
            ),
            Fault::Nul { column } => {
                write!(f, "a NUL byte at column {column}; no file name holds one")
            }
            Fault::MixedStyles => f.write_str(
                "one space before the name, where earlier lines have two characters (\"  \" or \" *\")",
            ),
            Fault::TooLong { len } => write!(f, "the line is too long ({len} bytes)"),
            Fault::UnknownEscape { column } => {
                write!(f, "the \"\\\" at column {column} of the name starts no escape of vis(3)")
            }
            Fault::Columns { expected } => {
                write!(f, "not a row of {expected} columns, as the first line has them")
            }
            Fault::Form(why) => f.write_str(why),
            Fault::Utf16 => f.write_str("the file is UTF-16 text; expected UTF-8 or raw bytes"),
        }
    }
}

// The record on a line of a manifest, and where in the line its parts are.

/// One file's name and digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The digest of the file's content.
    pub digest: Digest,
    /// The name, unescaped: never empty, without NUL. Whether it may be opened is another question,
    /// which [`RelPath::parse`](crate::path::RelPath::parse) answers.
    pub name: &'a [u8],
}

/// A line that a format took apart: the name is still as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The digest of the file's content.
    pub digest: Digest,
    /// Where in the line the name is.
    pub name: Range<usize>,
}

/// The separator between digest and name on lines without a tag; the same on all lines of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A blank and one of ` ` and `*`: what `sha256sum` writes.
    Standard,
    /// A single blank: "BSD reversed", what `sha256 -r` writes.
    Reversed,
}

#[cfg(test)]
mod entries_tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manifest::Utf16Reader;

    fn summary<R: Read>(input: R) -> Vec<String> {
        let mut entries = Entries::new(input);
        let mut lines = Vec::new();
        while let Some(entry) = entries.next_entry().unwrap() {
            let what = match entry.parsed {
                Parsed::Record(record) => record.name.escape_ascii().to_string(),
                Parsed::Comment => "comment".to_string(),
                Parsed::Blank => "blank".to_string(),
                Parsed::Malformed(fault) => format!("{fault:?}"),
                Parsed::Unhashed { algorithm, .. } => format!("unhashed {algorithm}"),
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
    fn comments_start_with_a_semicolon_too() {
        assert_eq!(summary(with_digests("; by hand\n@  a\n").as_bytes()), ["1 comment", "2 a"]);
    }

    #[test]
    fn a_signed_list_is_read_without_its_envelope() {
        let list = with_digests(
            "-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA512\n\n@  a\n- @  b\n- -x\n\
             -----BEGIN PGP SIGNATURE-----\n\n@  hidden\n-----END PGP SIGNATURE-----\n@  c\n",
        );
        let read = summary(list.as_bytes());
        assert_eq!(read[..5], ["1 comment", "2 comment", "3 comment", "4 a", "5 b"]);
        assert!(read[5].starts_with("6 NotHex"), "{read:?}");
        assert_eq!(read[6..], ["7 comment", "8 comment", "9 comment", "10 comment", "11 c"]);
        // Nothing hides among the headers.
        let list = with_digests("-----BEGIN PGP SIGNED MESSAGE-----\n@  a: b\n@  c\n");
        assert_eq!(summary(list.as_bytes()), ["1 comment", "2 a: b", "3 c"]);
    }

    #[test]
    fn lines_that_end_with_nul_are_told_by_the_first() {
        let cases: &[(&str, &[&str])] = &[
            ("@  a\0@  b\\n\nc\r\0", &["1 a", "2 b\\\\n\\nc\\r"]),
            ("@ *a\0@ *b", &["1 a", "2 b torn"]),
            ("SHA256 (a) = @\0SHA256 (b) = @\0", &["1 a", "2 b"]),
            ("@  a\0", &["1 a"]),
            ("@  a\0?\0", &["1 Nul { column: 68 } torn"]),
            ("@  a\0b\n@  c\n", &["1 Nul { column: 68 }", "2 c"]),
            ("@  a\n@  b\0@  c\n", &["1 a", "2 Nul { column: 68 }"]),
        ];
        for (list, read) in cases {
            assert_eq!(summary(with_digests(list).as_bytes()), *read, "{list:?}");
        }
    }

    #[test]
    fn a_table_is_read_by_the_names_of_its_columns() {
        let list = with_digests(
            "#TYPE Microsoft.PowerShell.Commands.FileHashInfo\r\n\"Algorithm\",\"Hash\",\"Path\"\r\n\
             \"SHA256\",\"@\",\"a \"\"b\"\", c\"\r\n\"MD5\",\"00\",\"d\"\r\n\"SHA256\",\"@\"\r\n\
             \"SHA256\",\"00\",\"e\"\r\n\"SHA256\",\"@\",\"\"\r\n@  f\r\n",
        );
        let expected = [
            "1 comment",
            "2 comment",
            "3 a \\\"b\\\", c",
            "4 OtherAlgorithm(\"MD5\")",
            "5 Columns { expected: 3 }",
            "6 DigestLength { found: 2 }",
            "7 NoName",
            "8 Columns { expected: 3 }",
        ];
        assert_eq!(summary(list.as_bytes()), expected);
        let list = with_digests("Path;Hash\n.\\a;@\n");
        assert_eq!(summary(list.as_bytes()), ["1 comment", "2 .\\\\a"]);
        // A table begins with its first line only.
        let list = with_digests("@  a\nPath,Hash\nb,@\n");
        let read = summary(list.as_bytes());
        assert!(read[1].starts_with("2 NotHex") && read[2].starts_with("3 NotHex"), "{read:?}");
    }

    #[test]
    fn a_specification_of_mtree_is_read() {
        let list = with_digests(
            "#mtree\n/set type=file mode=644\n. type=dir\n    one sha256digest=@\n\
             sub type=dir\n    two\\040x size=5 \\\n    sha256=@\n    fifo type=fifo\n..\n\
             three sha512=00\nfour size=1\n./full/five type=file sha256digest=@\n\
             six\\q sha256=@\n../up sha256=@\n",
        );
        let named: Vec<_> = summary(list.as_bytes())
            .into_iter()
            .filter(|line| !line.ends_with(" comment"))
            .collect();
        let expected = [
            "4 one",
            "7 sub/two x",
            "10 OtherAlgorithm(\"SHA512\")",
            "11 DigestLength { found: 0 }",
            "12 ./full/five",
            "13 UnknownEscape { column: 4 }",
            "14 ../up",
        ];
        assert_eq!(named, expected);
    }

    proptest! {
        /// Whatever the layout, every line is accounted for, nothing panics, and a name holds no NUL.
        #[test]
        fn no_list_makes_it_panic(
            start in 0usize..9,
            words in prop::collection::vec((0usize..27, any::<u8>()), 0..60),
        ) {
            let digest = "ab".repeat(32);
            let starts = ["", "#mtree\n", "/set type=dir\n", "Hash,Path\n",
                "-----BEGIN PGP SIGNED MESSAGE-----\n", "@  a\0",
                "%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n", "%%%% HASHDEEP-1.0\n", "; sfv\na 00000000\n"];
            let parts = ["\n", "\n", "\\\n", "\"", ",", ";", "..", " ", "type=dir", "type=file",
                "sha256=", "@", "@  ", "\\040", "\\000", "/", "- ", "-----BEGIN PGP SIGNATURE-----\n",
                "-----END PGP SIGNATURE-----\n", "\0", "name",
                "d41d8cd98f00b204e9800998ecf8427e", "MD5 (", ") = ", "deadbeef", "%%%% size,md5,"];
            let mut list = starts[start].as_bytes().to_vec();
            for (part, byte) in words {
                match parts.get(part) {
                    Some(part) => list.extend_from_slice(part.as_bytes()),
                    None => list.push(byte),
                }
            }
            let list: Vec<u8> = list.split(|&byte| byte == b'@').collect::<Vec<_>>().join(digest.as_bytes());
            for mut entries in [Entries::new(&list[..]), Entries::of_all(&list[..])] {
                let mut next = 0;
                while let Some(entry) = entries.next_entry().unwrap() {
                    next += 1;
                    prop_assert_eq!(entry.number, next);
                    if let Parsed::Record(record) = entry.parsed {
                        prop_assert!(!record.name.is_empty() && !record.name.contains(&0));
                    }
                }
            }
        }
    }

    #[test]
    fn a_line_of_fifty_megabytes_is_one_fault() {
        let (first, last) = (with_digests("@  a\n"), with_digests("\n@  b\n"));
        let long = io::repeat(b'a').take(50_000_000);
        let input = first.as_bytes().chain(long).chain(last.as_bytes());
        assert_eq!(summary(input), ["1 a", "2 TooLong { len: 50000000 }", "3 b"]);
    }
}

#[cfg(test)]
mod fault_tests {
    use super::*;

    #[test]
    fn faults_say_what_was_found_and_what_was_expected() {
        let cases: &[(Fault, &[&str])] = &[
            (Fault::NotHex { column: 3, byte: b'g' }, &["'g'", "column 3", "64"]),
            (Fault::NotHex { column: 1, byte: 0x1b }, &["'\\x1b'"]),
            (Fault::DigestLength { found: 0 }, &["no digest"]),
            (Fault::DigestLength { found: 40 }, &["40", "64", "SHA-1"]),
            (Fault::DigestLength { found: 63 }, &["63", "SHA-256 has 64"]),
            (Fault::OtherAlgorithm("MD5"), &["MD5, not SHA-256"]),
            (Fault::BadEscape { column: 70 }, &["column 70", "\\n"]),
            (Fault::TooLong { len: 50_000_000 }, &["50000000"]),
            (Fault::Utf16, &["UTF-16"]),
        ];
        for (fault, words) in cases {
            let text = fault.to_string();
            for word in *words {
                assert!(text.contains(word), "{text:?} lacks {word:?}");
            }
        }
    }
}
