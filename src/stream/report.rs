//! What came of a stream.

use std::path::PathBuf;
use std::time::Duration;

use crate::hash::Digests;
use crate::stream::endpoint::Endpoint;
use crate::stream::outcome::OutputOutcome;

/// What came of a stream.
#[derive(Debug)]
pub struct StreamReport {
    /// Inputs that were read to their end.
    pub inputs: u64,
    /// Inputs that could not be.
    pub failed: u64,
    /// Bytes that came of them.
    pub bytes: u64,
    /// The digests of these, if any were computed and everything was read.
    pub digests: Option<Digests>,
    /// The outputs in the order they were given in, and what became of each.
    pub outputs: Vec<(Endpoint, OutputOutcome)>,
    /// The manifest of all outputs, if there is one.
    pub manifest: Option<PathBuf>,
    /// Whether every input came to its end, and why not.
    pub ending: StreamEnding,
    /// How long it took.
    pub elapsed: Duration,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// Every output has all of every input.
    Complete,
    /// An input or an output failed; the others went on.
    Incomplete,
    /// Nothing is amiss but that the reader of an output went away.
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
    pub fn complete(&self) -> usize {
        self.outputs.iter().filter(|(_, outcome)| outcome.is_complete()).count()
    }
}

impl StreamEnding {
    /// How a stream ended of which this became of the outputs; `amiss` if something else is missing.
    pub(crate) fn of<'a>(
        outcomes: impl Iterator<Item = &'a OutputOutcome>,
        amiss: bool,
        asked: Option<usize>,
    ) -> Self {
        let (mut complete, mut closed, mut failed, mut left, mut stopped) = (0, 0, 0, 0, 0);
        let mut unproven = 0;
        for outcome in outcomes {
            *match outcome {
                OutputOutcome::Stands { .. } | OutputOutcome::Passed => &mut complete,
                OutputOutcome::Closed => &mut closed,
                OutputOutcome::Failed(_) => &mut failed,
                OutputOutcome::Unproven(_) => &mut unproven,
                OutputOutcome::Left(_) => &mut left,
                OutputOutcome::Stopped(_) => &mut stopped,
            } += 1;
        }
        match asked {
            Some(code) if stopped > 0 => StreamEnding::Interrupted(code),
            _ if unproven > 0 => StreamEnding::Unproven,
            _ if failed > 0 && complete + closed + left + stopped == 0 && !amiss => {
                StreamEnding::Stopped
            }
            _ if failed + left + stopped > 0 || amiss => StreamEnding::Incomplete,
            _ if closed > 0 => StreamEnding::Closed,
            _ => StreamEnding::Complete,
        }
    }
}
