//! The third thread of a worker: writes what passes through, and closes the file.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use crate::error::{Error, Result};
use crate::event::timing::Timer;
use crate::part::checkpoint::Checkpoints;
use crate::part::part_file::Part;
use crate::pipeline::hasher::{HashedEnd, HashedStep};
use crate::pipeline::message::{EarlyEnd, FileStep, LargeFile, receive_unless};
use crate::transfer::context::Context;
use crate::transfer::finish::finish;
use crate::transfer::outcome::{CommitterMessage, Outcome, TransferResult};

/// The file that is being written: its part file, or why there is none.
struct Writing {
    large: Arc<LargeFile>,
    part: Result<Part>,
}

impl Writing {
    /// Does something with the part file; after an error there is none any more, and the stages
    /// before are told.
    fn with_part(self, act: impl FnOnce(&mut Part) -> Result<()>) -> Self {
        let Self { large, part } = self;
        let part = part.and_then(|mut part| match act(&mut part) {
            Ok(()) => Ok(part),
            Err(error) => {
                large.give_up();
                Err(part.discard(error))
            }
        });
        Self { large, part }
    }

    /// Empties the part file for a file that begins again as `large`, from now on without a journal:
    /// that one speaks of what the file was.
    fn begin_again(self, large: Arc<LargeFile>, checkpoints: &mut Checkpoints) -> Self {
        let settled = checkpoints.end();
        if self.part.is_err() {
            large.give_up();
        }
        Self { large, part: self.part }.with_part(|part| part.clear(settled))
    }
}

/// Works until the hasher is gone. A file that is not closed by then failed.
pub fn work(
    context: &Context<'_>,
    from: &Receiver<HashedStep>,
    results: &Sender<CommitterMessage>,
    mut checkpoints: Checkpoints,
) {
    let clock = &context.control.timings.write;
    let mut writing: Option<Writing> = None;
    loop {
        let step = match receive_unless(from, clock, || {
            writing.is_some() && context.control.stop.is_urgent()
        }) {
            Some(step) => step,
            // What was begun must not stay because its reader hangs.
            None => Ok(FileStep::End(Err(EarlyEnd::Abandoned))),
        };
        let _busy = Timer::start(&clock.busy);
        let result = match (step, writing.take()) {
            (Ok(FileStep::Begin(large, mut part)), _) => {
                checkpoints.begin(part.take_journal());
                writing = Some(Writing { large, part: Ok(part) });
                continue;
            }
            (Ok(FileStep::Again(large)), open) => {
                writing = open.map(|open| open.begin_again(large, &mut checkpoints));
                continue;
            }
            (Ok(FileStep::Data(data)), open) => {
                writing = open.map(|open| open.with_part(|part| part.write(&data)));
                continue;
            }
            (Ok(FileStep::Hole(len)), open) => {
                writing = open.map(|open| open.with_part(|part| part.skip(len)));
                continue;
            }
            (Ok(FileStep::Checkpoint(at)), open) => {
                writing = open.map(|open| open.with_part(|part| part.note(&mut checkpoints, at)));
                continue;
            }
            (Ok(FileStep::End(_)), None) => continue,
            (Ok(FileStep::End(end)), Some(open)) => {
                close(context, open, Some(end), &mut checkpoints)
            }
            (Err(_), Some(open)) => close(context, open, None, &mut checkpoints),
            (Err(_), None) => return,
        };
        if results.send(CommitterMessage::Results(vec![result])).is_err() {
            return;
        }
    }
}

fn close(
    context: &Context<'_>,
    writing: Writing,
    end: Option<HashedEnd>,
    checkpoints: &mut Checkpoints,
) -> TransferResult {
    let Writing { large, part } = writing;
    let transfer = &large.transfer;
    let mut warnings = Vec::new();
    let outcome = match (part, end) {
        (Err(error), _) => Outcome::Failed(error),
        (Ok(part), Some(Ok((read, digest)))) => match checkpoints.end() {
            Ok(()) => {
                warnings = read.warnings;
                finish(context, transfer, part, &read.attributes, digest, &mut warnings)
            }
            Err(error) => {
                let error = Error::io("make durable", transfer.target.path(), error);
                Outcome::Failed(part.discard(error))
            }
        },
        (Ok(part), Some(Err(EarlyEnd::Failed(error)))) => Outcome::Failed(part.discard(error)),
        (Ok(part), Some(Err(EarlyEnd::Abandoned))) => {
            let durable = match context.control.stop.is_asked() {
                true => checkpoints.stop_noting(),
                false => 0,
            };
            match part.leave(durable, &mut warnings) {
                true => Outcome::Suspended(durable),
                false => Outcome::Abandoned,
            }
        }
        (Ok(part), None) => {
            let died = "the thread that read or hashed it ended before the file did";
            let error = Error::finding("copy", transfer.source_path(), died);
            Outcome::Failed(part.discard(error))
        }
    };
    // What may still be on its way is of a part file that is gone, or cut off before it.
    let _ = checkpoints.end();
    TransferResult { transfer: transfer.clone(), outcome, warnings, resumed: large.start() }
}
