//! The small-file path: one thread reads, hashes and writes a file of at most a block before the next.

pub mod batch;
pub mod file;
pub mod path;
mod seen;
