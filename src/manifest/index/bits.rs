//! One bit for each line of an index, set by many threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A fixed number of bits, none of them set at first.
#[derive(Debug, Default)]
pub struct Bits(Vec<AtomicU64>);

impl Bits {
    /// So many bits.
    pub fn new(count: usize) -> Self {
        Self((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets a bit; whether it was not set before.
    pub fn set(&self, at: usize) -> bool {
        let bit = 1 << (at % 64);
        self.0.get(at / 64).is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Takes a bit back.
    pub fn clear(&self, at: usize) {
        if let Some(word) = self.0.get(at / 64) {
            word.fetch_and(!(1 << (at % 64)), Ordering::Relaxed);
        }
    }

    /// Whether a bit is set.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (at % 64) != 0)
    }

    /// How many are set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// How many bytes of memory they take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<AtomicU64>()
    }
}
