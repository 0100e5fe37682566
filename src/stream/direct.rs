//! One output and no digest: one thread, and the kernel moves the bytes where it can.
//!
//! Between a pipe and a pipe or a file by splice(2), between files by copy_file_range(2) or sendfile(2),
//! otherwise read and written. A way is given up for the next only while it moved nothing, or where what it
//! did not move is still in the pipe.

use std::sync::atomic::Ordering::Relaxed;

use crate::hash::Digest;
use crate::io::block::{Block, BlockPool};
use crate::stream::ends::Ends;
use crate::stream::gear::{Cut, Gear};
use crate::stream::input::{Came, Input};
use crate::stream::output::{Lost, Output};
use crate::sys::stat::Kind;
use crate::sys::{self, KernelCopy, Mover, Spliced};

/// The most that is asked for in one call, in bytes: what a pipe holds at most, for any user.
pub const MOST: u64 = 1 << 20;

/// … and of a file into a pipe. The pipe is locked for all of a call, and who reads from it waits meanwhile: of
/// 256 MiB, the least and the median of four rounds took 58 and 84 ms with 1 MiB, 37 and 70 ms with 256 KiB,
/// 35 and 38 ms with 128 KiB, 43 and 56 ms with 64 KiB.
const PORTION: u64 = 128 << 10;

/// The gear.
pub struct Direct<'a> {
    /// The number of the output, and the output itself until it is settled.
    number: usize,
    output: Option<Output<'a>>,
    /// For what the kernel does not move.
    scratch: Block,
}

/// How bytes are moved.
enum How {
    Splice,
    Files(Mover),
    Through,
}

impl<'a> Direct<'a> {
    /// To this output.
    pub fn new(number: usize, output: Output<'a>) -> Self {
        let context = output.context;
        let scratch =
            BlockPool::new(1, context.options.block_size).take(&context.control.clocks.read);
        Self { number, output: Some(output), scratch }
    }

    fn settle(&mut self, ends: &mut Ends<'_>, lost: Lost) -> Cut {
        if let Some(output) = self.output.take() {
            ends.settle(self.number, output.discard(lost));
        }
        Cut::All
    }
}

/// How bytes can go from one to the other.
fn first(input: &Input<'_>, output: &Output<'_>) -> How {
    let to = output.end().map_or(Kind::File, |end| end.stat().kind);
    match (input.stat().kind, to) {
        (Kind::Fifo, Kind::Fifo | Kind::File) | (Kind::File, Kind::Fifo) => How::Splice,
        (Kind::File, Kind::File) => How::Files(Mover::new(KernelCopy::Range)),
        _ => How::Through,
    }
}

/// Moves what there is in one step.
fn step(
    how: &mut How,
    input: &mut Input<'_>,
    output: &mut Output<'_>,
    scratch: &mut Block,
) -> Result<Option<u64>, Step> {
    let most = match input.stat().kind {
        Kind::File => PORTION,
        _ => MOST,
    };
    let most = input.before_move(most);
    let from = input.file();
    let spliced = match how {
        How::Splice => output.take(most, |to, most| sys::splice(from, to, most)),
        How::Files(mover) => output.take(input.before_move(u64::MAX), |to, most| {
            Ok(mover.go_on(from, to, most)?.map_or(Spliced::NotHere, Spliced::Bytes))
        }),
        How::Through => {
            scratch.clear();
            return match input.read(scratch.room()).map_err(Step::Input)? {
                Came::Nothing => Ok(None),
                Came::End => Ok(Some(0)),
                Came::Bytes(bytes) => {
                    scratch.fill(bytes);
                    output.write(scratch).map_err(Step::Output)?;
                    Ok(Some(bytes as u64))
                }
            };
        }
    };
    match spliced.map_err(Step::Output)? {
        Spliced::Wait => Ok(None),
        Spliced::NotHere => {
            *how = How::Through;
            Ok(None)
        }
        // The stated size of a file may mean nothing: reading will show.
        Spliced::Bytes(0) if input.stat().kind == Kind::File && input.came() == 0 => {
            *how = How::Through;
            Ok(None)
        }
        Spliced::Bytes(bytes) => {
            input.moved(bytes);
            Ok(Some(bytes))
        }
    }
}

/// Why a step could not be made.
enum Step {
    Input(crate::error::Error),
    Output(Lost),
}

impl Gear for Direct<'_> {
    fn feed(&mut self, input: &mut Input<'_>, ends: &mut Ends<'_>) -> Result<(), Cut> {
        let Some(output) = &mut self.output else { return Err(Cut::All) };
        let context = output.context;
        let mut how = first(input, output);
        while !input.is_all() {
            if context.control.stop.is_urgent() {
                return Err(self.settle(ends, Lost::Stopped));
            }
            match step(&mut how, input, output, &mut self.scratch) {
                Ok(None) => {}
                Ok(Some(0)) => break,
                Ok(Some(bytes)) => {
                    context.control.progress.bytes.fetch_add(bytes, Relaxed);
                }
                Err(Step::Input(error)) => return Err(Cut::Input(error)),
                Err(Step::Output(lost)) => return Err(self.settle(ends, lost)),
            }
        }
        input.finish().map_err(Cut::Input)
    }

    fn spoil(&mut self, ends: &mut Ends<'_>) {
        if let Some(output) = self.output.take_if(|output| output.is_file()) {
            let lost = Lost::Failed(output.cut_short());
            ends.settle(self.number, output.discard(lost));
        }
    }

    fn finish(mut self: Box<Self>, whole: bool, ends: &mut Ends<'_>) -> Option<Digest> {
        if let Some(output) = self.output.take() {
            let fate = match whole {
                true => output.finish(None),
                false => output.discard(Lost::Stopped),
            };
            ends.settle(self.number, fate);
        }
        None
    }
}
