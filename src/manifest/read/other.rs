//! Lines with digests of other algorithms than SHA-256, for a check that computes whatever is listed.
//!
//! An algorithm is known by its tag, or by the length of the digest. Where two algorithms have one length, the line is
//! taken for the first, and the check tries the other (`Algorithm::alike`).

use std::borrow::Cow;

use crate::manifest::{Fault, read::Split, read::Style, read::gnu, read::scan::MAX_LINE};
use crate::{hash::Algorithm, hash::Digest};

/// Further tags, as OpenSSL writes them.
const ALIASES: [(&str, Algorithm); 2] =
    [("SHA2-512", Algorithm::Sha512), ("SHA-1", Algorithm::Sha1)];

/// Algorithms by their lengths in hexadecimal digits, and C4.
const UNTAGGED: [Algorithm; 5] =
    [Algorithm::Sha512, Algorithm::C4, Algorithm::Sha1, Algorithm::Md5, Algorithm::Xxh64];

/// Takes the line apart from `at` on, if it is of another algorithm.
pub fn split(line: &[u8], at: usize, style: &mut Option<Style>) -> Option<Result<Split, Fault>> {
    let named = Algorithm::listed().chain([Algorithm::Crc32]);
    let tags = named.filter_map(|one| Some((one.spec()?.tag, one)));
    let tagged = tags
        .chain(ALIASES)
        .find_map(|(tag, one)| Some((gnu::after_filled_tag(line, at, tag)?, one)));
    if let Some((name, algorithm)) = tagged.filter(|(_, one)| *one != Algorithm::Sha256) {
        return Some(gnu::split_after_tag(line, name, algorithm));
    }
    let text = line.get(at..)?;
    let len = text.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
    let digest = UNTAGGED.iter().find_map(|one| Digest::parse(*one, &text[..len]))?;
    Some(gnu::name_behind(line, at + len, style).map(|name| Split { digest, name }))
}

/// The record on a line of an SFV list: a name, blanks, and eight digits.
pub fn split_sfv(line: &[u8]) -> Option<Split> {
    let (name, digits) = line.split_at_checked(line.len().checked_sub(8)?)?;
    let digest = Digest::parse(Algorithm::Crc32, digits)?;
    let len = name.trim_ascii_end().len();
    (len > 0 && len < name.len()).then_some(Split { digest, name: 0..len })
}

/// The first line of a list of `hashdeep`.
pub const HASHDEEP: &[u8] = b"%%%% HASHDEEP-1.0";

/// The algorithms of `hashdeep` that are not computed here.
const OTHERS_OF_HASHDEEP: [&str; 2] = ["tiger", "whirlpool"];

/// The columns of a list of `hashdeep`: between size and name, with the algorithm of those that are known.
#[derive(Debug, Default)]
pub struct HashdeepColumns {
    algorithms: Vec<Option<Algorithm>>,
    /// The digests on the row that was read last, beside the one that was given.
    further: Vec<Digest>,
    /// The first digest that `hashdeep` has and that is not computed here.
    other: Option<&'static str>,
    /// True if the last column is the name, which alone may hold commas.
    ends_with_name: bool,
}

impl HashdeepColumns {
    /// The digests that the row read last has beside the one that was given.
    pub fn further(&self) -> &[Digest] {
        &self.further
    }

    /// True if rows have a digest that is not computed here beside one that is.
    pub fn has_other(&self) -> bool {
        self.other.is_some() && self.algorithms.iter().any(Option::is_some)
    }

