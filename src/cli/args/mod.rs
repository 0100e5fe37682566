//! What may stand on the command line.

pub mod copy;
pub mod job_file;
pub mod say;
pub mod size;
pub mod stream;
pub mod unattended;
pub mod verify;
