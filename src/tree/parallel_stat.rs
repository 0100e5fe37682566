//! Walking with stat workers: threads that look at entries while the walk itself only lists directories.
//!
//! Looking is most of what a walk takes: in the kernel where the tree is in memory, in waiting where it is
//! not. A second run over 1,000,000 unchanged files on tmpfs took 2.10 s with eight stat workers and 2.37 s
//! with none, one over 100,000 on an ext4 disk, cold, 0.59 and 0.66 s (medians of 5, Xeon, 2 cores).

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, scope};

use crossbeam_channel::{Receiver, bounded};

use crate::tree::classify::Unclassified;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::WalkEvent;
use crate::tree::walk::Walk;

impl Walk<'_> {
    /// Walks everything below `source`, handing on what it finds to `tell`, which this thread and up to
    /// `stat_workers` more call, until all is found or one of them is told to end it. What is found of one
    /// directory may come in any order.
    pub fn run_parallel(
        &self,
        source: Arc<SourceDir>,
        output: Arc<OutputDir>,
        stat_workers: usize,
        tell: &(impl Fn(WalkEvent) -> ControlFlow<()> + Sync),
    ) -> ControlFlow<()> {
        let over = AtomicBool::new(false);
        // A stat worker that dies takes this thread with it, so that it does not go unnoticed.
        let walked = scope(|scope| {
            let (to_workers, work) = bounded(stat_workers);
            let start = |work: &Receiver<Unclassified>| {
                let (work, over) = (work.clone(), &over);
                let look = move || self.look_at_all(&work, tell, over);
                Builder::new().name("stat".into()).spawn_scoped(scope, look).is_ok()
            };
            // Most trees are too small to need them; and copying threads are started first, should threads
            // be scarce.
            let (mut unstarted, mut started, mut is_first) = (Some(work), 0, true);
            let mut defer = |entries| {
                if !mem::take(&mut is_first)
                    && let Some(work) = unstarted.take()
                {
                    started = (0..stat_workers).filter(|_| start(&work)).count();
                }
                match started {
                    _ if over.load(Relaxed) => ControlFlow::Break(()),
                    0 => self.classifier.look_at(entries, &mut |found| tell(found)),
                    _ if to_workers.send(entries).is_err() => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            };
            self.walk_any(source, output, &mut |found| tell(found), Some(&mut defer))
        });
        if over.into_inner() { ControlFlow::Break(()) } else { walked }
    }

    fn look_at_all(
        &self,
        work: &Receiver<Unclassified>,
        tell: &impl Fn(WalkEvent) -> ControlFlow<()>,
        over: &AtomicBool,
    ) {
        // To the end also when it is over, so that the walk does not wait for room.
        for entries in work {
            let look = || self.classifier.look_at(entries, &mut |found| tell(found));
            if !over.load(Relaxed) && look().is_break() {
                over.store(true, Relaxed);
            }
        }
    }
}