    /// The name on a row with no digest that can be computed here.
    pub fn name_on<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let mut fields = line.splitn(self.algorithms.len().max(1), |&byte| byte == b',');
        fields.nth(self.algorithms.len().checked_sub(1)?)
    }

    /// Takes a line: the columns, or a record, with the strongest of its digests; its name is the rest.
    ///
    /// # Errors
    /// It is no row of these columns.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Split>, Fault> {
        if let Some(columns) = line.strip_prefix(b"%%%% ") {
            let names = columns.split(|&byte| byte == b',').map(|name| {
                let is_it = |one: &Algorithm| {
                    name.eq_ignore_ascii_case(one.name().as_bytes())
                        || name.eq_ignore_ascii_case(one.shown().as_bytes())
                };
                Algorithm::listed().find(is_it)
            });
            self.algorithms = names.collect();
            let is_there = |other: &&&str| {
                let mut names = columns.split(|&byte| byte == b',');
                names.any(|name| name.eq_ignore_ascii_case(other.as_bytes()))
            };
            self.other = OTHERS_OF_HASHDEEP.iter().find(is_there).copied();
            self.ends_with_name = columns.ends_with(b",filename");
            return Ok(None);
        }
        if !self.ends_with_name {
            return Err(Fault::Form("the last column of the list is not the filename"));
        }
        let fault = Fault::Columns { expected: self.algorithms.len() };
        let mut fields = line.splitn(self.algorithms.len().max(1), |&byte| byte == b',');
        let mut name = None;
        self.further.clear();
        for column in &self.algorithms {
            let field = fields.next().ok_or(fault)?;
            if let Some(algorithm) = column {
                self.further.push(Digest::parse(*algorithm, field).ok_or(fault)?);
            }
            name = Some(field);
        }
        let name = name.ok_or(fault)?;
        if name.is_empty() {
            return Err(Fault::NoName);
        }
        let digest = take_strongest(&mut self.further);
        let digest = digest.ok_or(self.other.map_or(fault, Fault::OtherAlgorithm))?;
        Ok(Some(Split { digest, name: line.len() - name.len()..line.len() }))
    }
}

/// Takes the strongest out of the digests of a file.
fn take_strongest(digests: &mut Vec<Digest>) -> Option<Digest> {
    let strongest = (0..digests.len()).min_by_key(|&at| digests[at].algorithm())?;
    Some(digests.swap_remove(strongest))
}

// Tables, as `Get-FileHash | Export-Csv` of PowerShell writes them.
//
// The first line names the columns; `Hash` and `Path` must be among them, `Algorithm` can be. Fields stand
// between `"` with each `"` in them doubled, or bare, and are parted by `,` or `;` (RFC 4180, but that a
// field holds no line end).

/// Where the columns of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    separator: u8,
    count: usize,
    hash: usize,
    path: usize,
    algorithm: Option<usize>,
}

impl Columns {
    /// The columns that a line names, if it is the first of a table.
    pub fn find(line: &[u8]) -> Option<Self> {
        [b',', b';'].into_iter().find_map(|separator| {
            let fields = fields(line, separator)?;
            let column = |name: &str| {
                fields.iter().position(|field| field.eq_ignore_ascii_case(name.as_bytes()))
            };
            let (hash, path, algorithm) = (column("Hash")?, column("Path")?, column("Algorithm"));
            Some(Self { separator, count: fields.len(), hash, path, algorithm })
        })
    }

    /// The digest of a row, and its name in `name`; by other algorithms than SHA-256 if they are `of_all`.
    pub fn row(&self, line: &[u8], name: &mut Vec<u8>, of_all: bool) -> Result<Digest, Fault> {
        let fields = fields(line, self.separator).filter(|fields| fields.len() == self.count);
        let fields = fields.ok_or(Fault::Columns { expected: self.count })?;
        let field = |column: usize| fields.get(column).map(|field| &**field).unwrap_or_default();
        name.clear();
        name.extend_from_slice(field(self.path));
        let algorithm = match self.algorithm.map(field) {
            None => Algorithm::Sha256,
            Some(named) => known(named, of_all).ok_or(Fault::OtherAlgorithm(other(named)))?,
        };
        digest(algorithm, field(self.hash))
    }
}

