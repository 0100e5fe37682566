//! Further lists beside a manifest: of other algorithms, and in the forms of other programs.
//!
//! Each is a file of its own, called as the manifest but for its ending, and gets its lines when the manifest gets
//! them. What a form cannot hold is not written into it, and the one who asks is told so.

use std::{fs::File, io};

use serde::{Deserialize, Serialize};

use crate::{
    hash::Algorithm, hash::Algorithms, hash::Digest, hash::Digests, manifest::read::escape, sys,
};

/// The index of a span begins so.
pub const SPAN_HEAD: &str = "# dircopy span:";

/// Number of bytes of a list that may stand before the first line of an index: a mark, notes, another list.
const MOST_BEFORE: usize = 1 << 20;

/// True if a list is the index of a span, whatever it is called: it says what is on other disks, and is of none itself.
///
/// # Errors
/// It cannot be read.
pub fn is_span_index(list: &File) -> io::Result<bool> {
    let mut head = vec![0; MOST_BEFORE];
    let read = sys::read_at(list, &mut head, 0)?;
    head.truncate(read);
    // Programs may have put a mark before it, or written it with two bytes for each character.
    head.retain(|byte| !matches!(byte, 0 | 0xef | 0xbb | 0xbf | 0xfe | 0xff));
    let mut lines = head.split(|byte| *byte == b'\n');
    Ok(lines.any(|line| line.starts_with(SPAN_HEAD.as_bytes())))
}

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListFormat {
    /// The lists of `sha256sum` and its kin: one for each algorithm.
    Gnu,
    /// Lines that name their algorithm, as BSD's programs and `sha256sum --tag` write them: one list for all.
    Bsd,
    /// The list of `hashdeep`, with those of MD5, SHA-1 and SHA-256 that are asked for.
    Hashdeep,
    /// A history of ASC MHL 2, of which each run writes a generation.
    History,
    /// A legacy Media Hash List (1.1).
    LegacyMhl,
    /// One in each directory for each algorithm, as `sha256sum` and its kin write them.
    Dirs,
    /// One beside each file for each algorithm.
    Sides,
}

impl ListFormat {
    /// True if it is a Media Hash List, which is written when the run is complete.
    pub fn is_mhl(self) -> bool {
        matches!(self, ListFormat::History | ListFormat::LegacyMhl)
    }

    /// True if its lists are among the files.
    pub fn is_near(self) -> bool {
        matches!(self, ListFormat::Dirs | ListFormat::Sides)
    }

    /// True if it holds the digests of every algorithm.
    fn holds_all(self) -> bool {
        !matches!(self, ListFormat::Hashdeep | ListFormat::History | ListFormat::LegacyMhl)
    }

    /// The ending of the name of a list of this form, behind the point.
    pub fn suffix(self, algorithms: Algorithms) -> &'static str {
        match self {
            ListFormat::Gnu => algorithms.proof().suffix(),
            ListFormat::Bsd => "bsd",
            ListFormat::Hashdeep => "hashdeep",
            ListFormat::Dirs => "dirs",
            ListFormat::Sides => "sides",
            ListFormat::History | ListFormat::LegacyMhl => "mhl",
        }
    }

    /// The name of the list in a directory, or of the one beside the file `name`.
    pub fn near_name(self, algorithm: Algorithm, name: &[u8]) -> Vec<u8> {
        let of = algorithm.name();
        match self {
            ListFormat::Sides => [name, b".", of.as_bytes()].concat(),
            _ => format!("{}SUMS", of.to_ascii_uppercase()).into_bytes(),
        }
    }

    /// True if a list among the files, of this form, may have the name.
    pub fn may_name(self, name: &[u8]) -> bool {
        self.named_by(name).is_some()
    }

    /// The algorithm of a list among the files, of this form, that has the name.
    pub fn named_by(self, name: &[u8]) -> Option<Algorithm> {
        Algorithm::listed().find(|algorithm| match self {
            ListFormat::Sides => name.ends_with(&self.near_name(*algorithm, b"")),
            _ => name == self.near_name(*algorithm, b""),
        })
    }
}

/// The algorithms that `hashdeep` knows, in the order of its columns.
const OF_HASHDEEP: [Algorithm; 3] = [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256];

