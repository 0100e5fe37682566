//! The walk's thread: what it finds goes to the lanes and to the committer.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_channel::Sender;

use crate::lane::context::Context;
use crate::lane::outcome::Message;
use crate::sys::Listing;
use crate::tree::node::{Entry, OutputDir, Run, SourceDir};
use crate::tree::walk::{Found, Walk};

/// Walks the source, or takes its only file: files go to the lanes, by `to_lanes`, which says whether there are
/// any, everything else to the committer.
/// Adds to `seen` what is to be accounted for.
pub fn walk_all(
    walk: &Walk<'_>,
    context: &Context<'_>,
    (source, output, file): (Arc<SourceDir>, Arc<OutputDir>, Option<Entry>),
    mut to_lanes: impl FnMut(Run) -> bool,
    to_committer: Sender<Message>,
    seen: &AtomicU64,
) {
    if let Some(entry) = file {
        // Beginnings of other files stay: these files are not this run's.
        let _ =
            walk.sweep(&source, &output, &mut Listing::default(), &mut |found| match to_committer
                .send(Message::Walked(found))
            {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            });
        output.announce(1);
        seen.fetch_add(1, Relaxed);
        // Fails only if the lanes are gone, and then the entry is missed in the account.
        let _ = to_lanes(Run { source, output, files: vec![entry] });
        return;
    }
    let _ = walk.run(source, output, |found| {
        if context.stop.is_requested() {
            return ControlFlow::Break(());
        }
        let entries = match &found {
            Found::Files(run) => run.files.len(),
            Found::HardLink(..) | Found::Symlink(..) | Found::Failed(_) => 1,
            Found::Special(..) | Found::Swept(..) | Found::Warning(_) | Found::Done(_) => 0,
        };
        seen.fetch_add(entries as u64, Relaxed);
        let sent = match found {
            Found::Files(run) => to_lanes(run),
            other => to_committer.send(Message::Walked(other)).is_ok(),
        };
        if sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
}
