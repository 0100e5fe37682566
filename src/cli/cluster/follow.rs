//! What the commands of a plan have in common: the screen, signals, and what happens on it.

use std::sync::Arc;

use crate::cli::args::verbosity::VerbosityArgs;
use crate::cli::exit::Exit;
use crate::cli::show::console::Console;
use crate::cli::show::gathered::Gathered;
use crate::cli::show::line::Detail;
use crate::error::Error;
use crate::event::{Event, Observer, Progress, Stop};
use crate::sys;

/// The screen of a command of a plan, and what stops it.
pub struct Follower {
    pub console: Console,
    pub stop: Stop,
    gathered: Gathered,
    is_quiet: bool,
}

impl Follower {
    /// Catches signals.
    pub fn new(verbosity: &VerbosityArgs) -> Self {
        let detail = verbosity.detail();
        let (console, stop) = (Console::new("dircopy", detail, None), Stop::default());
        if let Err(error) = sys::on_interrupt(stop.handle()) {
            console.warn(&format!("cannot catch signals: {error}"));
        }
        sys::raise_open_file_limit();
        let is_quiet = detail == Detail::Quiet;
        Self { console, stop, gathered: Gathered::default(), is_quiet }
    }

    /// The observer of a run.
    pub fn observer(&self) -> Observer<impl Fn(&Event<'_>) + Sync> {
        let listen = |event: &Event<'_>| self.console.event(event, None, &self.gathered);
        Observer { progress: Arc::<Progress>::default(), stop: self.stop.clone(), listen }
    }

    /// Tells what was gathered.
    pub fn rest(&self) {
        self.console.rest(&self.gathered, None);
    }

    /// A line for standard output, unless only what is wrong is to be said.
    pub fn say(&self, line: &str) {
        if !self.is_quiet {
            self.console.out(line);
        }
    }

    /// Ends a command that was refused.
    pub fn refused(&self, error: &Error) -> Exit {
        self.console.refused(error);
        self.stop.requested().map_or(Exit::Refused, Exit::of_stop)
    }

    /// The exit of a command that is whole, or not.
    pub fn exit(&self, exit: Exit) -> Exit {
        if self.console.all_written() { exit } else { exit.unwritten() }
    }
}
