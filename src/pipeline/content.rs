//! Reading the content of a large file block by block, and sending it to the hasher.

use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::error::Error;
use crate::event::FileInHand;
use crate::event::timing::Timer;
use crate::fanout::chunk::Data;
use crate::fanout::origin::OwnOrigin;
use crate::fanout::subscription::Subscription;
use crate::io::block::BlockPool;
use crate::io::options::Sparse;
use crate::io::watched_file::WatchedFile;
use crate::pipeline::message::{Disconnected, EarlyEnd, FileStep, LargeFile, ReadEnd, send};
use crate::sys;
use crate::transfer::context::Context;

/// What the reader sends to the hasher.
pub type ReadStep = FileStep<Result<ReadEnd, EarlyEnd>>;

/// Where the content of a file is read.
#[derive(Clone, Copy)]
pub enum ContentFrom<'a> {
    /// From an open file that is this worker's alone.
    Own(&'a WatchedFile<'a>),
    /// Together with other outputs.
    Shared(&'a Subscription<'a>, &'a OwnOrigin<'a>),
}

impl<'a> ContentFrom<'a> {
    /// The file, to be looked at.
    pub fn file(self) -> &'a WatchedFile<'a> {
        match self {
            ContentFrom::Own(file) => file,
            ContentFrom::Shared(_, own) => own.file,
        }
    }

    /// Whether `read` bytes that outputs shared are all there are: what is shared ends at the size that was
    /// listed, whatever is behind it.
    fn ends_at(self, read: u64) -> Result<bool, Error> {
        match self {
            ContentFrom::Own(_) => Ok(false),
            ContentFrom::Shared(_, own) if read < own.entry.stat.size => Ok(false),
            ContentFrom::Shared(_, own) => own.file.ends_at(read),
        }
    }
}

/// Why reading a file ended before its end.
pub enum ReadError {
    /// The file is not copied.
    Early(EarlyEnd),
    /// The hasher is gone.
    Gone,
}

impl ReadError {
    /// How the file ends; an error if there is nowhere to tell.
    pub fn into_early_end(self) -> Result<EarlyEnd, Disconnected> {
        match self {
            ReadError::Early(end) => Ok(end),
            ReadError::Gone => Err(Disconnected),
        }
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError::Early(EarlyEnd::Failed(error))
    }
}

impl From<Disconnected> for ReadError {
    fn from(_: Disconnected) -> Self {
        ReadError::Gone
    }
}

/// Reads files into blocks and sends these on.
pub struct ContentReader<'a> {
    /// What the run shares.
    pub context: &'a Context<'a>,
    pub pool: BlockPool,
    pub next: Sender<ReadStep>,
    /// The file that is read, if a program shows it.
    pub in_hand: Option<Arc<FileInHand>>,
}

impl ContentReader<'_> {
    /// Reads and sends the whole content from `total` on, which says how far it came; false if the rest
    /// is not to be had where it is from.
    pub fn read(
        &self,
        large: &LargeFile,
        from: ContentFrom<'_>,
        total: &mut u64,
    ) -> Result<bool, ReadError> {
        let file = from.file();
        let is_sparse = large.transfer.entry().stat.is_sparse();
        if is_sparse && self.context.options.sparse != Sparse::Never {
            self.read_extents(large, from, total)?;
        } else if *total > 0 {
            self.seek(file, *total)?;
        }
        // Also after the extents: a file that grew is read to its end, and found to have grown.
        while !file.is_all(*total) && !from.ends_at(*total)? {
            if !self.read_block(large, from, u64::MAX, total)? {
                if let ContentFrom::Shared(..) = from {
                    return Ok(false);
                }
                break;
            }
        }
        file.check(*total)?;
        Ok(true)
    }

    /// Reads the data of a file with holes and names the holes. It comes nowhere where the file
    /// system does not tell where the holes are.
    fn read_extents(
        &self,
        large: &LargeFile,
        from: ContentFrom<'_>,
        at: &mut u64,
    ) -> Result<(), ReadError> {
        let (file, size, start) = (from.file(), large.transfer.entry().stat.size, *at);
        while *at < size {
            let extent = sys::next_extent(file.file(), *at, size)
                .map_err(|error| file.error("find the holes of", error))?;
            let Some(extent) = extent else { break };
            while *at < extent.start {
                self.continue_unless_stopped(large)?;
                // In parts, so that there are checkpoints in a long one.
                let hole = (extent.start - *at).min(large.checkpoints.unwrap_or(u64::MAX));
                self.advance(hole);
                self.send(FileStep::Hole(hole))?;
                *at += hole;
            }
            self.seek(file, *at)?;
            while *at < extent.end {
                if !self.read_block(large, from, extent.end - *at, at)? {
                    return Ok(());
                }
            }
        }
        if *at == start { self.seek(file, start) } else { Ok(()) }
    }

    /// Reads and sends a block of at most `limit` bytes, adding to `total`; false at the end.
    fn read_block(
        &self,
        large: &LargeFile,
        from: ContentFrom<'_>,
        limit: u64,
        total: &mut u64,
    ) -> Result<bool, ReadError> {
        let clock = &self.context.control.timings.read;
        self.continue_unless_stopped(large)?;
        let file = match from {
            ContentFrom::Own(file) => file,
            ContentFrom::Shared(subscription, own) => {
                let busy = Timer::start(&clock.busy);
                let Some(chunk) = subscription.next(own, *total, limit) else {
                    return Ok(false);
                };
                drop(busy);
                *total += chunk.len() as u64;
                self.advance(chunk.len() as u64);
                self.send(FileStep::Data(Data::Shared(chunk)))?;
                return Ok(true);
            }
        };
        let mut block = self.pool.take(clock);
        let busy = Timer::start(&clock.busy);
        while (block.len() as u64) < limit && !file.is_all(*total) {
            let room = block.room();
            let room_len = room.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
            if room_len == 0 {
                break;
            }
            let read = file.read(&mut room[..room_len])?;
            if read == 0 {
                break;
            }
            block.fill(read);
            *total += read as u64;
            self.advance(read as u64);
            if block.len() as u64 >= limit {
                break;
            }
        }
        drop(busy);
        if block.is_empty() {
            return Ok(false);
        }
        self.send(FileStep::Data(Data::Own(block)))?;
        Ok(true)
    }

    /// So many bytes more were read.
    fn advance(&self, bytes: u64) {
        self.context.control.progress.advance(bytes, self.in_hand.as_deref());
    }

    /// An error if the run is to stop, or a later stage gave the file up.
    pub fn continue_unless_stopped(&self, large: &LargeFile) -> Result<(), ReadError> {
        match self.context.control.stop.is_urgent() || large.is_given_up() {
            true => Err(ReadError::Early(EarlyEnd::Abandoned)),
            false => Ok(()),
        }
    }

    /// Goes to a place in an open file.
    pub fn seek(&self, file: &WatchedFile<'_>, to: u64) -> Result<(), ReadError> {
        Ok(file.seek(to).map_err(|error| file.error("find the data of", error))?)
    }

    /// Sends a step to the hasher.
    pub fn send(&self, step: ReadStep) -> Result<(), Disconnected> {
        send(&self.next, step, &self.context.control.timings.read)
    }
}
