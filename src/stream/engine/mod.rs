//! By which threads and calls the bytes go from the inputs to the outputs.

pub mod common;
pub mod direct;
pub mod hashed;
pub mod tee;
