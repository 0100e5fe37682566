//! The table of algorithms: one line for each, and which of several a run proves with.

use crate::hash::c4;
use crate::hash::kind::{blake3, crc32, md5::Md5, sha1::Sha1, xxh3, xxh64, xxh128};
use crate::hash::kind::{sha224::Sha224, sha384::Sha384, sha512::Sha512};
use crate::hash::running::Running;

/// What is computed over every byte that is copied.
///
/// In this order: of several, a run proves with the first. No program can make another content for a digest of the
/// first four; of those SHA-256 comes first, because it is what runs prove with where nothing else is
/// asked for, and files go through it several at a time and in links. SHA-1 and MD5 find every accident, and XXH
/// nearly every one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-256 (FIPS 180-4), what `sha256sum` checks.
    #[default]
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// SHA-512, written as a C4 identifier.
    C4,
    /// BLAKE3.
    Blake3,
    /// SHA-1.
    Sha1,
    /// MD5.
    Md5,
    /// XXH3 of 128 bits.
    Xxh128,
    /// XXH3 of 64 bits.
    Xxh3,
    /// XXH64.
    Xxh64,
    /// CRC-32, of SFV lists that are read.
    Crc32,
    /// SHA-224 (FIPS 180-4), of bags that are read.
    Sha224,
    /// SHA-384 (FIPS 180-4), of bags that are read.
    Sha384,
    /// Nothing: no digest and no manifest.
    None,
}

/// Starts a digest.
type Start = fn() -> Box<dyn Running>;

/// Goes on where a state was written down; `None` if the bytes are none.
type GoOn = fn(&[u8]) -> Option<Box<dyn Running>>;

/// What the table says of an algorithm.
pub struct Spec {
    pub algorithm: Algorithm,
    /// What it is called on the command line and in reports.
    pub name: &'static str,
    /// What it is called in a sentence.
    pub shown: &'static str,
    /// What stands before the name in a tagged line.
    pub tag: &'static str,
    /// What the name of its list ends with, behind a point; that of the program that checks it, where there is one.
    pub suffix: &'static str,
    /// Length of a digest in bytes.
    pub len: usize,
    /// Whether the text of a digest is that of C4, not hexadecimal.
    pub is_c4: bool,
    /// Starts a digest; SHA-256 has its own ways.
    pub start: Option<Start>,
    /// Goes on where a state was written down, for those whose state can be.
    pub go_on: Option<GoOn>,
}

