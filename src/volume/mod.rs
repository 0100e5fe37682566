//! The file system that a directory of an output is on: what was found out by trials, and what is asked of that.

pub mod alike;
mod limits;
pub mod output_volume;
mod times;
