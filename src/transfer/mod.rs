//! What happens to one file: policy, copy methods, small files.

pub mod baseline;
pub mod clone;
pub mod context;
pub mod existing;
pub mod kernel;
pub mod method;
pub mod outcome;
pub mod prepare;
pub mod retry;
pub mod small;
pub mod small_batch;
pub mod verifier;
