//! The threads of a worker, and the messages between them.

mod hasher;
pub mod message;

pub use message::Feed;

use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::{io, thread::Builder, thread::Scope, thread::ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    error::Error, event::Timer, fanout::Subscription, hash::Algorithm, hash::Hasher, io::BlockPool,
    io::COSTLY_HOLES, io::FurtherDigests, io::ReadBack, io::WatchedFile, manifest::NextLine,
    part::ReadyPart, part::Resumed, part::Transfer, part::resume, part::resume::Checkpoints,
    pipeline::hasher::HashRoute, pipeline::hasher::HashedStep, pipeline::message::ContentFrom,
    pipeline::message::ContentReader, pipeline::message::Disconnected, pipeline::message::EarlyEnd,
    pipeline::message::FileStep, pipeline::message::LargeFile, pipeline::message::ReadEnd,
    pipeline::message::ReadError, pipeline::message::ReadStep, pipeline::message::Tasks,
    pipeline::message::receive, pipeline::message::send, sys::CachePolicy, sys::stat::Stat,
    transfer, transfer::Action, transfer::CommitterMessage, transfer::Context,
    transfer::OpenSource, transfer::Outcome, transfer::TransferResult,
    transfer::kernel::clone_to_hash, transfer::prepare, transfer::prepare::prepare,
    transfer::small, transfer::small::copy_files, transfer::small_file::own_origin, tree::Batch,
    tree::Leftovers, tree::OutputDir, tree::WalkItem,
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

    /// Starts one thread for small files alone, with one block, which a batch of them fits into.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start_small(
        self,
        scope: &'scope Scope<'scope, '_>,
    ) -> io::Result<ScopedJoinHandle<'scope, ()>> {
        let Self { context, number, tasks, results } = self;
        let (pool, mut read_back) = (scratch(context), ReadBack::new());
        // Until there is no more to do, or the committer is gone.
        let work = move || {
            while let Some(run) = tasks.next() {
                let mut scratch = pool.take(&context.control.timings.read);
                let copied = copy_files(context, run, &mut scratch, &mut read_back);
                if results.send(CommitterMessage::Results(copied)).is_err() {
                    return;
                }
            }
        };
        Builder::new().name(format!("small-{number}")).spawn_scoped(scope, work)
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

// The first thread of a worker: takes files, copies the small ones itself, and reads the large ones
// block by block.

/// The reader of a worker.
pub struct FileReader<'a> {
    /// The block that small files go through.
    pub scratch: BlockPool,
    /// The reader of large files, with the worker's blocks.
    pub content: ContentReader<'a>,
    /// For files that are there already.
    pub read_back: ReadBack,
    /// Where work comes from.
    pub tasks: Tasks,
    pub results: Sender<CommitterMessage>,
}

