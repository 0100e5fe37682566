//! The third thread of a lane: writes what passes through, and closes the file.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use crate::error::{Error, Result};
use crate::io::timing::Timer;
use crate::part::checkpoint::Checkpoints;
use crate::part::part_file::Part;
use crate::pipeline::hasher::{Hashed, HashedEnd};
use crate::pipeline::message::{Cut, LargeFile, Step, receive};
use crate::transfer::baseline;
use crate::transfer::context::Context;
use crate::transfer::outcome::{Fate, Message, Outcome};

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
    from: &Receiver<Hashed>,
    outcomes: &Sender<Message>,
    mut checkpoints: Checkpoints,
) {
    let clock = &context.control.clocks.write;
    let mut writing: Option<Writing> = None;
    loop {
        let step = receive(from, clock);
        let _busy = Timer::start(&clock.busy);
        let outcome = match (step, writing.take()) {
            (Ok(Step::Begin(large, mut part)), _) => {
                checkpoints.begin(part.take_journal());
                writing = Some(Writing { large, part: Ok(part) });
                continue;
            }
            (Ok(Step::Again(large)), open) => {
                writing = open.map(|open| open.begin_again(large, &mut checkpoints));
                continue;
            }
            (Ok(Step::Data(data)), open) => {
                writing = open.map(|open| open.with_part(|part| part.write(&data)));
                continue;
            }
            (Ok(Step::Hole(len)), open) => {
                writing = open.map(|open| open.with_part(|part| part.skip(len)));
                continue;
            }
            (Ok(Step::Checkpoint(at)), open) => {
                writing = open.map(|open| open.with_part(|part| part.note(&mut checkpoints, at)));
                continue;
            }
            (Ok(Step::End(_)), None) => continue,
            (Ok(Step::End(end)), Some(open)) => close(context, open, Some(end), &mut checkpoints),
            (Err(_), Some(open)) => close(context, open, None, &mut checkpoints),
            (Err(_), None) => return,
        };
        if outcomes.send(Message::Outcomes(vec![outcome])).is_err() {
            return;
        }
    }
}

fn close(
    context: &Context<'_>,
    writing: Writing,
    end: Option<HashedEnd>,
    checkpoints: &mut Checkpoints,
) -> Outcome {
    let Writing { large, part } = writing;
    let mut warnings = Vec::new();
    let fate = match (part, end) {
        (Err(error), _) => Fate::Failed(error),
        (Ok(part), Some(Ok((read, digest)))) => match checkpoints.end() {
            Ok(()) => {
                warnings = read.warnings;
                let LargeFile { source, output, entry, replaces, .. } = &*large;
                match baseline::objection(context, (source, output), entry, digest, None) {
                    Some(fate) => baseline::discard(part, fate, &mut warnings),
                    None => {
                        let attributes = &read.attributes;
                        let Context { options, control, .. } = context;
                        let completed = part.finish(
                            options,
                            control,
                            entry,
                            attributes,
                            *replaces,
                            &mut warnings,
                        );
                        Fate::of_part(completed, digest, *replaces)
                    }
                }
            }
            Err(error) => {
                let path = large.output.path_of(&large.entry.name);
                Fate::Failed(part.discard(Error::io("make durable", path, error)))
            }
        },
        (Ok(part), Some(Err(Cut::Failed(error)))) => Fate::Failed(part.discard(error)),
        (Ok(part), Some(Err(Cut::Abandoned))) => {
            part.abandon(&mut warnings);
            Fate::Abandoned
        }
        (Ok(part), None) => {
            let path = large.source.path_of(&large.entry.name);
            let died = "the thread that read or hashed it ended before the file did";
            Fate::Failed(part.discard(Error::finding("copy", path, died)))
        }
    };
    // What may still be on its way is of a part file that is gone.
    let _ = checkpoints.end();
    let (source, output) = (Arc::clone(&large.source), Arc::clone(&large.output));
    let entry = large.entry.clone();
    Outcome { source, output, entry, fate, warnings, resumed: large.start() }
}
