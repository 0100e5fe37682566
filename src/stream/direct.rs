//! One output and no digest: one thread, and the kernel moves the bytes where it can.
//!
//! Between a pipe and a pipe or a file by splice(2), between files by copy_file_range(2) or sendfile(2),
//! otherwise read and written. A way is given up for the next only while it moved nothing, or where what it
//! did not move is still in the pipe.

use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::{io, thread::Builder, thread::Scope, thread::ScopedJoinHandle, time::Duration};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::{
    error::Error, error::Result, event::Timer, hash::Algorithm, hash::Algorithms,
    hash::ChainHasher, hash::Digest, hash::Digests, io::Block, io::BlockPool, io::Control,
    io::Options, stream::DIED, stream::OutputOutcome, stream::OutputStates, stream::StreamContent,
    stream::input::Input, stream::input::ReadResult, stream::place::DropReason,
    stream::place::OpenOutput, sys, sys::KernelCopy, sys::Mover, sys::Spliced, sys::stat::Kind,
    transfer::Context,
};

/// The most that is asked for in one call, in bytes: what a pipe holds at most, for any user.
pub const MOST: u64 = 1 << 20;

/// … and of a file into a pipe. The pipe is locked for all of a call, and its reader waits meanwhile: of
/// 256 MiB, the least and the median of four rounds took 58 and 84 ms with 1 MiB, 37 and 70 ms with 256 KiB,
/// 35 and 38 ms with 128 KiB, 43 and 56 ms with 64 KiB.
const MOST_OF_FILE: u64 = 128 << 10;

pub struct DirectEngine<'a> {
    /// The output, until it is settled.
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
        let context = output.context;
        let scratch =
            BlockPool::new(1, context.options.block_size).take(&context.control.timings.read);
        Self { output: Some(output), scratch }
    }

    fn settle(&mut self, states: &mut OutputStates<'_>, lost: DropReason) -> FeedError {
        if let Some(output) = self.output.take() {
            states.settle(output.number, output.discard(lost));
        }
        FeedError::All
    }
}

