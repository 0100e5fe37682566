//! How the content of a file came to the output.

use serde::Serialize;

/// How the content of a file came to the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Its data is shared with the source.
    Clone,
    /// Its data is shared with a file at the output that had another name at the source before.
    Renamed,
    /// By the kernel, with `copy_file_range`.
    Range,
    /// By the kernel, with `sendfile`.
    Send,
    /// Read and written.
    #[default]
    ReadWrite,
}

impl Method {
    /// All of them, in the order of `as usize`.
    pub const ALL: [Self; 5] =
        [Self::Clone, Self::Renamed, Self::Range, Self::Send, Self::ReadWrite];
}

/// How many files came by a method, and how many bytes they have, holes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Files whose content moved that way.
    pub files: u64,
    /// The bytes of those files.
    pub bytes: u64,
}
