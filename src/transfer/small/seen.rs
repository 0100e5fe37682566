//! What is in a new snapshot under the names of a batch, looked at all at once.
//!
//! A tree that begins as a snapshot of the last generation has all its files, and mostly none of them has changed. The
//! record says which inode a name should lead to; the file system tells of many of these in one call, without making
//! each in memory ([`Dir::stat_committed`](crate::sys::Dir::stat_committed)). What it does not tell so is looked at by
//! its name. Only of a snapshot that the run has just made is all that is asked for committed.

use crate::manifest::index::NextLine;
use crate::sys::NamedInode;
use crate::sys::stat::Stat;
use crate::transfer::context::Context;
use crate::tree::found::Batch;

/// What is at the output for each file of the batch; `None` for those that are yet to be looked at.
pub fn look_at_all(context: &Context<'_>, batch: &Batch) -> Vec<Option<Stat>> {
    let mut seen = vec![None; batch.files.len()];
    let output = &batch.output;
    let is_snapshot = context.options.prunes && !output.fresh && output.volume.with_root;
    let (true, Some(dir), Some(known)) = (is_snapshot, &output.handle, context.shared.known) else {
        return seen;
    };
    let (mut path, mut asked, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = NextLine::default();
    for (at, entry) in batch.files.iter().enumerate() {
        path.clear();
        output.rel.join_into(&entry.name, &mut path);
        if let Some(trace) = known.recorded_trace(&path, &mut next) {
            asked.push(NamedInode { name: &entry.name, ino: trace.ino });
            places.push(at);
        }
    }
    for (at, stat) in places.into_iter().zip(dir.stat_committed(&asked)) {
        seen[at] = stat;
    }
    seen
}
