//! Rescue: what can be read of a file that cannot be read as a whole.
//!
//! It is kept beside where the file is to be, as `NAME.dircopy-rescue`, with a map of what is missing. Neither is the
//! file, and nothing lists them. A later run goes on with what is missing, if the source's file is the same; when
//! nothing is, the whole file is read once more from its device, as far as that is possible, and held against what was
//! rescued. Only then it gets its name.

mod kept;
#[allow(missing_docs)] // of what fuzz targets read
pub mod map;
mod reading;

pub use kept::{forget, missing};

use std::{ffi::OsString, io, time::Duration, time::Instant};

use crate::sys::{ALIGNMENT, Dir, Medium};
use crate::transfer::rescue::reading::{PATIENCE, Reading, ReadingEnd};
use crate::transfer::{Context, OpenSource, Outcome, rot_check};
use crate::{
    error::Error, error::Result, hash::Digest, hash::Sha256, io::AlignedBuffer, io::WatchedFile,
    part::Part, part::Transfer, path::Shown, state::Rescues, state::rescues::ENDING,
    state::rescues::MAP_ENDING, state::rescues::name_of, sys, transfer,
    transfer::rescue::kept::Begun, transfer::rescue::kept::Kept, transfer::rescue::map::Map,
    transfer::rescue::map::State, transfer::rescue::reading::LONG,
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

/// True if an earlier run could not read all of the file, and this one goes on with what that kept. Where the source
/// has its name now, or something else took it, the file is copied as any.
pub fn goes_on(context: &Context<'_>, transfer: &Transfer) -> bool {
    let rescues = context.shared.rescues.filter(|it| it.are_wanted && !it.are_none());
    let (output, path) = (&transfer.target.output, || transfer.target.rel_path());
    let Some((rescues, dir)) = rescues.zip(output.handle.as_ref()) else { return false };
    let names = [ENDING, MAP_ENDING].map(|ending| name_of(&transfer.entry().name, ending));
    let is_in = |dir: &Dir, name: &OsString| dir.stat(name, false).is_ok();
    let is_ours = || {
        let keeps_numbers = output.volume.tried.traits.keeps_numbers;
        rescues.open(dir, &path(), keeps_numbers).is_ok_and(|kept| kept.is_some())
    };
    rescues.of(&path()).is_some()
        && !names.iter().any(|name| is_in(&transfer.source.handle, name))
        && (!is_in(dir, &names[0]) || is_ours())
        && (!is_in(dir, &names[1]) || dir.open_ours(&names[1]).is_ok_and(|map| map.is_some()))
}

/// True if what is at the output in the place of a file is what earlier runs could read of another one.
pub fn is_kept_there(context: &Context<'_>, transfer: &Transfer) -> bool {
    let rescues = context.shared.rescues.filter(|rescues| !rescues.are_none());
    rescues.is_some_and(|rescues| rescues.have(&transfer.target.rel_path()))
        && matches!(transfer.target.look(), Ok(Some(_)))
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

// The proof of a file that was rescued: it is read from the output's device, and the source's file is read once more.
//
// What a failing device gave may be wrong, and what a file holds days later need not be what was written. So both are
// read, and held against each other as far as the source can be read a second time. What cannot be read again counts
// all the same, and is told, but not if another program read it, or if the content is not what it was at the end of
// the run before: nothing vouches for that.

/// The second reading of the source's file, and what it came to.
struct SecondReading<'r> {
    medium: Medium<'r>,
    room: &'r mut AlignedBuffer,
    map: &'r mut Map,
    /// Bytes that are something else now, …
    differing: u64,
    /// … that cannot be read again and were read by another program, …
    foreign: u64,
    /// … or by this user's runs.
    once: u64,
    /// The time that reads took which failed.
    lost: Duration,
}

impl Rescuer<'_> {
    /// The digest of what was rescued, if it was proven; `None` if the run is to stop.
    ///
    /// # Errors
    /// The second reading does not agree, or what was rescued cannot be read back.
    fn prove(
        &mut self,
        transfer: &Transfer,
        source: &WatchedFile<'_>,
        begun: &mut Begun,
        warnings: &mut Vec<Error>,
    ) -> Result<Option<Option<Digest>>> {
        let (size, context) = (transfer.entry().stat.size, self.context);
        let Begun { kept, map } = begun;
        let fail = |error| Error::io("read back", kept.path(), error);
        let stat = Dir::stat_file(&kept.file).map_err(fail)?;
        let stored = Medium::of(&kept.file, &stat).map_err(fail)?;
        let medium = Medium::of(source.file(), source.before());
        let medium = medium.map_err(|error| source.error("read", error))?;
        let room = &mut self.other_room;
        let (differing, foreign, once, lost) = (0, 0, 0, Duration::ZERO);
        let mut again = SecondReading { medium, room, map, differing, foreign, once, lost };
        let (mut hasher, mut further) = (context.start_chain(size), context.start_further());
        let mut at = 0;
        while at < size {
            if context.control.stop.is_urgent() {
                return Ok(None);
            }
            let len = LONG.min(size - at) as usize;
            let there = &mut self.room.room()[..len.next_multiple_of(ALIGNMENT)];
            if stored.fill_at(there, at).map_err(fail)? < len {
                return Err(fail(io::ErrorKind::UnexpectedEof.into()));
            }
            let there = &there[..len];
            hasher.update(there);
            further.update(there);
            again.compare(at, there);
            source.moved(len as u64);
            at += len as u64;
        }
        stored.finish();
        let SecondReading { medium, map, differing, foreign, once, .. } = again;
        medium.finish();
        let error = |finding| Error::finding("prove", transfer.source_path(), finding);
        if differing > 0 {
            kept.close(map, &|| context.control.stop.is_requested())?;
            return Err(error(format!(
                "what was rescued of it is something else when it is read again, in stretches of {differing} bytes; \
                 the same command reads these anew"
            )));
        }
        if foreign > 0 {
            return Err(error(format!(
                "{foreign} bytes cannot be read a second time that another program read, or a run that was cut short, \
                 or that are no longer what was read; if they are right, give {} its name yourself",
                Shown::path(&kept.path())
            )));
        }
        if once > 0 {
            let text = format!("{once} bytes of it could be read once, and not a second time");
            warnings.push(error(text));
        }
        Ok(Some(context.keep_all(&transfer.target, hasher, further)))
    }
}

impl SecondReading<'_> {
    /// Reads again what is `there` from `at` on; what cannot be read at once, block by block.
    fn compare(&mut self, at: u64, there: &[u8]) {
        if self.settles(at, there) {
            return;
        }
        for (at, there) in (at..).step_by(ALIGNMENT).zip(there.chunks(ALIGNMENT)) {
            let end = at + there.len() as u64;
            if !self.settles(at, there) {
                match self.map.is_foreign(at, end) {
                    true => self.foreign += end - at,
                    false => self.once += end - at,
                }
            }
        }
    }

    /// Reads a part again, and notes whether it is the same; false if it cannot be read.
    fn settles(&mut self, at: u64, there: &[u8]) -> bool {
        let room = &mut self.room.room()[..there.len().next_multiple_of(ALIGNMENT)];
        let begin = Instant::now();
        let is_read = self.lost <= PATIENCE
            && self.medium.fill_at(room, at).is_ok_and(|read| read >= there.len());
        if !is_read {
            self.lost += begin.elapsed();
            return false;
        }
        let is_same = room[..there.len()] == *there;
        self.differing += if is_same { 0 } else { there.len() as u64 };
        let state = if is_same { State::Read } else { State::Bad };
        self.map.set(at, at + there.len() as u64, state);
        true
    }
}
