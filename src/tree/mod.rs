//! The two trees: walking the source, and deciding what becomes of an entry at the output.

pub mod below;
pub mod classify;
pub mod cleanup;
pub mod dirs;
pub mod filter;
pub mod found;
pub mod hand_over;
pub mod journal;
pub mod last_dir;
pub mod lock;
pub mod name_count;
pub mod names;
mod output_entry;
pub mod overwrite;
mod parallel_stat;
pub mod walk;
pub mod way;
