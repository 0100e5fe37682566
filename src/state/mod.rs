//! The private directory `OUTPUT/.dircopy/`: the knowledge of this user's runs about an output, which they keep there
//! for themselves.
//!
//! Manifests lie in the open, for others. A name in the open proves nothing: a file may have been copied
//! there from a source. What a later run believes therefore stands in a directory that only this user can
//! open, and speaks of this output and no other; see `docs/design/private-record.md`.

mod bag;
mod belief;
pub mod closing;
pub mod generation;
pub mod kept;
mod knowledge;
mod note;
pub mod notes;
pub mod plugs;
mod privacy;
pub mod private_dir;
#[cfg(any(test, feature = "internals"))]
pub mod probe;
mod receipts;
pub mod record;
mod refuted;
pub mod rescues;
pub mod row;
mod sizes;
mod source_mark;
pub mod user_data;

/// The link in an output of generations to the newest one.
pub const LATEST: &str = "latest";

pub use bag::{
    BagNote, BagSince, HeldLine, RecordedPayload, RemovedFile, SinceRecorded, TAGS_CHANGED,
    TAGS_UNREAD, TagLists,
};
pub use belief::{Belief, Remembered, RowPlace, Unsettled};
pub use closing::FinishedManifest;
pub use generation::{DatedName, GenerationNote, NewestGeneration, UNFINISHED};
pub use knowledge::{Knowledge, is_before};
pub use note::{Note, NoteDoubt};
pub use notes::{
    BegunTree, Departing, DepartingPiece, MovedTimes, NewRoot, NotAll, NotePlace, OpenedDir,
    OtherOutputs, OwnTrash, REFERENCE, Unlisted, set_reference_time,
};
pub use private_dir::{KeptPayload, Mark, Missing, PrivateDir, PrivatePlace, Secret};
pub use receipts::{CountedRun, KnownReceipt, LastReceipt, ReceiptPlace, ReceiptSequence};
pub use record::{LeavingFile, RecordFile, RowWriter, each_leaving, forget_leaving, keep_leaving};
pub use rescues::{Rescue, Rescues};
pub use row::{Origin, RecordedAt, Row, SeenAt, Trace};
pub use sizes::{RecordedSizes, RecordedTree};
pub use source_mark::{FileSources, Mounts, SourceMark};
