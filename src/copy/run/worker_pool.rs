//! The workers of a run, each started when there is a batch of files for one more of them: copying a few files
//! starts a few threads, and copying none starts none. Fifteen threads, and their blocks, were 1.7 of the 4.5 ms
//! that an empty copy took.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use crossbeam_channel::Sender;

use crate::copy::run::workers::WorkerCount;
use crate::event::Stop;
use crate::pipeline::queue::{Feed, Tasks, tasks};
use crate::pipeline::start::{IdleChain, NewWorker};
use crate::transfer::context::Context;
use crate::transfer::outcome::CommitterMessage;
use crate::tree::found::Batch;

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
    /// How many there are of each kind.
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
    /// Of full workers through which no second file goes yet.
    idle: Vec<IdleChain>,
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
        let (Some(tasks), Some(chain)) = (for_paired.take(), idle.pop()) else { return };
        if let Ok(started) = chain.start(self.scope, self.worker(count.paired, tasks.clone())) {
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
