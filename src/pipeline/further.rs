//! A thread of a worker between hasher and writer, where further digests are asked for: it computes these of what
//! passes through, while the hasher is at the next block.
//!
//! They wait under the file's path before the writer has the file's end, so they are there when it is listed.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use crate::event::timing::Timer;
use crate::hash::Hasher;
use crate::io::further::FurtherDigests;
use crate::pipeline::hasher::HashedStep;
use crate::pipeline::message::{Disconnected, FileStep, LargeFile, receive, send};
use crate::transfer::context::Context;

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
