//! A check that several machines share: each leaves a result of its shard, and merging proves that all of them together
//! are the whole.

mod merge;
pub mod notes;
mod result;
pub mod run;

pub use merge::MergeJob;
