//! Starting the workers of a run.

use std::io;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Sender, bounded};

use crate::hash::Algorithm;
use crate::io::block::BlockPool;
use crate::io::read_back::ReadBack;
use crate::part::checkpoint::{self, Checkpoints};
use crate::pipeline::content::ContentReader;
use crate::pipeline::queue::Tasks;
use crate::pipeline::reader::FileReader;
use crate::pipeline::small_worker::SmallWorker;
use crate::pipeline::{hasher, writer};
use crate::transfer::context::Context;
use crate::transfer::outcome::CommitterMessage;
use crate::transfer::small::batch;

/// Starts worker number `number`: three threads, and one for checkpoints if there are any, that take work
/// from `tasks` and report to `results` until there is no more work. An error when the system has no threads
/// to give; the threads already started then end by themselves.
pub fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    number: usize,
    context: &'scope Context<'scope>,
    tasks: Tasks,
    results: Sender<CommitterMessage>,
) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
    let pool = BlockPool::new(context.options.blocks, context.options.block_size);
    // Blocks that outputs share are of no worker's pool: only this bounds how many are on their way.
    let queue = if context.shared.slot.is_some() {
        (context.options.blocks / 2).max(1)
    } else {
        context.options.blocks
    };
    let (to_hasher, from_reader) = bounded(queue);
    let (to_writer, from_hasher) = bounded(queue);
    let named = |stage| Builder::new().name(format!("{stage}-{number}"));
    let for_writer = results.clone();
    let read_back = ReadBack::new();
    let content = ContentReader { context, pool, next: to_hasher, in_hand: None };
    let reader = FileReader { scratch: scratch(context), content, read_back, tasks, results };
    let (checkpoints, (due, kept)) = Checkpoints::new();
    let mut threads = vec![
        named("write").spawn_scoped(scope, move || {
            writer::work(context, &from_hasher, &for_writer, checkpoints);
        })?,
        named("hash")
            .spawn_scoped(scope, move || hasher::work(context, &from_reader, &to_writer))?,
        named("read").spawn_scoped(scope, move || reader.work())?,
    ];
    if context.options.journaling.is_some() {
        threads
            .push(named("checkpoint").spawn_scoped(scope, move || checkpoint::work(&due, &kept))?);
    }
    Ok(threads)
}

/// Starts a worker for small files alone: one thread, with one block.
pub fn start_small<'scope>(
    scope: &'scope Scope<'scope, '_>,
    number: usize,
    context: &'scope Context<'scope>,
    tasks: Tasks,
    results: Sender<CommitterMessage>,
) -> io::Result<ScopedJoinHandle<'scope, ()>> {
    let pool = scratch(context);
    let worker = SmallWorker { context, pool, read_back: ReadBack::new(), tasks, results };
    Builder::new().name(format!("small-{number}")).spawn_scoped(scope, move || worker.work())
}

/// The block that small files of one thread go through.
fn scratch(context: &Context<'_>) -> BlockPool {
    let options = &context.options;
    let size = match options.algorithm {
        Algorithm::None => options.block_size,
        Algorithm::Sha256 => batch::room(options.block_size, options.backend),
    };
    BlockPool::new(1, size)
}
