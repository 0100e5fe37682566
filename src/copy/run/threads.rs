//! The threads of a run: starts them, has the committer take what they bring, and waits for their end.

use std::{
    io, num::NonZero, sync::Mutex, sync::PoisonError, sync::atomic::AtomicU64,
    sync::atomic::Ordering::Relaxed, thread::Builder, thread::Scope, thread::ScopedJoinHandle,
    thread::available_parallelism, thread::scope,
};

use crossbeam_channel::{Sender, bounded};

use crate::pipeline::{Feed, IdleRoute, NewWorker, message::Tasks, message::tasks};
use crate::{
    copy::CopyJob, copy::Prepared, copy::commit::Committer, copy::commit::group::Verifiers,
    copy::run::means::WalkSink, copy::run::means::count, copy::run::means::walk_all, error::Error,
    event::Stop, fanout::Slot, sys::Dir, sys::is_on_turning_disk, sys::open_file_limit,
    transfer::CommitterMessage, transfer::Context, tree::Batch, tree::OutputDir, tree::Walk,
};

/// The threads of a run, and what they count.
pub struct CopyThreads<'a> {
    job: &'a CopyJob,
    context: &'a Context<'a>,
    walk: &'a Walk<'a>,
    workers: WorkerCount,
    /// Entries that the walk found.
    found: AtomicU64,
    /// Ends the counting for the progress.
    counting: Stop,
}

/// The results of a run's threads.
pub struct ThreadResults {
    /// Number of workers that were started.
    pub workers: usize,
    /// Entries that the walk found.
    pub found: u64,
}

/// The threads that were started.
#[derive(Default)]
struct StartedThreads<'scope> {
    walker: Option<ScopedJoinHandle<'scope, SpawnedWorkers<'scope>>>,
    verifiers: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl<'a> CopyThreads<'a> {
    /// None is started yet; there are to be up to so many `workers`.
    pub fn new(
        job: &'a CopyJob,
        context: &'a Context<'a>,
        walk: &'a Walk<'a>,
        workers: WorkerCount,
    ) -> Self {
        let (found, counting) = (AtomicU64::new(0), Stop::default());
        Self { job, context, walk, workers, found, counting }
    }

    /// Runs until everything that the walk finds is committed. What goes wrong with a thread gives the run up.
    pub fn run(
        &self,
        prepared: Prepared,
        verifiers: Option<Verifiers>,
        committer: &mut Committer<'_>,
    ) -> ThreadResults {
        let (to_committer, inbox) = bounded(self.workers.full + self.workers.all());
        let workers = scope(|scope| {
            let mut started = StartedThreads::default();
            if let Err(error) = self.start(scope, &mut started, prepared, verifiers, to_committer) {
                committer.accounting.give_up(self.no_threads(error));
            }
            committer.work(&inbox);
            drop(inbox);
            self.counting.request(Stop::GIVEN_UP);
            self.join(started, committer)
        });
        ThreadResults { workers, found: self.found.load(Relaxed) }
    }

    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        started: &mut StartedThreads<'scope>,
        prepared: Prepared,
        verifiers: Option<Verifiers>,
        to_committer: Sender<CommitterMessage>,
    ) -> io::Result<()> {
        let Self { job, context, workers, .. } = *self;
        if let (Some(verifiers), true) = (verifiers, job.options.verify) {
            started.verifiers = verifiers.start(scope, context)?;
        }
        // Outputs that share their reading need the same order.
        let stat_workers = if context.shared.slot.is_none() { workers.stat_workers() } else { 0 };
        let walk = move || {
            let pool = WorkerPool::new(scope, context, workers, to_committer.clone());
            let stop = context.control.stop;
            let to_workers = &|batch| pool.give(batch);
            let outlet = WalkSink { to_workers, to_committer, found: &self.found, stop };
            walk_all(self.walk, &outlet, prepared, stat_workers);
            drop(outlet);
            pool.end()
        };
        started.walker = Some(Builder::new().name("walk".into()).spawn_scoped(scope, walk)?);
        let progress = context.control.progress;
        // Several outputs have one total.
        if progress.watched.load(Relaxed)
            && !progress.counted.load(Relaxed)
            && job.names.is_none()
            && context.shared.slot.is_none_or(Slot::is_first)
        {
            let count = || count(job, progress, &self.counting);
            Builder::new().name("count".into()).spawn_scoped(scope, count)?;
        }
        Ok(())
    }

    /// Waits for the threads to end; returns how many workers there were.
    fn join(&self, started: StartedThreads<'_>, committer: &mut Committer<'_>) -> usize {
        let StartedThreads { walker, verifiers: mut threads } = started;
        let mut workers = 0;
        match walker.map(ScopedJoinHandle::join) {
            None => {}
            Some(Ok(spawned)) => {
                workers = spawned.count.all();
                threads.extend(spawned.threads);
                if let Some(error) = spawned.refused {
                    committer.accounting.give_up(self.no_threads(error));
                }
            }
            Some(Err(_)) => committer.accounting.give_up(self.died("walk")),
        }
        for thread in threads {
            let name = thread.thread().name().unwrap_or("nameless").to_owned();
            if thread.join().is_err() {
                committer.accounting.give_up(self.died(&name));
            }
        }
        workers
    }

    fn no_threads(&self, error: io::Error) -> Error {
        Error::io("start the threads for", &self.job.source, error)
    }

    fn died(&self, name: &str) -> Error {
        let finding = format!("its {name} thread died; this is a defect of dircopy");
        Error::finding("finish the copy of", &self.job.source, finding)
    }
}

