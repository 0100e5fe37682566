//! Digests and the algorithms that make them.
//!
//! A new algorithm is one file here and one line in the table of [`algorithm`].

pub mod algorithm;
pub mod digest;
pub mod many;
#[cfg(target_arch = "x86_64")]
mod registers;
pub mod vector;

pub use algorithm::{Algorithm, Hasher};
pub use digest::Digest;
