//! What happens to one file: policy, copy methods, small files.

pub mod baseline;
pub mod context;
pub mod existing;
pub mod finish;
pub mod kernel;
mod locate;
pub mod outcome;
pub mod prepare;
pub mod renamed;
pub mod retry;
pub mod rot_check;
pub mod small;
pub mod source;
pub mod unproven;
pub mod verifier;
