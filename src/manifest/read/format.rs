//! The meaning of the lines of a manifest: which format a line is of, and all that formats have in common.
//!
//! A line is taken as `sha256sum -c` takes it (coreutils 9.11, `split_3`): comments start with `#`;
//! a CR before the end is dropped; blanks before the digest are; a `\` then says that the name is
//! escaped; and the first format that knows the line takes it apart. A new format of lines is a function
//! that `split_as_listed` asks; a file that its first line introduces, as a table, is a variant of `Layout`.
//!
//! Two lines that GNU takes are malformed here: one whose name holds a NUL byte (GNU opens what
//! stands before it) and one whose name is empty.

use memchr::memchr;

use crate::hash::Digest;
use crate::manifest::{
    Fault, Record, read::Split, read::Style, read::escape, read::gnu, read::other,
    read::other::Columns, read::other::Envelope, read::other::HashdeepColumns, read::other::Mtree,
};

/// A line that was taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A name and its digest.
    Record(Record<'a>),
    /// A line that names no file and need not: one that starts with `#` or `;`, or belongs to what is around
    /// the list.
    Comment,
    /// A line of no bytes, or of a carriage return.
    Blank,
    /// A name with a digest that is not known here, by the algorithm of this name; only where digests of all
    /// algorithms are taken.
    Unhashed {
        /// The name, as in a record.
        name: &'a [u8],
        /// The algorithm's name in the line.
        algorithm: &'static str,
    },
    /// Anything else.
    Malformed(Fault),
}

/// The layout of a file, as its first line that is no comment shows it.
#[derive(Debug, Default)]
enum Layout {
    #[default]
    Unknown,
    /// Each line says all by itself.
    Lines,
    Table(Columns),
    /// A specification of mtree.
    Mtree(Box<Mtree>),
    Hashdeep(HashdeepColumns),
}

/// Reads the lines of one file, in their order.
#[derive(Debug, Default)]
pub struct Parser {
    style: Option<Style>,
    layout: Layout,
    envelope: Envelope,
    /// True if a line may not be judged before its end is known: its file is more than a list of lines.
    is_special: bool,
    /// True if digests of other algorithms than SHA-256 are accepted too.
    of_all: bool,
    /// The last name that had to be unescaped.
    unescaped: Vec<u8>,
}

impl Parser {
    /// A parser for the lines of a file of which none was seen.
    pub fn new() -> Self {
        Self::default()
    }

    /// A parser that also takes digests of other algorithms, and their forms of lists.
    pub fn of_all() -> Self {
        Self { of_all: true, ..Self::default() }
    }

    /// True inside the envelope of a signature, until its end is read.
    pub fn is_enclosed(&self) -> bool {
        self.envelope != Envelope::Outside
    }

    /// True if files so far had digests that cannot be computed here beside the one that is given.
    pub fn has_other(&self) -> bool {
        match &self.layout {
            Layout::Hashdeep(columns) => columns.has_other(),
            Layout::Mtree(mtree) => mtree.has_other,
            Layout::Unknown | Layout::Lines | Layout::Table(_) => false,
        }
    }

    /// The digests that the last record has beside its own.
    pub fn further(&self) -> &[Digest] {
        match &self.layout {
            Layout::Hashdeep(columns) => columns.further(),
            Layout::Mtree(mtree) => mtree.further(),
            Layout::Unknown | Layout::Lines | Layout::Table(_) => &[],
        }
    }

    /// Reads the next line, given without its LF. A name that needs no unescaping is a slice of
    /// `line`, any other lies in a buffer that is used again.
    #[inline]
    pub fn parse<'a>(&'a mut self, line: &'a [u8]) -> Parsed<'a> {
        match self.parse_plain(line) {
            Some(record) => Parsed::Record(record),
            None => self.parse_any(line),
        }
    }

