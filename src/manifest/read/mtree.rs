//! The specifications of mtree(5), as `bsdtar --format=mtree` and `mtree -c -K sha256` write them.
//!
//! A line is a name and keywords, `name type=file sha256digest=HEX`; a `\` at its end continues it on the
//! next. A name with a `/` starts at the root. Any other is in the directory that was entered last: an entry
//! of `type=dir` enters it, and a line `..` leaves it. `/set` and `/unset` change what entries have without
//! saying so. Bytes of names are escaped as vis(3) does.

use crate::hash::{Digest, Sha256};

use super::fault::Fault;
use super::scan::MAX_LINE;

/// Digests of other algorithms, so that a message can name them.
const OTHERS: [(&[u8], &str); 5] = [
    (b"md5", "MD5"),
    (b"sha1", "SHA1"),
    (b"rmd160", "RMD160"),
    (b"sha384", "SHA384"),
    (b"sha512", "SHA512"),
];

/// What is known between the lines of a specification.
#[derive(Debug, Default)]
pub struct Mtree {
    /// The directory that was entered last, each component with a `/` behind it.
    dir: Vec<u8>,
    /// The entry on its way, if the line before was continued.
    entry: Option<Keywords>,
    /// Whether entries are of another type than `file` unless they say so.
    is_other_type: bool,
    /// Whether a file had a digest beside the one that is used.
    pub has_several: bool,
}

/// What the keywords of an entry say.
#[derive(Debug, Default)]
struct Keywords {
    name: Vec<u8>,
    digest: Option<Result<Digest, Fault>>,
    /// Another algorithm that it has a digest of.
    other: Option<&'static str>,
    /// Whether it is a directory, or something else than a regular file.
    kind: Option<MtreeType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MtreeType {
    File,
    Dir,
    Other,
}

impl Mtree {
    /// Whether a line can only be one of a specification: it sets what entries have.
    pub fn is_start(line: &[u8]) -> bool {
        line.starts_with(b"#mtree") || line.starts_with(b"/set ")
    }

    /// Goes on by a line: the digest of a file, and its name in `name`; nothing for what is no file, or goes on.
    pub fn line(&mut self, line: &[u8], name: &mut Vec<u8>) -> Result<Option<Digest>, Fault> {
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
        words.for_each(|word| entry.add(word));
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
        match (entry.digest, entry.other) {
            (Some(digest), other) => {
                self.has_several |= other.is_some();
                digest.map(Some)
            }
            (None, Some(other)) => Err(Fault::OtherAlgorithm(other)),
            (None, None) => Err(Fault::DigestLength { found: 0 }),
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
    fn add(&mut self, word: &[u8]) {
        self.kind = kind(word).or(self.kind);
        let Some(equals) = word.iter().position(|&byte| byte == b'=') else { return };
        let (key, value) = (&word[..equals], &word[equals + 1..]);
        let key = key.strip_suffix(b"digest").unwrap_or(key);
        if key == b"sha256" {
            let found = value.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            self.digest = Some(
                Sha256::from_hex(value).map(Digest::from).ok_or(Fault::DigestLength { found }),
            );
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
