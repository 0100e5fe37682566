//! XXH64, without a seed, its greatest byte first as `xxhsum` writes it.

use std::hash::Hasher as _;

use twox_hash::XxHash64;

use crate::hash::kind::opaque;
use crate::hash::running::{Running, padded};

/// One that took nothing.
pub fn start() -> Box<dyn Running> {
    opaque::start(XxHash64::with_seed(0), XxHash64::write, |hasher| {
        padded(&hasher.finish().to_be_bytes())
    })
}
