//! The one value through which a program follows a run and stops it.

use std::sync::Arc;

use crate::event::events::Event;
use crate::event::progress::Progress;
use crate::event::stop::Stop;

/// Follows a run: `listen` hears what happens, `progress` tells how far it is, `stop` ends it early.
///
/// Keep a clone of `progress` to read it from another thread, and a clone of `stop` to stop the run from
/// another thread; a signal handler stores its code through [`Stop::handle`].
#[derive(Clone, Debug, Default)]
pub struct Observer<L: ?Sized> {
    /// The counters of the run; they must not serve another run.
    pub progress: Arc<Progress>,
    /// Ends the run early, with all its clones.
    pub stop: Stop,
    /// Called from one thread at a time. A slow listener slows the run.
    pub listen: L,
}

impl<L> Observer<L> {
    /// Hears a run through `listen`, with a progress and a stop of its own.
    pub fn new(listen: L) -> Self {
        Self { progress: Arc::default(), stop: Stop::default(), listen }
    }
}

/// Hears the events of a copy or of a stream.
pub type EventListener<'a> = dyn Fn(&Event<'_>) + Sync + 'a;

/// Follows a copy or a stream.
pub type EventObserver<'a> = Observer<EventListener<'a>>;
