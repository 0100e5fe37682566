//! One read of the source for several outputs.

pub mod chunk;
pub mod hub;
mod ledger;
pub mod origin;
pub mod output_set;
mod shared_file;
pub mod slot;
pub mod subscription;
