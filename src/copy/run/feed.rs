//! The walk's thread: what it and the stat workers beside it find goes to the workers and to the committer.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_channel::Sender;

use crate::copy::before::prepare::Prepared;
use crate::event::Stop;
use crate::sys::DirReader;
use crate::transfer::outcome::CommitterMessage;
use crate::tree::found::{Batch, WalkEvent, WalkItem};
use crate::tree::walk::Walk;

/// Where everything goes that is found.
pub struct WalkSink<'a> {
    /// Takes files; false if there is no worker left to copy them.
    pub to_workers: &'a (dyn Fn(Batch) -> bool + Sync),
    pub to_committer: Sender<CommitterMessage>,
    /// Counts the entries that are to be accounted for.
    pub found: &'a AtomicU64,
    pub stop: &'a Stop,
}

/// Walks the source, or takes its only file: files go to the workers, everything else to the committer. Up to
/// `stat_workers` threads stat files beside the walk.
pub fn walk_all(walk: &Walk<'_>, outlet: &WalkSink<'_>, prepared: Prepared, stat_workers: usize) {
    let Prepared { source, output, file, .. } = prepared;
    if let Some(entry) = file {
        // Beginnings of other files stay: these files are not this run's.
        let tell = &mut |found| outlet.hand_on(found);
        let _ = walk.clean_up(&source, &output, &mut DirReader::default(), tell);
        output.announce(1);
        // Fails only if the workers are gone, and then the entry is missed in the account.
        let _ = outlet.hand_on(WalkEvent::Files(Batch { source, output, files: vec![entry] }));
        return;
    }
    let _ = walk.run_parallel(source, output, stat_workers, &|found| outlet.tell(found));
}

impl WalkSink<'_> {
    /// Hands on what was found, unless the run is to stop.
    fn tell(&self, found: WalkEvent) -> ControlFlow<()> {
        if self.stop.is_requested() { ControlFlow::Break(()) } else { self.hand_on(found) }
    }

    fn hand_on(&self, found: WalkEvent) -> ControlFlow<()> {
        let entries = match &found {
            WalkEvent::Files(batch) => batch.files.len(),
            WalkEvent::Item(
                WalkItem::HardLink(..) | WalkItem::Symlink(..) | WalkItem::Failed(_),
            ) => 1,
            WalkEvent::Item(_) => 0,
        };
        self.found.fetch_add(entries as u64, Relaxed);
        let sent = match found {
            WalkEvent::Files(batch) => (self.to_workers)(batch),
            WalkEvent::Item(item) => self.to_committer.send(CommitterMessage::Walked(item)).is_ok(),
        };
        if sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
