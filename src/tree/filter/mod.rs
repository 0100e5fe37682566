//! Which entries of the source take part: `--include` and `--exclude`, with the patterns of gitignore(5).

mod glob;
mod patterns;

pub use patterns::{Filter, Inclusion, Pattern};
