//! Several outputs and no digest: each has a pipe of its own, into which the kernel puts the same pages
//! (tee(2)), and a thread that moves them on (splice(2)).
//!
//! It goes in rounds. A round begins with all of these pipes empty, so that what the first could take, all of
//! them can: they are equally large. What is at the head, the pipe that is read from or, for any other input,
//! one that is filled from it, is let into all but the last by tee, and moved into the last. So a slow output
//! holds the others back by one pipe, and nothing is copied but into files.

use std::{
    fs::File, io, io::Read, sync::Arc, sync::atomic::Ordering::Relaxed, thread::Builder,
    thread::Scope, thread::ScopedJoinHandle, time::Duration, time::Instant,
};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    error::Deed, error::Error, error::Result, io::Block, io::BlockPool, io::Control,
    stream::OutputOutcome, stream::OutputStates, stream::StreamContent, stream::direct::Engine,
    stream::direct::FeedError, stream::direct::LOOK, stream::direct::MOST, stream::input::Input,
    stream::input::ReadResult, stream::place::DropReason, stream::place::OpenOutput, sys,
    sys::Spliced, sys::stat::Kind, transfer::Context,
};

/// Time between two looks whether a thread that does not answer has died.
const LOOK_UP: Duration = Duration::from_secs(1);

/// An order to an output's thread.
enum BranchOrder {
    /// Number of bytes that are in its pipe.
    Bytes(u64),
    /// Nothing more comes, and what came is all, or is not.
    End { whole: bool },
    /// Nothing came for a while: its reader may have gone away.
    Look,
    /// An input was cut short.
    Spoiled,
    /// The content of its pipe differs from that of the others.
    Apart,
}

/// A reply of an output's thread.
enum BranchReply {
    /// Its pipe is empty.
    Done,
    /// The result of the output, after which it says no more.
    Over(OutputOutcome),
}

/// An output's side that is filled.
struct Branch<'scope> {
    number: usize,
    pipe: File,
    tell: Sender<BranchOrder>,
    thread: ScopedJoinHandle<'scope, ()>,
}

pub struct TeeEngine<'scope, 'a> {
    context: Context<'a>,
    branches: Vec<Branch<'scope>>,
    said: Receiver<(usize, BranchReply)>,
    /// The pipe for inputs that are no pipes: it is read from the first and written to the second.
    head: (File, File),
    scratch: Block,
    /// When outputs were last told to look for their readers.
    looked: Instant,
}

impl<'scope, 'a: 'scope> TeeEngine<'scope, 'a> {
    /// Makes pipes and starts threads for these outputs; gives the outputs back where there are no pipes.
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        context: &Context<'a>,
        outputs: Vec<OpenOutput<'a>>,
    ) -> Result<Result<Self, Vec<OpenOutput<'a>>>> {
        let Ok(mut pipes) = outputs.iter().map(|_| sys::pipe()).collect::<io::Result<Vec<_>>>()
        else {
            return Ok(Err(outputs));
        };
        let Ok(head) = sys::pipe() else { return Ok(Err(outputs)) };
        let sizes = pipes.iter().chain([&head]).map(|(pipe, _)| sys::capacity(pipe));
        let (least, largest) = (sizes.clone().min(), sizes.max());
        if least != largest {
            // A user that has too many large pipes gets small ones.
            return Ok(Err(outputs));
        }
        let (say, said) = bounded(2 * outputs.len());
        let mut branches = Vec::new();
        for (output, (read, write)) in outputs.into_iter().zip(pipes.drain(..)) {
            let (tell, told) = bounded(1);
            let say = say.clone();
            let number = output.number;
            let work = move || work(output, &read, &told, &say);
            let thread = Builder::new().name(format!("write{number}"));
            let thread = thread
                .spawn_scoped(scope, work)
                .deed_at("start the threads for", || "the stream")?;
            branches.push(Branch { number, pipe: write, tell, thread });
        }
        let scratch = BlockPool::new(1, 64 << 10).take(&context.control.timings.read);
        Ok(Ok(Self { context: *context, branches, said, head, scratch, looked: Instant::now() }))
    }
}

impl TeeEngine<'_, '_> {
    /// Hands on what is at the head, to every branch; how much that was.
    fn round(
        &mut self,
        head: Option<&File>,
        states: &mut OutputStates<'_>,
    ) -> Result<Spliced, FeedError> {
        let Some((last, others)) = self.branches.split_last() else { return Err(FeedError::All) };
        let spliced = split(head.unwrap_or(&self.head.0), last, others).map_err(|error| {
            // Some have got bytes that others have not, and these cannot be taken back.
            states.tell(&Error::io("split", "the stream", error));
            self.tell_all(|| BranchOrder::Apart, states);
            FeedError::All
        })?;
        if let Spliced::Bytes(bytes @ 1..) = spliced {
            self.tell_all(|| BranchOrder::Bytes(bytes), states);
        }
        Ok(spliced)
    }

