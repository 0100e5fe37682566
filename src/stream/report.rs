//! What came of a stream.

use std::path::PathBuf;
use std::time::Duration;

use crate::hash::Digest;
use crate::stream::ends::Fate;
use crate::stream::named::Named;

/// What came of a stream.
#[derive(Debug)]
pub struct StreamReport {
    /// Inputs that were read to their end.
    pub inputs: u64,
    /// Inputs that could not be.
    pub failed: u64,
    /// Bytes that came of them.
    pub bytes: u64,
    /// The digest of these, if one was computed and everything was read.
    pub digest: Option<Digest>,
    /// The outputs in the order they were given in, and what became of each.
    pub outputs: Vec<(Named, Fate)>,
    /// The manifest of all outputs, if there is one.
    pub manifest: Option<PathBuf>,
    /// How it ended.
    pub ending: StreamEnding,
    /// How long it took.
    pub elapsed: Duration,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// Every output has all of every input.
    Complete,
    /// Something is missing.
    Incomplete,
    /// Nothing is amiss but that who read from an output went away.
    Closed,
    /// A file was not on its medium as it was written.
    Unproven,
    /// No output could be written to its end.
    Stopped,
    /// It was asked to stop, with this code.
    Interrupted(usize),
}

impl StreamReport {
    /// Outputs that have everything.
    pub fn whole(&self) -> usize {
        self.outputs.iter().filter(|(_, fate)| fate.is_whole()).count()
    }
}

impl StreamEnding {
    /// How a stream ended of which this became of the outputs; `amiss` if something else is missing.
    pub(super) fn of<'a>(
        fates: impl Iterator<Item = &'a Fate>,
        amiss: bool,
        asked: Option<usize>,
    ) -> Self {
        let (mut whole, mut closed, mut failed, mut left, mut stopped) = (0, 0, 0, 0, 0);
        let mut unproven = 0;
        for fate in fates {
            *match fate {
                Fate::Stands { .. } | Fate::Passed => &mut whole,
                Fate::Closed => &mut closed,
                Fate::Failed(_) => &mut failed,
                Fate::Unproven(_) => &mut unproven,
                Fate::Left(_) => &mut left,
                Fate::Stopped(_) => &mut stopped,
            } += 1;
        }
        match asked {
            Some(code) if stopped > 0 => StreamEnding::Interrupted(code),
            _ if unproven > 0 => StreamEnding::Unproven,
            _ if failed > 0 && whole + closed + left + stopped == 0 && !amiss => {
                StreamEnding::Stopped
            }
            _ if failed + left + stopped > 0 || amiss => StreamEnding::Incomplete,
            _ if closed > 0 => StreamEnding::Closed,
            _ => StreamEnding::Complete,
        }
    }
}
