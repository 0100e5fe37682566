//! What happened to the source since a plan was made.

pub mod rewalk;
