//! The request to end a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Asks a run to stop. Clones ask the same run; ask once, it cannot be taken back.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    urgent: Arc<AtomicUsize>,
    winding_up: Arc<AtomicUsize>,
    /// What stops several runs, and this one with them.
    of_all: Option<Arc<Stop>>,
}

impl Stop {
    /// The code of a run that gives itself up: nothing more is begun, but copies that are complete are
    /// brought to their end.
    pub(crate) const GIVEN_UP: usize = usize::MAX;

    /// … and of one whose complete copies have become worthless as well.
    pub(crate) const IN_VAIN: usize = usize::MAX - 1;

    /// One for a run among several: it stops with all of them, and they do not stop with it.
    pub(crate) fn of_one(&self) -> Self {
        Self { of_all: Some(Arc::new(self.clone())), ..Self::default() }
    }

    /// Asks the run to stop: no new file is begun, files on their way are given up, what is
    /// finished is recorded. `code` must not be 0; the report carries the first one given.
    pub fn request(&self, code: usize) {
        let _ = self.urgent.compare_exchange(0, code, Relaxed, Relaxed);
    }

    /// Asks the run to come to an end: no new file is begun, but files on their way are finished.
    /// `code` is as with [`request`](Self::request), which may follow.
    pub fn wind_up(&self, code: usize) {
        let _ = self.winding_up.compare_exchange(0, code, Relaxed, Relaxed);
    }

    /// The code that was asked with, if the run is to stop, the more urgent one if there are two.
    pub fn requested(&self) -> Option<usize> {
        let code = |asked: &AtomicUsize| Some(asked.load(Relaxed)).filter(|code| *code != 0);
        let of_all = self.of_all.as_deref().and_then(Stop::requested);
        code(&self.urgent).or(of_all).or_else(|| code(&self.winding_up))
    }

    /// Whether the run was asked to stop, and has not given itself up.
    pub(crate) fn is_asked(&self) -> bool {
        self.requested().is_some_and(|code| code < Self::IN_VAIN)
    }

    /// Whether the run is to stop.
    pub fn is_requested(&self) -> bool {
        self.requested().is_some()
    }

    /// Whether not even files on their way are to be finished.
    pub fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0 || self.of_all.as_deref().is_some_and(Stop::is_urgent)
    }

    /// Whether even copies that are complete are to be let go, if they are not at their end.
    pub fn is_at_once(&self) -> bool {
        !matches!(self.urgent.load(Relaxed), 0 | Self::GIVEN_UP)
            || self.of_all.as_deref().is_some_and(Stop::is_at_once)
    }

    /// The number itself, for a signal handler to store a code in.
    pub fn handle(&self) -> &Arc<AtomicUsize> {
        &self.urgent
    }
}