    /// Tells every branch, and waits until they are done with it.
    fn tell_all(&mut self, turn: impl Fn() -> BranchOrder, states: &mut OutputStates<'_>) {
        self.branches.iter().for_each(|branch| drop(branch.tell.send(turn())));
        let mut answered = 0;
        while answered < self.branches.len() {
            match self.said.recv_timeout(LOOK_UP) {
                Ok((_, BranchReply::Done)) => answered += 1,
                Ok((number, BranchReply::Over(outcome))) => {
                    states.settle(number, outcome);
                    self.branches.retain(|branch| branch.number != number);
                }
                Err(_) => {
                    for over in self.branches.extract_if(.., |it| it.thread.is_finished()) {
                        end(over, states);
                    }
                }
            }
        }
    }

    /// Puts what an input has into the head that is ours, as much as there is room for; false at its end.
    fn fill(&mut self, input: &mut Input<'_>, how: &mut bool) -> Result<Option<u64>, FeedError> {
        let room = sys::capacity(&self.head.1);
        if *how {
            let most = input.before_move(room);
            let spliced = sys::splice(input.file(), &self.head.1, most);
            let spliced = spliced.map_err(|error| FeedError::Input(input.error("copy", error)))?;
            match spliced {
                Spliced::Bytes(bytes) if bytes > 0 || input.stat().kind != Kind::File => {
                    input.moved(bytes);
                    return Ok(Some(bytes));
                }
                Spliced::Wait => return Ok(None),
                // Made up as it is read, or at the size that is stated, whatever is behind it.
                Spliced::Bytes(_) | Spliced::NotHere => *how = false,
            }
        }
        self.scratch.clear();
        let space = self.scratch.room();
        // The head is empty, so there is room for that.
        let most = space.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        match input.read(space.get_mut(..most).unwrap_or_default()).map_err(FeedError::Input)? {
            ReadResult::Nothing => Ok(None),
            ReadResult::End => Ok(Some(0)),
            ReadResult::Bytes(bytes) => {
                self.scratch.fill(bytes);
                let written = sys::write_all(&self.head.1, &self.scratch);
                written.map_err(|error| FeedError::Input(input.error("pass on", error)))?;
                Ok(Some(bytes as u64))
            }
        }
    }
}

impl Engine for TeeEngine<'_, '_> {
    fn feed(
        &mut self,
        input: &mut Input<'_>,
        states: &mut OutputStates<'_>,
    ) -> Result<(), FeedError> {
        let Control { stop, progress, .. } = self.context.control;
        let is_pipe = input.stat().kind == Kind::Fifo
            && sys::capacity(input.file()) <= sys::capacity(&self.head.0);
        let mut splices = input.stat().kind == Kind::File || input.stat().kind == Kind::Fifo;
        while !input.is_all() {
            if stop.is_urgent() || !states.are_open() {
                return Err(FeedError::All);
            }
            if is_pipe {
                match self.round(Some(input.file()), states)? {
                    Spliced::Bytes(0) => break,
                    Spliced::Bytes(bytes) => {
                        input.moved(bytes);
                        progress.bytes.fetch_add(bytes, Relaxed);
                    }
                    Spliced::Wait | Spliced::NotHere => self.hear(states),
                }
                continue;
            }
            match self.fill(input, &mut splices)? {
                None => self.hear(states),
                Some(0) => break,
                Some(mut bytes) => {
                    progress.bytes.fetch_add(bytes, Relaxed);
                    while bytes > 0 {
                        match self.round(None, states)? {
                            Spliced::Bytes(moved) => bytes = bytes.saturating_sub(moved),
                            Spliced::Wait | Spliced::NotHere => {}
                        }
                    }
                }
            }
        }
        input.finish().map_err(FeedError::Input)
    }

    /// Not in the threads by themselves: one that ended between two pipes of a round would leave them uneven.
    fn hear(&mut self, states: &mut OutputStates<'_>) {
        if self.looked.elapsed() >= LOOK {
            self.tell_all(|| BranchOrder::Look, states);
            self.looked = Instant::now();
        }
    }

    fn spoil(&mut self, states: &mut OutputStates<'_>) {
        self.tell_all(|| BranchOrder::Spoiled, states);
    }

    fn finish(
        mut self: Box<Self>,
        whole: bool,
        states: &mut OutputStates<'_>,
    ) -> Option<Arc<StreamContent>> {
        self.branches.iter().for_each(|branch| drop(branch.tell.send(BranchOrder::End { whole })));
        let branches = std::mem::take(&mut self.branches);
        branches.into_iter().for_each(|branch| end(branch, states));
        for (number, said) in self.said.try_iter() {
            if let BranchReply::Over(outcome) = said {
                states.settle(number, outcome);
            }
        }
        None
    }
}

/// Waits for the end of an output's thread, which is told nothing more. What became of the output it has
/// said, unless it died.
fn end(branch: Branch<'_>, states: &mut OutputStates<'_>) {
    let Branch { number, tell, thread, pipe } = branch;
    drop((tell, pipe));
    if thread.join().is_err() {
        states.died(number);
    }
}

