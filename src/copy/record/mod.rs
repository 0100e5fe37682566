//! The two lists of a run: the manifest, and the private record for later runs of this user.

pub mod chains;
mod listing;
pub mod recording;
pub mod rows;
