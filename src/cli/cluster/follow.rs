//! What the commands of a plan have in common: the screen, signals, and how far they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_channel::{Sender, bounded};

use crate::cli::args::verbosity::VerbosityArgs;
use crate::cli::exit::Exit;
use crate::cli::progress::view::{View, Watched};
use crate::cli::show::console::Console;
use crate::cli::show::gathered::Gathered;
use crate::cli::show::line::Detail;
use crate::error::Error;
use crate::event::{Event, EventObserver, Observer, Progress, Stop};
use crate::sys;

/// The screen of a command of a plan, and what stops it.
pub struct Follower {
    pub console: Console,
    pub stop: Stop,
    view: View,
    /// Set by a signal that asks how far the command is.
    asked: Arc<AtomicBool>,
    gathered: Gathered,
    is_quiet: bool,
}

impl Follower {
    /// Catches signals.
    pub fn new(verbosity: &VerbosityArgs) -> Self {
        let (detail, view) = (verbosity.detail(), verbosity.view());
        let (console, stop) = (Console::new("dircopy", detail, view.bar()), Stop::default());
        let asked = Arc::default();
        let caught = sys::on_interrupt(stop.handle()).and_then(|()| sys::on_status_request(&asked));
        if let Err(error) = caught {
            console.warn(&format!("cannot catch signals: {error}"));
        }
        sys::raise_open_file_limit();
        let is_quiet = detail == Detail::Quiet;
        Self { console, stop, view, asked, gathered: Gathered::default(), is_quiet }
    }

    /// Runs `work`, and shows how far it is.
    pub fn run<R>(&self, work: impl FnOnce(&EventObserver<'_>) -> R) -> R {
        let progress = [Arc::<Progress>::default()];
        progress[0].watched.store(!matches!(self.view, View::None), Relaxed);
        let listen = |event: &Event<'_>| self.tell(event);
        let tell_hanging = |error: &Error| self.console.error("warning", "warning: ", error);
        let end_stuck = |error: &Error| {
            self.console.error("stopped", "", error);
            let exit = self.stop.requested().map_or(Exit::Stopped, Exit::of_stop);
            std::process::exit(exit.code().into());
        };
        std::thread::scope(|scope| {
            let (running, done) = bounded(0);
            let (names, asked, samples) = (&[][..], &*self.asked, None);
            let (stop, hanging, stuck) = (&self.stop, &tell_hanging, &end_stuck);
            let (progress, count) = (&progress, None);
            let watched = Watched { names, progress, asked, count, samples, stop, hanging, stuck };
            self.view.watch_beside(scope, watched, &self.console, done);
            let progress = Arc::clone(&progress[0]);
            let result = work(&Observer { progress, stop: self.stop.clone(), listen });
            drop::<Sender<()>>(running);
            result
        })
    }

    /// Tells an event.
    pub fn tell(&self, event: &Event<'_>) {
        self.console.event(event, None, &self.gathered);
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

    /// The exit of a command that did not come to its end, if so; `next` says more of an interrupted one.
    pub fn cut_short(
        &self,
        broken: Option<&Error>,
        interrupted: Option<usize>,
        next: &str,
    ) -> Option<Exit> {
        if let Some(error) = broken {
            self.console.error("stopped", "stopped: ", error);
            return Some(Exit::Stopped);
        }
        let code = interrupted?;
        self.console.err(&format!("dircopy: interrupted: {next}"));
        Some(Exit::of_stop(code))
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
