//! The thread that looks at a running run: it draws rows on a terminal, writes a line now and then elsewhere or
//! when a signal asks for one, takes the samples of the report, and looks whether a call does not come back. The run
//! never waits for it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terminal_size::{Height, Width, terminal_size_of};

use crate::cli::progress::bar::Charset;
use crate::cli::progress::hanging::HangingCalls;
use crate::cli::progress::layout::{Room, lines};
use crate::cli::progress::snapshot::Tracker;
use crate::cli::show::console::Console;
use crate::error::Error;
use crate::event::{Progress, SampleSeries, Stop};
use crate::sys;

/// How often the thread looks and the rows are drawn: smooth to the eye, and no load.
const DRAW: Duration = Duration::from_millis(100);

/// How often a plain line is written.
const LINE: Duration = Duration::from_secs(5);

/// How long who asks how far a run is waits for the total.
const COUNTING: Duration = Duration::from_secs(1);

/// Counts what there is to do into the totals, until it is stopped.
pub type CountTotal<'a> = &'a (dyn Fn(&Progress, &Stop) + Sync);

/// When progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// If standard error is a terminal.
    Auto,
    Always,
    Never,
}

/// How progress is shown.
pub enum View {
    /// Not at all.
    None,
    /// As rows that are drawn again and again.
    Rows(ProgressBar),
    Lines,
}

/// What the thread looks at, and what it serves beside the view.
pub struct Watched<'a> {
    /// The names of the outputs, where they have some.
    pub names: &'a [String],
    /// The counters of each output.
    pub progress: &'a [Arc<Progress>],
    /// Set by a signal that asks how far the run is.
    pub asked: &'a AtomicBool,
    /// Counts the total for a run that was not watched from its start, if that can be counted.
    pub count: Option<CountTotal<'a>>,
    /// Takes the samples of the report, if there is one.
    pub samples: Option<&'a SampleSeries>,
    /// Asks the run to stop.
    pub stop: &'a Stop,
    /// Is told of calls that do not come back.
    pub hanging: &'a (dyn Fn(&Error) + Sync),
    /// Ends the program, since this one keeps the run from stopping.
    pub stuck: &'a (dyn Fn(&Error) + Sync),
}

/// What asked how far the run is, and still waits for the answer.
#[derive(Default)]
struct Request {
    since: Option<Instant>,
    is_counting: bool,
}

impl View {
    /// What is asked for and possible.
    pub fn new(when: When, quiet: bool) -> Self {
        match (when, std::io::stderr().is_terminal()) {
            (When::Never, _) | (When::Auto, false) => View::None,
            (When::Auto, true) if quiet => View::None,
            (_, true) => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                let style = ProgressStyle::with_template("{msg}");
                View::Rows(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
            }
            (When::Always, false) => View::Lines,
        }
    }

    /// What draws the rows, if there are some.
    pub fn bar(&self) -> Option<ProgressBar> {
        match self {
            View::Rows(bar) => Some(bar.clone()),
            _ => None,
        }
    }

    /// Watches the run in a thread of its own until the other end of `done` is dropped. Where there is
    /// no thread to be had, the run is not worse for it.
    pub fn watch_beside<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        watched: Watched<'scope>,
        console: &'scope Console,
        done: Receiver<()>,
    ) {
        let watch = move || self.watch(scope, &watched, console, &done);
        let started = Builder::new().name("progress".into()).spawn_scoped(scope, watch);
        if let (Err(error), false) = (started, matches!(self, View::None)) {
            console.warn(&format!("cannot show progress: {error}"));
        }
    }

    fn watch<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        watched: &Watched<'scope>,
        console: &Console,
        done: &Receiver<()>,
    ) {
        let Watched { names, progress, asked, samples, stop, hanging, stuck, .. } = *watched;
        let mut calls = HangingCalls::default();
        let mut tracker = Tracker::new(names, progress);
        let (mut request, counting) = (Request::default(), Stop::default());
        let charset = Charset::of_terminal();
        let mut next_line = Instant::now() + LINE;
        while done.recv_timeout(DRAW) == Err(RecvTimeoutError::Timeout) {
            sys::take_waiting_signals();
            if let Some(error) = calls.look(stop, hanging) {
                stuck(&error);
            }
            let seen = tracker.look();
            if let Some(samples) = samples {
                samples.take(progress);
            }
            let is_due = matches!(self, View::Lines) && Instant::now() >= next_line;
            if is_due {
                next_line = Instant::now() + LINE;
            }
            if asked.swap(false, Relaxed) {
                request.since.get_or_insert_with(Instant::now);
                if !seen.has_total() && !std::mem::replace(&mut request.is_counting, true) {
                    watched.start_counting(scope, &counting);
                }
            }
            let is_answered = request.since.is_some_and(|since| {
                seen.has_total() || watched.count.is_none() || since.elapsed() >= COUNTING
            });
            if is_answered || is_due {
                request.since = None;
                console.err(&format!("dircopy: {}", seen.line()));
            }
            if let View::Rows(bar) = self {
                bar.set_message(lines(&seen, room(charset)).join("\n"));
            }
        }
        counting.request(Stop::GIVEN_UP);
        if let View::Rows(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl<'scope> Watched<'scope> {
    /// Counts the total in a thread of its own, for a run that did not. Without a thread there is none.
    fn start_counting(&self, scope: &'scope Scope<'scope, '_>, counting: &Stop) {
        self.progress.iter().for_each(|progress| progress.watched.store(true, Relaxed));
        let (Some(count), Some(progress)) = (self.count, self.progress.first()) else { return };
        let counting = counting.clone();
        let count = move || count(progress, &counting);
        let _ = Builder::new().name("count".into()).spawn_scoped(scope, count);
    }
}

/// The room that the terminal has now.
fn room(charset: Charset) -> Room {
    let (Width(columns), Height(lines)) =
        terminal_size_of(std::io::stderr()).unwrap_or((Width(80), Height(24)));
    Room { columns: columns.into(), lines: lines.into(), charset }
}
