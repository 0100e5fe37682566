//! What a stream leaves: files that are whole, their places and their manifest.

pub mod atomic_file;
pub mod manifest;
pub mod open;
pub mod place;
pub mod places;
pub mod states;
