//! Reading what is missing of a file, within bounds of time, and keeping it.

use std::time::{Duration, Instant};
use std::{io, io::Seek, io::SeekFrom, sync::Arc, sync::atomic::Ordering::Relaxed};

use crate::{
    error::Deed, error::Result, event::FileInHand, io::AlignedBuffer, io::WatchedFile,
    part::Transfer, sys, transfer::Context, transfer::rescue::Rescuer,
    transfer::rescue::kept::Kept, transfer::rescue::map::Map,
    transfer::rescue::order::read_missing,
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
