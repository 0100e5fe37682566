//! The threads of a worker, and the messages between them.

mod hasher;
pub mod message;
mod reader;

pub use message::Feed;

use std::{io, sync::Arc, thread::Builder, thread::Scope, thread::ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    event::Timer, hash::Algorithm, hash::Hasher, io::BlockPool, io::FurtherDigests, io::ReadBack,
    part::resume, part::resume::Checkpoints, pipeline::hasher::HashRoute,
    pipeline::hasher::HashedStep, pipeline::message::ContentReader,
    pipeline::message::Disconnected, pipeline::message::FileStep, pipeline::message::LargeFile,
    pipeline::message::ReadStep, pipeline::message::Tasks, pipeline::message::receive,
    pipeline::message::send, pipeline::reader::FileReader, transfer::CommitterMessage,
    transfer::Context, transfer::small, transfer::small::copy_files,
};

// Starting the workers of a run.

/// Steps between the hasher and the thread of further digests: as many as keep both busy.
const PASSING: usize = 4;

/// A worker that is to be started.
pub struct NewWorker<'scope> {
    /// The state that the run shares.
    pub context: &'scope Context<'scope>,
    /// For the names of its threads.
    pub number: usize,
    /// Where it takes work from.
    pub tasks: Tasks,
    /// Where it reports to.
    pub results: Sender<CommitterMessage>,
}

/// A worker that was started.
pub struct StartedWorker<'scope> {
    /// Its threads.
    pub threads: Vec<ScopedJoinHandle<'scope, ()>>,
    /// The hasher through which a second file can go, if that was asked for.
    pub second: Option<IdleRoute>,
}

/// A route through a hasher that has neither a reader nor a writer yet.
pub struct IdleRoute {
    pool: BlockPool,
    to_hasher: Sender<ReadStep>,
    from_hasher: Receiver<HashedStep>,
}

impl<'scope> NewWorker<'scope> {
    /// Starts three threads, and one for checkpoints if there are any, that work until there is no more work.
    /// With `paired` a second file can go through the hasher.
    ///
    /// # Errors
    /// The system has no threads to give; those already started then end by themselves.
    pub fn start(
        self,
        scope: &'scope Scope<'scope, '_>,
        paired: bool,
    ) -> io::Result<StartedWorker<'scope>> {
        let (context, number) = (self.context, self.number);
        // Of blocks that both could take, one reader would take all, and there would be nothing to pair.
        let blocks = context.options.blocks;
        let blocks = if paired { blocks.div_ceil(2) } else { blocks };
        let (first, route) = IdleRoute::new(context, blocks);
        let (second, further) = paired.then(|| IdleRoute::new(context, blocks)).unzip();
        let routes = [route].into_iter().chain(further).collect();
        let hash = move || hasher::hash_blocks(context, routes);
        let hasher = Builder::new().name(format!("hash-{number}")).spawn_scoped(scope, hash)?;
        let mut threads = first.start(scope, self)?;
        threads.push(hasher);
        Ok(StartedWorker { threads, second })
    }

    /// Starts one thread, with one block, for small files alone.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start_small(
        self,
        scope: &'scope Scope<'scope, '_>,
    ) -> io::Result<ScopedJoinHandle<'scope, ()>> {
        let Self { context, number, tasks, results } = self;
        let pool = scratch(context);
        let worker = SmallWorker { context, pool, read_back: ReadBack::new(), tasks, results };
        Builder::new().name(format!("small-{number}")).spawn_scoped(scope, move || worker.work())
    }
}

impl IdleRoute {
    fn new(context: &Context<'_>, blocks: usize) -> (Self, HashRoute) {
        // Blocks that outputs share are of no worker's pool: only this bounds how many are on their way.
        let queue = if context.shared.slot.is_some() { (blocks / 2).max(1) } else { blocks };
        let pool = BlockPool::new(blocks, context.options.block_size);
        let ((to_hasher, from_reader), (to_writer, from_hasher)) = (bounded(queue), bounded(queue));
        let route = HashRoute::new(context, from_reader, to_writer);
        (Self { pool, to_hasher, from_hasher }, route)
    }