/// The first way to try from one to the other.
fn first(input: &Input<'_>, output: &OpenOutput<'_>) -> MoveBy {
    let to = output.end().map_or(Kind::File, |end| end.stat.kind);
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
            states.settle(output.number, output.discard(DropReason::Closed));
        }
    }

    fn spoil(&mut self, states: &mut OutputStates<'_>) {
        if let Some(output) = self.output.take_if(|output| output.is_file()) {
            let lost = DropReason::Failed(output.cut_short());
            states.settle(output.number, output.discard(lost));
        }
    }

    fn finish(
        mut self: Box<Self>,
        whole: bool,
        states: &mut OutputStates<'_>,
    ) -> Option<Arc<StreamContent>> {
        if let Some(output) = self.output.take() {
            let number = output.number;
            let outcome = match whole {
                true => output.finish(None),
                false => output.discard(DropReason::Stopped),
            };
            states.settle(number, outcome);
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

// Reading, hashing and writing side by side: blocks go from the reader to the hasher and from there to a
// writer for each output, which share them.
//
// The digest reaches the writers in the message that ends the stream, so that what was not completely read
// and hashed cannot have one. An output that is slow holds the others back when its queue is full; what
// is still sent to one that is lost is dropped.

/// A message from the reader to the hasher.
enum ToHasher {
    Data(Block),
    Spoiled,
    End,
}

/// A message from the hasher to the writers.
#[derive(Clone)]
enum ToWriter {
    Data(Arc<Block>),
    Spoiled,
    End(Option<Arc<StreamContent>>),
}

/// A thread that computes further digests of what passes, so that the one that proves need not wait for a slower one.
struct FurtherHashing<'scope> {
    to: Sender<Arc<Block>>,
    thread: ScopedJoinHandle<'scope, Option<Digests>>,
}

impl<'scope> FurtherHashing<'scope> {
    /// Starts it, if there is anything to compute.
    fn start(
        scope: &'scope Scope<'scope, '_>,
        algorithms: Algorithms,
        blocks: usize,
    ) -> io::Result<Option<Self>> {
        if algorithms.is_empty() {
            return Ok(None);
        }
        let (to, from) = bounded::<Arc<Block>>(blocks);
        let work = move || {
            let mut hasher = algorithms.start();
            from.iter().for_each(|block| hasher.update(&block));
            hasher.finish_all(algorithms)
        };
        let thread = Builder::new().name("further".into()).spawn_scoped(scope, work)?;
        Ok(Some(Self { to, thread }))
    }

    /// Nothing more comes: its digests. None if it died.
    fn finish(self) -> Option<Vec<Digest>> {
        drop(self.to);
        let digests = self.thread.join().ok()??;
        Some(digests.iter().copied().collect())
    }
}

/// The engine: the reader's side of it.
pub struct HashedEngine<'scope, 'a> {
    context: Context<'a>,
    pool: BlockPool,
    /// A block that was taken and in which nothing is yet.
    block: Option<Block>,
    to_hasher: Option<Sender<ToHasher>>,
    told: Receiver<(usize, OutputOutcome)>,
    hasher: Option<ScopedJoinHandle<'scope, Option<Arc<StreamContent>>>>,
    writers: Vec<(usize, ScopedJoinHandle<'scope, ()>)>,
}

impl<'scope, 'a: 'scope> HashedEngine<'scope, 'a> {
    /// Starts the threads for these outputs; the chain of what comes is kept if `keeps_chain`.
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        context: &Context<'a>,
        outputs: Vec<OpenOutput<'a>>,
        keeps_chain: bool,
    ) -> Result<Self> {
        let context = *context;
        let fail = |error| Error::io("start the threads for", "the stream", error);
        let (to_hasher, from_reader) = bounded(context.options.blocks);
        let (tell, told) = bounded(outputs.len());
        let (mut writers, mut to_writers) = (Vec::new(), Vec::new());
        for output in outputs {
            let number = output.number;
            let (to_writer, from_hasher) = bounded(context.options.blocks);
            let tell = tell.clone();
            let work = move || {
                let outcome = write(output, &from_hasher);
                // There is room for every outcome.
                let _ = tell.send((number, outcome));
                // A block that came too late for an output that is lost must go home all the same: with
                // one block there is no other to go on with.
                from_hasher.iter().for_each(drop);
            };
            let writer = Builder::new().name(format!("write{number}"));
            writers.push((number, writer.spawn_scoped(scope, work).map_err(fail)?));
            to_writers.push(to_writer);
        }
        let Options { further, blocks, .. } = context.options;
        let further = FurtherHashing::start(scope, further, blocks).map_err(fail)?;
        let work = move || hash(&context, keeps_chain, &from_reader, to_writers, further);
        let hasher = Builder::new().name("hash".into()).spawn_scoped(scope, work).map_err(fail)?;
        Ok(Self {
            pool: BlockPool::new(context.options.blocks, context.options.block_size),
            block: None,
            context,
            to_hasher: Some(to_hasher),
            told,
            hasher: Some(hasher),
            writers,
        })
    }

    fn send(&self, read: ToHasher) -> Result<(), FeedError> {
        let sent = self.to_hasher.as_ref().is_some_and(|to_hasher| to_hasher.send(read).is_ok());
        if sent { Ok(()) } else { Err(FeedError::All) }
    }
}

impl Engine for HashedEngine<'_, '_> {
    fn hear(&mut self, states: &mut OutputStates<'_>) {
        self.told.try_iter().for_each(|(number, outcome)| states.settle(number, outcome));
    }

    fn feed(
        &mut self,
        input: &mut Input<'_>,
        states: &mut OutputStates<'_>,
    ) -> Result<(), FeedError> {
        let Control { stop, timings, progress, .. } = self.context.control;
        while !input.is_all() {
            self.hear(states);
            if stop.is_urgent() || !states.are_open() {
                return Err(FeedError::All);
            }
            let mut block = match self.block.take() {
                Some(block) => block,
                None => self.pool.take(&timings.read),
            };
            let came = {
                let _busy = Timer::start(&timings.read.busy);
                input.read(block.room()).map_err(FeedError::Input)?
            };
            match came {
                ReadResult::End => {
                    self.block = Some(block);
                    break;
                }
                ReadResult::Nothing => self.block = Some(block),
                ReadResult::Bytes(bytes) => {
                    block.fill(bytes);
                    progress.bytes.fetch_add(bytes as u64, Relaxed);
                    self.send(ToHasher::Data(block))?;
                }
            }
        }
        input.finish().map_err(FeedError::Input)
    }

    fn spoil(&mut self, _: &mut OutputStates<'_>) {
        // Fails only when the hasher has ended, and then no output is left to be spoiled.
        let _ = self.send(ToHasher::Spoiled);
    }

