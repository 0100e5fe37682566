//! What an index keeps of a line: 12 bytes.
//!
//! Of the hash 48 bits are kept: among a hundred million lines some twenty pairs of names are then
//! expected to have the same, and each such pair costs one line read in vain.

use std::hash::{BuildHasher, RandomState};

/// The keyed hash of names.
#[derive(Debug)]
pub struct Hashing {
    key: RandomState,
    mask: u64,
}

impl Hashing {
    /// A hash with a new random key, of the bits in `mask`.
    pub fn new(mask: u64) -> Self {
        Self { key: RandomState::new(), mask }
    }

    /// The hash of a name.
    pub fn hash(&self, name: &[u8]) -> u64 {
        self.key.hash_one(name) & self.mask
    }
}

/// A line in the index: 48 bits of hash, then 48 bits of offset, the most significant first, so
/// that the derived order is that of hash, then offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot([u32; 3]);

impl Slot {
    /// The bits of a hash that there is room for.
    pub const HASH_MASK: u64 = (1 << 48) - 1;
    /// The bits of an offset that there is room for.
    pub const OFFSET_MASK: u64 = (1 << 48) - 1;

    /// The slot of a line; of both numbers only the bits there is room for.
    pub fn new(hash: u64, offset: u64) -> Self {
        let middle = (hash & 0xffff) << 16 | (offset & Self::OFFSET_MASK) >> 32;
        Self([(hash >> 16) as u32, middle as u32, offset as u32])
    }

    /// The hash of the name.
    pub fn hash(self) -> u64 {
        u64::from(self.0[0]) << 16 | u64::from(self.0[1] >> 16)
    }

    /// Where the line starts, in bytes.
    pub fn offset(self) -> u64 {
        u64::from(self.0[1] & 0xffff) << 32 | u64::from(self.0[2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_what_they_are_given_and_sort_by_it() {
        let values = [0, 1, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_0000_0000, (1 << 48) - 1];
        let mut slots = Vec::new();
        for hash in values {
            for offset in values {
                let slot = Slot::new(hash, offset);
                assert_eq!((slot.hash(), slot.offset()), (hash, offset));
                slots.push(slot);
            }
        }
        assert!(slots.is_sorted());
        assert_eq!(size_of::<Slot>(), 12);
    }
}
