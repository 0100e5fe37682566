//! One output and no digest: one thread, and the kernel moves the bytes where it can.
//!
//! Between a pipe and a pipe or a file by splice(2), between files by copy_file_range(2) or sendfile(2),
//! otherwise read and written. A way is given up for the next only while it moved nothing, or where what it
//! did not move is still in the pipe.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use crate::{
    error::Error, error::Result, io::Block, io::BlockPool, stream::input::Input,
    stream::input::ReadResult, stream::outcome::OutputStates, stream::outcome::StreamContent,
    stream::place::DropReason, stream::place::OpenOutput, sys, sys::KernelCopy, sys::Mover,
    sys::Spliced, sys::stat::Kind,
};

/// The most that is asked for in one call, in bytes: what a pipe holds at most, for any user.
pub const MOST: u64 = 1 << 20;

/// … and of a file into a pipe. The pipe is locked for all of a call, and its reader waits meanwhile: of
/// 256 MiB, the least and the median of four rounds took 58 and 84 ms with 1 MiB, 37 and 70 ms with 256 KiB,
/// 35 and 38 ms with 128 KiB, 43 and 56 ms with 64 KiB.
const MOST_OF_FILE: u64 = 128 << 10;

pub struct DirectEngine<'a> {
    /// The number of the output, and the output itself until it is settled.
    number: usize,
    output: Option<OpenOutput<'a>>,
    /// For what the kernel does not move.
    scratch: Block,
}

/// The way to move bytes.
enum MoveBy {
    Splice,
    Files(Mover),
    Through,
}

impl<'a> DirectEngine<'a> {
    pub fn new(output: OpenOutput<'a>) -> Self {
        let number = output.number;
        let context = output.context;
        let scratch =
            BlockPool::new(1, context.options.block_size).take(&context.control.timings.read);
        Self { number, output: Some(output), scratch }
    }

    fn settle(&mut self, states: &mut OutputStates<'_>, lost: DropReason) -> FeedError {
        if let Some(output) = self.output.take() {
            states.settle(self.number, output.discard(lost));
        }
        FeedError::All
    }
}

/// The first way to try from one to the other.
fn first(input: &Input<'_>, output: &OpenOutput<'_>) -> MoveBy {
    let to = output.end().map_or(Kind::File, |end| end.stat().kind);
    match (input.stat().kind, to) {
        (Kind::Fifo, Kind::Fifo | Kind::File) | (Kind::File, Kind::Fifo) => MoveBy::Splice,
        (Kind::File, Kind::File) => MoveBy::Files(Mover::new(KernelCopy::Range)),
        _ => MoveBy::Through,
    }
}

/// Moves what there is in one step.
fn step(
    how: &mut MoveBy,
    input: &mut Input<'_>,
    output: &mut OpenOutput<'_>,
    scratch: &mut Block,
) -> Result<Option<u64>, MoveError> {
    let most = match input.stat().kind {
        Kind::File => MOST_OF_FILE,
        _ => MOST,
    };
    let most = input.before_move(most);
    let from = input.file();
    let spliced = match how {
        MoveBy::Splice => output.take(most, |to, most| sys::splice(from, to, most)),
        MoveBy::Files(mover) => output.take(input.before_move(u64::MAX), |to, most| {
            Ok(mover.go_on(from, to, most)?.map_or(Spliced::NotHere, Spliced::Bytes))
        }),
        MoveBy::Through => {
            scratch.clear();
            return match input.read(scratch.room()).map_err(MoveError::Input)? {
                ReadResult::Nothing => Ok(None),
                ReadResult::End => Ok(Some(0)),
                ReadResult::Bytes(bytes) => {
                    scratch.fill(bytes);
                    output.write(scratch).map_err(MoveError::OpenOutput)?;
                    Ok(Some(bytes as u64))
                }
            };
        }
    };
    match spliced.map_err(MoveError::OpenOutput)? {
        Spliced::Wait => Ok(None),
        Spliced::NotHere => {
            *how = MoveBy::Through;
            Ok(None)
        }
        // What the kernel moves of a file ends at the stated size, whatever is behind it: reading will show.
        Spliced::Bytes(0) if input.stat().kind == Kind::File => {
            *how = MoveBy::Through;
            Ok(None)
        }
        Spliced::Bytes(bytes) => {
            input.moved(bytes);
            Ok(Some(bytes))
        }
    }
}

/// Why a step could not be made.
enum MoveError {
    Input(crate::error::Error),
    OpenOutput(DropReason),
}

impl Engine for DirectEngine<'_> {
    fn feed(
        &mut self,
        input: &mut Input<'_>,
        states: &mut OutputStates<'_>,
    ) -> Result<(), FeedError> {
        let Some(output) = &self.output else { return Err(FeedError::All) };
        let context = output.context;
        let mut how = first(input, output);
        while !input.is_all() {
            let Some(output) = &mut self.output else { return Err(FeedError::All) };
            if context.control.stop.is_urgent() {
                return Err(self.settle(states, DropReason::Stopped));
            }
            match step(&mut how, input, output, &mut self.scratch) {
                Ok(None) => self.hear(states),
                Ok(Some(0)) => break,
                Ok(Some(bytes)) => {
                    context.control.progress.bytes.fetch_add(bytes, Relaxed);
                }
                Err(MoveError::Input(error)) => return Err(FeedError::Input(error)),
                Err(MoveError::OpenOutput(lost)) => return Err(self.settle(states, lost)),
            }
        }
        input.finish().map_err(FeedError::Input)
    }

    fn hear(&mut self, states: &mut OutputStates<'_>) {
        if let Some(output) = self.output.take_if(|output| output.has_lost_reader()) {
            states.settle(self.number, output.discard(DropReason::Closed));
        }
    }

    fn spoil(&mut self, states: &mut OutputStates<'_>) {
        if let Some(output) = self.output.take_if(|output| output.is_file()) {
            let lost = DropReason::Failed(output.cut_short());
            states.settle(self.number, output.discard(lost));
        }
    }

    fn finish(
        mut self: Box<Self>,
        whole: bool,
        states: &mut OutputStates<'_>,
    ) -> Option<Arc<StreamContent>> {
        if let Some(output) = self.output.take() {
            let outcome = match whole {
                true => output.finish(None),
                false => output.discard(DropReason::Stopped),
            };
            states.settle(self.number, outcome);
        }
        None
    }
}

// The way of bytes from the inputs to the outputs: three ways with the same meaning.

/// Why an input is not gone on with.
pub enum FeedError {
    Input(Error),
    /// The run is to stop, or no output is left.
    All,
}

/// Time between two looks whether an output's reader went away, while an input is idle.
pub const LOOK: Duration = Duration::from_millis(100);

/// A way for the bytes.
pub trait Engine {
    /// Passes on all of an input. Outputs that are lost meanwhile are settled.
    fn feed(
        &mut self,
        input: &mut Input<'_>,
        states: &mut OutputStates<'_>,
    ) -> Result<(), FeedError>;

    /// Settles the outputs that were lost since; called while nothing comes.
    fn hear(&mut self, states: &mut OutputStates<'_>);

    /// An input was cut short: files are given up.
    fn spoil(&mut self, states: &mut OutputStates<'_>);

    /// Everything came, or, unless `whole`, it did not: settles the outputs that are left. Returns what
    /// is known of everything, if it was hashed.
    fn finish(
        self: Box<Self>,
        whole: bool,
        states: &mut OutputStates<'_>,
    ) -> Option<Arc<StreamContent>>;
}
