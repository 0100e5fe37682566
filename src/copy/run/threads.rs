//! The threads of a run: starts them, has the committer take what they bring, and waits for their end.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use crossbeam_channel::{Sender, bounded};

use crate::copy::before::prepare::Prepared;
use crate::copy::commit::committer::Committer;
use crate::copy::commit::read_back_queue::Verifiers;
use crate::copy::job::CopyJob;
use crate::copy::run::count::count;
use crate::copy::run::feed::{WalkSink, walk_all};
use crate::copy::run::worker_pool::{SpawnedWorkers, WorkerPool};
use crate::copy::run::workers::WorkerCount;
use crate::error::Error;
use crate::event::Stop;
use crate::fanout::slot::Slot;
use crate::transfer::context::Context;
use crate::transfer::outcome::CommitterMessage;
use crate::tree::walk::Walk;

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

/// What the threads of a run leave.
pub struct ThreadResults {
    /// How many workers were started.
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
        if let (Some(verifiers), Some(damaged)) = (verifiers, job.verify) {
            started.verifiers = verifiers.start(scope, context, damaged)?;
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