    fn finish(
        mut self: Box<Self>,
        whole: bool,
        states: &mut OutputStates<'_>,
    ) -> Option<Arc<StreamContent>> {
        self.block = None;
        if whole {
            let _ = self.send(ToHasher::End);
        }
        self.to_hasher = None;
        let content = match self.hasher.take().map(ScopedJoinHandle::join) {
            Some(Ok(content)) => content,
            None => None,
            Some(Err(_)) => {
                // The outputs know no more than that nothing comes any more.
                states.tell(&Error::finding("hash", "the stream", DIED));
                None
            }
        };
        let writers = std::mem::take(&mut self.writers);
        let died = |(number, writer): (usize, ScopedJoinHandle<'_, ()>)| {
            writer.join().is_err().then_some(number)
        };
        let died: Vec<usize> = writers.into_iter().filter_map(died).collect();
        self.hear(states);
        for number in died {
            states.died(number);
        }
        content
    }
}

/// Hashes what comes, until it ends or no output is left. Returns what is known of all.
fn hash(
    context: &Context<'_>,
    keeps_chain: bool,
    from: &Receiver<ToHasher>,
    mut to: Vec<Sender<ToWriter>>,
    further: Option<FurtherHashing<'_>>,
) -> Option<Arc<StreamContent>> {
    let mut hasher = match keeps_chain {
        true => ChainHasher::keeping(context.options.asked.algorithm.start()),
        false => ChainHasher::without(context.options.asked.algorithm.start()),
    };
    let clock = &context.control.timings.hash;
    while !to.is_empty() {
        let read = {
            let _waiting = Timer::start(&clock.waited);
            from.recv()
        };
        let hashed = match read {
            Ok(ToHasher::Data(block)) => {
                let _busy = Timer::start(&clock.busy);
                let block = Arc::new(block);
                // That it died is found at the end.
                let _ = further.as_ref().map(|further| further.to.send(Arc::clone(&block)));
                hasher.update(&block);
                ToWriter::Data(block)
            }
            Ok(ToHasher::Spoiled) => ToWriter::Spoiled,
            Ok(ToHasher::End) => {
                let size = hasher.hasher().taken();
                let (digest, chain) = hasher.finish();
                let further = further.map_or_else(|| Some(Vec::new()), FurtherHashing::finish);
                let digests = digest.zip(further);
                let digests = digests.map(|(proof, further)| Digests::new(proof, further));
                let content =
                    digests.map(|digests| Arc::new(StreamContent { digests, size, chain }));
                to.retain(|to| to.send(ToWriter::End(content.clone())).is_ok());
                return content;
            }
            Err(_) => return None,
        };
        to.retain(|to| to.send(hashed.clone()).is_ok());
    }
    None
}

/// Writes what comes to an output, until that is complete or lost.
fn write(mut output: OpenOutput<'_>, from: &Receiver<ToWriter>) -> OutputOutcome {
    let clock = &output.context.control.timings.write;
    loop {
        let hashed = {
            let _waiting = Timer::start(&clock.waited);
            from.recv_timeout(LOOK)
        };
        let _busy = Timer::start(&clock.busy);
        match hashed {
            Err(RecvTimeoutError::Timeout) if output.has_lost_reader() => {
                return output.discard(DropReason::Closed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(ToWriter::Data(block)) => {
                if let Err(lost) = output.write(&block) {
                    return output.discard(lost);
                }
            }
            Ok(ToWriter::Spoiled) if output.is_file() => {
                let lost = DropReason::Failed(output.cut_short());
                return output.discard(lost);
            }
            Ok(ToWriter::Spoiled) => {}
            Ok(ToWriter::End(None))
                if output.context.options.asked.algorithm != Algorithm::None =>
            {
                let finding = "it came to no digest; this is a defect of dircopy";
                let error = Error::finding("complete", output.endpoint.path(), finding);
                return output.discard(DropReason::Failed(error));
            }
            Ok(ToWriter::End(content)) => return output.finish(content.as_deref()),
            Err(RecvTimeoutError::Disconnected) => return output.discard(DropReason::Stopped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::tests::told;

    #[test]
    fn the_death_of_the_hasher_is_told() {
        let failures = told(|context, states| {
            std::thread::scope(|scope| {
                let hasher =
                    scope.spawn(|| -> Option<Arc<StreamContent>> { panic!("as a test wants it") });
                let chain = HashedEngine {
                    context: *context,
                    pool: BlockPool::new(1, 1),
                    block: None,
                    to_hasher: None,
                    told: bounded(1).1,
                    hasher: Some(hasher),
                    writers: Vec::new(),
                };
                assert!(Box::new(chain).finish(true, states).is_none());
            });
        });
        let told = "cannot hash the stream: its thread died; this is a defect of dircopy";
        assert_eq!(failures, [told]);
    }
}
