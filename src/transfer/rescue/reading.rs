//! Reading what is missing of a file, within bounds of time, in the order in which most is had first, and keeping it.

use std::{
    io, io::Seek, io::SeekFrom, sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration,
    time::Instant,
};

use crate::transfer::rescue::map::{Map, Part, State};
use crate::{
    error::Deed, error::Result, event::FileInHand, io::AlignedBuffer, io::WatchedFile,
    part::Transfer, sys, transfer::Context, transfer::rescue::Rescuer,
    transfer::rescue::kept::Kept,
};

/// What failed or took long may take so much time of a file in one run; the rest is left to the next.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A read that takes longer is one of those.
const LONG_TIME: Duration = Duration::from_secs(1);

/// After so much time, or so many bytes, what was read is made durable and noted.
const SAVE_AFTER: Duration = Duration::from_secs(5);
const SAVE_BYTES: u64 = 64 << 20;

/// So often, while reads fail, it is asked whether nothing of the source can be read any more.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The end of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingEnd {
    /// All was tried.
    Tried,
    /// It took too long.
    Tired,
    /// The run is to stop.
    Stopped,
}

/// The reading of one file.
pub struct Reading<'r, 's> {
    context: &'r Context<'r>,
    room: &'r mut AlignedBuffer,
    source: &'r WatchedFile<'s>,
    kept: &'r Kept,
    is_gone: &'r mut dyn FnMut(&io::Error) -> bool,
    in_hand: Option<Arc<FileInHand>>,
    /// The time that reads took which failed or were slow.
    lost: Duration,
    /// When it was asked last whether the source is gone.
    asked: Option<Instant>,
    /// When the map was written, and how many bytes ago.
    saved: Instant,
    unsaved: u64,
}

impl<'r, 's> Reading<'r, 's> {
    pub fn new(
        rescuer: &'r mut Rescuer<'_>,
        source: &'r WatchedFile<'s>,
        transfer: &'r Transfer,
        kept: &'r Kept,
        is_gone: &'r mut dyn FnMut(&io::Error) -> bool,
    ) -> Self {
        let (context, room) = (rescuer.context, &mut rescuer.room);
        let entry = transfer.entry();
        let in_hand = context.control.progress.take_in_hand(entry.stat.size, |path| {
            transfer.source.rel.join_into(&entry.name, path);
        });
        let (lost, asked, saved, unsaved) = (Duration::ZERO, None, Instant::now(), 0);
        Self { context, room, source, kept, is_gone, in_hand, lost, asked, saved, unsaved }
    }

    /// Reads what is missing, and notes in `map` what came.
    ///
    /// # Errors
    /// The source or the output is of no use any more.
    pub fn run(&mut self, map: &mut Map) -> Result<ReadingEnd> {
        match read_missing(map, &mut |map, at, end| self.step(map, at, end)) {
            Ok(()) => Ok(ReadingEnd::Tried),
            Err(ended) => ended,
        }
    }

    /// Reads a stretch and keeps it; how many bytes came. The error is the end of the reading.
    fn step(&mut self, map: &Map, at: u64, end: u64) -> Result<u64, Result<ReadingEnd>> {
        if self.context.control.stop.is_urgent() {
            return Err(Ok(ReadingEnd::Stopped));
        }
        if self.lost > PATIENCE {
            return Err(Ok(ReadingEnd::Tired));
        }
        if self.saved.elapsed() > SAVE_AFTER || self.unsaved > SAVE_BYTES {
            self.kept.save(map).map_err(Err)?;
            (self.saved, self.unsaved) = (Instant::now(), 0);
        }
        let begin = Instant::now();
        let (came, failed) = self.read(at, end).map_err(Err)?;
        if failed || begin.elapsed() > LONG_TIME {
            self.lost += begin.elapsed();
        }
        let mut to = &self.kept.file;
        let bytes = &self.room.room()[..came];
        let written = to.seek(SeekFrom::Start(at)).and_then(|_| sys::write_all(to, bytes));
        written.deed_at("write", || self.kept.path()).map_err(Err)?;
        self.unsaved += came as u64;
        self.source.moved(came as u64);
        if let Some(file) = &self.in_hand {
            file.done.fetch_add(came as u64, Relaxed);
        }
        Ok(came as u64)
    }

