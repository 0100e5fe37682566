//! The lanes: where bytes are read, hashed and written.
//!
//! A lane is a reader thread, a hasher thread and a writer thread joined by bounded channels of
//! blocks, started once and used for many files. A file stays in one lane, so its blocks never
//! reorder; the digest reaches the writer in the message that closes the file, so that a file that
//! was not completely read, hashed and written cannot have one. Small files take the inline gear:
//! the reader thread alone reads, hashes and writes them, because handing 4 KiB from thread to
//! thread costs 25 times as much as copying them. A lane for small files alone is nothing but such a
//! reader.

pub mod block;
mod checkpoint;
pub mod clock;
pub mod context;
pub mod outcome;
pub mod start;
pub mod ways;

mod again;
pub mod arrange;
mod clone;
pub mod expect;
mod finished;
mod handful;
mod hasher;
mod inline;
mod kept;
mod kernel;
mod large;
pub mod lock;
pub mod part;
mod part_name;
mod piece;
pub mod prove;
pub mod rate;
pub mod read_back;
mod reader;
pub mod reading;
pub mod resume;
pub mod sharing;
mod source;
mod stretch;
mod taking;
pub mod tasks;
mod together;
pub mod window;
mod writer;

#[cfg(test)]
mod tests;
