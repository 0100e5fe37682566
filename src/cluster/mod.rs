//! One copy by many machines: a plan that is made once, shards that any engine runs, and an end that proves that all
//! of them together are the whole.

pub mod directory;
mod end;
mod end_list;
pub mod finish;
mod linked_names;
pub mod lists;
pub mod pack;
pub mod plan;
pub mod shard;
mod shard_files;
pub mod since;
pub mod status;
mod walk_ahead;
