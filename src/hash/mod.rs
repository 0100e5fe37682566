//! Digests and the algorithms that make them.
//!
//! A new algorithm is a variant and a row of the table in [`algorithm`].

mod algorithm;
pub mod chain;
mod digest;
pub mod hasher;
pub mod hex;
pub mod multibuffer;

pub use algorithm::{Algorithm, Algorithms, HashTable, HashedSet};
pub use chain::{Chain, ChainHasher};
pub use digest::{ChainingState, Digest, Digests, Sha256};
pub use hasher::{Hashed, Hasher};
pub use multibuffer::{Backend, streams::Stream};
