//! A bad file and its copies, and what came of making it whole.

use std::cell::RefCell;
use std::path::Path;

use crate::chain::damage::Damage;
use crate::error::Error;
use crate::heal::bad::BadFile;
use crate::heal::copies::FileCopy;
use crate::heal::new_file::ClosedFile;
use crate::heal::parents::Parents;
use crate::verify::Mend;

/// Why a file was not made whole.
#[derive(Debug)]
pub enum Unmended {
    /// No tree has these places good.
    Lost(Damage),
    /// No tree has it good.
    Nowhere,
    /// Something else is in the way.
    Barrier(String),
    Failed(Error),
    /// The run is to stop.
    Stopped,
}

impl From<Error> for Unmended {
    fn from(error: Error) -> Self {
        Unmended::Failed(error)
    }
}

/// A bad file and its copies.
pub struct Case<'c> {
    pub bad: &'c BadFile,
    /// Where it is, for messages.
    pub path: &'c Path,
    /// That of its own tree first, if it is there.
    pub copies: &'c [FileCopy],
    /// The trees whose copy was told to be unreadable; that of the bad file was by the check.
    pub told: RefCell<Vec<usize>>,
}

impl<'c> Case<'c> {
    /// What the new file is begun with and looks like: the bad one, or for want of it the first good one.
    pub fn base(&self) -> Result<&'c FileCopy, Unmended> {
        self.copies.first().ok_or(Unmended::Nowhere)
    }

    /// The bad file itself, if it is there.
    pub fn own(&self) -> Option<&'c FileCopy> {
        self.copies.first().filter(|copy| copy.tree == self.bad.tree)
    }
}

/// A link that the base does not have.
pub struct TakenLink {
    pub link: u64,
    /// The number of the copy that has it.
    pub copy: usize,
}

/// How a file was filled.
#[derive(Clone, Copy)]
pub struct Filled {
    pub is_cloned: bool,
}

/// A file that is whole by now, and waits to take the place of the bad one.
pub struct ReadyFile {
    pub parents: Parents,
    pub file: ClosedFile,
    /// Whether there is a bad one.
    pub replaces: bool,
}

/// What is to be told, and what is still to be done unless this is a dry run.
pub struct Mended {
    pub mend: Mend,
    pub ready: Option<ReadyFile>,
}
