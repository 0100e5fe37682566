//! What this user's runs know of an output, and keep there for themselves: `OUTPUT/.dircopy/`.
//!
//! Manifests lie in the open, for others. A name in the open proves nothing: a file may have been copied
//! there from a source. What a later run believes therefore stands in a directory that only this user can
//! open, and speaks of this output and no other; see `docs/design/private-record.md`.

pub mod belief;
pub mod departing;
pub mod knowledge;
pub mod new_root;
pub mod opened;
pub mod other_outputs;
pub mod private_dir;
#[cfg(any(test, feature = "internals"))]
pub mod probe;
pub mod record;
pub mod recorded_at;
pub mod reference_time;
pub mod row;
pub mod source_mark;
pub mod traits_note;
