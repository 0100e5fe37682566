//! The options of the programs, and how they become jobs.

mod archive;
pub mod command;
pub mod copy;
pub mod generations;
pub mod heal;
pub mod job_file;
mod mirror;
pub mod report;
pub mod stream;
pub mod unattended;
pub mod values;
pub mod verbosity;
pub mod verify;
