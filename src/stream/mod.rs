//! Streams: inputs of any kind, one after the other, to every output.
//!
//! Where a copy of a tree knows what it will read, a stream does not: standard input, a FIFO or a device
//! has no size, no name to give and no end until it comes. What holds for a tree holds all the same: bytes
//! are read and hashed once, a file has its name when it is whole and durable, a line is written after
//! that, and one output that fails costs that output.
//!
//! With a digest, one thread reads, one hashes, and one for each output writes, over bounded queues of
//! blocks that they share (`hashed`). Without, the kernel moves the bytes: to one output in one thread
//! (`direct`), to several through a pipe for each (`tee`).

pub mod endpoint;
mod engine;
mod input;
mod job;
pub mod outcome;
mod output;
mod refusal;
pub mod report;
mod run;
mod start;
#[cfg(test)]
mod tests;

pub use endpoint::Endpoint;
pub use job::StreamJob;
pub use report::StreamReport;
