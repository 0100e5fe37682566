//! What a line of a manifest says, and where in the line it says it.

use std::ops::Range;

use crate::hash::Digest;

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

/// How lines without a tag part digest and name; all lines of one file do it alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// By a blank and one of ` ` and `*`: what `sha256sum` writes.
    Standard,
    /// By a single blank: "BSD reversed", what `sha256 -r` writes.
    Reversed,
}
