//! SHA-256 of several streams side by side on one core, in the lanes of vector registers.
//!
//! [`streams`] takes bytes of any length and makes digests of them, [`backend`] chooses the registers,
//! and `x86` is the compression function in them.

mod backend;
pub mod streams;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use backend::Backend;
