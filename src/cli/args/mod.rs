//! The options of the programs, and how they become jobs.

pub mod command;
pub mod copy;
pub mod job_file;
pub mod report;
mod size;
pub mod stream;
mod unattended;
mod values;
mod verbosity;
pub mod verify;
