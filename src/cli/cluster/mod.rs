//! `dircopy plan`, `dircopy shard` and `dircopy finish`, from their arguments to their exit codes.

pub mod args;
pub mod finish;
mod follow;
pub mod plan;
pub mod shard;
mod status;
