//! The threads of a worker, and the messages between them.

pub mod hasher;
pub mod message;
pub mod queue;
pub mod reader;
pub mod shared_read;
pub mod start;
#[cfg(test)]
mod tests;
pub mod writer;
