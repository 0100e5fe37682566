//! Tables whose keys are hashes already, with keys of this run: they are not hashed once more.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

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
