//! The two trees: walking the source, and deciding what becomes of an entry at the output.

pub mod batch;
pub mod beside;
pub mod filter;
pub mod journal;
pub mod node;
pub mod plan;
pub mod stale;
pub mod walk;
