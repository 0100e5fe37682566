//! What is known of a file of an output before it is looked at: how sure that is, and by which digests. It is the
//! answer of the [knowledge](crate::state::Knowledge) about a path.

use crate::manifest::{LinePlace, ManifestName, OpenDigest};
use crate::{
    hash::Digest, hash::Digests, state::Origin, state::Row, state::SeenAt, state::Trace,
    sys::stat::Stat, sys::stat::Time,
};

/// The belief about a file that is at the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    Nothing,
    /// It is as a run of this user left it, and recorded it in this place.
    Untouched(Row, RowPlace),
    /// It had this digest; whether it still has is to be seen.
    Doubtful(Remembered),
}

/// The findings of an earlier run about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The digest of its content.
    pub digest: Digest,
    /// Another one, that a manifest in the open lists which is newer than the record.
    pub newer: Option<Digest>,
    /// Where the digest is from.
    pub origin: Origin,
    /// True if its modification time could not be set.
    pub late: bool,
    /// The private record's row, if it is from one.
    pub row: Option<Row>,
    /// Where that stands, if it was looked up in a record of this very output.
    pub place: Option<RowPlace>,
}

impl Belief {
    /// The change time that the copy, which is `there`, had when a run last settled it: what happened to it since, as
    /// far as a record tells that apart, does not make it younger than its source.
    pub fn made(self, there: &Stat) -> Time {
        match self {
            Self::Doubtful(Remembered { row: Some(row), .. }) => row.trace.ctime.min(there.ctime),
            Self::Doubtful(_) | Self::Untouched(..) | Self::Nothing => there.ctime,
        }
    }

    /// The row that a record has of the file, however sure it is.
    pub fn row(self) -> Option<Row> {
        match self {
            Self::Untouched(row, _) | Self::Doubtful(Remembered { row: Some(row), .. }) => {
                Some(row)
            }
            Self::Doubtful(_) | Self::Nothing => None,
        }
    }

    /// The findings of earlier runs about the file, however sure they are.
    pub fn remembered(self) -> Option<Remembered> {
        match self {
            Self::Nothing => None,
            Self::Untouched(row, _) => Some(Remembered::by_record(row, None)),
            Self::Doubtful(remembered) => Some(remembered),
        }
    }
}

impl Remembered {
    /// A row by which later runs read the file. How it stood when a list in the open was right about it is not known.
    pub fn row_in_doubt(self) -> Row {
        let Self { digest, origin, late, row, .. } = self;
        let trace = Trace::UNKNOWN;
        let (given, sure, labelled, seen, epoch) = (None, false, true, SeenAt::default(), 0);
        let fresh = Row { digest, origin, trace, given, sure, late, labelled, seen, epoch };
        row.map_or(fresh, |row| Row { sure: false, ..row })
    }

    pub fn by_record(row: Row, newer: Option<Digest>) -> Self {
        let Row { digest, origin, late, .. } = row;
        Self { digest, newer, origin, late, row: Some(row), place: None }
    }

    pub fn in_the_open(digest: Digest) -> Self {
        let (newer, row, place) = (None, None, None);
        Self { digest, newer, origin: Origin::There, late: false, row, place }
    }

    /// All that the content may be.
    pub fn digests(&self) -> impl Iterator<Item = Digest> + use<> {
        [Some(self.digest), self.newer].into_iter().flatten()
    }

    pub fn newest(&self) -> Digest {
        self.newer.unwrap_or(self.digest)
    }

    /// True if a run that held the source against a list found that it was edited to this content.
    pub fn is_edit(&self, content: Digest) -> bool {
        self.origin == Origin::Edited && self.digest == content && self.newer.is_none()
    }

    /// The epoch in which a file of this content and trace was recorded; 0 if it was none of these.
    pub fn epoch(&self, digest: Digest, trace: &Trace) -> u32 {
        let same = self.row.filter(|row| (row.digest, row.trace) == (digest, *trace));
        same.map_or(0, |row| row.epoch)
    }

    /// True if no record says that the file lacks permissions or attributes.
    pub fn is_labelled(&self) -> bool {
        self.row.is_none_or(|row| row.labelled)
    }
}

/// Where a row stands among the records that were there before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlace {
    pub record: usize,
    pub line: LinePlace,
}

/// The knowledge about a file that a run did not come upon.
#[derive(Clone, Debug)]
pub struct Unsettled {
    pub remembered: Remembered,
    /// True if it may be believed unread.
    pub trusted: bool,
    /// The further digests of the content.
    pub further: Vec<Digest>,
    /// The digest by a manifest in the open that is newer than the record.
    pub listed: Option<Digest>,
    /// The later manifest that left it out, which was told by its run.
    pub left_out_by: Option<ManifestName>,
}

impl Unsettled {
    pub fn in_the_open(digest: Digest) -> Self {
        let remembered = Remembered::in_the_open(digest);
        let (trusted, left_out_by) = (false, None);
        Self { remembered, trusted, further: Vec::new(), listed: None, left_out_by }
    }
}

/// The digest that a manifest newer than the record lists, if the row does not. One of the future may be older.
pub fn other_than(
    row: &Row,
    listed: OpenDigest,
    further: impl FnOnce() -> Vec<Digest>,
) -> Option<Digest> {
    let OpenDigest { digest, is_ahead } = listed;
    let recorded = || Digests::new(row.digest, further()).of(digest.algorithm());
    (!is_ahead && row.digest != digest && recorded() != Some(digest)).then_some(digest)
}
