//! The small-file path: one thread reads, hashes and writes a file of at most a block before the next.

mod batch;
pub mod file;
pub mod path;
