//! The walk's thread: what it and those who look at files beside it find goes to the lanes and to the committer.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_channel::Sender;

use crate::event::Stop;
use crate::sys::Listing;
use crate::transfer::outcome::Message;
use crate::tree::dirs::{Entry, OutputDir, Run, SourceDir};
use crate::tree::walk::{Found, Walk};

/// Where everything goes that is found.
pub struct Outlet<'a> {
    /// Files: says whether there is anybody to copy them.
    pub to_lanes: &'a (dyn Fn(Run) -> bool + Sync),
    /// All else.
    pub to_committer: Sender<Message>,
    /// Is added to: what is to be accounted for.
    pub seen: &'a AtomicU64,
    /// Ends the walk.
    pub stop: &'a Stop,
}

/// Walks the source, or takes its only file: files go to the lanes, everything else to the committer. Up to
/// so many `lookers` look at files beside the walk.
pub fn walk_all(
    walk: &Walk<'_>,
    outlet: &Outlet<'_>,
    (source, output, file): (Arc<SourceDir>, Arc<OutputDir>, Option<Entry>),
    lookers: usize,
) {
    if let Some(entry) = file {
        // Beginnings of other files stay: these files are not this run's.
        let sweep = &mut |found| outlet.hand_on(found);
        let _ = walk.sweep(&source, &output, &mut Listing::default(), sweep);
        output.announce(1);
        // Fails only if the lanes are gone, and then the entry is missed in the account.
        let _ = outlet.hand_on(Found::Files(Run { source, output, files: vec![entry] }));
        return;
    }
    let _ = walk.run_beside(source, output, lookers, &|found| outlet.tell(found));
}

impl Outlet<'_> {
    /// Hands on what was found, unless the run is to stop.
    fn tell(&self, found: Found) -> ControlFlow<()> {
        if self.stop.is_requested() { ControlFlow::Break(()) } else { self.hand_on(found) }
    }

    fn hand_on(&self, found: Found) -> ControlFlow<()> {
        let entries = match &found {
            Found::Files(run) => run.files.len(),
            Found::HardLink(..) | Found::Symlink(..) | Found::Failed(_) => 1,
            _ => 0,
        };
        self.seen.fetch_add(entries as u64, Relaxed);
        let sent = match found {
            Found::Files(run) => (self.to_lanes)(run),
            other => self.to_committer.send(Message::Walked(other)).is_ok(),
        };
        if sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
