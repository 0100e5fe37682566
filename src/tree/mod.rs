//! The two trees: walking the source, and deciding what becomes of an entry at the output.

pub mod anew;
mod classify;
pub mod cleanup;
pub mod dirs;
mod filter;
mod found;
pub mod hand_over;
pub mod journal;
mod label_change;
pub mod names;
pub mod overwrite;
pub mod pass;
pub mod walk;

pub use classify::{Classifier, Selection, Unclassified};
pub use cleanup::{Cleanup, Leftovers, LockShare, Patience, Protected, UnknownParts};
pub use dirs::{HeldTree, LastDir, OutputDir, OwnPaths, SourceDir};
pub use filter::{Filter, Inclusion, Pattern};
pub use found::{Batch, NameCount, SourceEntry, WalkEvent, WalkItem};
pub use hand_over::HandOver;
pub use journal::{Checkpoint, Found, Journal, NewStates, Subject, Version, leftover_patterns};
pub use label_change::{LabelBefore, LabelChange};
pub use names::{
    ChangedFiles, NameEnd, NameList, sorter::JoinReader, sorter::PathRecord, sorter::RecordOrder,
    sorter::RecordReader, sorter::SortedRecords, sorter::Sorter, sorter::by_bytes, sorter::by_path,
    sorter::by_words, walk::PlannedStat, walk::Ways,
};
pub use overwrite::{Decision, DestinationStat, Policy, SourceStat};
pub use pass::{EntryBelow, PassDir, Step, TreePass};
pub use walk::Walk;
