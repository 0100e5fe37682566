//! What of a file is in memory.

/// What of a file that was read or written is in memory because of that; nothing of nothing where it
/// was not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes in memory that were not there before and are on the device.
    pub bytes: u64,
    /// The size of the file; bytes.
    pub of: u64,
}