impl FileReader<'_> {
    /// Works until there is no more to do. It ends early only when a thread it needs is gone.
    pub fn work(mut self) {
        while let Some(run) = self.tasks.next() {
            if self.take(run).is_err() {
                return;
            }
        }
    }

    fn take(&mut self, mut run: Batch) -> Result<(), Disconnected> {
        let context = self.content.context;
        // The walk makes a large file a run of its own.
        let block_size = context.options.block_size as u64;
        if context.options.asked.algorithm != Algorithm::None
            && let Some(large) = run.files.pop_if(|entry| entry.stat.size > block_size)
        {
            return self.take_large(Transfer::new(run.source, run.output, large));
        }
        self.content.in_hand = None;
        let mut scratch = self.scratch.take(&context.control.timings.read);
        let results = copy_files(context, run, &mut scratch, &mut self.read_back);
        self.report(results)
    }

    fn take_large(&mut self, mut transfer: Transfer) -> Result<(), Disconnected> {
        let context = self.content.context;
        let name = &transfer.entry().name;
        let progress = context.control.progress;
        self.content.in_hand = progress.take_in_hand(transfer.entry().stat.size, |path| {
            transfer.source.rel.join_into(name, path);
        });
        let mut warnings = Vec::new();
        let action = match context.control.stop.is_requested() {
            true => Action::Settled(Outcome::Abandoned),
            false => prepare(
                context,
                &transfer,
                None,
                &mut NextLine::default(),
                &mut self.read_back,
                &mut warnings,
            ),
        };
        let outcome = match action {
            Action::Settled(Outcome::Abandoned) => Outcome::Abandoned,
            Action::Settled(outcome) => {
                let Transfer { source, target } = &transfer;
                let swept = resume::forget(&context.options, source, &target.output, &target.entry);
                self.tell(&target.output, swept, &mut warnings)?;
                outcome
            }
            Action::Copy { replaces, warning } => {
                transfer.target.replaces = replaces;
                let holes = costly_holes(context, &transfer);
                for warning in std::mem::take(&mut warnings).into_iter().chain(warning).chain(holes)
                {
                    self.results
                        .send(CommitterMessage::Warning(warning))
                        .map_err(|_| Disconnected)?;
                }
                match self.copy(&transfer, None).map_err(ReadError::into_early_end) {
                    Ok(()) => return Ok(()),
                    Err(end) => match end? {
                        EarlyEnd::Failed(error) => Outcome::Failed(error),
                        EarlyEnd::Abandoned => Outcome::Abandoned,
                    },
                }
            }
        };
        self.report(vec![TransferResult { transfer, outcome, warnings, resumed: 0 }])
    }

    /// Reads a file and sends it on its way. After an error nothing was sent: what goes wrong later
    /// goes the way of the file, to its end. `first` is what came of a first try.
    fn copy(&self, transfer: &Transfer, first: Option<Error>) -> Result<(), ReadError> {
        let context = self.content.context;
        let is_first = first.is_none();
        let slot = context.shared.slot.filter(|_| is_first);
        let subscription = slot.and_then(|slot| slot.subscribe(&transfer.source, transfer.entry()));
        let path = || transfer.source_path();
        let mut timer = Timer::start(&context.control.timings.read.busy);
        let mut warnings: Vec<Error> = first.into_iter().map(prepare::warning).collect();
        let OpenSource { mut file, attributes, systems } =
            transfer::open(context, transfer, &path, &mut warnings)?;
        if subscription.is_none() {
            file.spare_cache(systems.source, &context.control.resident.source);
        }
        timer.switch(&context.control.timings.write.busy);
        let ReadyPart { mut part, resumed, checkpoints, swept } =
            self.begin(transfer, &mut warnings)?;
        self.tell(&transfer.target.output, swept, &mut warnings)?;
        let copy_path = || transfer.target.path();
        let ready = match &resumed {
            Some(Resumed { offset, .. }) => {
                part.go_on(&context.options, systems.output, &file, *offset).map(|()| None)
            }
            None => clone_to_hash(context, &systems, &file, &mut part, &copy_path),
        };
        let cloned = match ready {
            Ok(cloned) => cloned,
            Err(error) => {
                let error = part.discard(error);
                // Cloned when it was no longer what was listed.
                return match is_first && file.has_changed() {
                    true => self.copy_again(transfer, error),
                    false => Err(error.into()),
                };
            }
        };
        drop(timer);
        let large = Arc::new(LargeFile::new(transfer.clone(), resumed, checkpoints));
        self.skip(large.start());
        self.content.send(FileStep::Begin(Arc::clone(&large), part))?;
        let mut total = large.start();
        // A clone is read where it is, and an output that resumes is not where the others are.
        let subscription = subscription.filter(|_| cloned.is_none() && total == 0);
        let read = match &subscription {
            Some(subscription) => {
                let (sparing, warnings) = (systems.source, &mut warnings);
                let content = &self.content;
                read_shared(content, &large, &mut file, subscription, sparing, &mut total, warnings)
            }
            None => {
                let from = ContentFrom::Own(cloned.as_ref().unwrap_or(&file));
                self.content.read(&large, from, &mut total, &mut warnings).map(drop)
            }
        };
        drop(subscription);
        let may_retry = is_first && file.has_changed();
        let end = match read {
            Ok(()) => Ok(ReadEnd { attributes, warnings }),
            Err(error) => self.end_or_retry(&large, error, may_retry, total)?,
        };
        Ok(self.content.send(FileStep::End(end))?)
    }

    /// Counts a part of the file in hand that was there already.
    fn skip(&self, bytes: u64) {
        self.content.context.control.progress.skip(bytes);
        if let Some(file) = &self.content.in_hand {
            file.done.store(bytes, Relaxed);
        }
    }

    /// The part file of a file, or what a killed run left of it.
    fn begin(
        &self,
        transfer: &Transfer,
        warnings: &mut Vec<Error>,
    ) -> Result<ReadyPart, ReadError> {
        let Context { options, control, .. } = self.content.context;
        let mut scratch = self.content.pool.take(&control.timings.read);
        let (source, target) = (&transfer.source, &transfer.target);
        let begun = resume::begin(options, control.stop, source, target, &mut scratch, warnings)?;
        begun.ok_or(ReadError::Early(EarlyEnd::Abandoned))
    }

    /// Copies a file once more of which nothing was sent; it changed, as `first` says.
    fn copy_again(&self, transfer: &Transfer, first: Error) -> Result<(), ReadError> {
        let Some(now) = prepare::look_again(self.content.context, transfer) else {
            return Err(first.into());
        };
        self.copy(&changed(transfer, now), Some(first))
    }

    /// The end of a file that could not be read to its end; it is read again if that is worth a try. Of the first try
    /// `total` bytes were counted as done.
    fn end_or_retry(
        &self,
        large: &LargeFile,
        error: ReadError,
        may_retry: bool,
        total: u64,
    ) -> Result<Result<ReadEnd, EarlyEnd>, Disconnected> {
        let first = match error {
            ReadError::Early(EarlyEnd::Failed(error)) if may_retry => error,
            other => return other.into_early_end().map(Err),
        };
        let progress = self.content.context.control.progress;
        progress.bytes.fetch_sub(total, Relaxed);
        if let Some(file) = &self.content.in_hand {
            file.done.store(0, Relaxed);
        }
        progress.skipped.fetch_sub(large.start(), Relaxed);
        match self.read_again(&large.transfer, first) {
            Ok(end) => Ok(Ok(end)),
            Err(error) => error.into_early_end().map(Err),
        }
    }

    /// Reads a file from its beginning that is on its way and changed while it was read, as `first` says.
    fn read_again(&self, transfer: &Transfer, first: Error) -> Result<ReadEnd, ReadError> {
        let context = self.content.context;
        let Some(now) = prepare::look_again(context, transfer) else {
            return Err(first.into());
        };
        let large = Arc::new(LargeFile::new(changed(transfer, now), None, None));
        self.content.send(FileStep::Again(Arc::clone(&large)))?;
        let path = || large.transfer.source_path();
        let mut warnings = vec![prepare::warning(first)];
        let OpenSource { mut file, attributes, systems } =
            transfer::open(context, &large.transfer, &path, &mut warnings)?;
        file.spare_cache(systems.source, &context.control.resident.source);
        self.content.read(&large, ContentFrom::Own(&file), &mut 0, &mut warnings)?;
        Ok(ReadEnd { attributes, warnings })
    }

    /// Names what was removed of what a killed run left.
    fn tell(
        &self,
        output: &Arc<OutputDir>,
        swept: Leftovers,
        warnings: &mut Vec<Error>,
    ) -> Result<(), Disconnected> {
        warnings.extend(swept.error);
        swept.removed.into_iter().try_for_each(|name| {
            let swept =
                CommitterMessage::Walked(WalkItem::LeftoverRemoved(Arc::clone(output), name));
            self.results.send(swept).map_err(|_| Disconnected)
        })
    }

    fn report(&self, results: Vec<TransferResult>) -> Result<(), Disconnected> {
        self.results.send(CommitterMessage::Results(results)).map_err(|_| Disconnected)
    }
}

