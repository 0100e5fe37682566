//! What became of an entry, on its way from a lane to the committer.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::io::read_back::HashedFrom;
use crate::part::method::Method;
use crate::part::part_file::{Complete, PartName};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::found::WalkItem;

/// What goes to the committer.
#[derive(Debug)]
pub enum Message {
    /// From a lane.
    Outcomes(Vec<Outcome>),
    /// From a lane, of a large file that is on its way.
    Warning(Error),
    /// From the walk: everything that is not for the lanes.
    Walked(WalkItem),
}

/// A file and what became of it.
#[derive(Debug)]
pub struct Outcome {
    /// Where it comes from.
    pub source: Arc<SourceDir>,
    /// Where it was to go.
    pub output: Arc<OutputDir>,
    /// The file.
    pub entry: SourceEntry,
    /// What became of it.
    pub fate: Fate,
    /// What could not be done about it although it was copied.
    pub warnings: Vec<Error>,
    /// So many of its bytes were not read, because a run that was killed had copied them.
    pub resumed: u64,
}

/// A finished part file that waits for its final name.
#[derive(Debug)]
pub struct Waiting {
    /// Where it is copied from once more should that be needed; `None` if it is not to be proven.
    pub source: Option<Arc<SourceDir>>,
    /// Where it is.
    pub output: Arc<OutputDir>,
    /// The file it is the copy of.
    pub entry: SourceEntry,
    /// Its name meanwhile.
    pub part: PartName,
    /// The digest of all that was read and written.
    pub digest: Option<Digest>,
    /// Whether something at the output gives way for it.
    pub replaces: bool,
    /// How its content came.
    pub method: Method,
}

/// What became of a file.
#[derive(Debug)]
pub enum Fate {
    /// Complete in a part file, which waits for its final name.
    Written {
        /// The part file's name, in the same directory.
        part: PartName,
        /// The digest of all that was read and written.
        digest: Option<Digest>,
        /// Whether something at the output gives way for it.
        replaces: bool,
        /// How its content came.
        method: Method,
    },
    /// Complete under its final name.
    Published {
        /// The digest of all that was read and written.
        digest: Option<Digest>,
        /// Whether something at the output gave way for it.
        replaced: bool,
        /// How its content came.
        method: Method,
    },
    /// It was there already.
    Kept {
        /// The digest of what is there.
        digest: Option<Digest>,
        /// Where it came from, if it was to be read back and found right.
        proof: Option<HashedFrom>,
    },
    /// The source's file is not what is expected of it, although nothing says that it was edited. It was
    /// not copied.
    Rotten {
        /// What is wrong with it.
        error: Error,
        /// The digest of what is at the output in its place, and stays, if that is known.
        stands: Option<Digest>,
    },
    /// Something else is there and stays, for this reason.
    Left(&'static str),
    /// It is not at the output.
    Failed(Error),
    /// The run was told to stop before it was done; nothing of it is left.
    Abandoned,
}

impl Fate {
    /// Of a part file that was to be completed: `digest` is of its content, and `replaces` says whether
    /// something at the output gives way for it.
    pub fn of_part(completed: Result<Complete>, digest: Option<Digest>, replaces: bool) -> Self {
        match completed {
            Ok(Complete { part: Some(part), method }) => {
                Fate::Written { part, digest, replaces, method }
            }
            Ok(Complete { part: None, method }) => {
                Fate::Published { digest, replaced: replaces, method }
            }
            Err(error) => Fate::Failed(error),
        }
    }
}
