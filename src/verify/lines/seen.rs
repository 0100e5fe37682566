//! The names a manifest has listed so far, to notice one that comes again.
//!
//! Of a name only a keyed 64-bit hash is kept, of its digest a keyed hash of 32 bits, of its line as many: 16 bytes a
//! line and the slack of a hash table, instead of the names themselves. Two names of 12 million share a hash with a
//! probability of 4 in a million, and two digests of one name with one of 1 in 4 billion. Names and digests that do
//! cannot be chosen, because the keys are drawn anew for each run.

use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;

use crate::hash::table::{HashTable, HashedSet};
use crate::hash::{Algorithm, Algorithms, Digest};
use crate::path::RelPath;

/// Makes the hashes of a run.
#[derive(Clone, Debug, Default)]
pub struct NameHasher(RandomState);

impl NameHasher {
    /// The hash of a path.
    pub fn of(&self, path: &RelPath) -> u64 {
        self.0.hash_one(path.as_bytes())
    }
}

/// The names of one manifest.
#[derive(Debug, Default)]
pub struct SeenNames {
    digests: RandomState,
    names: HashTable<[u32; 2]>,
    /// By which algorithms their digests are: of each a name has a digest of its own.
    algorithms: Algorithms,
    /// Names that were listed with no digest that can be checked.
    bare: HashedSet,
}

impl SeenNames {
    /// Notes a name's hash; the line it was on before, if it was, and whether with this digest.
    pub fn note(&mut self, name: u64, line: u64, digest_of: &Digest) -> Option<(u64, bool)> {
        let digest = self.digests.hash_one(digest_of) as u32;
        let algorithm = digest_of.algorithm();
        self.algorithms = self.algorithms.with(algorithm);
        match self.names.entry(mixed(name, algorithm)) {
            Entry::Occupied(there) => {
                let [first, listed] = *there.get();
                Some((u64::from(first), listed == digest))
            }
            Entry::Vacant(free) => {
                free.insert([u32::try_from(line).unwrap_or(u32::MAX), digest]);
                None
            }
        }
    }

    /// Notes a name's hash with all digests of a line; the line it was on before with all of them, or with another
    /// one of the same algorithm.
    pub fn note_all(
        &mut self,
        name: u64,
        line: u64,
        digests: impl Iterator<Item = Digest>,
    ) -> Option<(u64, bool)> {
        let (mut same, mut is_new) = (None, false);
        let mut other = None;
        for digest in digests {
            match self.note(name, line, &digest) {
                None => is_new = true,
                Some(before @ (_, true)) => same = Some(before),
                Some(before) => other = Some(before),
            }
        }
        other.or(same.filter(|_| !is_new))
    }

    /// Notes a name's hash that was listed with no digest that can be checked.
    pub fn note_bare(&mut self, name: u64) {
        self.bare.insert(name);
    }

    /// Whether a name with this hash was noted.
    pub fn has(&self, name: u64) -> bool {
        self.bare.contains(&name) || self.has_digest(name)
    }

    /// Whether a name with this hash was noted with a digest.
    pub fn has_digest(&self, name: u64) -> bool {
        self.algorithms.iter().any(|one| self.names.contains_key(&mixed(name, one)))
    }

    /// Whether no name was noted.
    pub fn is_empty(&self) -> bool {
        self.bare.is_empty() && self.has_no_digest()
    }

    /// Whether no name was noted with a digest.
    pub fn has_no_digest(&self) -> bool {
        self.names.is_empty()
    }
}

/// The hash of a name with a digest by this algorithm.
fn mixed(name: u64, algorithm: Algorithm) -> u64 {
    name ^ (algorithm as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_again() {
        let (key, mut seen) = (NameHasher::default(), SeenNames::default());
        let name = |name: &str| key.of(&RelPath::parse(name.as_bytes()).unwrap());
        let (one, two) = (Digest::sha256([1; 32]), Digest::sha256([2; 32]));
        assert!(seen.is_empty());
        assert_eq!(seen.note(name("a"), 1, &one), None);
        assert_eq!(seen.note(name("b"), 2, &one), None);
        assert_eq!(seen.note(name("./a"), 3, &one), Some((1, true)));
        assert_eq!(seen.note(name("a"), 4, &two), Some((1, false)));
        let last_differs = Digest::sha256(std::array::from_fn(|at| if at == 31 { 0 } else { 1 }));
        assert_eq!(seen.note(name("a"), 4, &last_differs), Some((1, false)));
        assert!(seen.has(name("b")) && !seen.has(name("c")));
        let md5 = Digest::parse(Algorithm::Md5, &[b'1'; 32]).unwrap();
        assert_eq!(seen.note(name("a"), 5, &md5), None);
        assert_eq!(seen.note(name("d"), 6, &md5), None);
        assert_eq!(seen.note(name("d"), 7, &md5), Some((6, true)));
        assert!(seen.has(name("d")));
        seen.note_bare(name("e"));
        assert!(seen.has(name("e")) && !seen.has_digest(name("e")) && seen.has_digest(name("d")));
    }
}
