//! Digests and the algorithms that make them.
//!
//! A new algorithm is one file here and one line in the table of [`algorithm`].

mod algorithm;
pub mod chain;
mod digest;
pub mod multibuffer;
pub mod state;

pub use algorithm::{Algorithm, Hasher};
pub use digest::Digest;
