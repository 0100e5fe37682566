//! The second thread of a worker: hashes what passes through.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use crate::event::timing::Timer;
use crate::hash::Digest;
use crate::part::checkpoint::CheckpointPlan;
use crate::pipeline::content::ReadStep;
use crate::pipeline::message::{EarlyEnd, FileStep, LargeFile, ReadEnd, receive, send};
use crate::transfer::context::Context;

/// What the hasher sends to the writer: the digest comes with the end, or not at all.
pub type HashedStep = FileStep<HashedEnd>;

/// How a file comes out of the hasher.
pub type HashedEnd = Result<(ReadEnd, Option<Digest>), EarlyEnd>;

/// Works until the reader is gone.
pub fn work(context: &Context<'_>, from: &Receiver<ReadStep>, to: &Sender<HashedStep>) {
    let clock = &context.control.timings.hash;
    let mut hasher = context.options.algorithm.start();
    let mut marks = CheckpointPlan::new(None, 0);
    let mut file: Option<Arc<LargeFile>> = None;
    while let Ok(step) = receive(from, clock) {
        let mut due = None;
        let step = match step {
            FileStep::Begin(large, part) => {
                let going_on = large.resumed.as_ref().map(|resumed| resumed.hasher.clone());
                hasher = going_on.unwrap_or_else(|| context.options.algorithm.start());
                marks = CheckpointPlan::new(large.checkpoints, large.start());
                file = Some(Arc::clone(&large));
                FileStep::Begin(large, part)
            }
            FileStep::Again(large) => {
                (hasher, marks) = (context.options.algorithm.start(), CheckpointPlan::new(None, 0));
                file = Some(Arc::clone(&large));
                FileStep::Again(large)
            }
            FileStep::Data(data) => {
                let _busy = Timer::start(&clock.busy);
                data.hash(&mut hasher);
                due = marks.pass(data.len() as u64, &hasher);
                FileStep::Data(data)
            }
            FileStep::Hole(len) => {
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
                FileStep::Hole(len)
            }
            FileStep::Checkpoint(checkpoint) => FileStep::Checkpoint(checkpoint),
            FileStep::End(end) => {
                let hasher = std::mem::replace(&mut hasher, context.options.algorithm.start());
                let cut = file.take().is_none_or(|file| file.is_given_up());
                FileStep::End(match end {
                    Ok(_) if cut => Err(EarlyEnd::Abandoned),
                    Ok(end) => Ok((end, hasher.finish())),
                    Err(cut) => Err(cut),
                })
            }
        };
        for step in [Some(step), due.map(FileStep::Checkpoint)].into_iter().flatten() {
            if send(to, step, clock).is_err() {
                return;
            }
        }
    }
}
