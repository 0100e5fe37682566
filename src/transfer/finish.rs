//! The end of a part file whose content is complete: its attributes, and its name if it need not wait for it.

use std::sync::Arc;

use crate::error::Error;
use crate::hash::Digest;
use crate::part::part_file::Part;
use crate::part::publish::Complete;
use crate::part::transfer::Transfer;
use crate::sys::Attributes;
use crate::transfer::context::Context;
use crate::transfer::outcome::{Outcome, WrittenPart};
use crate::transfer::rot_check;

/// Completes the file unless it has rotted in the source; `digest` is of its content.
pub fn finish(
    context: &Context<'_>,
    transfer: &Transfer,
    part: Part,
    attributes: &Attributes,
    digest: Option<Digest>,
    warnings: &mut Vec<Error>,
) -> Outcome {
    match rot_check::check(context, transfer, digest) {
        None => complete(context, transfer, part, attributes, digest, warnings),
        Some(outcome) => discard(part, outcome, warnings),
    }
}

/// Completes the file, which was found not to have rotted.
pub fn complete(
    context: &Context<'_>,
    transfer: &Transfer,
    part: Part,
    attributes: &Attributes,
    digest: Option<Digest>,
    warnings: &mut Vec<Error>,
) -> Outcome {
    let Context { options, control, shared, .. } = context;
    let entry = transfer.entry();
    if let Some(read) = shared.read.filter(|_| entry.stat.size > 0) {
        read.get_or_init(|| (Arc::clone(&transfer.source), Arc::clone(&entry.name)));
    }
    match part.finish(options, control, &transfer.target, attributes, warnings) {
        Ok(Complete { part: Some((part, made)), method, .. }) => {
            Outcome::Written(WrittenPart { part, made, digest, method })
        }
        Ok(Complete { part: None, method, stands }) => {
            Outcome::Published { digest, method, stands }
        }
        Err(error) => Outcome::Failed(error),
    }
}

/// Removes the part file of a file that comes to `outcome` instead.
fn discard(part: Part, outcome: Outcome, warnings: &mut Vec<Error>) -> Outcome {
    match outcome {
        Outcome::Rotten { error, stands, origin } => {
            Outcome::Rotten { error: part.discard(error), stands, origin }
        }
        Outcome::Failed(error) => Outcome::Failed(part.discard(error)),
        other => {
            part.abandon(warnings);
            other
        }
    }
}