/// A digest of this algorithm, in hexadecimal digits.
fn digest(algorithm: Algorithm, text: &[u8]) -> Result<Digest, Fault> {
    let found = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    Digest::parse(algorithm, text).ok_or(match algorithm {
        Algorithm::Sha256 => Fault::DigestLength { found },
        _ => Fault::OtherLength { algorithm, found },
    })
}

/// The algorithm of this name, if it is SHA-256 or may be another.
fn known(name: &[u8], of_all: bool) -> Option<Algorithm> {
    let is_it = |one: &Algorithm| {
        let names = [one.name(), one.shown()];
        names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    Algorithm::listed().filter(|one| of_all || *one == Algorithm::Sha256).find(is_it)
}

/// The name of another algorithm that PowerShell knows.
fn other(algorithm: &[u8]) -> &'static str {
    let known = ["MD5", "SHA1", "SHA384", "SHA512", "MACTripleDES", "RIPEMD160"];
    let is_it = |name: &&&str| algorithm.eq_ignore_ascii_case(name.as_bytes());
    known.iter().find(is_it).copied().unwrap_or("of another algorithm")
}

/// The fields of a line; `None` if a quoted one is not closed, or goes on behind its end.
fn fields(line: &[u8], separator: u8) -> Option<Vec<Cow<'_, [u8]>>> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, after) = match rest.strip_prefix(b"\"") {
            None => {
                let len = rest.iter().position(|&b| b == separator).unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..len]), &rest[len..])
            }
            Some(quoted) => unquote(quoted)?,
        };
        fields.push(field);
        match after.split_first() {
            None => return Some(fields),
            Some((&byte, next)) if byte == separator => rest = next,
            Some(_) => return None,
        }
    }
}

/// A field behind its first `"`, and what follows its last one.
fn unquote(quoted: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut end = quoted.iter().position(|&byte| byte == b'"')?;
    if quoted.get(end + 1) != Some(&b'"') {
        return Some((Cow::Borrowed(&quoted[..end]), &quoted[end + 1..]));
    }
    let mut field = Vec::new();
    let mut start = 0;
    loop {
        field.extend_from_slice(&quoted[start..end]);
        if quoted.get(end + 1) != Some(&b'"') {
            return Some((Cow::Owned(field), &quoted[end + 1..]));
        }
        field.push(b'"');
        start = end + 2;
        end = start + quoted.get(start..)?.iter().position(|&byte| byte == b'"')?;
    }
}

// The specifications of mtree(5), as `bsdtar --format=mtree` and `mtree -c -K sha256` write them.
//
// A line is a name and keywords, `name type=file sha256digest=HEX`; a `\` at its end continues it on the
// next. A name with a `/` starts at the root. Any other is in the directory that was entered last: an entry
// of `type=dir` enters it, and a line `..` leaves it. `/set` and `/unset` change what entries have without
// saying so. Bytes of names are escaped as vis(3) does.

/// Keywords of algorithms that are not read, or not by every reader, so that a message can name them.
const OTHERS: [(&[u8], &str); 5] = [
    (b"md5", "MD5"),
    (b"sha1", "SHA1"),
    (b"rmd160", "RMD160"),
    (b"sha384", "SHA384"),
    (b"sha512", "SHA512"),
];

/// The state between the lines of a specification.
#[derive(Debug, Default)]
pub struct Mtree {
    /// The directory that was entered last, each component with a `/` behind it.
    dir: Vec<u8>,
    /// The entry on its way, if the line before was continued.
    entry: Option<Keywords>,
    /// True if entries are of another type than `file` unless they say so.
    is_other_type: bool,
    /// The digests of the last file beside the one that was given.
    further: Vec<Digest>,
    /// True once a file had a digest that is not read beside one that is.
    pub has_other: bool,
}

