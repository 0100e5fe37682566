//! The gate before the first thing that a run makes at an output.
//!
//! Whether the output has room for everything takes a walk over both sides. A run after the first mostly finds all of
//! it there and makes nothing. So that walk waits for the first thing that is to be made or changed: every thread asks
//! here before, and a run that makes nothing walks once.

use std::fmt;
use std::sync::OnceLock;

/// Whether a run may make anything. It is open, or a look decides when it is first asked.
#[derive(Default)]
pub struct Gate<'a> {
    look: Option<&'a (dyn Fn() -> bool + Sync)>,
    answer: OnceLock<bool>,
}

impl<'a> Gate<'a> {
    /// One at which `look` decides, once. If it says no, it has asked the run to stop.
    pub fn deciding(look: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { look: Some(look), answer: OnceLock::new() }
    }

    /// Whether anything may be made or changed. The first to ask looks; others wait for the answer.
    pub fn lets_pass(&self) -> bool {
        self.look.is_none_or(|look| *self.answer.get_or_init(look))
    }

    /// Whether it was asked, and the answer is there.
    pub fn was_asked(&self) -> bool {
        self.answer.get().is_some()
    }

    /// Whether it was asked, and said no.
    pub fn is_shut(&self) -> bool {
        self.answer.get() == Some(&false)
    }
}

impl fmt::Debug for Gate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("answer", &self.answer).finish_non_exhaustive()
    }
}
