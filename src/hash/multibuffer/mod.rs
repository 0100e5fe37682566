//! SHA-256 of several streams side by side on one core.
//!
//! [`streams`] takes bytes of any length and makes digests of them, [`backend`] chooses how, `x86` is the
//! compression function in the lanes of vector registers, and `x86_sha` by the SHA instructions.

mod backend;
#[cfg(target_arch = "x86_64")]
mod has;
pub mod streams;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "x86_64")]
mod x86_sha;

pub use backend::Backend;
