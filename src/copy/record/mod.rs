//! The two lists of a run: the manifest, and the private record for later runs of this user; and what becomes of
//! earlier manifests.

pub mod beside;
pub mod chains;
mod listing;
mod media;
mod near;
mod near_file;
pub mod published;
pub mod recording;
pub mod rotation;
pub mod rows;
mod sorted;
mod stale;
