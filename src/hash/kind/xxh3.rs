//! XXH3 of 64 bits, without a seed, its greatest byte first as `xxhsum` writes it.

use std::hash::Hasher as _;

use twox_hash::XxHash3_64;

use crate::hash::kind::opaque;
use crate::hash::running::{Running, padded};

/// One that took nothing.
pub fn start() -> Box<dyn Running> {
    opaque::start(XxHash3_64::new(), XxHash3_64::write, |hasher| {
        padded(&hasher.finish().to_be_bytes())
    })
}
