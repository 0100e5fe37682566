//! Reading and hashing one file.

pub mod block;
pub mod rate_limit;
pub mod read_back;
pub mod timing;
pub mod watched_file;
pub mod zero_runs;
