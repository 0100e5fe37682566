//! An output, open: bytes go to it as they come, and in the end it stands or it does not.

use std::fs::File;
use std::io;

use crate::error::Error;
use crate::stream::endpoint::Endpoint;
use crate::stream::outcome::{OutputOutcome, StreamContent};
use crate::stream::output::atomic_file::{AtomicFile, Completion};
use crate::stream::output::manifest::{StreamLines, StreamManifest, lines_beside};
use crate::sys::{self, Spliced, StreamEnd};
use crate::transfer::context::Context;

pub struct OpenOutput<'a> {
    /// Which of the outputs it is, counted from 0.
    pub number: usize,
    /// What the user calls it.
    pub endpoint: Endpoint,
    /// What the run shares.
    pub context: Context<'a>,
    pub sink: Sink<'a>,
    /// The manifest beside it.
    pub manifest: Option<StreamManifest>,
}

pub enum Sink<'a> {
    /// To what is open.
    Open(StreamEnd),
    File(Box<AtomicFile<'a>>),
}

/// Why an output is dropped.
pub enum DropReason {
    /// Its reader went away.
    Closed,
    /// The run is to stop.
    Stopped,
    Failed(Error),
}

impl DropReason {
    /// What became of an output that is dropped.
    pub fn outcome(self) -> OutputOutcome {
        match self {
            DropReason::Closed => OutputOutcome::Closed,
            DropReason::Stopped => OutputOutcome::Stopped(Vec::new()),
            DropReason::Failed(error) => OutputOutcome::Failed(error),
        }
    }
}

impl OpenOutput<'_> {
    /// Whether it is a file that has no name yet.
    pub fn is_file(&self) -> bool {
        matches!(self.sink, Sink::File(_))
    }

    /// What is open, if it is no file of ours.
    pub fn end(&self) -> Option<&StreamEnd> {
        match &self.sink {
            Sink::Open(end) => Some(end),
            Sink::File(_) => None,
        }
    }

    /// Whether its reader went away, which is looked for while nothing comes: an input may be idle for hours.
    pub fn has_lost_reader(&self) -> bool {
        self.end().is_some_and(StreamEnd::has_lost_reader)
    }

    /// Gets ready to be written to.
    pub fn prepare(&self) {
        if let Sink::Open(end) = &self.sink {
            sys::widen(end.file());
        }
    }

    /// Writes all of `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let end = match &mut self.sink {
            Sink::File(file) => return file.write(bytes).map_err(DropReason::Failed),
            Sink::Open(end) => end,
        };
        match end.write_all(bytes, || self.context.control.stop.is_urgent()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(DropReason::Stopped),
            Err(error) => Err(lost(&self.endpoint, "write", error)),
        }
    }

    /// Lets `moving` move at most `most` bytes there.
    pub fn take(
        &mut self,
        most: u64,
        moving: impl FnOnce(&File, u64) -> io::Result<Spliced>,
    ) -> Result<Spliced, DropReason> {
        match &mut self.sink {
            Sink::File(file) => file.take(most, moving).map_err(DropReason::Failed),
            Sink::Open(end) => {
                moving(end.file(), most).map_err(|error| lost(&self.endpoint, "copy to", error))
            }
        }
    }

    /// Everything came: the file gets its name, and the manifest beside it its line.
    pub fn finish(self, content: Option<&StreamContent>) -> OutputOutcome {
        let Self { endpoint, context, sink, mut manifest, .. } = self;
        let file = match sink {
            // What a file system says only now would be lost with the handle.
            Sink::Open(end) => {
                return match sys::close_file(end.into_file()) {
                    Ok(()) => OutputOutcome::Passed,
                    Err(error) => lost(&endpoint, "close", error).outcome(),
                };
            }
            Sink::File(file) => file,
        };
        if context.control.stop.is_urgent() {
            return OutputOutcome::Stopped(file.abandon());
        }
        let (mut warnings, place) = (Vec::new(), file.place().clone());
        let retire = || manifest.as_mut().map_or(Ok(()), |manifest| manifest.retire(&context));
        let proof = match file.finish(content, retire, &mut warnings) {
            Ok(Completion::Stands(proof)) => proof,
            Ok(Completion::Unproven(error)) => return OutputOutcome::Unproven(error),
            Ok(Completion::Stopped) => return OutputOutcome::Stopped(warnings),
            Err(error) => return OutputOutcome::Failed(error),
        };
        if let (Some(manifest), Some(content)) = (manifest, content) {
            let (lines, path) =
                (&lines_beside(&content.digests, &place)[..], place.name.as_encoded_bytes());
            let listed = StreamLines { lines, path, content };
            if let Err(error) = manifest.write(&context, listed, &mut warnings) {
                return OutputOutcome::Failed(error.with_note("; the file itself is complete"));
            }
        }
        OutputOutcome::Stands { replaced: place.there.is_some(), proof, warnings }
    }

    /// It is not completed, because of `lost`: removes what there is of it.
    pub fn discard(self, lost: DropReason) -> OutputOutcome {
        match (self.sink, lost) {
            (Sink::File(file), DropReason::Failed(error)) => {
                OutputOutcome::Failed(file.discard(error))
            }
            (Sink::File(file), DropReason::Stopped | DropReason::Closed) => {
                OutputOutcome::Stopped(file.abandon())
            }
            (Sink::Open(_), lost) => lost.outcome(),
        }
    }

    /// An input was cut short: a file that would lack a piece is not to stand.
    pub fn cut_short(&self) -> Error {
        let finding = "an input could not be read to its end, and a piece would be missing";
        Error::finding("complete", self.endpoint.path(), finding)
    }
}

fn lost(endpoint: &Endpoint, deed: &'static str, error: io::Error) -> DropReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe => DropReason::Closed,
        _ => DropReason::Failed(Error::io(deed, endpoint.path(), error)),
    }
}
