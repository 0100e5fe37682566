//! Until when a file is read: a scrub gives up a file that takes too long, as every check does that is asked to stop.

use std::time::Instant;

use crate::event::Stop;

/// When reading files ends before their end.
#[derive(Clone, Copy)]
pub struct Until<'a> {
    pub stop: &'a Stop,
    /// Then at the latest.
    pub at: Option<Instant>,
}

impl Until<'_> {
    /// Whether it is to end now.
    pub fn is_over(self) -> bool {
        self.stop.is_urgent() || self.at.is_some_and(|at| Instant::now() >= at)
    }
}
