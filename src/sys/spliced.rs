//! What came of moving bytes through a pipe without waiting.

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spliced {
    /// So many bytes were moved; 0 at the end of what is read.
    Bytes(u64),
    /// None were: there is nothing to be read, or no room. A tenth of a second at most went by waiting.
    Wait,
    /// The kernel cannot do that with these two; nothing was moved. They are to be read and written.
    NotHere,
}
