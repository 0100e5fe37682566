//! The format `HEX␠␠name`, also `HEX␠*name` and "BSD reversed" `HEX␠name`.
//!
//! The rules are those of `sha256sum -c`, found in the source of coreutils 9.11 and tried with 9.1:
//! 64 hexadecimal digits of either case, a blank (space or tab), and then the name. One ` ` or `*`
//! before the name is dropped (it means text or binary mode, which on POSIX is the same), unless it
//! is all the name there is, or the file's first such line had none. Where the first had one, a
//! line without is malformed: otherwise one could not tell a mode from a name's first byte.

use std::ops::Range;

use memchr::{memchr2, memrchr};

use crate::hash::{Algorithm, Digest, Sha256};
use crate::{manifest::Fault, manifest::read::Split, manifest::read::Style};

/// Takes the line apart from `at` on; `style` is what earlier lines of the file have shown.
///
/// This is the format of last resort: what it does not take is malformed.
pub fn split(line: &[u8], at: usize, style: &mut Option<Style>) -> Result<Split, Fault> {
    let digits = &line[at..];
    let count = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    match digits.get(count) {
        None | Some(b' ' | b'\t') if count != Sha256::HEX_LEN => {
            return Err(Fault::DigestLength { found: count });
        }
        None => return Err(Fault::NoName),
        Some(b' ' | b'\t') => {}
        Some(&byte) => return Err(Fault::NotHex { column: at + count + 1, byte }),
    }
    let Some(digest) = Sha256::from_hex(&digits[..count]).map(Digest::from) else {
        return Err(Fault::DigestLength { found: count });
    };

    let name = name_behind(line, at + count, style)?;
    Ok(Split { digest, name })
}

/// Where the name is behind a digest that ends at `end` with a blank.
pub fn name_behind(
    line: &[u8],
    end: usize,
    style: &mut Option<Style>,
) -> Result<Range<usize>, Fault> {
    let mut name = end + 1;
    match line.get(name..).unwrap_or_default() {
        [] => return Err(Fault::NoName),
        [b' ' | b'*', _, ..] => {
            if *style.get_or_insert(Style::Standard) == Style::Standard {
                name += 1;
            }
        }
        _ => {
            if *style.get_or_insert(Style::Reversed) == Style::Standard {
                return Err(Fault::MixedStyles);
            }
        }
    }
    Ok(name..line.len())
}

/// The common line, and no other: 64 digits, two spaces, a name without NUL. `None` says nothing
/// about the line; ask [`split`].
#[inline]
pub fn split_plain(line: &[u8]) -> Option<(Digest, &[u8])> {
    let (digits, rest) = line.split_at_checked(Sha256::HEX_LEN)?;
    match rest {
        [b' ', b' ', name @ ..] if !name.is_empty() => {
            let digest = Sha256::from_hex(digits).map(Digest::from)?;
            (!ends_with_nul_among(line, name.len())).then_some((digest, name))
        }
        _ => None,
    }
}

/// True if a NUL is among the last `count` bytes of `line`, or among the up to seven before them.
///
/// Names are short: calling `memchr` for one costs more than looking at it, eight bytes at a time
/// from its end. What is looked at too much are two spaces and the digits of a digest.
#[inline]
fn ends_with_nul_among(line: &[u8], count: usize) -> bool {
    let words = line.as_rchunks::<8>().1.iter().rev().take(count.div_ceil(8));
    words.fold(0, |seen, word| seen | zeros(u64::from_ne_bytes(*word))) != 0
}

/// The common line at the start of `bytes`, and no other: as [`split_plain`] takes it, ended by
/// `separator`, with no CR before that. Comes with its length without the separator. `None` says
/// nothing about the line.
///
/// The end of the line is looked for only in its name, and together with a NUL: 12 million lines of
/// 85 bytes took 1.25 times what finding their ends and decoding digests takes, and take 1.07 times
/// (`examples/manifest_speed.rs`).
#[inline]
pub fn plain_head(bytes: &[u8], separator: u8) -> Option<(Digest, usize)> {
    let (digits, rest) = bytes.split_at_checked(Sha256::HEX_LEN)?;
    let [b' ', b' ', rest @ ..] = rest else { return None };
    let len = first_of(separator, rest)?;
    match rest[..=len] {
        [.., b'\r', _] | [_] => None,
        [.., end] if end != separator => None,
        _ => Some((Sha256::from_hex(digits).map(Digest::from)?, Sha256::HEX_LEN + 2 + len)),
    }
}

/// Where the first `byte` or NUL is.
#[inline]
fn first_of(byte: u8, bytes: &[u8]) -> Option<usize> {
    /// In names longer than this, calling `memchr` is worth it.
    const WORDS: usize = 16;
    let wanted = u64::from_ne_bytes([byte; 8]);
    let words = bytes.as_chunks::<8>().0.iter().take(WORDS);
    for (at, word) in words.enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word) | zeros(word ^ wanted);
        if found != 0 {
            return Some(8 * at + found.trailing_zeros() as usize / 8);
        }
    }
    Some(8 * WORDS + memchr2(byte, 0, bytes.get(8 * WORDS..)?)?)
}

/// The high bit of a byte comes out set for the lowest zero byte of the word, if there is one, and
/// perhaps for higher bytes.
#[inline]
const fn zeros(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    word.wrapping_sub(LOW) & !word & HIGH
}

// The tagged formats: `SHA256 (name) = HEX` of the BSDs and `sha256sum --tag`, and
// `SHA256(name)= HEX` of OpenSSL.
//
// As in `sha256sum -c` (coreutils 9.11) both are one: a tag, a space or none, `(`, the name up to
// the *last* `)` of the line, `=` with blanks around it or not, and 64 digits to the end. One tag
// is ours alone: OpenSSL 3 calls the algorithm `SHA2-256`.

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
pub fn split_bsd(line: &[u8], at: usize) -> Option<Result<Split, Fault>> {
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
