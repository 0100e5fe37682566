//! The second thread of a worker: hashes what passes through, of one file or of two at a time.
//!
//! Two files on their way are two series of dependent steps, which one core works through side by side
//! ([`multibuffer`](crate::hash::multibuffer)). The blocks that have come of both are hashed together; the
//! hasher waits for neither: while the next block of one is being read, the other is hashed by itself.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use crossbeam_channel::{Receiver, Select, Sender, TryRecvError};

use crate::transfer::{CommitterMessage, Context, Outcome, TransferResult, finish};
use crate::{
    error::Error, error::Result, event::StageTiming, event::Timer, fanout::Data, hash::ChainHasher,
    hash::Digest, part::CheckpointPlan, part::Part, part::resume::Checkpoints,
    pipeline::message::Disconnected, pipeline::message::EarlyEnd, pipeline::message::FileStep,
    pipeline::message::LargeFile, pipeline::message::ReadEnd, pipeline::message::ReadStep,
    pipeline::message::receive_unless, pipeline::message::send, transfer,
};

/// The hasher's message to the writer: the digest comes with the end, or not at all.
pub type HashedStep = FileStep<HashedEnd>;

/// The end of a file as it leaves the hasher.
pub type HashedEnd = Result<(ReadEnd, Option<Digest>), EarlyEnd>;

/// The next message from a reader: nothing yet, or nothing any more, are errors.
type Received = Result<ReadStep, TryRecvError>;

/// The hasher's part of a route from a reader to its writer, and the file that is on its way there.
pub struct HashRoute {
    from: Receiver<ReadStep>,
    to: Sender<HashedStep>,
    hasher: ChainHasher,
    marks: CheckpointPlan,
    file: Option<Arc<LargeFile>>,
}

/// Works until the reader or the writer of every route is gone.
pub fn hash_blocks(context: &Context<'_>, mut routes: Vec<HashRoute>) {
    let clock = &context.control.timings.hash;
    while !routes.is_empty() {
        let steps = receive(&routes, clock);
        hash(context, &mut routes, &steps);
        let mut steps = steps.into_iter();
        routes.retain_mut(|route| match steps.next() {
            Some(Ok(step)) => route.pass_on(context, step).is_ok(),
            Some(Err(TryRecvError::Disconnected)) => false,
            Some(Err(TryRecvError::Empty)) | None => true,
        });
    }
}

/// The next step of each route that has one, as soon as any has.
fn receive(routes: &[HashRoute], clock: &StageTiming) -> Vec<Received> {
    loop {
        let steps: Vec<Received> = routes.iter().map(|route| route.from.try_recv()).collect();
        if steps.iter().any(|step| !matches!(step, Err(TryRecvError::Empty))) {
            return steps;
        }
        let _waiting = Timer::start(&clock.waited);
        let mut any = Select::new();
        for route in routes {
            any.recv(&route.from);
        }
        any.ready();
    }
}

/// Hashes the bytes that came, together. What outputs share may be hashed already.
fn hash(context: &Context<'_>, routes: &mut [HashRoute], steps: &[Received]) {
    let _busy = Timer::start(&context.control.timings.hash.busy);
    let is_data = |step: &Received| matches!(step, Ok(FileStep::Data(_)));
    let is_twice = steps.iter().any(is_data) && context.control.progress.pieces.is_for_twice();
    let so_far = |route: &HashRoute| route.hasher.hasher().sha256().cloned();
    let before: Vec<_> = routes.iter().filter(|_| is_twice).map(so_far).collect();
    let mut together = Vec::with_capacity(routes.len());
    for (route, step) in routes.iter_mut().zip(steps) {
        match step {
            Ok(FileStep::Data(Data::Own(block))) => together.push((&mut route.hasher, &**block)),
            Ok(FileStep::Data(Data::Shared(chunk))) => chunk.hash(&mut route.hasher),
            _ => {}
        }
    }
    ChainHasher::update_together(context.options.asked.backend, together);
    for ((route, step), before) in routes.iter().zip(steps).zip(before) {
        if let (Ok(FileStep::Data(data)), Some(mut again), Some(file)) = (step, before, &route.file)
        {
            again.update(data);
            if route.hasher.hasher().sha256() != Some(&again) {
                file.miscomputed.store(true, Relaxed);
                file.give_up();
            }
        }
    }
}