    /// Starts the reader and the writer of `worker` at its ends.
    ///
    /// # Errors
    /// The system has no threads to give; those already started then end by themselves.
    pub fn start<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        worker: NewWorker<'scope>,
    ) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
        let Self { pool, to_hasher, mut from_hasher } = self;
        let NewWorker { context, number, tasks, results } = worker;
        let named = |stage| Builder::new().name(format!("{stage}-{number}"));
        let mut more = None;
        if let Some(asked) = context.further() {
            let (pass_on, passed) = bounded(PASSING);
            let from = std::mem::replace(&mut from_hasher, passed);
            let work = move || work(context, asked, &from, &pass_on);
            more = Some(named("further").spawn_scoped(scope, work)?);
        }
        let for_writer = results.clone();
        let content = ContentReader { context, pool, next: to_hasher, in_hand: None };
        let (read_back, scratch) = (ReadBack::new(), scratch(context));
        let reader = FileReader { content, scratch, read_back, tasks, results };
        let (checkpoints, (due, kept)) = Checkpoints::new();
        let mut threads = vec![
            named("write").spawn_scoped(scope, move || {
                hasher::write_blocks(context, &from_hasher, &for_writer, checkpoints);
            })?,
            named("read").spawn_scoped(scope, move || reader.work())?,
        ];
        threads.extend(more);
        if context.options.journaling.is_some() {
            let note = move || resume::work(&due, &kept);
            threads.push(named("checkpoint").spawn_scoped(scope, note)?);
        }
        Ok(threads)
    }
}

/// The block that small files of one thread go through.
fn scratch(context: &Context<'_>) -> BlockPool {
    let options = &context.options;
    let size = match options.asked.algorithm {
        Algorithm::Sha256 => small::room(options.block_size, options.asked.backend),
        _ => options.block_size,
    };
    BlockPool::new(1, size)
}

// A worker for small files alone: one thread with one block, which a batch of them fits into.

/// A worker for small files.
pub struct SmallWorker<'a> {
    /// The state that the run shares.
    pub context: &'a Context<'a>,
    pub pool: BlockPool,
    /// For files that are there already.
    pub read_back: ReadBack,
    /// Where work comes from.
    pub tasks: Tasks,
    pub results: Sender<CommitterMessage>,
}

impl SmallWorker<'_> {
    /// Works until there is no more to do, or the committer is gone.
    pub fn work(mut self) {
        while let Some(run) = self.tasks.next() {
            let mut scratch = self.pool.take(&self.context.control.timings.read);
            let results = copy_files(self.context, run, &mut scratch, &mut self.read_back);
            if self.results.send(CommitterMessage::Results(results)).is_err() {
                return;
            }
        }
    }
}

// A thread of a worker between hasher and writer, where further digests are asked for: it computes these of what
// passes through, while the hasher is at the next block.
//
// They wait under the file's path before the writer has the file's end, so they are there when it is listed.

/// The file that passes through.
struct PassingFile {
    large: Arc<LargeFile>,
    hasher: Hasher,
}

/// Works until the hasher or the writer is gone.
pub fn work(
    context: &Context<'_>,
    further: &FurtherDigests,
    from: &Receiver<HashedStep>,
    to: &Sender<HashedStep>,
) {
    let clock = &context.control.timings.hash;
    let mut passing = None;
    while let Ok(mut step) = receive(from, clock) {
        take(context, further, &mut passing, &mut step);
        if let Err(Disconnected) = send(to, step, clock) {
            return;
        }
    }
}

fn take(
    context: &Context<'_>,
    further: &FurtherDigests,
    passing: &mut Option<PassingFile>,
    step: &mut HashedStep,
) {
    let _busy = Timer::start(&context.control.timings.hash.busy);
    match step {
        FileStep::Begin(large, _) | FileStep::Again(large) => {
            let gone_on = large.resumed.as_ref().map(|resumed| resumed.further.clone());
            let (large, hasher) = (Arc::clone(large), gone_on.unwrap_or_else(|| further.start()));
            *passing = Some(PassingFile { large, hasher });
        }
        FileStep::Data(data) => passing.iter_mut().for_each(|file| file.hasher.update(data)),
        FileStep::Hole(len) => passing.iter_mut().for_each(|file| file.hash_hole(context, *len)),
        FileStep::Unmapped => {}
        FileStep::Checkpoint(checkpoint) => {
            // Every one of them can be written down where there are checkpoints.
            let states = passing.as_ref().and_then(|file| file.hasher.states());
            checkpoint.state.extend(states.unwrap_or_default());
        }
        FileStep::End(end) => {
            if let (Some(PassingFile { large, hasher }), Ok((_, Some(digest)))) =
                (passing.take(), end)
            {
                let path = large.transfer.target.rel_path();
                further.put(path.as_bytes(), *digest, hasher);
            }
        }
    }
}

impl PassingFile {
    /// Hashes the zeros of a hole, which may be terabytes long, while the file is still wanted.
    fn hash_hole(&mut self, context: &Context<'_>, len: u64) {
        let mut left = len;
        while left > 0 && !self.large.is_given_up() {
            if context.control.stop.is_urgent() {
                return self.large.give_up();
            }
            let now = left.min(16 << 20);
            self.hasher.update_zeros(now);
            left -= now;
        }
    }
}

#[cfg(test)]
mod tests;
