//! A second try at a file that changed while it was read.
//!
//! Most such files change once: somebody was just saving it. It is looked at anew and read again from
//! its beginning, once; a file that changes again is reported and is not at the output.

use crate::error::Error;
use crate::sys::stat::{Kind, Stat};
use crate::transfer::context::Context;
use crate::transfer::prepare::look;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::overwrite::{Decision, DestinationStat, SourceStat, decide};

/// What the file is now, if it is worth a second try: it is still there, and the same is to be done
/// about it as before.
pub fn look_again(
    context: &Context<'_>,
    source: &SourceDir,
    output: &OutputDir,
    entry: &SourceEntry,
    replaces: bool,
) -> Option<Stat> {
    let (before, now) =
        (&entry.stat, source.handle.stat(&entry.name, context.options.follow).ok()?);
    // Other names of the file may wait for it by its identity and their number.
    let alike = now.links == before.links && (now.links == 1 || now.id == before.id);
    if now.kind != Kind::File || !alike || context.control.stop.is_urgent() {
        return None;
    }
    let there = look(output, entry).ok()?;
    let same =
        match decide(context.options.policy, SourceStat(&now), there.as_ref().map(DestinationStat))
        {
            Decision::Create => !replaces,
            Decision::Replace => replaces,
            Decision::Keep | Decision::Leave(_) | Decision::Refuse(_) => false,
        };
    same.then_some(now)
}

/// What is said of the first try when the second went well.
pub fn warning(first: Error) -> Error {
    first.with_note("; it was read again from its beginning, and copied")
}