/// Puts what is at the head into every pipe; how much that was.
fn split(head: &File, last: &Branch<'_>, others: &[Branch<'_>]) -> io::Result<Spliced> {
    let uneven = || Err(io::ErrorKind::WriteZero.into());
    let mut size = None;
    for branch in others {
        match (sys::tee(head, &branch.pipe, size.unwrap_or(MOST))?, size) {
            (Spliced::Wait, None) => return Ok(Spliced::Wait),
            (Spliced::Bytes(0), None) => return Ok(Spliced::Bytes(0)),
            (Spliced::Bytes(bytes), size_before) if size_before.is_none_or(|n| n == bytes) => {
                size = Some(bytes);
            }
            _ => return uneven(),
        }
    }
    // What was shared is taken from the head now; no other thread reads from there.
    let mut moved = 0;
    while size.is_none_or(|size| moved < size) {
        let left = size.map_or(MOST, |size| size - moved);
        match sys::splice(head, &last.pipe, left)? {
            Spliced::Bytes(0) if size.is_none() => return Ok(Spliced::Bytes(0)),
            Spliced::Wait if size.is_none() => return Ok(Spliced::Wait),
            Spliced::Bytes(bytes) if bytes > 0 => {
                moved += bytes;
                size = size.or(Some(bytes));
            }
            _ => return uneven(),
        }
    }
    Ok(Spliced::Bytes(moved))
}

/// Moves what comes into an output's pipe on to the output, until that is complete or lost.
fn work(
    mut output: OpenOutput<'_>,
    pipe: &File,
    told: &Receiver<BranchOrder>,
    say: &Sender<(usize, BranchReply)>,
) {
    let number = output.number;
    let mut splices = !matches!(output.end().map(|end| end.stat.kind), Some(Kind::Device));
    let outcome = loop {
        match told.recv() {
            Ok(BranchOrder::Bytes(bytes)) => match drain(&mut output, pipe, bytes, &mut splices) {
                Ok(()) => {}
                Err(lost) => break output.discard(lost),
            },
            Ok(BranchOrder::Look) if output.has_lost_reader() => {
                break output.discard(DropReason::Closed);
            }
            Ok(BranchOrder::Spoiled) if output.is_file() => {
                let lost = DropReason::Failed(output.cut_short());
                break output.discard(lost);
            }
            Ok(BranchOrder::Look | BranchOrder::Spoiled) => {}
            Ok(BranchOrder::Apart) => {
                let finding = "it is not known what it has of the stream";
                let error = Error::finding("go on with", output.endpoint.path(), finding);
                break output.discard(DropReason::Failed(error));
            }
            Ok(BranchOrder::End { whole: true }) => break output.finish(None),
            Ok(BranchOrder::End { whole: false }) | Err(_) => {
                break output.discard(DropReason::Stopped);
            }
        }
        if say.send((number, BranchReply::Done)).is_err() {
            break output.discard(DropReason::Stopped);
        }
    };
    let _ = say.send((number, BranchReply::Over(outcome)));
}

/// Moves so many bytes from the pipe to the output.
fn drain(
    output: &mut OpenOutput<'_>,
    pipe: &File,
    mut left: u64,
    splices: &mut bool,
) -> Result<(), DropReason> {
    let mut room = [0; 16 << 10];
    while left > 0 {
        if output.context.control.stop.is_urgent() {
            return Err(DropReason::Stopped);
        }
        if *splices {
            match output.take(left, |to, most| sys::splice(pipe, to, most))? {
                Spliced::Bytes(bytes) if bytes > 0 => left = left.saturating_sub(bytes),
                Spliced::Wait => {}
                Spliced::Bytes(_) | Spliced::NotHere => *splices = false,
            }
            continue;
        }
        let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let space = room.get_mut(..most).unwrap_or_default();
        let read = { pipe }.read(space).map_err(|error| {
            DropReason::Failed(Error::io("read what is to go to", output.endpoint.path(), error))
        })?;
        output.write(space.get(..read).unwrap_or_default())?;
        left = left.saturating_sub(read as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::tests::told;

    #[test]
    fn the_death_of_an_output_is_told() {
        // Where there are no such pipes there is no engine.
        if sys::pipe().is_err() {
            return;
        }
        let failures = told(|context, states| {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| panic!("as a test wants it"));
                let (tell, _told) = bounded(1);
                let branch = Branch { number: 0, pipe: sys::pipe().unwrap().1, tell, thread };
                let mut engine = TeeEngine {
                    context: *context,
                    branches: vec![branch],
                    said: bounded(1).1,
                    head: sys::pipe().unwrap(),
                    scratch: BlockPool::new(1, 1).take(&context.control.timings.read),
                    looked: Instant::now(),
                };
                engine.tell_all(|| BranchOrder::Spoiled, states);
            });
        });
        assert_eq!(failures, ["cannot finish out: its thread died; this is a defect of dircopy"]);
    }
}