impl HashRoute {
    /// A route without a file, between these ends.
    pub fn new(context: &Context<'_>, from: Receiver<ReadStep>, to: Sender<HashedStep>) -> Self {
        let hasher = ChainHasher::without(context.options.asked.algorithm.start());
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
            FileStep::Unmapped => FileStep::Unmapped,
            FileStep::Checkpoint(checkpoint) => FileStep::Checkpoint(checkpoint),
            FileStep::End(end) => {
                let none = ChainHasher::without(context.options.asked.algorithm.start());
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

// The third thread of a worker: writes what passes through, and closes the file.

/// The file that is being written: its part file, or why there is none.
struct Writing {
    large: Arc<LargeFile>,
    part: Result<Part>,
}

impl Writing {
    /// Does something with the part file; after an error there is none any more, and the stages
    /// before are told.
    fn with_part(self, act: impl FnOnce(&mut Part) -> Result<()>) -> Self {
        let Self { large, part } = self;
        let part = part.and_then(|mut part| match act(&mut part) {
            Ok(()) => Ok(part),
            Err(error) => {
                large.give_up();
                Err(part.discard(error))
            }
        });
        Self { large, part }
    }

    /// Empties the part file for a file that begins again as `large`, from now on without a journal,
    /// because that is about the earlier content.
    fn begin_again(self, large: Arc<LargeFile>, checkpoints: &mut Checkpoints) -> Self {
        let settled = checkpoints.end();
        if self.part.is_err() {
            large.give_up();
        }
        Self { large, part: self.part }.with_part(|part| part.clear(settled))
    }
}

/// Works until the hasher is gone. A file that is not closed by then failed.
pub fn write_blocks(
    context: &Context<'_>,
    from: &Receiver<HashedStep>,
    results: &Sender<CommitterMessage>,
    mut checkpoints: Checkpoints,
) {
    let clock = &context.control.timings.write;
    let mut writing: Option<Writing> = None;
    loop {
        let step = match receive_unless(from, clock, || {
            writing.is_some() && context.control.stop.is_urgent()
        }) {
            Some(step) => step,
            // What was begun must not stay because its reader hangs.
            None => Ok(FileStep::End(Err(EarlyEnd::Abandoned))),
        };
        let _busy = Timer::start(&clock.busy);
        let result = match (step, writing.take()) {
            (Ok(FileStep::Begin(large, mut part)), _) => {
                checkpoints.begin(part.take_journal());
                writing = Some(Writing { large, part: Ok(part) });
                continue;
            }
            (Ok(FileStep::Again(large)), open) => {
                writing = open.map(|open| open.begin_again(large, &mut checkpoints));
                continue;
            }
            (Ok(FileStep::Data(data)), open) => {
                writing = open.map(|open| open.with_part(|part| part.write(&data)));
                continue;
            }
            (Ok(FileStep::Hole(len)), open) => {
                writing = open.map(|open| open.with_part(|part| part.skip(len)));
                continue;
            }
            (Ok(FileStep::Unmapped), mut open) => {
                open.iter_mut().flat_map(|open| &mut open.part).for_each(Part::make_holes);
                writing = open;
                continue;
            }
            (Ok(FileStep::Checkpoint(at)), open) => {
                writing = open.map(|open| open.with_part(|part| part.note(&mut checkpoints, at)));
                continue;
            }
            (Ok(FileStep::End(_)), None) => continue,
            (Ok(FileStep::End(end)), Some(open)) => {
                close(context, open, Some(end), &mut checkpoints)
            }
            (Err(_), Some(open)) => close(context, open, None, &mut checkpoints),
            (Err(_), None) => return,
        };
        if results.send(CommitterMessage::Results(vec![result])).is_err() {
            return;
        }
    }
}

fn close(
    context: &Context<'_>,
    writing: Writing,
    end: Option<HashedEnd>,
    checkpoints: &mut Checkpoints,
) -> TransferResult {
    let Writing { large, part } = writing;
    let transfer = &large.transfer;
    let mut warnings = Vec::new();
    let outcome = match (part, end) {
        (Err(error), _) => Outcome::Failed(error),
        (Ok(part), _) if large.miscomputed.load(Relaxed) => {
            Outcome::Miscomputed(part.discard(transfer::miscomputed(transfer)))
        }
        (Ok(part), Some(Ok((read, digest)))) => match checkpoints.end() {
            Ok(()) => {
                warnings = read.warnings;
                finish(context, transfer, part, &read.attributes, digest, &mut warnings)
            }
            Err(error) => {
                let error = Error::io("make durable", transfer.target.path(), error);
                Outcome::Failed(part.discard(error))
            }
        },
        (Ok(part), Some(Err(EarlyEnd::Failed(error)))) => Outcome::Failed(part.discard(error)),
        (Ok(part), Some(Err(EarlyEnd::Abandoned))) => {
            let durable = match context.control.stop.is_asked() {
                true => checkpoints.stop_noting(),
                false => 0,
            };
            match part.leave(durable, &mut warnings) {
                true => Outcome::Suspended(durable),
                false => Outcome::Abandoned,
            }
        }
        (Ok(part), None) => {
            let died = "the thread that read or hashed it ended before the file did";
            let error = Error::finding("copy", transfer.source_path(), died);
            Outcome::Failed(part.discard(error))
        }
    };
    // What may still be on its way is of a part file that is gone, or cut off before it.
    let _ = checkpoints.end();
    TransferResult { transfer: transfer.clone(), outcome, warnings, resumed: large.start() }
}
