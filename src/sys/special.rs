//! FIFOs, sockets and devices, which are copied as what they are: none is ever opened. Only Linux has calls for that
//! which no other entry that takes their name is meant by.

/// What such an entry is besides its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// The kind, as the system has it.
    pub(super) format: u32,
    /// Of a device: which.
    pub(super) device: u64,
}
