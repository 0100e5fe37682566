//! The tagged formats: `SHA256 (name) = HEX` of the BSDs and `sha256sum --tag`, and
//! `SHA256(name)= HEX` of OpenSSL.
//!
//! As in `sha256sum -c` (coreutils 9.11) both are one: a tag, a space or none, `(`, the name up to
//! the *last* `)` of the line, `=` with blanks around it or not, and 64 digits to the end. One tag
//! is ours alone: OpenSSL 3 calls the algorithm `SHA2-256`.

use memchr::memrchr;

use crate::hash::{Algorithm, Digest};

use super::fault::Fault;
use super::record::Split;

/// The tags of SHA-256.
const OURS: [&str; 2] = ["SHA256", "SHA2-256"];

/// Tags of other algorithms, so that a message can name them.
const OTHERS: [&str; 43] = [
    "MD4",
    "MD5",
    "SHA1",
    "SHA224",
    "SHA384",
    "SHA512",
    "SHA512/224",
    "SHA512/256",
    "SHA512t256",
    "SHA2-224",
    "SHA2-384",
    "SHA2-512",
    "SHA2-512/224",
    "SHA2-512/256",
    "SHA3-224",
    "SHA3-256",
    "SHA3-384",
    "SHA3-512",
    "BLAKE2b",
    "BLAKE2b-256",
    "BLAKE2s-256",
    "BLAKE3",
    "RMD160",
    "RIPEMD160",
    "RIPEMD-160",
    "WHIRLPOOL",
    "SM3",
    "TIGER",
    "TTH",
    "BTIH",
    "ED2K",
    "AICH",
    "HAS-160",
    "GOST94",
    "GOST94-CRYPTOPRO",
    "GOST12-256",
    "GOST12-512",
    "EDON-R256",
    "EDON-R512",
    "SNEFRU-128",
    "SNEFRU-256",
    "BLAKE2s",
    "CRC32C",
];

/// Takes the line apart from `at` on, if it is of this format: if it starts with a tag that is
/// known and a `(`.
pub fn split(line: &[u8], at: usize) -> Option<Result<Split, Fault>> {
    if let Some(name) = OURS.iter().find_map(|tag| after_tag(line, at, tag)) {
        return Some(split_after_tag(line, name, Algorithm::Sha256));
    }
    let other = OTHERS.iter().find(|tag| after_filled_tag(line, at, tag).is_some())?;
    Some(Err(Fault::OtherAlgorithm(other)))
}

/// The name on a line that has the tag of another algorithm at `at`, and says nothing else that is of use here.
pub fn name_after<'a>(line: &'a [u8], at: usize, tag: &str) -> Option<&'a [u8]> {
    let start = after_filled_tag(line, at, tag)?;
    let name = &line[start..start + memrchr(b')', &line[start..])?];
    (!name.is_empty() && memchr::memchr(0, name).is_none()).then_some(name)
}

/// Where the name begins, if the line has this tag and a `(`.
pub fn after_tag(line: &[u8], at: usize, tag: &str) -> Option<usize> {
    let rest = line.get(at..)?.strip_prefix(tag.as_bytes())?;
    let open = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"(")?;
    Some(line.len() - open.len())
}

/// The same, with more spaces: RHash fills up shorter tags where it lists several algorithms (1.4.3,
/// `MD5   (name) = HEX`).
pub fn after_filled_tag(line: &[u8], at: usize, tag: &str) -> Option<usize> {
    let rest = line.get(at..)?.strip_prefix(tag.as_bytes())?;
    let open = rest.trim_ascii_start().strip_prefix(b"(")?;
    Some(line.len() - open.len())
}

/// Takes the line apart from its name on.
pub fn split_after_tag(line: &[u8], name: usize, algorithm: Algorithm) -> Result<Split, Fault> {
    let Some(len) = memrchr(b')', &line[name..]) else {
        return Err(Fault::TagOpen);
    };
    let stop = name + len;
    let equals = skip_blanks(line, stop + 1);
    if line.get(equals) != Some(&b'=') {
        return Err(Fault::TagWithoutEquals { column: equals + 1 });
    }
    let hex = skip_blanks(line, equals + 1);
    let digits = &line[hex..];
    if let Some(digest) = Digest::parse(algorithm, digits) {
        return if len == 0 { Err(Fault::NoName) } else { Ok(Split { digest, name: name..stop }) };
    }
    Err(match digits.iter().position(|byte| !byte.is_ascii_hexdigit()) {
        Some(wrong) => Fault::NotHex { column: hex + wrong + 1, byte: digits[wrong] },
        None if algorithm == Algorithm::Sha256 => Fault::DigestLength { found: digits.len() },
        None => Fault::OtherLength { algorithm, found: digits.len() },
    })
}

/// The first position from `at` on that is not a blank.
fn skip_blanks(line: &[u8], at: usize) -> usize {
    at + line[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}
