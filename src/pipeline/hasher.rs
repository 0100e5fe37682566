//! The second thread of a worker: hashes what passes through, of one file or of two at a time.
//!
//! Two files on their way are two series of dependent steps, which one core works through side by side
//! ([`multibuffer`](crate::hash::multibuffer)). What is there of both is hashed together; the hasher waits for
//! neither: a file whose next block is not there yet is being read, and the other is hashed by itself.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Select, Sender, TryRecvError};

use crate::event::timing::{StageTiming, Timer};
use crate::fanout::chunk::Data;
use crate::hash::Digest;
use crate::hash::chain::ChainHasher;
use crate::part::checkpoint::CheckpointPlan;
use crate::pipeline::content::ReadStep;
use crate::pipeline::message::{Disconnected, EarlyEnd, FileStep, LargeFile, ReadEnd, send};
use crate::transfer::context::Context;

/// What the hasher sends to the writer: the digest comes with the end, or not at all.
pub type HashedStep = FileStep<HashedEnd>;

/// How a file comes out of the hasher.
pub type HashedEnd = Result<(ReadEnd, Option<Digest>), EarlyEnd>;

/// What comes next from a reader: nothing yet, or nothing any more, are errors.
type Received = Result<ReadStep, TryRecvError>;

/// The hasher's part of a chain from a reader to its writer, and the file that is on its way there.
pub struct HashRoute {
    from: Receiver<ReadStep>,
    to: Sender<HashedStep>,
    hasher: ChainHasher,
    marks: CheckpointPlan,
    file: Option<Arc<LargeFile>>,
}

/// Works until the reader or the writer of every chain is gone.
pub fn work(context: &Context<'_>, mut chains: Vec<HashRoute>) {
    let clock = &context.control.timings.hash;
    while !chains.is_empty() {
        let steps = receive(&chains, clock);
        hash(context, &mut chains, &steps);
        let mut steps = steps.into_iter();
        chains.retain_mut(|chain| match steps.next() {
            Some(Ok(step)) => chain.pass_on(context, step).is_ok(),
            Some(Err(TryRecvError::Disconnected)) => false,
            Some(Err(TryRecvError::Empty)) | None => true,
        });
    }
}

/// The next step of each chain that has one, as soon as any has.
fn receive(chains: &[HashRoute], clock: &StageTiming) -> Vec<Received> {
    loop {
        let steps: Vec<Received> = chains.iter().map(|chain| chain.from.try_recv()).collect();
        if steps.iter().any(|step| !matches!(step, Err(TryRecvError::Empty))) {
            return steps;
        }
        let _waiting = Timer::start(&clock.waited);
        let mut any = Select::new();
        for chain in chains {
            any.recv(&chain.from);
        }
        any.ready();
    }
}

/// Hashes the bytes that came, together. What outputs share may be hashed already.
fn hash(context: &Context<'_>, chains: &mut [HashRoute], steps: &[Received]) {
    let _busy = Timer::start(&context.control.timings.hash.busy);
    let mut together = Vec::with_capacity(chains.len());
    for (chain, step) in chains.iter_mut().zip(steps) {
        match step {
            Ok(FileStep::Data(Data::Own(block))) => together.push((&mut chain.hasher, &**block)),
            Ok(FileStep::Data(Data::Shared(chunk))) => chunk.hash(&mut chain.hasher),
            _ => {}
        }
    }
    ChainHasher::update_together(context.options.backend, together);
}

impl HashRoute {
    /// A chain without a file, between these ends.
    pub fn new(context: &Context<'_>, from: Receiver<ReadStep>, to: Sender<HashedStep>) -> Self {
        let hasher = ChainHasher::without(context.options.algorithm.start());
        Self { from, to, hasher, marks: CheckpointPlan::new(None, 0, 0), file: None }
    }

    /// Passes a step on, the bytes of which are hashed; an error when the writer is gone.
    fn pass_on(&mut self, context: &Context<'_>, step: ReadStep) -> Result<(), Disconnected> {
        let clock = &context.control.timings.hash;
        let mut due = None;
        let step = match step {
            FileStep::Begin(large, part) => {
                self.hasher = begin(context, &large);
                let noted = self.hasher.states_from(0).map_or(0, |(_, states)| states.len());
                self.marks = CheckpointPlan::new(large.checkpoints, large.start(), noted);
                self.file = Some(Arc::clone(&large));
                FileStep::Begin(large, part)
            }
            FileStep::Again(large) => {
                let marks = CheckpointPlan::new(None, 0, 0);
                (self.hasher, self.marks) = (begin(context, &large), marks);
                self.file = Some(Arc::clone(&large));
                FileStep::Again(large)
            }
            FileStep::Data(data) => {
                due = self.marks.pass(data.len() as u64, &self.hasher);
                FileStep::Data(data)
            }
            FileStep::Hole(len) => {
                self.hash_hole(context, len);
                due = self.marks.pass(len, &self.hasher);
                FileStep::Hole(len)
            }
            FileStep::Checkpoint(checkpoint) => FileStep::Checkpoint(checkpoint),
            FileStep::End(end) => {
                let none = ChainHasher::without(context.options.algorithm.start());
                let hasher = std::mem::replace(&mut self.hasher, none);
                let file = self.file.take().filter(|file| !file.is_given_up());
                FileStep::End(match (end, file) {
                    (Ok(_), None) => Err(EarlyEnd::Abandoned),
                    (Ok(end), Some(file)) => {
                        Ok((end, context.keep_chain(&file.transfer.target, hasher)))
                    }
                    (Err(cut), _) => Err(cut),
                })
            }
        };
        send(&self.to, step, clock)?;
        due.map_or(Ok(()), |due| send(&self.to, FileStep::Checkpoint(due), clock))
    }

    /// Hashes the zeros of a hole. It may be terabytes long, so now and then this asks whether the file is
    /// still wanted.
    fn hash_hole(&mut self, context: &Context<'_>, len: u64) {
        let _busy = Timer::start(&context.control.timings.hash.busy);
        let mut left = len;
        while left > 0 && !self.file.as_ref().is_some_and(|file| file.is_given_up()) {
            if context.control.stop.is_urgent() {
                break;
            }
            let now = left.min(64 << 20);
            self.hasher.update_zeros(now);
            left -= now;
        }
        if left > 0
            && let Some(file) = &self.file
        {
            file.give_up();
        }
    }
}

/// The digest of a file at its beginning, or where it is gone on with.
fn begin(context: &Context<'_>, large: &LargeFile) -> ChainHasher {
    match &large.resumed {
        Some(resumed) => resumed.hasher.clone(),
        None => context.start_chain(large.transfer.entry().stat.size),
    }
}
