//! A second try at a file that changed while it was read.
//!
//! Most such files change once: a program was just saving them. The file is looked at anew and read again
//! from its beginning, once; a file that changes again is reported and is not at the output.

use crate::error::Error;
use crate::part::transfer::Transfer;
use crate::sys::stat::{Kind, Stat};
use crate::transfer::context::Context;
use crate::tree::names::planned::PlannedStat;
use crate::tree::overwrite::{Decision, SourceStat, decide};
use crate::tree::way::Ways;

/// What the file is now, if it is worth a second try: it is still there, and the same is to be done
/// about it as before.
pub fn look_again(context: &Context<'_>, transfer: &Transfer) -> Option<Stat> {
    let before = transfer.entry();
    let now = transfer.source.handle.stat(&before.name, context.options.follow).ok()?;
    // Other names of the file may wait for it by its identity and their number.
    let alike = now.links == before.stat.links && (now.links == 1 || now.id == before.stat.id);
    if now.kind != Kind::File || !alike || context.control.stop.is_urgent() {
        return None;
    }
    let there = transfer.target.look().ok()?;
    let replaces = transfer.target.replaces;
    let output = &transfer.target.output;
    let destination = there.as_ref().map(|there| output.destination(&now, there));
    let same = match decide(context.options.policy, SourceStat(&now), destination) {
        Decision::Create => !replaces,
        Decision::Replace => replaces,
        Decision::Keep | Decision::Leave(_) | Decision::Refuse(_) => false,
    };
    if same
        && let Some(changed) = context.shared.changed
        && !PlannedStat::of(&before.stat, None, Ways::default()).is(&now)
    {
        changed.note(&transfer.target.rel_path(), now.size);
    }
    same.then_some(now)
}

/// What is said of the first try when the second went well.
pub fn warning(first: Error) -> Error {
    first.with_note("; it was read again from its beginning, and copied")
}
