//! `dircopy plan`, `dircopy shard`, `dircopy finish` and `dircopy manifest`, from their arguments to their exit codes.

pub mod args;
pub mod check;
pub mod finish;
mod follow;
pub mod lists;
pub mod plan;
pub mod shard;
mod status;