/// The values of an entry's keywords.
#[derive(Debug, Default)]
struct Keywords {
    name: Vec<u8>,
    digests: Vec<Digest>,
    /// What is wrong with one of its digests.
    fault: Option<Fault>,
    /// Another algorithm that it has a digest of.
    other: Option<&'static str>,
    /// The type of the entry: a directory, or something else than a regular file.
    kind: Option<MtreeType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MtreeType {
    File,
    Dir,
    Other,
}

impl Mtree {
    /// True for a line that only a specification can have: it sets defaults for entries.
    pub fn is_start(line: &[u8]) -> bool {
        line.starts_with(b"#mtree") || line.starts_with(b"/set ")
    }

    /// The digests of the last file beside the one that was given.
    pub fn further(&self) -> &[Digest] {
        &self.further
    }

    /// Goes on by a line: the strongest digest of a file, and its name in `name`; nothing for what is no file, or goes
    /// on. Other algorithms than SHA-256 are read if they are `of_all`.
    pub fn line(
        &mut self,
        line: &[u8],
        name: &mut Vec<u8>,
        of_all: bool,
    ) -> Result<Option<Digest>, Fault> {
        let (line, is_continued) = match line.trim_ascii_end().strip_suffix(b"\\") {
            // A name ends in an escaped `\` as `\134` or `\\`.
            Some(rest) if !rest.ends_with(b"\\") => (rest, true),
            _ => (line, false),
        };
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut entry = match self.entry.take() {
            Some(entry) => entry,
            None => match words.next() {
                None => return Ok(None),
                Some(b"..") => {
                    self.leave();
                    return Ok(None);
                }
                Some(b"/set") => {
                    let kinds = words.filter_map(kind).next_back();
                    self.is_other_type = kinds.map_or(self.is_other_type, |k| k != MtreeType::File);
                    return Ok(None);
                }
                Some(b"/unset") => {
                    self.is_other_type &= !words.any(|word| word == b"type");
                    return Ok(None);
                }
                Some(word) => Keywords { name: unescape(word)?, ..Keywords::default() },
            },
        };
        words.for_each(|word| entry.add(word, of_all));
        if is_continued {
            self.entry = Some(entry);
            return Ok(None);
        }
        self.finish(entry, name)
    }

    fn finish(&mut self, entry: Keywords, name: &mut Vec<u8>) -> Result<Option<Digest>, Fault> {
        let default = if self.is_other_type { MtreeType::Other } else { MtreeType::File };
        let is_path = entry.name.contains(&b'/');
        match entry.kind.unwrap_or(default) {
            MtreeType::Dir if is_path || entry.name == b"." => return Ok(None),
            MtreeType::Dir => return self.enter(&entry.name).map(|()| None),
            MtreeType::Other => return Ok(None),
            MtreeType::File => {}
        }
        name.clear();
        if !is_path {
            name.extend_from_slice(&self.dir);
        }
        name.extend_from_slice(&entry.name);
        self.further = entry.digests;
        let digest = take_strongest(&mut self.further);
        match (entry.fault, digest, entry.other) {
            (Some(fault), ..) => Err(fault),
            (None, Some(digest), other) => {
                self.has_other |= other.is_some();
                Ok(Some(digest))
            }
            (None, None, Some(other)) => Err(Fault::OtherAlgorithm(other)),
            (None, None, None) => Err(Fault::DigestLength { found: 0 }),
        }
    }

    fn enter(&mut self, name: &[u8]) -> Result<(), Fault> {
        let len = self.dir.len() + name.len() + 1;
        if len > MAX_LINE {
            return Err(Fault::TooLong { len: len as u64 });
        }
        self.dir.extend_from_slice(name);
        self.dir.push(b'/');
        Ok(())
    }

