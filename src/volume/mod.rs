//! The file system that a directory of an output is on: what was found out by trials, and what is asked of that.

pub mod alike;
pub mod counterpart;
mod limits;
pub mod name_set;
pub mod other_spellings;
pub mod output_volume;
pub mod times;
