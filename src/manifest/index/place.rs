//! Where lines stand in an indexed file, and where the next one may.

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePlace {
    /// Its start in the file, in bytes.
    pub offset: u64,
    /// Its bit among those of all lines.
    pub bit: usize,
}

/// Where the line of the next name is expected, if anywhere: behind the last one that was found, because names are
/// mostly asked for in the order in which they were listed. A wrong one costs a comparison and never an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NextLine(pub(super) Option<u64>);