// The workers of a run, each started when there is a batch of files for one more of them: copying a few files
// starts a few threads, and copying none starts none. Fifteen threads, and their blocks, were 1.7 of the 4.5 ms
// that an empty copy took.

/// The workers, and how to start more.
pub struct WorkerPool<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    context: &'scope Context<'scope>,
    most: WorkerCount,
    feed: Feed,
    outcomes: Sender<CommitterMessage>,
    /// Where further workers take files, and what is started of them.
    state: Mutex<State<'scope>>,
}

/// The workers that are started.
pub struct SpawnedWorkers<'scope> {
    pub threads: Vec<ScopedJoinHandle<'scope, ()>>,
    /// Number of workers of each kind.
    pub count: WorkerCount,
    /// Why there is none, if the system had no thread to give.
    pub refused: Option<io::Error>,
}

struct State<'scope> {
    /// Receivers for further workers, as long as there are to be any. When all workers are gone, no receiver
    /// may be left, or what is sent would seem to arrive.
    for_full: Option<Tasks>,
    for_small: Option<Tasks>,
    for_paired: Option<Tasks>,
    /// The hashers of full workers through which no second file goes yet.
    idle: Vec<IdleRoute>,
    spawned: SpawnedWorkers<'scope>,
}

impl<'scope, 'env> WorkerPool<'scope, 'env> {
    /// A pool that may grow to `most` workers, which report to `outcomes`.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        context: &'scope Context<'scope>,
        most: WorkerCount,
        outcomes: Sender<CommitterMessage>,
    ) -> Self {
        let (feed, all) = tasks(most.waiting * most.full, most.small, context.options.block_size);
        let for_small = (most.small > 0).then(|| all.small());
        let for_paired = (most.paired > 0).then(|| all.large());
        let for_full = Some(if most.separate { all.large() } else { all });
        let count = WorkerCount { full: 0, small: 0, paired: 0, ..most };
        let spawned = SpawnedWorkers { threads: Vec::new(), count, refused: None };
        let state = State { for_full, for_small, for_paired, idle: Vec::new(), spawned };
        let state = Mutex::new(state);
        Self { scope, context, most, feed, outcomes, state }
    }

    /// Has a worker copy these files; false if there is none to do it.
    pub fn give(&self, batch: Batch) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.grow(&mut state, self.feed.is_large(&batch)) {
            self.context.control.stop.request(Stop::GIVEN_UP);
            state.spawned.refused = Some(error);
            return false;
        }
        drop(state);
        self.feed.send(batch)
    }

    /// No more files come: the threads end when they are done.
    pub fn end(self) -> SpawnedWorkers<'scope> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).spawned
    }

    /// Starts a further worker, or a further reader and writer of one, if there is to be one.
    fn grow(&self, state: &mut State<'scope>, is_large: bool) -> io::Result<()> {
        if (is_large || !self.most.separate) && state.for_full.is_some() {
            self.grow_full(state)
        } else if is_large {
            self.grow_paired(state);
            Ok(())
        } else {
            self.grow_small(state)
        }
    }

    fn grow_full(&self, state: &mut State<'scope>) -> io::Result<()> {
        let State { for_full, idle, spawned: SpawnedWorkers { threads, count, .. }, .. } = state;
        let Some(tasks) = for_full.take() else { return Ok(()) };
        let paired = count.full < self.most.paired;
        match self.worker(count.all(), tasks.clone()).start(self.scope, paired) {
            Ok(started) => {
                threads.extend(started.threads);
                idle.extend(started.second);
                count.full += 1;
                *for_full = Some(tasks).filter(|_| count.full < self.most.full);
                Ok(())
            }
            // Without a further worker the run is only slower.
            Err(_) if count.full > 0 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Without a second file at a time the run is only slower.
    fn grow_paired(&self, state: &mut State<'scope>) {
        let State { for_paired, idle, spawned: SpawnedWorkers { threads, count, .. }, .. } = state;
        let (Some(tasks), Some(route)) = (for_paired.take(), idle.pop()) else { return };
        if let Ok(started) = route.start(self.scope, self.worker(count.paired, tasks.clone())) {
            threads.extend(started);
            count.paired += 1;
            *for_paired = Some(tasks).filter(|_| !idle.is_empty());
        }
    }

    fn grow_small(&self, state: &mut State<'scope>) -> io::Result<()> {
        let State { for_small, spawned: SpawnedWorkers { threads, count, .. }, .. } = state;
        let Some(tasks) = for_small.take() else { return Ok(()) };
        match self.worker(count.all(), tasks.clone()).start_small(self.scope) {
            Ok(started) => {
                threads.push(started);
                count.small += 1;
                *for_small = Some(tasks).filter(|_| count.small < self.most.small);
                Ok(())
            }
            // Others take small files too, so without this worker the run is only slower.
            Err(_) if !self.most.separate || count.small > 0 => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn worker(&self, number: usize, tasks: Tasks) -> NewWorker<'scope> {
        NewWorker { context: self.context, number, tasks, results: self.outcomes.clone() }
    }
}

// The number of files that are copied side by side, and of threads and blocks for them.
//
// Bytes of large files cost processor time, so there is a full worker (three threads) for each core. Small
// files cost waiting for the device, one after the other. Where the device can do several things at a time,
// further workers of one thread each take small files only. A disk that turns has one head, and two workers
// make it go to and fro. Where threads that create files wait for each other, two workers create all small
// files, however many cores there are.

/// The most workers by default: with more, memory would grow past what a copy should take.
///
/// By workers, two cores, `benches/scaling.sh`, medians of 3 rounds, seconds. 1,600 files of 4 KiB, cold, on a
/// device that takes 100 µs for a request, durable: 1: 0.377, 2: 0.265, 4: 0.179, 8: 0.167. 100,000 on tmpfs,
/// where there is nothing to wait for: 1: 1.586, 2: 1.089, 4: 1.075, 8: 1.114. Large files on the same device:
/// 1: 0.677, 2: 0.696, 8: 0.720. With one head that needs 8 ms to get elsewhere, 8 × 16 MiB:
/// 1: 5.5, 2: 8.0, and 1,600 small files: 1: 1.48, 2: 11.4, 4: 9.4.
const MOST: usize = 8;

/// With fewer blocks a worker would be slower; see the table at [`BLOCK_SIZE`](crate::copy::BLOCK_SIZE).
const LEAST_BLOCKS: usize = 4;

/// With fewer open files allowed there are no workers for small files only: what each has in hand and on
/// its way takes a dozen.
const AMPLE: u64 = 1024;

/// Workers for small files where threads that create files wait for each other: while one creates some, the
/// other reads and hashes. [`Dir::takes_many_at_once`] has what one, two and eight workers take.
const TAKING_TURNS: usize = 2;

/// Batches that wait for each full worker, so that it never waits for the walk.
const WAITING: usize = 2;

/// Number of workers.
#[derive(Clone, Copy, Debug)]
pub struct WorkerCount {
    /// For files of every size; at least 1.
    pub full: usize,
    /// For small files only.
    pub small: usize,
    /// Number of full workers that copy a second large file meanwhile, which their hasher takes together with the
    /// first.
    pub paired: usize,
    /// True if the full workers leave all small files to the others.
    pub separate: bool,
    /// Number of batches that wait for each full worker.
    pub waiting: usize,
}

impl WorkerCount {
    /// The number `asked` for, or what suits the devices of source and output. Outputs that share their
    /// reading (`shared`) have no workers for small files only: they wait for each other as it is.
    ///
    /// Where hashers gain by it (`pairs`), they take two files together; but only beside workers for small files:
    /// where full workers take everything, further readers would be further workers for small files too.
    pub fn suiting(
        asked: Option<usize>,
        source: &Dir,
        output: Option<&Dir>,
        shared: bool,
        pairs: bool,
    ) -> Self {
        let turns = || is_on_turning_disk(source) || output.is_some_and(is_on_turning_disk);
        if asked.is_none() && turns() {
            return Self { full: 1, small: 0, paired: 0, separate: false, waiting: WAITING };
        }
        let full = most_full(asked);
        if asked.is_some() || shared || open_file_limit() < AMPLE {
            return Self { full, small: 0, paired: 0, separate: false, waiting: WAITING };
        }
        let separate = output.is_some_and(|output| !output.takes_many_at_once());
        let small = if separate { TAKING_TURNS } else { MOST - full };
        let paired = if pairs { full.min(MOST - full) } else { 0 };
        Self { full, small, paired, separate, waiting: WAITING }
    }

    /// Workers of both kinds.
    pub fn all(self) -> usize {
        self.full + self.small
    }

    /// Threads that read copies back from `output`. A disk that turns serves one of them best.
    pub fn verifiers(self, output: &OutputDir) -> usize {
        if output.handle.as_ref().is_some_and(is_on_turning_disk) { 1 } else { self.full }
    }

    /// Threads that stat files beside the walk: one for each worker, and none beside a single worker, or where nothing
    /// is to wait.
    pub fn stat_workers(self) -> usize {
        if self.all() == 1 || self.waiting == 0 { 0 } else { self.all() }
    }
}

/// The most workers for files of every size, whatever the devices are.
pub fn most_full(asked: Option<usize>) -> usize {
    let cores = || available_parallelism().map_or(1, NonZero::get).min(MOST);
    asked.unwrap_or_else(cores).max(1)
}

/// The most workers for small files only; none beside a number that was asked for.
pub fn most_small(asked: Option<usize>) -> usize {
    if asked.is_some() { 0 } else { (MOST - most_full(asked)).max(TAKING_TURNS) }
}

/// Blocks of a worker where `outputs` outputs share their reading: together they have as many as one alone,
/// unless that were too few.
pub fn blocks_each(queue_size: usize, outputs: usize) -> usize {
    (queue_size / outputs.max(1)).max(LEAST_BLOCKS.min(queue_size)).max(1)
}
