//! Digests and the algorithms that make them.
//!
//! A new algorithm is a variant and a row of the table in [`algorithm`].

mod algorithm;
pub mod chain;
mod digest;
pub mod hasher;
pub mod hex;
pub mod multibuffer;
mod sha256;

pub use algorithm::{Algorithm, Algorithms, HashTable, HashedSet};
pub use chain::{Chain, ChainHasher};
pub use digest::{Digest, Digests};
pub use hasher::Hasher;
pub use multibuffer::{Backend, streams::Stream};
pub use sha256::{ChainingState, Sha256};
