//! What every thread of a run shares.

use crate::event::{Progress, Stop};
use crate::fanout::hub::Place;
use crate::hash::Algorithm;
use crate::hash::multibuffer::Backend;
use crate::io::rate_limit::Rate;
use crate::io::timing::Clocks;
use crate::manifest::carry::Carry;
use crate::part::resume::Journaling;
use crate::transfer::baseline::Expected;
use crate::transfer::method::Ways;
use crate::transfer::verifier::Damaged;
use crate::tree::dirs::{Entry, OutputDir};
use crate::tree::overwrite::Policy;

/// When a finished part file gets its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// At once; whether it survives a power cut is left to the system.
    Off,
    /// When the group it belongs to is durable. Each file is made durable on its own unless the
    /// output's file system can do so for all at once (`at_once`).
    Grouped {
        /// Whether files on the root's file system wait for the group's one call.
        at_once: bool,
    },
}

/// What the lanes of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What is computed over the bytes.
    pub algorithm: Algorithm,
    /// How small files are hashed: so many of them together as it takes.
    pub backend: Backend,
    /// Size of a block in bytes; at least 1.
    pub block_size: usize,
    /// Blocks of a lane; at least 1.
    pub blocks: usize,
    /// Whether a symbolic link in the source stands for what it points to.
    pub follow: bool,
    /// What happens to files that are there already.
    pub policy: Policy,
    /// When files get their final names.
    pub durability: Durability,
    /// Whether what is at the output is read back from its medium, and what happens to copies that
    /// are not there as they were written.
    pub verify: Option<Damaged>,
    /// Whether part files may go without a name: only where they are published at once.
    pub nameless: bool,
    /// How large files are made fit to be gone on with, where they are.
    pub journaling: Option<Journaling>,
    /// Digests from an earlier run.
    pub carry: Option<&'a Carry>,
    /// What the source is held against.
    pub expected: Option<&'a Expected>,
    /// By which way content goes to the output.
    pub ways: &'a Ways,
    /// How fast the source may be read.
    pub rate: Option<&'a Rate>,
    /// Where the output has its bytes from, if it shares the reading of them with others.
    pub sharing: Option<Place<'a>>,
    /// How far the run is.
    pub progress: &'a Progress,
    /// Whether it is to stop.
    pub stop: &'a Stop,
    /// Where its time goes.
    pub clocks: &'a Clocks,
}

impl Context<'_> {
    /// A file is not copied: other outputs need not wait for this one to take it.
    pub fn pass(&self, output: &OutputDir, entry: &Entry) {
        if let Some(place) = self.sharing {
            place.settled(output, entry, false);
        }
    }
}

#[cfg(test)]
impl<'a> Context<'a> {
    /// A plain copy with a digest, through blocks of one byte, that a test makes what it needs of.
    pub fn plain(
        (ways, clocks): (&'a Ways, &'a Clocks),
        (progress, stop): (&'a Progress, &'a Stop),
    ) -> Self {
        Self {
            algorithm: Algorithm::Sha256,
            backend: Backend::One,
            block_size: 1,
            blocks: 1,
            follow: false,
            policy: Policy::Default,
            durability: Durability::Off,
            verify: None,
            nameless: false,
            journaling: None,
            carry: None,
            expected: None,
            ways,
            rate: None,
            sharing: None,
            progress,
            stop,
            clocks,
        }
    }
}