/// The same file as it is now.
fn changed(transfer: &Transfer, now: Stat) -> Transfer {
    let mut changed = transfer.clone();
    changed.target.entry.stat = now;
    changed
}

/// The warning that hashing the holes of a file takes long, if it does.
fn costly_holes(context: &Context<'_>, transfer: &Transfer) -> Option<Error> {
    let stat = &transfer.entry().stat;
    let believed = match context.options.asked.holes.are_believed(stat) {
        true => ", which are believed (--holes read reads them)",
        false => "",
    };
    let holes = stat.size.saturating_sub(stat.allocated);
    (holes > COSTLY_HOLES).then(|| {
        let finding = format!(
            "{} TiB of it are holes{believed}, and each takes a processor 10 to 40 minutes to hash; --max-size leaves \
             such files out",
            holes >> 40
        );
        Error::finding("hash quickly", transfer.source_path(), finding)
    })
}

// Reading a large file together with other outputs, and what is left of it where that ends.

/// Reads and sends the whole content together with other outputs, and from where that ends by itself.
/// `total` says how far it came.
pub fn read_shared<'r>(
    reader: &'r ContentReader<'_>,
    large: &LargeFile,
    file: &mut WatchedFile<'r>,
    subscription: &Subscription<'_>,
    sparing: CachePolicy,
    total: &mut u64,
    warnings: &mut Vec<Error>,
) -> Result<(), ReadError> {
    let own = own_origin(reader.context, &large.transfer, file, sparing);
    if reader.read(large, ContentFrom::Shared(subscription, &own), total, warnings)? {
        return Ok(());
    }
    reader.continue_unless_stopped(large)?;
    subscription.count_alone();
    file.spare_cache(sparing, &reader.context.control.resident.source);
    reader.seek(file, *total)?;
    reader.read(large, ContentFrom::Own(file), total, warnings).map(drop)
}

#[cfg(test)]
mod tests;
