//! XXH3 of 128 bits, without a seed, its greatest byte first as `xxhsum` writes it.

use twox_hash::XxHash3_128;

use crate::hash::kind::opaque;
use crate::hash::running::{Running, padded};

/// One that took nothing.
pub fn start() -> Box<dyn Running> {
    opaque::start(XxHash3_128::new(), XxHash3_128::write, |hasher| {
        padded(&hasher.finish_128().to_be_bytes())
    })
}
