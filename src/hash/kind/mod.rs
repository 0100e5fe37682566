//! The algorithms besides SHA-256, each by a crate that does it.

pub mod blake3;
pub mod crc32;
pub mod md5;
mod opaque;
mod rust_crypto;
pub mod sha1;
pub mod sha224;
pub mod sha384;
pub mod sha512;
pub mod xxh128;
pub mod xxh3;
pub mod xxh64;
