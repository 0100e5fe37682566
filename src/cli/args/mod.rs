//! What may stand on the command line.

pub mod copy;
pub mod job_file;
pub mod size;
pub mod stream;
pub mod unattended;
pub mod verbosity;
pub mod verify;
