//! An output, open: bytes go to it as they come, and in the end it stands or it does not.

use std::fs::File;
use std::io;

use crate::error::Error;
use crate::hash::Digest;
use crate::stream::ends::Fate;
use crate::stream::listing::{Listing, line_beside};
use crate::stream::named::Named;
use crate::stream::whole::{End, WholeFile};
use crate::sys::{self, Spliced, StreamEnd};
use crate::transfer::context::Context;

/// An output.
pub struct Output<'a> {
    /// What the user calls it.
    pub named: Named,
    /// What the run shares.
    pub context: Context<'a>,
    /// Where bytes go.
    pub sink: Sink<'a>,
    /// The manifest beside it.
    pub listing: Option<Listing>,
}

/// Where bytes go.
pub enum Sink<'a> {
    /// To what is open.
    Open(StreamEnd),
    /// Into a file.
    File(Box<WholeFile<'a>>),
}

/// Why an output is dropped.
pub enum Lost {
    /// Who read from it went away.
    Closed,
    /// The run is to stop.
    Stopped,
    /// It failed.
    Failed(Error),
}

impl Lost {
    /// What became of an output that is dropped.
    pub fn fate(self) -> Fate {
        match self {
            Lost::Closed => Fate::Closed,
            Lost::Stopped => Fate::Stopped(Vec::new()),
            Lost::Failed(error) => Fate::Failed(error),
        }
    }
}

impl Output<'_> {
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

    /// Gets ready to be written to.
    pub fn prepare(&self) {
        if let Sink::Open(end) = &self.sink {
            sys::widen(end.file());
        }
    }

    /// Writes all of `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        let end = match &mut self.sink {
            Sink::File(file) => return file.write(bytes).map_err(Lost::Failed),
            Sink::Open(end) => end,
        };
        match end.write_all(bytes, || self.context.control.stop.is_urgent()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Lost::Stopped),
            Err(error) => Err(lost(&self.named, "write", error)),
        }
    }

    /// Lets `moving` move at most `most` bytes there.
    pub fn take(
        &mut self,
        most: u64,
        moving: impl FnOnce(&File, u64) -> io::Result<Spliced>,
    ) -> Result<Spliced, Lost> {
        match &mut self.sink {
            Sink::File(file) => file.take(most, moving).map_err(Lost::Failed),
            Sink::Open(end) => {
                moving(end.file(), most).map_err(|error| lost(&self.named, "copy to", error))
            }
        }
    }

    /// Everything came: the file gets its name, and the manifest beside it its line.
    pub fn finish(self, digest: Option<Digest>) -> Fate {
        let Self { named, context, sink, mut listing } = self;
        let file = match sink {
            // What a file system says only now would be lost with the handle.
            Sink::Open(end) => {
                return match sys::close_file(end.into_file()) {
                    Ok(()) => Fate::Passed,
                    Err(error) => lost(&named, "close", error).fate(),
                };
            }
            Sink::File(file) => file,
        };
        if context.control.stop.is_urgent() {
            return Fate::Stopped(file.abandon());
        }
        let (mut warnings, place) = (Vec::new(), file.place().clone());
        let retire = || listing.as_mut().map_or(Ok(()), |listing| listing.retire(&context));
        let proof = match file.finish(digest, retire, &mut warnings) {
            Ok(End::Stands(proof)) => proof,
            Ok(End::Unproven(error)) => return Fate::Unproven(error),
            Ok(End::Stopped) => return Fate::Stopped(warnings),
            Err(error) => return Fate::Failed(error),
        };
        if let (Some(listing), Some(digest)) = (listing, &digest)
            && let Err(error) = listing.write(&context, &line_beside(digest, &place), &mut warnings)
        {
            return Fate::Failed(error.with_note("; the file itself is complete"));
        }
        Fate::Stands { replaced: place.there.is_some(), proof, warnings }
    }

    /// It is not completed, because of `lost`: removes what there is of it.
    pub fn discard(self, lost: Lost) -> Fate {
        match (self.sink, lost) {
            (Sink::File(file), Lost::Failed(error)) => Fate::Failed(file.discard(error)),
            (Sink::File(file), Lost::Stopped | Lost::Closed) => Fate::Stopped(file.abandon()),
            (Sink::Open(_), lost) => lost.fate(),
        }
    }

    /// An input was cut short: a file that would lack a piece is not to stand.
    pub fn cut_short(&self) -> Error {
        let finding = "an input could not be read to its end, and a piece would be missing";
        Error::finding("complete", self.named.path(), finding)
    }
}

fn lost(named: &Named, deed: &'static str, error: io::Error) -> Lost {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Lost::Closed,
        _ => Lost::Failed(Error::io(deed, named.path(), error)),
    }
}