    /// Number of bytes that came from `at` on, and whether one that failed is behind them.
    fn read(&mut self, at: u64, end: u64) -> Result<(usize, bool)> {
        let room = &mut self.room.room()[..(end - at) as usize];
        let mut came = 0;
        while came < room.len() {
            match sys::read_at(self.source.file(), &mut room[came..], at + came as u64) {
                Ok(0) => {
                    // Then it was cut off, which the check at the end tells.
                    return Ok((came, true));
                }
                Ok(read) => came += read,
                Err(error) => {
                    let is_due = self.asked.is_none_or(|asked| asked.elapsed() > ASK_EVERY);
                    self.asked = self.asked.filter(|_| !is_due).or_else(|| Some(Instant::now()));
                    if !sys::is_device_error(&error) || is_due && (self.is_gone)(&error) {
                        return Err(self.source.error("read", error));
                    }
                    return Ok((came, true));
                }
            }
        }
        Ok((came, false))
    }
}

// The order in which a damaged file is read: what is easily had first.
//
// As GNU ddrescue has it: long reads forward, which skip further ahead the more of them fail; what was skipped, from
// the end backward; then both ends of what failed, sector by sector up to the first bad one; then what is between; and
// at last each bad sector once more. No sector is asked for more often than [`MOST_READS`] times in a run.

/// A long read; bytes, and a multiple of all sectors.
pub const LONG: u64 = 128 << 10;

/// The unit in which a device has or has not what was written.
const SECTOR: u64 = 512;

/// The most that is skipped after a long read that failed. The first skips as much as it would have read.
const MOST_SKIPPED: u64 = 128 * LONG;

/// The most reads of a run in which one sector is: a long one, one at an end, and a longer and a short one in each of
/// the two passes by sectors.
#[cfg(test)]
const MOST_READS: u32 = 6;

/// Reads the stretch from the first to the second place and keeps it; how many bytes came before one failed.
pub type Step<'a, E> = &'a mut dyn FnMut(&Map, u64, u64) -> Result<u64, E>;

/// Reads what `map` says is missing, and notes what came of it.
///
/// # Errors
/// That of a step, which ends it.
pub fn read_missing<E>(map: &mut Map, step: Step<'_, E>) -> Result<(), E> {
    for part in map.in_state(State::Untried) {
        forward(map, part, step)?;
    }
    for part in map.in_state(State::Untried).into_iter().rev() {
        backward(map, part, step)?;
    }
    for part in map.in_state(State::Untrimmed) {
        trim(map, part, step)?;
    }
    for part in map.in_state(State::Unscraped) {
        scrape(map, part, step)?;
    }
    for part in map.in_state(State::Bad).into_iter().rev() {
        scrape(map, part, step)?;
    }
    Ok(())
}

/// Takes a step, and notes what came; whether all did.
fn take<E>(map: &mut Map, at: u64, end: u64, step: Step<'_, E>) -> Result<(bool, u64), E> {
    let came = at + step(map, at, end)?.min(end - at);
    map.set(at, came, State::Read);
    Ok((came == end, came))
}

fn forward<E>(map: &mut Map, part: Part, step: Step<'_, E>) -> Result<(), E> {
    let (mut at, mut skip) = (part.at, LONG);
    while at < part.end && !map.is_full() {
        let end = part.end.min(at - at % LONG + LONG);
        let (is_all, came) = take(map, at, end, step)?;
        at = end;
        if is_all {
            skip = LONG;
        } else {
            map.set(came, end, State::Untrimmed);
            (at, skip) = (end.saturating_add(skip), (2 * skip).min(MOST_SKIPPED));
        }
    }
    Ok(())
}

