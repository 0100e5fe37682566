//! Rescue: what can be read of a file that cannot be read as a whole.
//!
//! It is kept beside where the file is to be, as `NAME.dircopy-rescue`, with a map of what is missing. Neither is the
//! file, and nothing lists them. A later run goes on with what is missing, if the source's file is the same; when
//! nothing is, the whole file is read once more from its device, as far as that is possible, and held against what was
//! rescued. Only then it gets its name.

mod kept;
#[allow(missing_docs)] // of what fuzz targets read
pub mod map;
mod order;
mod proof;
mod reading;

pub use kept::{forget, missing};

use crate::{
    error::Error, error::Result, hash::Digest, hash::Sha256, io::AlignedBuffer, part::Part,
    part::Transfer, path::Shown, state::Rescues, sys, transfer, transfer::Context,
    transfer::OpenSource, transfer::Outcome, transfer::rescue::kept::Begun,
    transfer::rescue::kept::Kept, transfer::rescue::order::LONG,
    transfer::rescue::reading::Reading, transfer::rescue::reading::ReadingEnd, transfer::rot_check,
};

/// The most stretches that a message names.
const MOST_NAMED: usize = 4;

/// Rescues files, one after the other.
pub struct Rescuer<'a> {
    context: &'a Context<'a>,
    rescues: &'a Rescues<'a>,
    secret: Sha256,
    room: AlignedBuffer,
    other_room: AlignedBuffer,
}

impl<'a> Rescuer<'a> {
    /// `None` where no run could go on with what this one leaves.
    pub fn new(context: &'a Context<'a>) -> Option<Self> {
        let rescues = context.shared.rescues.filter(|rescues| rescues.are_wanted)?;
        let secret = context.options.journaling?.secret;
        let room = || AlignedBuffer::new(LONG as usize);
        Some(Self { context, rescues, secret, room: room(), other_room: room() })
    }

    /// Reads what can be read of a file; what becomes of it. At each read that failed it is asked whether nothing of
    /// the source can be read any more.
    ///
    /// # Errors
    /// The file is not whole, or could not be kept.
    pub fn rescue(
        &mut self,
        transfer: &Transfer,
        is_gone: &mut dyn FnMut(&std::io::Error) -> bool,
        warnings: &mut Vec<Error>,
    ) -> Result<Outcome> {
        let path = || transfer.source_path();
        let size = transfer.entry().stat.size;
        let OpenSource { file: source, attributes, .. } =
            transfer::open(self.context, transfer, &path, warnings)?;
        source.is_still(&transfer.entry().stat)?;
        sys::read_no_more_than_asked(source.file());
        let mut begun = self.begin(transfer, warnings)?;
        let Begun { kept, map } = &mut begun;
        let end = Reading::new(self, &source, transfer, kept, is_gone).run(map);
        let saved = kept.close(map, &|| self.context.control.stop.is_requested());
        let end = end?;
        saved?;
        source.check(size)?;
        let missing: u64 = map.missing().iter().map(|part| part.end - part.at).sum();
        if end == ReadingEnd::Stopped {
            return Ok(Outcome::Suspended(size - missing));
        }
        if missing > 0 {
            return Err(tell_missing(transfer, &begun, missing, end));
        }
        let Some(digest) = self.prove(transfer, &source, &mut begun, warnings)? else {
            return Ok(Outcome::Suspended(size));
        };
        source.check(size)?;
        // What is not as expected stays beside where it was to be.
        if let Some(outcome) = rot_check::check(self.context, transfer, digest) {
            return Ok(outcome);
        }
        let Kept { file, name, .. } = begun.kept;
        let part = Part::rescued(&self.context.options, &transfer.target, file, name);
        Ok(transfer::complete(self.context, transfer, part, &attributes, digest, warnings))
    }
}

/// What a file was expected to be of which an earlier run could not read all, and that is the same as then: if that is
/// at the output now, it was healed.
pub fn expected_of(context: &Context<'_>, transfer: &Transfer) -> Option<Digest> {
    let rescues = context.shared.rescues.filter(|rescues| !rescues.are_none())?;
    let rescue = rescues.of(&transfer.target.rel_path())?;
    rescue.expected().filter(|_| rescue.is_of(&transfer.entry().stat))
}

/// The error of a file that is not whole.
fn tell_missing(transfer: &Transfer, begun: &Begun, bytes: u64, end: ReadingEnd) -> Error {
    let parts = begun.map.missing();
    let named = parts.iter().take(MOST_NAMED).map(|part| format!("{} to {}", part.at, part.end));
    let more = if parts.len() > MOST_NAMED { ", …" } else { "" };
    let tried = match end {
        ReadingEnd::Tired => "were not tried to the end, for that took long",
        _ => "cannot be read",
    };
    let finding = format!(
        "{bytes} of its {} bytes {tried}: from byte {}{more}; the others are kept in {}, and the same command goes on",
        transfer.entry().stat.size,
        named.collect::<Vec<_>>().join(", "),
        Shown::path(&begun.kept.path()),
    );
    Error::finding("rescue all of", transfer.source_path(), finding)
}
