//! Receipts: parts of what a run writes as JSON, and reading it again.

pub mod bounded;
pub mod read;
pub mod sample_lines;
pub mod spool;
pub mod volume;
