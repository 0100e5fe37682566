//! Where a record has a row, in eight bytes: of files that may have been renamed there can be many.

/// Where a record of this very output has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedAt(u64);

impl RecordedAt {
    /// The number of the record stands above the offset, which has no more than these bits.
    const OFFSET: u64 = (1 << 48) - 1;

    /// That of the row at `offset` of the record with this number; `None` if either is too large.
    pub fn new(record: usize, offset: u64) -> Option<Self> {
        let record = u16::try_from(record).ok().filter(|_| offset <= Self::OFFSET)?;
        Some(Self(u64::from(record) << 48 | offset))
    }

    /// The number of the record.
    pub fn record(self) -> usize {
        (self.0 >> 48) as usize
    }

    /// Where the row starts in it, in bytes.
    pub fn offset(self) -> u64 {
        self.0 & Self::OFFSET
    }
}