fn backward<E>(map: &mut Map, part: Part, step: Step<'_, E>) -> Result<(), E> {
    let mut end = part.end;
    while end > part.at && !map.is_full() {
        let at = part.at.max((end - 1) - (end - 1) % LONG);
        let (is_all, came) = take(map, at, end, step)?;
        if !is_all {
            map.set(came, end, State::Untrimmed);
        }
        end = at;
    }
    Ok(())
}

/// Reads a part that failed from both ends, up to the first bad sector at each.
fn trim<E>(map: &mut Map, part: Part, step: Step<'_, E>) -> Result<(), E> {
    let Part { mut at, mut end, .. } = part;
    let mut goes_on = true;
    while goes_on && at < end && !map.is_full() {
        let sector = end.min(at - at % SECTOR + SECTOR);
        let came;
        (goes_on, came) = take(map, at, sector, step)?;
        if !goes_on {
            map.set(came, sector, State::Bad);
        }
        at = sector;
    }
    goes_on = true;
    while goes_on && at < end && !map.is_full() {
        let sector = at.max((end - 1) - (end - 1) % SECTOR);
        let came;
        (goes_on, came) = take(map, sector, end, step)?;
        if !goes_on {
            map.set(came, end, State::Bad);
        }
        end = sector;
    }
    map.set(at, end, State::Unscraped);
    Ok(())
}

/// Reads a part sector by sector, and more at a time while all goes well.
fn scrape<E>(map: &mut Map, part: Part, step: Step<'_, E>) -> Result<(), E> {
    let (mut at, mut len) = (part.at, SECTOR);
    while at < part.end && !map.is_full() {
        let end = part.end.min(at - at % SECTOR + len);
        let (is_all, came) = take(map, at, end, step)?;
        at = came;
        if is_all {
            len = (2 * len).min(LONG);
        } else if len > SECTOR {
            len = SECTOR;
        } else {
            map.set(came, end, State::Bad);
            at = end;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 20 * LONG + 777;

    /// Reads a file whose sectors in `bad` cannot be read; how often each sector was asked for.
    fn read(map: &mut Map, bad: &dyn Fn(u64) -> bool) -> Vec<u32> {
        let mut asked = vec![0; SIZE.div_ceil(SECTOR) as usize];
        let mut step = |_: &Map, at: u64, end: u64| {
            assert!(at < end && end <= SIZE);
            let first_bad = (at / SECTOR..end.div_ceil(SECTOR)).find(|sector| bad(*sector));
            // What is behind a bad sector was not asked for.
            let last = first_bad.unwrap_or((end - 1) / SECTOR);
            (at / SECTOR..=last).for_each(|sector| asked[sector as usize] += 1);
            Ok::<_, ()>(first_bad.map_or(end, |sector| (sector * SECTOR).max(at)) - at)
        };
        read_missing(map, &mut step).unwrap();
        asked
    }

    proptest! {
        #[test]
        fn all_that_can_be_read_is_read_and_no_sector_is_asked_for_too_often(
            places in proptest::collection::vec((0u64..SIZE / SECTOR + 1, 1u64..400), 0..12),
        ) {
            let bad = |sector: u64| places.iter().any(|(at, len)| (*at..at + len).contains(&sector));
            let mut map = Map::new(SIZE);
            let asked = read(&mut map, &bad);
            prop_assert!(asked.iter().all(|times| *times <= MOST_READS), "{:?}", asked.iter().max());
            let sectors = 0..SIZE.div_ceil(SECTOR);
            let is_missing = |sector: u64| {
                map.missing().iter().any(|part| part.at < (sector + 1) * SECTOR && sector * SECTOR < part.end)
            };
            prop_assert!(sectors.clone().all(|sector| is_missing(sector) == bad(sector)));
            // Later nothing but that is asked for, and where all is well by then, all of it comes.
            let again = read(&mut map.clone(), &bad);
            prop_assert!(sectors.clone().all(|sector| bad(sector) || again[sector as usize] == 0));
            let healed = read(&mut map, &|_| false);
            prop_assert!(map.missing().is_empty());
            prop_assert!(sectors.clone().all(|sector| healed[sector as usize] == u32::from(bad(sector))));
        }
    }
}