    /// The short way, which nearly every line takes; it says what the long one would, or nothing.
    #[inline]
    fn parse_plain<'a>(&mut self, line: &'a [u8]) -> Option<Record<'a>> {
        if self.is_special || self.style == Some(Style::Reversed) || line.last() == Some(&b'\r') {
            return None;
        }
        let (digest, name) = gnu::split_plain(line)?;
        self.style = Some(Style::Standard);
        Some(Record { digest, name })
    }

    /// Reads the next line where it stands, at the start of `bytes`, if it is of the common kind
    /// and ended by `separator`: its digest and its length, without the separator. Its name is what
    /// follows the digest and two spaces. Says what [`parse`](Self::parse) would, or nothing.
    #[inline]
    pub fn parse_head(&mut self, bytes: &[u8], separator: u8) -> Option<(Digest, usize)> {
        if self.is_special || self.style == Some(Style::Reversed) {
            return None;
        }
        let found = gnu::plain_head(bytes, separator)?;
        self.style = Some(Style::Standard);
        Some(found)
    }

    /// Reads a line of any kind.
    #[cold]
    fn parse_any<'a>(&'a mut self, line: &'a [u8]) -> Parsed<'a> {
        let opened = self.envelope.open(line);
        self.is_special |= self.envelope != Envelope::Outside;
        let Some(line) = opened else { return Parsed::Comment };
        if matches!(self.layout, Layout::Unknown) && self.style.is_none() && Mtree::is_start(line) {
            (self.layout, self.is_special) = (Layout::Mtree(Box::default()), true);
        }
        if self.of_all
            && matches!(self.layout, Layout::Unknown)
            && line.starts_with(other::HASHDEEP)
        {
            (self.layout, self.is_special) = (Layout::Hashdeep(HashdeepColumns::default()), true);
            return Parsed::Comment;
        }
        if line.starts_with(b"#") || line.starts_with(b";") {
            return Parsed::Comment;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Parsed::Blank;
        }
        if matches!(self.layout, Layout::Unknown) {
            self.layout = match Columns::find(line).filter(|_| self.style.is_none()) {
                Some(columns) => Layout::Table(columns),
                None => Layout::Lines,
            };
            if let Layout::Table(_) = self.layout {
                self.is_special = true;
                return Parsed::Comment;
            }
        }
        let of_all = self.of_all;
        let named = match &mut self.layout {
            Layout::Unknown | Layout::Lines => {
                let (at, escaped) = begin(line);
                return match self.split(line, at, escaped) {
                    Ok(split) => self.record(line, split, escaped),
                    Err(fault @ Fault::OtherAlgorithm(algorithm)) if of_all => {
                        match self.name_after(line, at, escaped, algorithm) {
                            Some(name) => Parsed::Unhashed { name, algorithm },
                            None => Parsed::Malformed(fault),
                        }
                    }
                    Err(fault) => Parsed::Malformed(fault),
                };
            }
            Layout::Table(columns) => columns.row(line, &mut self.unescaped, of_all).map(Some),
            Layout::Hashdeep(columns) => {
                return match columns.line(line) {
                    Ok(None) => Parsed::Comment,
                    Ok(Some(Split { digest, name })) => match memchr(0, &line[name.clone()]) {
                        None => Parsed::Record(Record { digest, name: &line[name] }),
                        Some(nul) => Parsed::Malformed(Fault::Nul { column: name.start + nul + 1 }),
                    },
                    Err(fault @ Fault::OtherAlgorithm(algorithm)) => match columns.name_on(line) {
                        Some(name) if memchr(0, name).is_none() => {
                            Parsed::Unhashed { name, algorithm }
                        }
                        _ => Parsed::Malformed(fault),
                    },
                    Err(fault) => Parsed::Malformed(fault),
                };
            }
            Layout::Mtree(mtree) => mtree.line(line, &mut self.unescaped, of_all),
        };
        match named {
            Ok(None) => Parsed::Comment,
            Ok(Some(digest)) => self.named(digest),
            Err(Fault::OtherAlgorithm(algorithm))
                if of_all && !self.unescaped.is_empty() && !self.unescaped.contains(&0) =>
            {
                Parsed::Unhashed { name: &self.unescaped, algorithm }
            }
            Err(fault) => Parsed::Malformed(fault),
        }
    }

    /// A record whose name was unescaped.
    fn named(&self, digest: Digest) -> Parsed<'_> {
        match memchr(0, &self.unescaped) {
            _ if self.unescaped.is_empty() => Parsed::Malformed(Fault::NoName),
            Some(nul) => Parsed::Malformed(Fault::Nul { column: nul + 1 }),
            None => Parsed::Record(Record { digest, name: &self.unescaped }),
        }
    }

    /// Reads a line that a NUL ended, as `sha256sum -z` writes them: nothing in it is escaped, and the name
    /// may hold line ends.
    pub fn parse_raw<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        match self.split_as_listed(line, 0) {
            Ok(Split { digest, name }) => Parsed::Record(Record { digest, name: &line[name] }),
            Err(fault @ Fault::OtherAlgorithm(algorithm)) if self.of_all => {
                match gnu::name_after(line, 0, algorithm) {
                    Some(name) => Parsed::Unhashed { name, algorithm },
                    None => Parsed::Malformed(fault),
                }
            }
            Err(fault) => Parsed::Malformed(fault),
        }
    }

    /// True if a line that may be the first, and that a NUL ended, names a file.
    pub fn is_raw_record(&self, line: &[u8]) -> bool {
        let mut first = Self { of_all: self.of_all, ..Self::default() };
        matches!(first.parse_raw(line), Parsed::Record(_) | Parsed::Unhashed { .. })
    }

    /// Takes a line apart from `at` on, by the first format that knows it.
    fn split_as_listed(&mut self, line: &[u8], at: usize) -> Result<Split, Fault> {
        let others = if self.of_all { other::split(line, at, &mut self.style) } else { None };
        let known = others.or_else(|| gnu::split_bsd(line, at));
        // This takes every line.
        known.unwrap_or_else(|| gnu::split(line, at, &mut self.style))
    }

    /// Takes a line apart that is not empty and has no end, from `at` on.
    fn split(&mut self, line: &[u8], at: usize, escaped: bool) -> Result<Split, Fault> {
        match self.split_as_listed(line, at) {
            // The digest of a tag may have the length of those in SFV.
            Err(fault @ Fault::OtherAlgorithm(_)) => Err(fault),
            Err(fault) if self.of_all && self.style.is_none() && !escaped => {
                other::split_sfv(line).ok_or(fault)
            }
            split => split,
        }
    }

    /// The record of a line that was taken apart.
    fn record<'a>(&'a mut self, line: &'a [u8], split: Split, escaped: bool) -> Parsed<'a> {
        let Split { digest, name } = split;
        let (start, mut name) = (name.start, &line[name]);
        if let Some(nul) = memchr(0, name) {
            return Parsed::Malformed(Fault::Nul { column: start + nul + 1 });
        }
        if escaped {
            self.unescaped.clear();
            if let Err(backslash) = escape::unescape(name, &mut self.unescaped) {
                let column = start + backslash + 1;
                return Parsed::Malformed(Fault::BadEscape { column });
            }
            name = &self.unescaped;
        }
        Parsed::Record(Record { digest, name })
    }

    /// The name on a line with the tag of an algorithm that is not known here.
    fn name_after<'a>(
        &'a mut self,
        line: &'a [u8],
        at: usize,
        escaped: bool,
        algorithm: &str,
    ) -> Option<&'a [u8]> {
        let name = gnu::name_after(line, at, algorithm)?;
        if !escaped {
            return Some(name);
        }
        self.unescaped.clear();
        escape::unescape(name, &mut self.unescaped).ok()?;
        Some(&self.unescaped)
    }
}

