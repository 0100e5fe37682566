//! What is to be done about a file, what became of it, and how that reaches the committer.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::error::Error;
use crate::hash::Digest;
use crate::io::read_back::HashedFrom;
use crate::part::method::Method;
use crate::part::part_file::{self, PartName};
use crate::part::transfer::{CopyTarget, Transfer};
use crate::state::belief::RowPlace;
use crate::state::row::{Origin, Row};
use crate::sys::stat::{Inode, Stat};
use crate::transfer::existing::labels::Labels;
use crate::tree::dirs::SourceDir;
use crate::tree::found::WalkItem;

/// What is to be done about a file.
pub enum Action {
    Copy {
        /// Whether something at the output gives way for it.
        replaces: bool,
        /// What is to be told of that.
        warning: Option<Error>,
    },
    /// Nothing: this became of it.
    Settled(Outcome),
}

/// What the private record is to say of a file that is kept.
#[derive(Clone, Copy, Debug)]
pub enum KeptRow {
    /// What it says already, in this place.
    Recorded(Row, RowPlace),
    /// This, of which it knows nothing or something else.
    New(Row),
}

impl KeptRow {
    /// What it is to say.
    pub fn row(&self) -> &Row {
        match self {
            KeptRow::Recorded(row, _) | KeptRow::New(row) => row,
        }
    }
}

/// What became of a file.
#[derive(Debug)]
pub enum Outcome {
    /// Complete in a part file, which waits for its final name.
    Written(WrittenPart),
    /// Complete under its final name.
    Published {
        /// The digest of all that was read and written.
        digest: Option<Digest>,
        /// How its content came.
        method: Method,
        /// As what it stands there, if that is to be known.
        stands: Option<Inode>,
    },
    /// It was there already.
    Kept {
        /// As what it stands there.
        stands: Stat,
        /// What the record is to say of it, if its digest is known.
        row: Option<KeptRow>,
        /// Where the content came from, if it was to be read back and found right.
        proof: Option<HashedFrom>,
        /// What came of comparing its permissions, owner and attributes.
        labels: Labels,
    },
    /// The source's file is not what is expected of it, although nothing says that it was edited. It was
    /// not copied.
    Rotten {
        /// What is wrong with it.
        error: Error,
        /// The digest of what is at the output in its place, and stays, and as what it stands, if that is known.
        stands: Option<(Digest, Stat)>,
        /// Where that digest is from.
        origin: Origin,
    },
    /// Something else is there and stays, for this reason.
    Left(&'static str),
    /// It is not at the output.
    Failed(Error),
    /// The run was told to stop before it was done; nothing of it is left.
    Abandoned,
    /// … and so many bytes of its beginning are left to the next run, durable and noted.
    Suspended(u64),
}

/// A part file that is complete.
#[derive(Debug)]
pub struct WrittenPart {
    /// Its name, in the directory where the copy is to stand.
    pub part: PartName,
    /// The file, as it was closed.
    pub made: Inode,
    /// The digest of all that was read and written.
    pub digest: Option<Digest>,
    /// How its content came.
    pub method: Method,
}

/// A file and what became of it.
#[derive(Debug)]
pub struct TransferResult {
    pub transfer: Transfer,
    /// What became of it.
    pub outcome: Outcome,
    /// What could not be done about it although it was copied.
    pub warnings: Vec<Error>,
    /// So many of its bytes were not read, because a run that was killed had copied them.
    pub resumed: u64,
}

impl TransferResult {
    /// Whether nothing is known to be missing of its permissions, owner and attributes that another attempt may bring.
    /// What the output does not have or allow would only be tried in vain at each run.
    pub fn is_labelled(&self) -> bool {
        let was_labelled = match &self.outcome {
            Outcome::Kept { row: Some(row), .. } => row.row().labelled,
            _ => true,
        };
        let is_in_vain = |error: &Error| {
            matches!(error.kind(), Some(ErrorKind::Unsupported | ErrorKind::PermissionDenied))
        };
        let mut labels = self.warnings.iter().filter(|warning| warning.is_about_attributes());
        was_labelled && labels.all(is_in_vain)
    }
}

/// A complete part file that waits for its final name.
#[derive(Debug)]
pub struct PendingPublish {
    /// Where it is copied from once more should that be needed; `None` if it is not to be read back.
    pub source: Option<Arc<SourceDir>>,
    /// Where it is to stand.
    pub target: CopyTarget,
    /// Where it is until then.
    pub written: WrittenPart,
}

impl PendingPublish {
    /// Removes the part file because of `error`, which is returned, with a word if even that fails.
    pub fn discard(&self, error: Error) -> Error {
        part_file::discard(&self.target.output, &self.written.part, error)
    }
}

/// What goes to the committer.
#[derive(Debug)]
pub enum CommitterMessage {
    Results(Vec<TransferResult>),
    /// From a worker, of a large file that is on its way.
    Warning(Error),
    /// From the walk: everything that is not for the workers.
    Walked(WalkItem),
}
