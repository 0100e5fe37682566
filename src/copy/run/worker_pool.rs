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
use crate::pipeline::start::{start, start_small};
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
        let (feed, all) = tasks(most.full, most.small, context.options.block_size);
        let for_small = (most.small > 0).then(|| all.small());
        let for_full = Some(if most.separate { all.large() } else { all });
        let count = WorkerCount { full: 0, small: 0, ..most };
        let spawned = SpawnedWorkers { threads: Vec::new(), count, refused: None };
        let state = Mutex::new(State { for_full, for_small, spawned });
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

    /// Starts a further worker, if there is to be one.
    fn grow(&self, state: &mut State<'scope>, is_large: bool) -> io::Result<()> {
        let Self { scope, context, most, .. } = *self;
        let State { for_full, for_small, spawned: SpawnedWorkers { threads, count, .. } } = state;
        let (number, outcomes) = (count.all(), || self.outcomes.clone());
        if (is_large || !most.separate)
            && let Some(tasks) = for_full.take()
        {
            match start(scope, number, context, tasks.clone(), outcomes()) {
                Ok(started) => {
                    threads.extend(started);
                    count.full += 1;
                    *for_full = Some(tasks).filter(|_| count.full < most.full);
                }
                // Without a further worker the run is only slower.
                Err(_) if count.full > 0 => {}
                Err(error) => return Err(error),
            }
        } else if !is_large && let Some(tasks) = for_small.take() {
            match start_small(scope, number, context, tasks.clone(), outcomes()) {
                Ok(started) => {
                    threads.push(started);
                    count.small += 1;
                    *for_small = Some(tasks).filter(|_| count.small < most.small);
                }
                // Others take small files too, so without this worker the run is only slower.
                Err(_) if !most.separate || count.small > 0 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
