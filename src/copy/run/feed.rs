//! The walk's thread: what it and those who look at files beside it find goes to the lanes and to the committer.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_channel::Sender;

use crate::event::Stop;
use crate::sys::DirReader;
use crate::transfer::outcome::Message;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::{Batch, SourceEntry};
use crate::tree::found::{WalkItem, Walked};
use crate::tree::walk::Walk;

/// Where everything goes that is found.
pub struct Outlet<'a> {
    /// Files: says whether there is anybody to copy them.
    pub to_lanes: &'a (dyn Fn(Batch) -> bool + Sync),
    /// All else.
    pub to_committer: Sender<Message>,
    /// Is added to: what is to be accounted for.
    pub seen: &'a AtomicU64,
    /// Ends the walk.
    pub stop: &'a Stop,
}

/// Walks the source, or takes its only file: files go to the lanes, everything else to the committer. Up to
/// so many `stat_workers` look at files beside the walk.
pub fn walk_all(
    walk: &Walk<'_>,
    outlet: &Outlet<'_>,
    (source, output, file): (Arc<SourceDir>, Arc<OutputDir>, Option<SourceEntry>),
    stat_workers: usize,
) {
    if let Some(entry) = file {
        // Beginnings of other files stay: these files are not this run's.
        let sweep = &mut |found| outlet.hand_on(found);
        let _ = walk.clean_up(&source, &output, &mut DirReader::default(), sweep);
        output.announce(1);
        // Fails only if the lanes are gone, and then the entry is missed in the account.
        let _ = outlet.hand_on(Walked::Files(Batch { source, output, files: vec![entry] }));
        return;
    }
    let _ = walk.run_parallel(source, output, stat_workers, &|found| outlet.tell(found));
}

impl Outlet<'_> {
    /// Hands on what was found, unless the run is to stop.
    fn tell(&self, found: Walked) -> ControlFlow<()> {
        if self.stop.is_requested() { ControlFlow::Break(()) } else { self.hand_on(found) }
    }

    fn hand_on(&self, found: Walked) -> ControlFlow<()> {
        let entries = match &found {
            Walked::Files(run) => run.files.len(),
            Walked::Item(WalkItem::HardLink(..) | WalkItem::Symlink(..) | WalkItem::Failed(_)) => 1,
            Walked::Item(_) => 0,
        };
        self.seen.fetch_add(entries as u64, Relaxed);
        let sent = match found {
            Walked::Files(run) => (self.to_lanes)(run),
            Walked::Item(item) => self.to_committer.send(Message::Walked(item)).is_ok(),
        };
        if sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
