//! Digests and the algorithms that make them.
//!
//! A new algorithm is one file in [`kind`] and one line in the table of [`algorithm`].

mod algorithm;
mod c4;
pub mod chain;
mod digest;
mod hasher;
mod kind;
pub mod multibuffer;
mod running;
mod sha256;
pub mod state;
pub mod table;

pub use algorithm::{Algorithm, Algorithms};
pub use digest::{Digest, Digests};
pub use hasher::Hasher;
pub use sha256::Sha256;
