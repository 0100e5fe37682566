//! What is wrong with a line that is not a record.

use std::fmt;

use crate::hash::{Algorithm, Sha256};
use crate::manifest::other_name::OtherName;

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
        /// How many there are.
        found: usize,
    },
    /// A digest of a known algorithm that is not as long as those are.
    OtherLength {
        /// The algorithm.
        algorithm: Algorithm,
        /// How many characters there are.
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
        /// How many columns the table has.
        expected: usize,
    },
    /// The file is UTF-16 text, so no line of it can be read.
    Utf16,
    /// What is wrong with a list that has a form of its own, in words.
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

#[cfg(test)]
mod tests {
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
