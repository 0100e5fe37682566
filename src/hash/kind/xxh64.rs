//! XXH64, without a seed, its greatest byte first as `xxhsum` writes it.

use std::hash::Hasher as _;

use crate::hash::running::{MOST_LEN, Running, padded};

struct Xxh64(twox_hash::XxHash64);

/// One that took nothing.
pub fn start() -> Box<dyn Running> {
    Box::new(Xxh64(twox_hash::XxHash64::with_seed(0)))
}

impl Running for Xxh64 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn digest(&self) -> [u8; MOST_LEN] {
        padded(&self.0.finish().to_be_bytes())
    }

    fn state(&self) -> Option<Vec<u8>> {
        None
    }

    fn another(&self) -> Box<dyn Running> {
        Box::new(Self(self.0.clone()))
    }
}
