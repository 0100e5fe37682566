//! The lanes of a run, each started when there is a run of files for one more of them: who copies a few files
//! starts a few threads, and who copies none starts none. Fifteen of them, and their blocks, were 1.7 of the 4.5 ms
//! that an empty copy took.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use crossbeam_channel::Sender;

use crate::copy::run::workers::Lanes;
use crate::event::Stop;
use crate::pipeline::queue::{Feed, Tasks, tasks};
use crate::pipeline::start::{start, start_small};
use crate::transfer::context::Context;
use crate::transfer::outcome::Message;
use crate::tree::found::Batch;

/// The lanes, and how to start more.
pub struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    context: &'scope Context<'scope>,
    lanes: Lanes,
    feed: Feed,
    outcomes: Sender<Message>,
    hired: Mutex<Hired<'scope>>,
}

/// What of the lanes is started.
struct Hired<'scope> {
    /// Where further lanes take work. Only as long as there are to be any: when all lanes are gone, nobody must
    /// seem to be there for what is sent.
    whole: Option<Tasks>,
    small: Option<Tasks>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
    /// So many of each kind.
    number: Lanes,
    refused: Option<io::Error>,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    /// One that may grow to `lanes`, which report to `outcomes`.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        context: &'scope Context<'scope>,
        lanes: Lanes,
        outcomes: Sender<Message>,
    ) -> Self {
        let (feed, whole) = tasks(lanes.whole, lanes.small, context.options.block_size);
        let small = (lanes.small > 0).then(|| whole.small());
        let whole = if lanes.apart { whole.large() } else { whole };
        let number = Lanes { whole: 0, small: 0, ..lanes };
        let (whole, threads, refused) = (Some(whole), Vec::new(), None);
        let hired = Mutex::new(Hired { whole, small, threads, number, refused });
        Self { scope, context, lanes, feed, outcomes, hired }
    }

    /// Has somebody copy these files; false if there is nobody to do it.
    pub fn give(&self, run: Batch) -> bool {
        let mut hired = self.hired.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.grow(&mut hired, self.feed.is_large(&run)) {
            self.context.control.stop.request(Stop::GIVEN_UP);
            hired.refused = Some(error);
            return false;
        }
        drop(hired);
        self.feed.send(run)
    }

    /// Nothing more comes: the threads, which end when they are done, how many lanes they are, and why there are
    /// none if the system had no threads to give.
    pub fn end(self) -> (Vec<ScopedJoinHandle<'scope, ()>>, usize, Option<io::Error>) {
        let hired = self.hired.into_inner().unwrap_or_else(PoisonError::into_inner);
        (hired.threads, hired.number.all(), hired.refused)
    }

    /// Starts a further lane, if there is to be one.
    fn grow(&self, hired: &mut Hired<'scope>, is_large: bool) -> io::Result<()> {
        let Self { scope, context, lanes, .. } = *self;
        let (number, outcomes) = (hired.number.all(), || self.outcomes.clone());
        if (is_large || !lanes.apart)
            && let Some(tasks) = hired.whole.take()
        {
            match start(scope, number, context, tasks.clone(), outcomes()) {
                Ok(threads) => {
                    hired.threads.extend(threads);
                    hired.number.whole += 1;
                    hired.whole = Some(tasks).filter(|_| hired.number.whole < lanes.whole);
                }
                // Without a further lane the run is only slower.
                Err(_) if hired.number.whole > 0 => {}
                Err(error) => return Err(error),
            }
        } else if !is_large && let Some(tasks) = hired.small.take() {
            match start_small(scope, number, context, tasks.clone(), outcomes()) {
                Ok(one) => {
                    hired.threads.push(one);
                    hired.number.small += 1;
                    hired.small = Some(tasks).filter(|_| hired.number.small < lanes.small);
                }
                // Others take small files too, so without this lane the run is only slower.
                Err(_) if !lanes.apart || hired.number.small > 0 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
