//! What came of locking an output.

/// Whose an output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Ours, until the process ends.
    Held,
    /// Another run's.
    Taken,
    /// The file system has no such locks: nobody is kept out.
    Unknown,
}
