//! Reading and hashing one file.

pub mod block;
pub mod control;
pub mod further;
pub mod hash_thread;
pub mod link_check;
pub mod manifest_proof;
pub mod options;
pub mod rate_limit;
pub mod read_back;
pub mod resident;
pub mod watched_file;
pub mod zero_runs;
