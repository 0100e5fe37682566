//! The options of the programs, and how they become jobs.

pub mod command;
pub mod copy;
pub mod job_file;
pub mod size;
pub mod stream;
pub mod unattended;
pub mod values;
pub mod verbosity;
pub mod verify;