/// `hashdeep` reads lines into so many bytes.
const MOST_OF_HASHDEEP: usize = 2046;

/// A list that a run writes beside its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListKind {
    /// A Media Hash List stands for what a run keeps to make one in the end.
    form: ListFormat,
    algorithms: Algorithms,
}

/// The facts that a list has of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its size in bytes.
    pub size: u64,
    /// Its digests.
    pub digests: Digests,
    /// True if it was read in this run.
    pub is_read: bool,
}

impl ListKind {
    /// The lists of a run that computes `algorithms`, beside the manifest, which is of the one that proves.
    pub fn all(algorithms: Algorithms, formats: &[ListFormat]) -> Vec<Self> {
        let mut lists = Vec::new();
        // What no other list holds stands in one of its own.
        let is_all = formats.iter().any(|format| format.holds_all());
        for &form in formats {
            let others = algorithms.without(algorithms.proof()).iter();
            match form {
                ListFormat::Gnu => {
                    lists.extend(others.map(Self::gnu));
                    continue;
                }
                ListFormat::Hashdeep => {
                    let others = others.filter(|it| !is_all && !OF_HASHDEEP.contains(it));
                    lists.extend(others.map(Self::gnu));
                }
                ListFormat::History | ListFormat::LegacyMhl => continue,
                ListFormat::Bsd | ListFormat::Dirs | ListFormat::Sides => {}
            }
            lists.push(Self { form, algorithms });
        }
        lists.dedup();
        lists
    }

    fn gnu(algorithm: Algorithm) -> Self {
        Self { form: ListFormat::Gnu, algorithms: Algorithms::default().with(algorithm) }
    }

    /// True if it would hold no digest at all.
    pub fn is_without_digests(self) -> bool {
        self.form == ListFormat::Hashdeep && self.columns().next().is_none()
    }

    /// The form of a run's own notes, with these digests of each file: a record for each, which [`KeptFile`] reads.
    pub fn kept(algorithms: Algorithms) -> Self {
        Self { form: ListFormat::History, algorithms }
    }

    /// True if it is for the run itself, and has no name.
    pub fn is_kept(self) -> bool {
        self.form.is_mhl()
    }

    /// Its form.
    pub fn form(self) -> ListFormat {
        self.form
    }

    /// The algorithms that it lists.
    pub fn algorithms(self) -> Algorithms {
        self.algorithms
    }

