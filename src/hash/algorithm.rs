//! The table of algorithms: one line for each, and which of several a run proves with.

use std::{collections::HashMap, collections::HashSet, hash::BuildHasherDefault, hash::Hasher};

use serde::{Deserialize, Serialize};
use sha2::{Digest, digest::common::hazmat::SerializableState};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

use crate::{hash::digest, hash::digest::MOST_LEN, hash::digest::Running, hash::digest::padded};

/// An algorithm that is computed over every byte that is copied.
///
/// In this order: of several, a run proves with the first. No program can make another content for a digest of the
/// first four; of those SHA-256 comes first, because it is what runs prove with where nothing else is
/// asked for, and files go through it several at a time and in links. SHA-1 and MD5 find every accident, and XXH
/// nearly every one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
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

/// The table's row for an algorithm.
pub struct Spec {
    pub algorithm: Algorithm,
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// The name in a sentence.
    pub shown: &'static str,
    /// The word before the name in a tagged line.
    pub tag: &'static str,
    /// The ending of the list's name, behind a point; that of the program that checks it, where there is one.
    pub suffix: &'static str,
    /// Length of a digest in bytes.
    pub len: usize,
    /// True if the text of a digest is that of C4, not hexadecimal.
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
    spec(Algorithm::Blake3, ["blake3", "BLAKE3", "BLAKE3", "b3sum"], 32, Some(start_blake3), None),
    spec(Algorithm::Sha1, ["sha1", "SHA-1", "SHA1", "sha1sum"], 20, Some(Sha1::start), Some(Sha1::go_on)),
    spec(Algorithm::Md5, ["md5", "MD5", "MD5", "md5sum"], 16, Some(Md5::start), Some(Md5::go_on)),
    spec(Algorithm::Xxh128, ["xxh128", "XXH128", "XXH128", "xxh128sum"], 16, Some(start_xxh128), None),
    spec(Algorithm::Xxh3, ["xxh3", "XXH3", "XXH3", "xxh3sum"], 8, Some(start_xxh3), None),
    spec(Algorithm::Xxh64, ["xxh64", "XXH64", "XXH64", "xxh64sum"], 8, Some(start_xxh64), None),
    spec(Algorithm::Crc32, ["crc32", "CRC-32", "CRC32", "sfv"], 4, Some(start_crc32), None),
    spec(Algorithm::Sha224, ["sha224", "SHA-224", "SHA224", "sha224sum"], 28, Some(Sha224::start), Some(Sha224::go_on)),
    spec(Algorithm::Sha384, ["sha384", "SHA-384", "SHA384", "sha384sum"], 48, Some(Sha384::start), Some(Sha384::go_on)),
];

impl Algorithm {
    /// The table's row; nothing for no algorithm.
    pub fn spec(self) -> Option<&'static Spec> {
        TABLE.get(self as usize)
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|spec| spec.name == name).map(|spec| spec.algorithm)
    }

    /// True if a later run can go on with the digest of a part of a file.
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
        self.spec().map_or(0, |spec| if spec.is_c4 { digest::TEXT_LEN } else { 2 * spec.len })
    }

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.spec().map_or("none", |spec| spec.name)
    }

    /// The name in a sentence.
    pub fn shown(self) -> &'static str {
        self.spec().map_or("none", |spec| spec.shown)
    }

    /// The ending of the name of a list of its digests, behind a point.
    pub fn suffix(self) -> &'static str {
        self.spec().map_or("", |spec| spec.suffix)
    }

    /// True if a digest without a tag is taken for one of this algorithm.
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

    /// The algorithms that a run can compute and list, the strongest first.
    pub fn listed() -> impl Iterator<Item = Algorithm> {
        TABLE.iter().map(|spec| spec.algorithm).filter(|algorithm| *algorithm < Algorithm::Crc32)
    }

    /// The algorithms of manifests that a bag may have.
    pub fn of_bags() -> impl Iterator<Item = Algorithm> {
        let is_other = |it: &Algorithm| matches!(it, Algorithm::C4 | Algorithm::Crc32);
        TABLE.iter().map(|spec| spec.algorithm).filter(move |algorithm| !is_other(algorithm))
    }
}

/// Several algorithms, each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Algorithm>", into = "Vec<Algorithm>")]
pub struct Algorithms(u16);

impl From<Vec<Algorithm>> for Algorithms {
    fn from(algorithms: Vec<Algorithm>) -> Self {
        algorithms.into_iter().fold(Self::default(), Self::with)
    }
}

impl From<Algorithms> for Vec<Algorithm> {
    fn from(algorithms: Algorithms) -> Self {
        algorithms.iter().collect()
    }
}

impl Algorithms {
    /// The strongest first.
    pub fn iter(self) -> impl Iterator<Item = Algorithm> {
        TABLE.iter().map(|spec| spec.algorithm).filter(move |algorithm| self.has(*algorithm))
    }

