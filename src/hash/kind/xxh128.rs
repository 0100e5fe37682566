//! XXH3 of 128 bits, without a seed, its greatest byte first as `xxhsum` writes it.

use crate::hash::running::{MOST_LEN, Running, padded};

struct Xxh128(twox_hash::XxHash3_128);

/// One that took nothing.
pub fn start() -> Box<dyn Running> {
    Box::new(Xxh128(twox_hash::XxHash3_128::new()))
}

impl Running for Xxh128 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn digest(&self) -> [u8; MOST_LEN] {
        padded(&self.0.finish_128().to_be_bytes())
    }

    fn state(&self) -> Option<Vec<u8>> {
        None
    }

    fn another(&self) -> Box<dyn Running> {
        Box::new(Self(self.0.clone()))
    }
}
