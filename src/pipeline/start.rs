//! Starting the workers of a run.

use std::io;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::hash::Algorithm;
use crate::io::block::BlockPool;
use crate::io::read_back::ReadBack;
use crate::part::checkpoint::{self, Checkpoints};
use crate::pipeline::content::{ContentReader, ReadStep};
use crate::pipeline::further;
use crate::pipeline::hasher::{self, HashRoute, HashedStep};
use crate::pipeline::queue::Tasks;
use crate::pipeline::reader::FileReader;
use crate::pipeline::small_worker::SmallWorker;
use crate::pipeline::writer;
use crate::transfer::context::Context;
use crate::transfer::outcome::CommitterMessage;
use crate::transfer::small::batch;

/// Steps between the hasher and the thread of further digests: as many as keep both busy.
const PASSING: usize = 4;

/// A worker that is to be started.
pub struct NewWorker<'scope> {
    /// What the run shares.
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
    /// By which a second file can go through its hasher, if that was asked for.
    pub second: Option<IdleChain>,
}

/// A chain through a hasher that has neither a reader nor a writer yet.
pub struct IdleChain {
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
        let (first, chain) = IdleChain::new(context, blocks);
        let (second, further) = paired.then(|| IdleChain::new(context, blocks)).unzip();
        let chains = [chain].into_iter().chain(further).collect();
        let hash = move || hasher::work(context, chains);
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

impl IdleChain {
    fn new(context: &Context<'_>, blocks: usize) -> (Self, HashRoute) {
        // Blocks that outputs share are of no worker's pool: only this bounds how many are on their way.
        let queue = if context.shared.slot.is_some() { (blocks / 2).max(1) } else { blocks };
        let pool = BlockPool::new(blocks, context.options.block_size);
        let ((to_hasher, from_reader), (to_writer, from_hasher)) = (bounded(queue), bounded(queue));
        let chain = HashRoute::new(context, from_reader, to_writer);
        (Self { pool, to_hasher, from_hasher }, chain)
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
            let work = move || further::work(context, asked, &from, &pass_on);
            more = Some(named("further").spawn_scoped(scope, work)?);
        }
        let for_writer = results.clone();
        let content = ContentReader { context, pool, next: to_hasher, in_hand: None };
        let (read_back, scratch) = (ReadBack::new(), scratch(context));
        let reader = FileReader { content, scratch, read_back, tasks, results };
        let (checkpoints, (due, kept)) = Checkpoints::new();
        let mut threads = vec![
            named("write").spawn_scoped(scope, move || {
                writer::work(context, &from_hasher, &for_writer, checkpoints);
            })?,
            named("read").spawn_scoped(scope, move || reader.work())?,
        ];
        threads.extend(more);
        if context.options.journaling.is_some() {
            let note = move || checkpoint::work(&due, &kept);
            threads.push(named("checkpoint").spawn_scoped(scope, note)?);
        }
        Ok(threads)
    }
}

/// The block that small files of one thread go through.
fn scratch(context: &Context<'_>) -> BlockPool {
    let options = &context.options;
    let size = match options.algorithm {
        Algorithm::Sha256 => batch::room(options.block_size, options.backend),
        _ => options.block_size,
    };
    BlockPool::new(1, size)
}
