//! dircopy copies a directory tree in one pass and leaves a proven copy and a manifest.

pub mod error;
pub mod hash;
pub mod manifest;
pub mod path;
