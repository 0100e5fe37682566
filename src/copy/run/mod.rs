//! The threads of a run.

pub mod feed;
pub mod outputs;
pub mod pool;
pub mod workers;
