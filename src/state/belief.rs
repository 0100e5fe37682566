//! What is known of a file of an output before it is looked at: how sure that is, and by which digests.

use crate::hash::{Digest, Digests};
use crate::manifest::carry::OpenDigest;
use crate::manifest::index::LinePlace;
use crate::state::row::{Origin, Row};

/// What is known of a file that is at the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    Nothing,
    /// It is as a run of this user left it, and recorded it in this place.
    Untouched(Row, RowPlace),
    /// It had this digest; whether it still has is to be seen.
    Doubtful(Remembered),
}

/// What an earlier run found out about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The digest of its content.
    pub digest: Digest,
    /// Another one, that a manifest in the open lists which is newer than the record.
    pub newer: Option<Digest>,
    /// Where the digest is from.
    pub origin: Origin,
    /// Whether its modification time could not be set.
    pub late: bool,
    /// What a private record says besides, if it is from one.
    pub row: Option<Row>,
    /// Where that stands, if it was looked up in a record of this very output.
    pub place: Option<RowPlace>,
}

impl Belief {
    /// What earlier runs found out about the file, however sure it is.
    pub fn remembered(self) -> Option<Remembered> {
        match self {
            Self::Nothing => None,
            Self::Untouched(row, _) => Some(Remembered::by_record(row, None)),
            Self::Doubtful(remembered) => Some(remembered),
        }
    }
}

impl Remembered {
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

    /// Whether a run that held the source against a list found that it was edited to this content.
    pub fn is_edit(&self, content: Digest) -> bool {
        self.origin == Origin::Edited && self.digest == content && self.newer.is_none()
    }

    /// Whether no record says that the file lacks permissions or attributes.
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

/// What is known of a file that a run did not come upon.
#[derive(Clone, Debug)]
pub struct Unsettled {
    pub remembered: Remembered,
    /// Whether it may be believed unread.
    pub trusted: bool,
    /// The further digests of the content.
    pub further: Vec<Digest>,
    /// What a manifest in the open lists that is newer than the record.
    pub listed: Option<Digest>,
    /// Whether a later manifest left it out, and that was told by its run.
    pub was_left_out: bool,
}

impl Unsettled {
    pub fn in_the_open(digest: Digest) -> Self {
        let remembered = Remembered::in_the_open(digest);
        let (trusted, was_left_out) = (false, false);
        Self { remembered, trusted, further: Vec::new(), listed: None, was_left_out }
    }
}

/// The digest that a manifest newer than the record lists, if the row has another or does not tell. One of the future
/// may be older than the record.
pub fn other_than(
    row: &Row,
    listed: OpenDigest,
    further: impl FnOnce() -> Vec<Digest>,
) -> Option<Digest> {
    let OpenDigest { digest, is_ahead } = listed;
    let recorded = || Digests::new(row.digest, further()).of(digest.algorithm());
    (!is_ahead && row.digest != digest && recorded() != Some(digest)).then_some(digest)
}
