//! The second thread of a lane: hashes what passes through.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use crate::hash::Digest;
use crate::io::timing::Timer;
use crate::part::checkpoint::Marks;
use crate::pipeline::message::{Cut, LargeFile, ReadEnd, Step, receive, send};
use crate::pipeline::reader::Read;
use crate::transfer::context::Context;

/// What the hasher sends to the writer: the digest comes with the end, or not at all.
pub type Hashed = Step<HashedEnd>;

/// How a file comes out of the hasher.
pub type HashedEnd = Result<(ReadEnd, Option<Digest>), Cut>;

/// Works until the reader is gone.
pub fn work(context: &Context<'_>, from: &Receiver<Read>, to: &Sender<Hashed>) {
    let clock = &context.control.clocks.hash;
    let mut hasher = context.options.algorithm.start();
    let mut marks = Marks::new(None, 0);
    let mut file: Option<Arc<LargeFile>> = None;
    while let Ok(step) = receive(from, clock) {
        let mut due = None;
        let step = match step {
            Step::Begin(large, part) => {
                let going_on = large.resumed.as_ref().map(|resumed| resumed.hasher.clone());
                hasher = going_on.unwrap_or_else(|| context.options.algorithm.start());
                marks = Marks::new(large.checkpoints, large.start());
                file = Some(Arc::clone(&large));
                Step::Begin(large, part)
            }
            Step::Again(large) => {
                (hasher, marks) = (context.options.algorithm.start(), Marks::new(None, 0));
                file = Some(Arc::clone(&large));
                Step::Again(large)
            }
            Step::Data(data) => {
                let _busy = Timer::start(&clock.busy);
                data.hash(&mut hasher);
                due = marks.pass(data.len() as u64, &hasher);
                Step::Data(data)
            }
            Step::Hole(len) => {
                let _busy = Timer::start(&clock.busy);
                let mut left = len;
                // A hole may be terabytes long: look up now and then whether it is still wanted.
                while left > 0 && !file.as_ref().is_some_and(|file| file.is_given_up()) {
                    if context.control.stop.is_urgent() {
                        break;
                    }
                    let now = left.min(64 << 20);
                    hasher.update_zeros(now);
                    left -= now;
                }
                if left > 0
                    && let Some(file) = &file
                {
                    file.give_up();
                }
                due = marks.pass(len, &hasher);
                Step::Hole(len)
            }
            Step::Checkpoint(checkpoint) => Step::Checkpoint(checkpoint),
            Step::End(end) => {
                let hasher = std::mem::replace(&mut hasher, context.options.algorithm.start());
                let cut = file.take().is_none_or(|file| file.is_given_up());
                Step::End(match end {
                    Ok(_) if cut => Err(Cut::Abandoned),
                    Ok(end) => Ok((end, hasher.finish())),
                    Err(cut) => Err(cut),
                })
            }
        };
        for step in [Some(step), due.map(Step::Checkpoint)].into_iter().flatten() {
            if send(to, step, clock).is_err() {
                return;
            }
        }
    }
}
