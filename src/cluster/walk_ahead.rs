//! The walk of a plan, in threads of its own: one lists directories and makes them at the output, others look at files,
//! and the calling thread takes what they find in the order of the walk.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::{Builder, scope};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::{Error, Result};
use crate::tree::classify::Unclassified;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::WalkEvent;
use crate::tree::walk::Walk;

/// So much may be found and not taken yet; each batch holds its directories open.
const AHEAD: usize = 16;

/// So many batches of one look may wait to be taken.
const AHEAD_OF_LOOK: usize = 4;

/// What comes next in the order of the walk.
enum NextFound {
    Event(WalkEvent),
    /// What a stat worker finds.
    Look(Receiver<WalkEvent>),
}

/// Entries that a stat worker is to look at, and where what it finds goes.
type EntriesToLookAt = (Unclassified, Sender<WalkEvent>);

/// Walks everything below `source` and has `take` take what is found, until that is all or `take` ends it.
///
/// # Errors
/// A thread died, so not everything was found.
pub fn walk_ahead(
    walk: &Walk<'_>,
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
    stat_workers: usize,
    mut take: impl FnMut(WalkEvent) -> ControlFlow<()>,
) -> Result<()> {
    let root = source.root.to_path_buf();
    scope(|scope| {
        let (sender, found) = bounded(AHEAD);
        let (to_workers, work) = bounded::<EntriesToLookAt>(stat_workers);
        let look = |work: Receiver<EntriesToLookAt>| {
            let look = move || {
                for (entries, sender) in work {
                    // That the walk is over shows to it, too.
                    let _ = walk.classifier.look_at(entries, &mut |found| send(&sender, found));
                }
            };
            Builder::new().name("stat".into()).spawn_scoped(scope, look).ok()
        };
        let mut threads: Vec<_> = (0..stat_workers).filter_map(|_| look(work.clone())).collect();
        drop(work);
        let has_workers = !threads.is_empty();
        let roots = (Arc::clone(&source), Arc::clone(&output));
        let run = move || {
            let (source, output) = roots;
            let mut defer = |entries| {
                let (to_taker, looked) = bounded(AHEAD_OF_LOOK);
                send(&sender, NextFound::Look(looked))?;
                send(&to_workers, (entries, to_taker))
            };
            let emit = &mut |found| send(&sender, NextFound::Event(found));
            let _ = walk.walk_any(source, output, emit, has_workers.then_some(&mut defer));
        };
        match Builder::new().name("walk".into()).spawn_scoped(scope, run) {
            Ok(thread) => threads.push(thread),
            Err(_) => {
                let _ = walk.run(source, output, take);
                return Ok(());
            }
        }
        let _ = found.iter().try_for_each(|next| match next {
            NextFound::Event(event) => take(event),
            NextFound::Look(looked) => looked.iter().try_for_each(&mut take),
        });
        // So that the walk ends where not all was taken.
        drop(found);
        // Each is waited for here: the scope would pass a panic on.
        let died = threads.into_iter().filter_map(|thread| thread.join().err()).count();
        match died {
            0 => Ok(()),
            _ => {
                let finding = "a thread of its walk died; this is a defect of dircopy";
                Err(Error::finding("plan", root, finding))
            }
        }
    })
}

/// Sends to a thread that may be at its end.
fn send<T>(sender: &Sender<T>, value: T) -> ControlFlow<()> {
    match sender.send(value) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}
