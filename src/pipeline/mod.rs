//! The threads of a worker, and the messages between them.

mod content;
mod further;
mod hasher;
mod message;
pub mod queue;
mod reader;
mod shared_read;
mod small_worker;
pub mod start;
#[cfg(test)]
mod tests;
mod writer;
