//! What a run notes of a large file while it copies it, so that a later run can go on.

mod journal_file;
pub mod noted_states;

pub use journal_file::{Checkpoint, Found, Journal, Subject, Version, is_name_by, name_of};
