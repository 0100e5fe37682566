//! What happens to one file: policy, copy methods, small files.

pub mod baseline;
pub mod context;
mod existing;
pub mod finish;
pub mod kernel;
pub mod labels;
pub(crate) mod late;
mod locate;
pub mod outcome;
pub mod prepare;
pub mod renamed;
pub mod retry;
pub mod rot_check;
pub mod small;
pub mod source;
pub mod verifier;