    /// The ending of its name, behind the point.
    pub fn suffix(self) -> &'static str {
        self.form.suffix(self.algorithms)
    }

    /// Every ending that a list beside a manifest of `proof` can have.
    pub fn suffixes(proof: Algorithm) -> impl Iterator<Item = &'static str> {
        let others = Algorithm::listed().filter(move |algorithm| *algorithm != proof);
        others.map(Algorithm::suffix).chain(["bsd", "hashdeep", "dirs", "sides"])
    }

    /// The text before the first line.
    pub fn head(self) -> String {
        match self.form {
            ListFormat::Hashdeep => {
                let names: Vec<&str> = self.columns().map(Algorithm::name).collect();
                format!("%%%% HASHDEEP-1.0\n%%%% size,{},filename\n", names.join(","))
            }
            _ => String::new(),
        }
    }

    fn columns(self) -> impl Iterator<Item = Algorithm> {
        OF_HASHDEEP.into_iter().filter(move |algorithm| self.algorithms.has(*algorithm))
    }

    /// Appends what it says of the file at `path`; nothing, and false, if it cannot hold the name.
    pub fn write(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> bool {
        let start = out.len();
        let written = match self.form {
            ListFormat::Gnu => self.write_gnu(out, content, path),
            // The lists among the files get their lines from these.
            ListFormat::Bsd | ListFormat::Dirs | ListFormat::Sides => {
                self.write_bsd(out, content, path)
            }
            ListFormat::Hashdeep => self.write_hashdeep(out, content, path),
            ListFormat::History | ListFormat::LegacyMhl => self.write_kept(out, content, path),
        };
        if written.is_none() {
            out.truncate(start);
        }
        written.is_some()
    }

    fn write_gnu(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> Option<()> {
        let digest = content.digests.of(self.algorithms.proof())?;
        write_for_program(out, &digest, path).then_some(())
    }

    fn write_bsd(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> Option<()> {
        for algorithm in self.algorithms.iter() {
            write_tagged(out, &content.digests.of(algorithm)?, path, true);
        }
        Some(())
    }

    fn write_kept(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> Option<()> {
        let read = if content.is_read { "read" } else { "known" };
        out.extend_from_slice(format!("{read} {}", content.size).as_bytes());
        for algorithm in self.algorithms.iter() {
            out.push(b' ');
            content.digests.of(algorithm)?.write(out);
        }
        out.push(b'\n');
        out.extend_from_slice(path);
        out.push(0);
        Some(())
    }

    fn write_hashdeep(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> Option<()> {
        let start = out.len();
        out.extend_from_slice(content.size.to_string().as_bytes());
        for algorithm in self.columns() {
            out.push(b',');
            content.digests.of(algorithm)?.write(out);
        }
        // As `hashdeep -rl .` names them.
        out.extend_from_slice(b",./");
        out.extend_from_slice(path);
        out.push(b'\n');
        (is_one_line(path) && out.len() - start <= MOST_OF_HASHDEEP).then_some(())
    }
}

/// The notes of a run about a file for its Media Hash List, as a record that ends with NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// True if it was read in this run.
    pub is_read: bool,
    /// Its size in bytes.
    pub size: u64,
    /// In the order of the algorithms.
    pub digests: Vec<Digest>,
}

impl KeptFile {
    /// Reads what stands before the path in a record.
    pub fn parse(fields: &str, algorithms: Algorithms) -> Option<Self> {
        let mut words = fields.split(' ');
        let is_read = words.next()? == "read";
        let size = words.next()?.parse().ok()?;
        let digest = |algorithm| Digest::parse(algorithm, words.next()?.as_bytes());
        let digests = algorithms.iter().map(digest).collect::<Option<_>>()?;
        Some(Self { is_read, size, digests })
    }
}

fn is_one_line(path: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', path).is_none()
}

// Writes manifest lines, exactly as `sha256sum` does.
//
// `HEX␠␠name⏎`: 64 lower-case hexadecimal digits, two spaces, the raw bytes of the name, LF; see
// [`escape`] for the few names that are not written raw. (coreutils manual, "md5sum
// invocation".) Lines go to the end of a buffer that the caller uses again: a million files cost
// no allocation each.

/// The text between digest and name: a blank, and "text mode", which on POSIX means nothing.
const GAP: &[u8] = b"  ";

/// `sha256sum -c` reads its standard input where the whole name is this, so a file of that name is
/// written as `./-`.
const STDIN: &str = "-";
const HERE: &[u8] = b"./";

/// Appends the line of a file given by its whole path, components joined by `/`.
///
/// It is what the program of the digest's algorithm writes; a name that it cannot write is escaped as `sha256sum`
/// does. The path must not be empty and must hold no NUL: no reader takes such a line for a record.
pub fn write_path(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    match digest.algorithm() {
        _ if write_for_program(out, digest, path) => {}
        Algorithm::Xxh3 => write_tagged(out, digest, path, true),
        _ => write_escaped(out, digest, path),
    }
}

/// The same, and by which algorithm the digest is can be told from the line alone.
pub fn write_known(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    match digest.algorithm().is_known_by_length() {
        true => write_path(out, digest, path),
        false => write_tagged(out, digest, path, true),
    }
}

/// The same for the program that checks digests of this algorithm; nothing, and false, if that cannot read the name.
pub fn write_for_program(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) -> bool {
    let is_one_line = memchr::memchr2(b'\n', b'\r', path).is_none();
    match digest.algorithm() {
        Algorithm::Blake3 => {
            // Read as UTF-8, and a carriage return at the end of a line is dropped.
            let text = std::str::from_utf8(path).ok();
            if text.is_none_or(|text| text.contains('\u{fffd}') || text.ends_with('\r')) {
                return false;
            }
            write_but_carriage_returns(out, digest, path);
        }
        // Nothing is escaped.
        Algorithm::Xxh3 if is_one_line => write_tagged(out, digest, path, false),
        Algorithm::Xxh128 | Algorithm::Xxh64 if is_one_line => write_raw(out, digest, path),
        Algorithm::Xxh3 | Algorithm::Xxh128 | Algorithm::Xxh64 => return false,
        _ => write_escaped(out, digest, path),
    }
    true
}

/// Writes the line as `sha256sum` does.
fn write_escaped(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    let escaped = escape::is_needed(path);
    start(out, digest, escaped);
    if escaped {
        escape::escape(path, out);
    } else {
        write_name(out, path);
    }
    out.push(b'\n');
}

/// The same for a program that escapes nothing, also not a `\` at the start of a name. The path must be one line.
fn write_raw(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    start(out, digest, false);
    write_name(out, path);
    out.push(b'\n');
}

/// The same for `b3sum`, whose earlier versions know no escape for CR.
fn write_but_carriage_returns(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    let escaped = memchr::memchr2(b'\\', b'\n', path).is_some();
    start(out, digest, escaped);
    if !escaped {
        write_name(out, path);
    }
    for piece in path.split_inclusive(|&byte| byte == b'\r').filter(|_| escaped) {
        let (piece, end) = match piece.split_last() {
            Some((b'\r', before)) => (before, &b"\r"[..]),
            _ => (piece, &b""[..]),
        };
        escape::escape(piece, out);
        out.extend_from_slice(end);
    }
    out.push(b'\n');
}

/// Appends the line of a file as `TAG (name) = digest`; escaped as the other lines if `escapes`, and not at all
/// otherwise.
pub fn write_tagged(out: &mut Vec<u8>, digest: &Digest, path: &[u8], escapes: bool) {
    let escaped = escapes && escape::is_needed(path);
    if escaped {
        out.push(b'\\');
    }
    out.extend_from_slice(digest.algorithm().spec().map_or("", |spec| spec.tag).as_bytes());
    out.extend_from_slice(b" (");
    match escaped {
        true => escape::escape(path, out),
        false => write_name(out, path),
    }
    out.extend_from_slice(b") = ");
    digest.write(out);
    out.push(b'\n');
}

/// The same by several algorithms, with their tags.
pub fn write_all_standard<'a>(out: &mut Vec<u8>, digests: impl Iterator<Item = &'a Digest>) {
    for digest in digests {
        let tag = digest.algorithm().spec().map_or("", |spec| spec.tag);
        out.extend_from_slice(format!("{tag} ({STDIN}) = {digest}\n").as_bytes());
    }
}

fn write_name(out: &mut Vec<u8>, path: &[u8]) {
    if path == STDIN.as_bytes() {
        out.extend_from_slice(HERE);
    }
    out.extend_from_slice(path);
}

/// Appends the line of what was written to standard output: of the name `-`, which a check reads from its
/// standard input.
pub fn write_standard(out: &mut Vec<u8>, digest: &Digest) {
    start(out, digest, false);
    out.extend_from_slice(STDIN.as_bytes());
    out.push(b'\n');
}

/// Writes the text before the name.
fn start(out: &mut Vec<u8>, digest: &Digest, escaped: bool) {
    if escaped {
        out.push(b'\\');
    }
    digest.write(out);
    out.extend_from_slice(GAP);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "abababababababababababababababababababababababababababababababab";

    /// The names that `sha256sum` was seen to write (coreutils 9.1).
    #[test]
    fn lines_are_what_sha256sum_writes() {
        let cases: &[(&[u8], &str, &[u8])] = &[
            (b"plain", "", b"plain"),
            (b"a\nb", "\\", b"a\\nb"),
            (b"c\\d", "\\", b"c\\\\d"),
            (b"e\rf", "\\", b"e\\rf"),
            (b" lead", "", b" lead"),
            (b"*star", "", b"*star"),
            (b"t\tab", "", b"t\tab"),
            (b"\xff\xfe", "", b"\xff\xfe"),
            (b"#hash", "", b"#hash"),
            (b"dir/file", "", b"dir/file"),
            (b"-", "", b"./-"),
            (b"dir/-", "", b"dir/-"),
        ];
        for (name, flag, written) in cases {
            let mut line = Vec::new();
            write_path(&mut line, &Digest::sha256([0xab; 32]), name);
            let expected =
                [flag.as_bytes(), HEX.as_bytes(), b"  ".as_slice(), written, b"\n"].concat();
            assert_eq!(line, expected, "{}", name.escape_ascii());
        }
    }
}