/// Where the digest or tag of a line begins, and whether its name is escaped.
fn begin(line: &[u8]) -> (usize, bool) {
    let at = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let escaped = line.get(at) == Some(&b'\\');
    (at + usize::from(escaped), escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Sha256;
    use crate::manifest::lists;
    use proptest::prelude::*;

    /// `@` stands for 64 digits.
    fn line(pattern: &str) -> Vec<u8> {
        pattern.replace('@', &"ab".repeat(32)).into_bytes()
    }

    /// Either the name, or the fault, of a line that comes first in its file.
    fn parse(pattern: &str) -> Result<Vec<u8>, Fault> {
        let mut parser = Parser::new();
        match parser.parse(&line(pattern)) {
            Parsed::Record(record) => {
                assert_eq!(record.digest, Digest::sha256([0xab; 32]));
                Ok(record.name.to_vec())
            }
            Parsed::Malformed(fault) => Err(fault),
            other => panic!("{pattern:?} is {other:?}"),
        }
    }

    #[test]
    fn what_is_taken() {
        let cases: &[(&str, &[u8])] = &[
            ("@  name", b"name"),
            ("@ *name", b"name"),
            ("@ name", b"name"),
            ("@\tname", b"name"),
            ("@\t*name", b"name"),
            ("@   lead", b" lead"),
            ("@  *star", b"*star"),
            ("@ **star", b"*star"),
            ("@  ", b" "),
            ("@ *", b"*"),
            ("@   ", b" "),
            ("@  trail ", b"trail "),
            ("@  crlf\r", b"crlf"),
            ("@  two\r\r", b"two\r"),
            (" \t @  blanks before", b"blanks before"),
            ("@  raw\\n", b"raw\\n"),
            ("\\@  a\\nb\\rc\\\\d", b"a\nb\rc\\d"),
            ("\\@  not needed", b"not needed"),
            (" \\@  a\\nb\r", b"a\nb"),
            ("@  ../above", b"../above"),
            ("@  /etc/passwd", b"/etc/passwd"),
            ("@  a (b) = c", b"a (b) = c"),
            ("SHA256 (name) = @", b"name"),
            ("SHA256 (a) = b) = @", b"a) = b"),
            ("SHA256 ( ) = @", b" "),
            ("SHA256(name)= @", b"name"),
            ("SHA256(name)=@", b"name"),
            ("SHA256 (name)\t =\t @", b"name"),
            ("SHA256 (name) = @\r", b"name"),
            ("\\SHA256 (a\\nb) = @", b"a\nb"),
            ("SHA2-256(name)= @", b"name"),
        ];
        for (pattern, name) in cases {
            assert_eq!(parse(pattern).as_deref(), Ok(*name), "{pattern:?}");
        }
        let upper = [&[b'A'; 64][..], b"  name"].concat();
        assert!(matches!(Parser::new().parse(&upper), Parsed::Record(_)));
    }

    #[test]
    fn what_is_malformed() {
        let cases: &[(&str, Fault)] = &[
            (" ", Fault::DigestLength { found: 0 }),
            ("\\", Fault::DigestLength { found: 0 }),
            ("hello", Fault::NotHex { column: 1, byte: b'h' }),
            ("  abcg", Fault::NotHex { column: 6, byte: b'g' }),
            ("abc  name", Fault::DigestLength { found: 3 }),
            ("@ab  name", Fault::DigestLength { found: 66 }),
            ("@", Fault::NoName),
            ("@ ", Fault::NoName),
            ("@\r", Fault::NoName),
            ("@-name", Fault::NotHex { column: 65, byte: b'-' }),
            ("\u{feff}@  name", Fault::NotHex { column: 1, byte: 0xef }),
            ("\\\\@  name", Fault::NotHex { column: 2, byte: b'\\' }),
            ("\\@  a\\tb", Fault::BadEscape { column: 69 }),
            ("\\@  a\\", Fault::BadEscape { column: 69 }),
            ("@  a\0b", Fault::Nul { column: 68 }),
            ("\\@  a\0b", Fault::Nul { column: 69 }),
            ("SHA256 (a\0) = @", Fault::Nul { column: 10 }),
            ("SHA256 (name = @", Fault::TagOpen),
            ("SHA256 (", Fault::TagOpen),
            ("SHA256 (name) @", Fault::TagWithoutEquals { column: 15 }),
            ("SHA256 (name)", Fault::TagWithoutEquals { column: 14 }),
            ("SHA256 (name) = ", Fault::DigestLength { found: 0 }),
            ("SHA256 (name) = @ ", Fault::NotHex { column: 81, byte: b' ' }),
            ("SHA256 (name) = @ab", Fault::DigestLength { found: 66 }),
            ("SHA256 () = @", Fault::NoName),
            ("SHA256  (name) = @", Fault::NotHex { column: 1, byte: b'S' }),
            ("sha256 (name) = @", Fault::NotHex { column: 1, byte: b's' }),
            ("MD5 (x) = abc", Fault::OtherAlgorithm("MD5")),
            ("SHA512(x)= abc", Fault::OtherAlgorithm("SHA512")),
        ];
        for (pattern, fault) in cases {
            assert_eq!(parse(pattern), Err(*fault), "{pattern:?}");
        }
        assert_eq!(Parser::new().parse(b"# @  name"), Parsed::Comment);
        assert_eq!(Parser::new().parse(b""), Parsed::Blank);
        assert_eq!(Parser::new().parse(b"\r"), Parsed::Blank);
    }

    /// The names of a file's lines, `!` for a line that is malformed for its style.
    fn parse_all(patterns: &[&str]) -> Vec<String> {
        let mut parser = Parser::new();
        let name = |pattern: &&str| match parser.parse(&line(pattern)) {
            Parsed::Record(record) => String::from_utf8(record.name.to_vec()).unwrap(),
            Parsed::Malformed(Fault::MixedStyles) => "!".to_string(),
            other => panic!("{pattern:?} is {other:?}"),
        };
        patterns.iter().map(name).collect()
    }

    #[test]
    fn one_file_has_one_style() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["@  a", "@ b", "@ *c", "@  "], &["a", "!", "c", "!"]),
            (&["@ a", "@  b", "@ *c", "@ d"], &["a", " b", "*c", "d"]),
            (&["@ a", "SHA256 (b) = @", "@  c"], &["a", "b", " c"]),
            (&["SHA256 (a) = @", "@  b", "@ c"], &["a", "b", "!"]),
            (&["\\@  a", "@ b"], &["a", "!"]),
        ];
        for (patterns, names) in cases {
            assert_eq!(parse_all(patterns), *names, "{patterns:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            name in prop::collection::vec(
                prop_oneof![Just(b'\\'), Just(b'\n'), Just(b'\r'), Just(b' '), Just(b')'), 1..=255u8],
                1..40),
            digest in any::<[u8; 32]>(),
        ) {
            let mut written = Vec::new();
            lists::write_path(&mut written, &Digest::sha256(digest), &name);
            let bare = written.strip_suffix(b"\n").unwrap();
            prop_assert!(memchr(b'\n', bare).is_none() && memchr(b'\r', bare).is_none());
            // Alone it would mean standard input.
            let name = if name == b"-" { &b"./-"[..] } else { &name };
            let record = Record { digest: Digest::sha256(digest), name };
            let mut parser = Parser::new();
            prop_assert_eq!(parser.parse(bare), Parsed::Record(record));
        }

        #[test]
        fn the_short_way_says_what_the_long_one_does(
            lines in prop::collection::vec((0usize..5, prop::collection::vec(
                prop_oneof![Just(b' '), Just(b'*'), Just(b'\r'), Just(0u8), Just(b'\\'), Just(b'x')],
                0..4)), 1..4),
        ) {
            let (mut short, mut long) = (Parser::new(), Parser::new());
            for (start, rest) in lines {
                let hex = [b'a'; Sha256::HEX_LEN];
                let start = [&b"  "[..], b" *", b" ", b"\t", b""][start];
                let line = [&hex[..], start, &rest].concat();
                prop_assert_eq!(short.parse(&line), long.parse_any(&line));
            }
        }

        /// The head of the buffer is read alike, whatever comes after its line there.
        #[test]
        fn the_head_says_what_its_line_does(
            len in 0usize..150,
            odd in prop::collection::vec((0usize..150, prop_oneof![
                Just(b'\n'), Just(b'\r'), Just(0u8), Just(0x0bu8), Just(0x8au8), Just(0x80u8)]), 0..3),
            start in 0usize..5,
            after in prop::collection::vec(prop_oneof![Just(b'\n'), Just(0u8), Just(b'x')], 0..20),
            nul in any::<bool>(),
        ) {
            let separator = if nul { 0 } else { b'\n' };
            let mut name = vec![b'x'; len];
            odd.iter().for_each(|(at, byte)| if let Some(there) = name.get_mut(*at) { *there = *byte });
            let start = [&b"  "[..], b" *", b" ", b"\t", b""][start];
            let bytes = [&[b'a'; Sha256::HEX_LEN][..], start, &name, &[separator], &after].concat();
            let line = bytes.split(|&byte| byte == separator).next().unwrap_or_default();
            if let Some((digest, len)) = Parser::new().parse_head(&bytes, separator) {
                let name = &line[Sha256::HEX_LEN + 2..];
                prop_assert_eq!(len, line.len());
                let mut parser = Parser::new();
                prop_assert_eq!(parser.parse(line), Parsed::Record(Record { digest, name }));
            } else if start == b"  " && bytes.len() >= line.len() + 8 {
                let plain = Parser::new().parse_plain(line).is_some();
                prop_assert!(!plain, "{}", line.escape_ascii());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(
            lines in prop::collection::vec((any::<bool>(), prop::collection::vec(
                prop_oneof![Just(b'\\'), Just(b' '), Just(b'('), Just(b')'), Just(b'='), any::<u8>()],
                0..30)), 0..5),
        ) {
            let mut parser = Parser::new();
            for (with_digest, bytes) in lines {
                let line = if with_digest { [&[b'a'; 64], &bytes[..]].concat() } else { bytes };
                parser.parse(&line);
            }
        }
    }
}
