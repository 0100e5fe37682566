//! Hands the events of a copy or a stream to the screen and to the records.

use std::sync::Arc;

use crate::cli::record::records::Records;
use crate::cli::show::console::Console;
use crate::cli::show::gathered::Gathered;
use crate::event::{Event, Observer, Progress, Stop};

/// Reports what happens at an output.
pub struct Reporter<'a> {
    pub console: &'a Console,
    pub records: &'a Records<'a>,
    /// The name of the output, if there are several.
    pub output: Option<String>,
    /// What is said of many entries.
    pub gathered: Gathered,
}

impl Reporter<'_> {
    /// The observer of the run at the output.
    pub fn observer(
        &self,
        progress: Arc<Progress>,
        stop: Stop,
    ) -> Observer<impl Fn(&Event<'_>) + Sync> {
        Observer { progress, stop, listen: |event: &Event<'_>| self.event(event) }
    }

    pub fn event(&self, event: &Event<'_>) {
        self.console.event(event, self.output.as_deref(), &self.gathered);
        self.records.event(event, self.output.as_deref());
    }

    /// Reports what was gathered, when no more events come.
    pub fn rest(&self) {
        self.console.rest(&self.gathered, self.output.as_deref());
    }
}
