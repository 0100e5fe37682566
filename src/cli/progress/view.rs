//! The thread that looks at a running run: it draws rows on a terminal, writes a line now and then elsewhere or
//! when a signal asks for one, and takes the samples of the report. The run never waits for it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terminal_size::{Height, Width, terminal_size_of};

use crate::cli::progress::bar::Charset;
use crate::cli::progress::layout::{Room, lines};
use crate::cli::progress::snapshot::Tracker;
use crate::cli::show::console::Console;
use crate::event::{Progress, SampleSeries};
use crate::sys;

/// How often the thread looks and the rows are drawn: smooth to the eye, and no load.
const DRAW: Duration = Duration::from_millis(100);

/// How often a plain line is written.
const LINE: Duration = Duration::from_secs(5);

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
    /// Takes the samples of the report, if there is one.
    pub samples: Option<&'a SampleSeries>,
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
        let watch = move || self.watch(&watched, console, &done);
        let started = Builder::new().name("progress".into()).spawn_scoped(scope, watch);
        if let (Err(error), false) = (started, matches!(self, View::None)) {
            console.warn(&format!("cannot show progress: {error}"));
        }
    }

    fn watch(&self, watched: &Watched<'_>, console: &Console, done: &Receiver<()>) {
        let Watched { names, progress, asked, samples } = *watched;
        let mut tracker = Tracker::new(names, progress);
        let charset = if sys::shows_unicode() { Charset::Unicode } else { Charset::Ascii };
        let mut next_line = Instant::now() + LINE;
        while done.recv_timeout(DRAW) == Err(RecvTimeoutError::Timeout) {
            let seen = tracker.look();
            if let Some(samples) = samples {
                samples.take(progress);
            }
            let is_due = matches!(self, View::Lines) && Instant::now() >= next_line;
            if is_due {
                next_line = Instant::now() + LINE;
            }
            if asked.swap(false, Relaxed) || is_due {
                console.err(&format!("dircopy: {}", seen.line()));
            }
            if let View::Rows(bar) = self {
                bar.set_message(lines(&seen, room(charset)).join("\n"));
            }
        }
        if let View::Rows(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// The room that the terminal has now.
fn room(charset: Charset) -> Room {
    let (Width(columns), Height(lines)) =
        terminal_size_of(std::io::stderr()).unwrap_or((Width(80), Height(24)));
    Room { columns: columns.into(), lines: lines.into(), charset }
}
