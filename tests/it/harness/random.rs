//! Randomness that can be had again: what a failed test did, it does again with the same seed.

/// A generator after Marsaglia's xorshift64; good enough to pick moments, and three lines long.
pub struct Random(u64);

impl Random {
    /// Seeded by `DIRCOPY_TEST_SEED`, or by `salt` alone, so that every run of the tests is the same.
    pub fn new(salt: u64) -> Self {
        let seed = std::env::var("DIRCOPY_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        Self((seed.unwrap_or(0) ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end
    }
}
