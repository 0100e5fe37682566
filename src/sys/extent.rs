//! What there is to say of the room that files take: the stretches of a sparse file, and how much a file
//! system holds.

/// A stretch of a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where the next data starts; what is before it is a hole.
    pub start: u64,
    /// Where that data ends.
    pub end: u64,
}

/// What a file system can still hold.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// The unit, in bytes, in which files take room.
    pub block: u64,
    /// Files, where their number is limited.
    pub files: Option<u64>,
}

/// What is in use on a file system.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// Bytes.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}