const fn spec(
    algorithm: Algorithm,
    [name, shown, tag, suffix]: [&'static str; 4],
    len: usize,
    start: Option<Start>,
    go_on: Option<GoOn>,
) -> Spec {
    let is_c4 = matches!(algorithm, Algorithm::C4);
    Spec { algorithm, name, shown, tag, suffix, len, is_c4, start, go_on }
}

/// Every algorithm but none, in the order of [`Algorithm`].
#[rustfmt::skip]
pub static TABLE: [Spec; 12] = [
    spec(Algorithm::Sha256, ["sha256", "SHA-256", "SHA256", "sha256sum"], 32, None, None),
    spec(Algorithm::Sha512, ["sha512", "SHA-512", "SHA512", "sha512sum"], 64, Some(Sha512::start), Some(Sha512::go_on)),
    spec(Algorithm::C4, ["c4", "C4", "C4", "c4"], 64, Some(Sha512::start), Some(Sha512::go_on)),
    spec(Algorithm::Blake3, ["blake3", "BLAKE3", "BLAKE3", "b3sum"], 32, Some(blake3::start), None),
    spec(Algorithm::Sha1, ["sha1", "SHA-1", "SHA1", "sha1sum"], 20, Some(Sha1::start), Some(Sha1::go_on)),
    spec(Algorithm::Md5, ["md5", "MD5", "MD5", "md5sum"], 16, Some(Md5::start), Some(Md5::go_on)),
    spec(Algorithm::Xxh128, ["xxh128", "XXH128", "XXH128", "xxh128sum"], 16, Some(xxh128::start), None),
    spec(Algorithm::Xxh3, ["xxh3", "XXH3", "XXH3", "xxh3sum"], 8, Some(xxh3::start), None),
    spec(Algorithm::Xxh64, ["xxh64", "XXH64", "XXH64", "xxh64sum"], 8, Some(xxh64::start), None),
    spec(Algorithm::Crc32, ["crc32", "CRC-32", "CRC32", "sfv"], 4, Some(crc32::start), None),
    spec(Algorithm::Sha224, ["sha224", "SHA-224", "SHA224", "sha224sum"], 28, Some(Sha224::start), Some(Sha224::go_on)),
    spec(Algorithm::Sha384, ["sha384", "SHA-384", "SHA384", "sha384sum"], 48, Some(Sha384::start), Some(Sha384::go_on)),
];

impl Algorithm {
    /// What the table says of it; nothing of none.
    pub fn spec(self) -> Option<&'static Spec> {
        TABLE.get(self as usize)
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|spec| spec.name == name).map(|spec| spec.algorithm)
    }

    /// Whether a digest can be gone on with by a later run.
    pub fn can_go_on(self) -> bool {
        let spec = self.spec();
        self == Algorithm::Sha256 || spec.is_some_and(|spec| spec.go_on.is_some())
    }

    /// Length of a digest in bytes; 0 of none.
    #[expect(clippy::len_without_is_empty, reason = "it is no collection")]
    pub fn len(self) -> usize {
        self.spec().map_or(0, |spec| spec.len)
    }

    /// Length of a digest's text.
    pub fn text_len(self) -> usize {
        self.spec().map_or(0, |spec| if spec.is_c4 { c4::TEXT_LEN } else { 2 * spec.len })
    }

    /// What it is called on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.spec().map_or("none", |spec| spec.name)
    }

    /// What it is called in a sentence.
    pub fn shown(self) -> &'static str {
        self.spec().map_or("none", |spec| spec.shown)
    }

    /// What the name of a list of its digests ends with, behind a point.
    pub fn suffix(self) -> &'static str {
        self.spec().map_or("", |spec| spec.suffix)
    }

    /// Whether a digest without a tag is taken for one of this algorithm.
    pub fn is_known_by_length(self) -> bool {
        !matches!(self, Algorithm::Blake3 | Algorithm::Xxh128 | Algorithm::Xxh3)
    }

    /// The other algorithm whose digests are as long, and look alike.
    pub fn alike(self) -> Option<Self> {
        match self {
            Algorithm::Sha256 => Some(Algorithm::Blake3),
            Algorithm::Md5 => Some(Algorithm::Xxh128),
            Algorithm::Xxh64 => Some(Algorithm::Xxh3),
            _ => None,
        }
    }

    /// Those that a run can compute and list, the strongest first.
    pub fn listed() -> impl Iterator<Item = Algorithm> {
        TABLE.iter().map(|spec| spec.algorithm).filter(|algorithm| *algorithm < Algorithm::Crc32)
    }

    /// Those that manifests of bags may be of.
    pub fn of_bags() -> impl Iterator<Item = Algorithm> {
        let is_other = |it: &Algorithm| matches!(it, Algorithm::C4 | Algorithm::Crc32);
        TABLE.iter().map(|spec| spec.algorithm).filter(move |algorithm| !is_other(algorithm))
    }
}

/// Several algorithms, each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Algorithms(u16);

impl Algorithms {
    /// The strongest first.
    pub fn iter(self) -> impl Iterator<Item = Algorithm> {
        TABLE.iter().map(|spec| spec.algorithm).filter(move |algorithm| self.has(*algorithm))
    }

    /// Whether it is among them.
    pub fn has(self, algorithm: Algorithm) -> bool {
        self.0 & (1 << algorithm as u16) != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// These and one more; none is no algorithm.
    #[must_use]
    pub fn with(self, algorithm: Algorithm) -> Self {
        if algorithm == Algorithm::None { self } else { Self(self.0 | 1 << algorithm as u16) }
    }

    /// These and others.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These but one.
    #[must_use]
    pub fn without(self, algorithm: Algorithm) -> Self {
        Self(self.0 & !(1 << algorithm as u16))
    }

    /// What a run proves with: the first; none if there is none.
    pub fn proof(self) -> Algorithm {
        self.iter().next().unwrap_or(Algorithm::None)
    }
}

impl FromIterator<Algorithm> for Algorithms {
    fn from_iter<I: IntoIterator<Item = Algorithm>>(algorithms: I) -> Self {
        algorithms.into_iter().fold(Self::default(), Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_algorithms() {
        for (at, spec) in TABLE.iter().enumerate() {
            assert_eq!(spec.algorithm as usize, at);
            assert_eq!(spec.algorithm.spec().map(|spec| spec.name), Some(spec.name));
        }
        assert!(Algorithm::None.spec().is_none());
    }

    #[test]
    fn the_strongest_proves() {
        let some: Algorithms =
            [Algorithm::Md5, Algorithm::Xxh64, Algorithm::Sha1].into_iter().collect();
        assert_eq!((some.proof(), some.len()), (Algorithm::Sha1, 3));
        assert_eq!(some.without(Algorithm::Sha1).proof(), Algorithm::Md5);
        assert_eq!(Algorithms::default().with(Algorithm::None).proof(), Algorithm::None);
    }
}