    /// True if `algorithm` is among them.
    pub fn has(self, algorithm: Algorithm) -> bool {
        self.0 & (1 << algorithm as u16) != 0
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of algorithms.
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

    /// The algorithm that a run proves with: the first; none if there is none.
    pub fn proof(self) -> Algorithm {
        self.iter().next().unwrap_or(Algorithm::None)
    }
}

impl FromIterator<Algorithm> for Algorithms {
    fn from_iter<I: IntoIterator<Item = Algorithm>>(algorithms: I) -> Self {
        algorithms.into_iter().fold(Self::default(), Self::with)
    }
}

// Tables whose keys are hashes already, with keys of this run: they are not hashed once more.

/// A table by hashes.
pub type HashTable<V> = HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

/// A set of hashes.
pub type HashedSet = HashSet<u64, BuildHasherDefault<IdentityHasher>>;

/// Takes a hash as it is.
#[derive(Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Nothing else than numbers is hashed so.
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

// BLAKE3, with its crate's assembly, which takes 0.35 s for 2 GiB instead of 0.86 s (AVX-512).

/// One that took nothing.
pub fn start_blake3() -> Box<dyn Running> {
    let take = |hasher: &mut blake3::Hasher, bytes: &[u8]| _ = hasher.update(bytes);
    start_opaque(blake3::Hasher::new(), take, |hasher| padded(hasher.finalize().as_bytes()))
}

// CRC-32 of SFV lists: read to check them, and never written, because it proves so little.

/// One that took nothing.
pub fn start_crc32() -> Box<dyn Running> {
    start_opaque(crc32fast::Hasher::new(), crc32fast::Hasher::update, |hasher| {
        padded(&hasher.clone().finalize().to_be_bytes())
    })
}

// MD5 (RFC 1321): of old lists; two contents of one digest are easily made.

/// Its running digest.
pub type Md5 = Core<md5::Md5>;

// Digests of crates whose state cannot be written down.

/// A digest of one of these crates, and its own names for taking bytes and for the digest so far.
struct Opaque<H> {
    hasher: H,
    take: fn(&mut H, &[u8]),
    read: fn(&H) -> [u8; MOST_LEN],
}

/// One that took what `hasher` did.
pub fn start_opaque<H>(
    hasher: H,
    take: fn(&mut H, &[u8]),
    read: fn(&H) -> [u8; MOST_LEN],
) -> Box<dyn Running>
where
    H: Clone + Send + Sync + 'static,
{
    Box::new(Opaque { hasher, take, read })
}

impl<H> Running for Opaque<H>
where
    H: Clone + Send + Sync + 'static,
{
    fn update(&mut self, bytes: &[u8]) {
        (self.take)(&mut self.hasher, bytes);
    }

    fn digest(&self) -> [u8; MOST_LEN] {
        (self.read)(&self.hasher)
    }

    fn state(&self) -> Option<Vec<u8>> {
        None
    }

    fn another(&self) -> Box<dyn Running> {
        start_opaque(self.hasher.clone(), self.take, self.read)
    }
}

// Digests of the crates of RustCrypto, whose state can be written down.

/// A digest of one of these crates.
pub struct Core<D>(D);

impl<D> Core<D>
where
    D: Digest + SerializableState + Clone + Send + Sync + 'static,
{
    /// One that took nothing.
    pub fn start() -> Box<dyn Running> {
        Box::new(Self(D::new()))
    }

    /// One that goes on where a state was written down; `None` if the bytes are none.
    pub fn go_on(state: &[u8]) -> Option<Box<dyn Running>> {
        let state = sha2::digest::common::hazmat::SerializedState::<D>::try_from(state).ok()?;
        Some(Box::new(Self(D::deserialize(&state).ok()?)))
    }
}

impl<D> Running for Core<D>
where
    D: Digest + SerializableState + Clone + Send + Sync + 'static,
{
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn digest(&self) -> [u8; MOST_LEN] {
        padded(&self.0.clone().finalize())
    }

    fn state(&self) -> Option<Vec<u8>> {
        Some(self.0.serialize().to_vec())
    }

    fn another(&self) -> Box<dyn Running> {
        Box::new(Self(self.0.clone()))
    }
}

// SHA-1 (FIPS 180-4): of old lists; two contents of one digest can be made.

/// Its running digest.
pub type Sha1 = Core<sha1::Sha1>;

// SHA-224 (FIPS 180-4), of bags that are read.

/// Its running digest.
pub type Sha224 = Core<sha2::Sha224>;

// SHA-384 (FIPS 180-4), of bags that are read.

/// Its running digest.
pub type Sha384 = Core<sha2::Sha384>;

// SHA-512 (FIPS 180-4), which C4 is another spelling of.

/// Its running digest.
pub type Sha512 = Core<sha2::Sha512>;

// XXH3 of 128 bits, without a seed, its greatest byte first as `xxhsum` writes it.

/// One that took nothing.
pub fn start_xxh128() -> Box<dyn Running> {
    start_opaque(XxHash3_128::new(), XxHash3_128::write, |hasher| {
        padded(&hasher.finish_128().to_be_bytes())
    })
}

// XXH3 of 64 bits, without a seed, its greatest byte first as `xxhsum` writes it.

/// One that took nothing.
pub fn start_xxh3() -> Box<dyn Running> {
    start_opaque(XxHash3_64::new(), XxHash3_64::write, |hasher| {
        padded(&hasher.finish().to_be_bytes())
    })
}

// XXH64, without a seed, its greatest byte first as `xxhsum` writes it.

/// One that took nothing.
pub fn start_xxh64() -> Box<dyn Running> {
    start_opaque(XxHash64::with_seed(0), XxHash64::write, |hasher| {
        padded(&hasher.finish().to_be_bytes())
    })
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