    fn leave(&mut self) {
        self.dir.pop();
        let above = self.dir.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        self.dir.truncate(above);
    }
}

impl Keywords {
    fn add(&mut self, word: &[u8], of_all: bool) {
        self.kind = kind(word).or(self.kind);
        let Some(equals) = word.iter().position(|&byte| byte == b'=') else { return };
        let (key, value) = (&word[..equals], &word[equals + 1..]);
        let key = key.strip_suffix(b"digest").unwrap_or(key);
        if let Some(algorithm) = known(key, of_all) {
            match digest(algorithm, value) {
                // Of several by one algorithm the last counts, so there are never many.
                Ok(digest) => {
                    self.digests.retain(|other| other.algorithm() != algorithm);
                    self.digests.push(digest);
                }
                Err(fault) => self.fault = Some(fault),
            }
        } else if let Some((_, name)) = OTHERS.iter().find(|(other, _)| *other == key) {
            self.other = Some(name);
        }
    }
}

fn kind(word: &[u8]) -> Option<MtreeType> {
    Some(match word.strip_prefix(b"type=")? {
        b"file" => MtreeType::File,
        b"dir" => MtreeType::Dir,
        _ => MtreeType::Other,
    })
}

/// The name that a word stands for: `\ooo` is the byte of three octal digits, `\s` a blank, and so on.
fn unescape(word: &[u8]) -> Result<Vec<u8>, Fault> {
    let (mut name, mut at) = (Vec::with_capacity(word.len()), 0);
    while let Some(&byte) = word.get(at) {
        at += 1;
        if byte != b'\\' {
            name.push(byte);
            continue;
        }
        let octal = word.get(at..at + 3).filter(|o| o.iter().all(|d| matches!(d, b'0'..=b'7')));
        let value = octal.map(|o| o.iter().fold(0_u32, |value, d| 8 * value + u32::from(d - b'0')));
        let (byte, len) = match (value.map(u8::try_from), word.get(at)) {
            (Some(Ok(byte)), _) => (byte, 3),
            (None, Some(b's')) => (b' ', 1),
            (None, Some(b't')) => (b'\t', 1),
            (None, Some(b'n')) => (b'\n', 1),
            (None, Some(b'r')) => (b'\r', 1),
            (None, Some(b'\\')) => (b'\\', 1),
            (None, Some(b'#')) => (b'#', 1),
            _ => return Err(Fault::UnknownEscape { column: at }),
        };
        name.push(byte);
        at += len;
    }
    Ok(name)
}

// The envelope of a list that is signed in clear text (RFC 9580, section 7): armor headers before the
// lines, `- ` before each line that starts with `-`, and a signature after them.
//
// The signature is passed over, not checked.

const BEGIN: &[u8] = b"-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
const END: &[u8] = b"-----END PGP SIGNATURE-----";

/// The part of an envelope that the next line is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Envelope {
    /// None: outside of any.
    #[default]
    Outside,
    /// The armor headers, up to an empty line.
    Headers,
    /// The lines that were signed.
    Signed,
    Signature,
}

impl Envelope {
    /// Goes on by a line: the line that was signed or is outside, or `None` for one of the envelope's own.
    pub fn open<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let bare = line.trim_ascii_end();
        match *self {
            Envelope::Outside if bare == BEGIN => *self = Envelope::Headers,
            Envelope::Outside => return Some(line),
            Envelope::Headers if bare.is_empty() => *self = Envelope::Signed,
            Envelope::Headers if is_header(bare) => {}
            // Without the empty line. Nothing may hide among the headers.
            Envelope::Headers => {
                *self = Envelope::Signed;
                return Some(line);
            }
            Envelope::Signed if bare == SIGNATURE => *self = Envelope::Signature,
            Envelope::Signed => return Some(line.strip_prefix(b"- ").unwrap_or(line)),
            Envelope::Signature if bare == END => *self = Envelope::Outside,
            Envelope::Signature => {}
        }
        None
    }
}

/// `Key: value`, as `Hash: SHA512`.
fn is_header(line: &[u8]) -> bool {
    let key = line.split(|&byte| byte == b':').next().unwrap_or_default();
    let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    !key.is_empty() && key.iter().all(is_key) && line.get(key.len()..key.len() + 2) == Some(b": ")
}
