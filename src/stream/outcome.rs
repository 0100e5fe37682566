//! The results of the outputs, told as they come.

use std::{path::PathBuf, time::Duration};

use crate::{
    error::Error, event::Done, event::Event, event::EventListener, event::Progress, hash::Chain,
    hash::Digests, io::HashedFrom, stream::Endpoint,
};

/// The content of the stream, where all of it came.
#[derive(Clone, Debug)]
pub struct StreamContent {
    pub digests: Digests,
    /// Number of bytes.
    pub size: u64,
    /// Its chain, if one was kept and it is long enough.
    pub chain: Option<Chain>,
}

/// The message about a thread that ended as it never should.
pub const DIED: &str = "its thread died; this is a defect of dircopy";

/// The result of an output.
#[derive(Debug)]
pub enum OutputOutcome {
    /// The file stands, and is durable if that is asked for.
    Stands {
        /// True if something was replaced by it.
        replaced: bool,
        /// Where it was read back from, if it was.
        proof: Option<HashedFrom>,
        /// Failures that did not keep it from being written.
        warnings: Vec<Error>,
    },
    /// Everything was written to what was open.
    Passed,
    /// Its reader went away before the end.
    Closed,
    /// The run was to stop; what of it could not be removed.
    Stopped(Vec<Error>),
    /// The present file stays, for this reason.
    Left(&'static str),
    /// The output has not got the file, for this reason.
    Failed(Error),
    /// It was not on its medium as it was written.
    Unproven(Error),
}

impl OutputOutcome {
    /// True if the output has everything.
    pub fn is_complete(&self) -> bool {
        matches!(self, OutputOutcome::Stands { .. } | OutputOutcome::Passed)
    }
}

/// The outputs of a run in the order in which they were given, with what became of those that are done.
pub struct OutputStates<'a> {
    endpoints: &'a [Endpoint],
    outcomes: Vec<Option<OutputOutcome>>,
    listen: &'a EventListener<'a>,
    progress: &'a Progress,
}

impl<'a> OutputStates<'a> {
    /// Nothing became of any yet.
    pub fn new(
        endpoints: &'a [Endpoint],
        listen: &'a EventListener<'a>,
        progress: &'a Progress,
    ) -> Self {
        Self { endpoints, outcomes: endpoints.iter().map(|_| None).collect(), listen, progress }
    }

    /// Notes and tells what became of one.
    pub fn settle(&mut self, number: usize, outcome: OutputOutcome) {
        let Some(endpoint) = self.endpoints.get(number) else { return };
        let path = endpoint.path().as_os_str().as_encoded_bytes();
        match &outcome {
            OutputOutcome::Stands { replaced, warnings, .. } => {
                self.warn(warnings);
                let done = if *replaced { Done::Replaced } else { Done::Copied };
                (self.listen)(&Event::Stands(path, done));
            }
            OutputOutcome::Left(why) => (self.listen)(&Event::Left(path, why)),
            OutputOutcome::Failed(error) | OutputOutcome::Unproven(error) => self.tell(error),
            OutputOutcome::Stopped(stays) => self.warn(stays),
            OutputOutcome::Passed | OutputOutcome::Closed => {}
        }
        if let Some(place) = self.outcomes.get_mut(number) {
            *place = Some(outcome);
        }
    }

    /// Notes and tells that the thread of one died.
    pub fn died(&mut self, number: usize) {
        if let Some(endpoint) = self.endpoints.get(number) {
            self.settle(
                number,
                OutputOutcome::Failed(Error::finding("finish", endpoint.path(), DIED)),
            );
        }
    }

    /// Tells of a failure.
    pub fn tell(&self, error: &Error) {
        self.progress.failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (self.listen)(&Event::Failed(error));
    }

    /// True if an output is left that has no result yet.
    pub fn are_open(&self) -> bool {
        self.outcomes.iter().any(Option::is_none)
    }

    /// The outputs with what became of them.
    pub fn all(&self) -> impl Iterator<Item = (&Endpoint, Option<&OutputOutcome>)> {
        self.endpoints
            .iter()
            .zip(&self.outcomes)
            .map(|(endpoint, outcome)| (endpoint, outcome.as_ref()))
    }

    /// The outputs as they were given.
    pub fn endpoints(&self) -> &'a [Endpoint] {
        self.endpoints
    }

    /// Tells of what could not be done about something that stands.
    pub fn warn(&self, warnings: &[Error]) {
        warnings.iter().for_each(|warning| (self.listen)(&Event::Warning(warning)));
    }

    /// The results; `None` for an output that has none.
    pub fn into_outcomes(self) -> Vec<Option<OutputOutcome>> {
        self.outcomes
    }
}

/// The report of a stream.
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
    /// The end of the inputs: complete, or why not.
    pub ending: StreamEnding,
    /// Duration of the run.
    pub elapsed: Duration,
}

/// The end of a stream.
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
    /// The end of a stream with these results of its outputs; `amiss` if something else is missing.
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
