//! How bytes come from the inputs to the outputs: three ways with the same meaning.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::stream::input::Input;
use crate::stream::outcome::{OutputStates, StreamContent};

/// Why an input is not gone on with.
pub enum FeedError {
    Input(Error),
    /// The run is to stop, or no output is left.
    All,
}

/// So often it is looked whether an output's reader went away, while an input is idle.
pub const LOOK: Duration = Duration::from_millis(100);

/// A way for the bytes.
pub trait Engine {
    /// Passes on all of an input. Outputs that are lost meanwhile are settled.
    fn feed(
        &mut self,
        input: &mut Input<'_>,
        states: &mut OutputStates<'_>,
    ) -> Result<(), FeedError>;

    /// Settles the outputs that were lost since; called while nothing comes.
    fn hear(&mut self, states: &mut OutputStates<'_>);

    /// An input was cut short: files are given up.
    fn spoil(&mut self, states: &mut OutputStates<'_>);

    /// Everything came, or, unless `whole`, it did not: settles the outputs that are left. Returns what
    /// is known of everything, if it was hashed.
    fn finish(
        self: Box<Self>,
        whole: bool,
        states: &mut OutputStates<'_>,
    ) -> Option<Arc<StreamContent>>;
}
