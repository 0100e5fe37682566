//! The private record as a file: what is appended to it, what closes it, and how it is read again.

pub mod closed;
pub mod record_file;
mod sums;
