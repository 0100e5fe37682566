//! The directory of a plan: what is in it, and how it is read without believing it.

pub mod attempt;
pub mod departed;
pub mod done;
pub mod plan_dir;
pub mod token;
