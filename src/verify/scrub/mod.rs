//! A check in passes: which files come first, when that is enough, and what was verified when.

pub mod budget;
pub mod pass;
pub mod verified;
