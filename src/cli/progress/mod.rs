//! The view of a run while it goes on: a row for each output and one for the file in hand, or a line.

mod layout;
pub mod snapshot;

use std::{
    collections::HashMap, io::IsTerminal, sync::Arc, sync::atomic::AtomicBool,
    sync::atomic::Ordering::Relaxed, thread::Builder, thread::Scope, time::Duration, time::Instant,
};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{
    cli::progress::layout::Room, cli::progress::layout::lines, cli::progress::snapshot::Tracker,
    cli::show::Console, error::Error, event::Progress, event::SampleSeries, event::Stop, sys,
    sys::PendingCall, sys::pending_calls, sys::subject_of,
};

// The thread that looks at a running run: it draws rows on a terminal, writes a line now and then elsewhere or
// when a signal asks for one, takes the samples of the report, and looks whether a call does not come back. The run
// never waits for it.

/// Time between two looks of the thread and drawings of the rows: smooth to the eye, and no load.
const DRAW: Duration = Duration::from_millis(100);

/// Time between two plain lines.
const LINE: Duration = Duration::from_secs(5);

/// Longest wait for the total before a request for progress is answered.
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

/// The form in which progress is shown.
pub enum View {
    /// Not at all.
    None,
    /// Rows that are drawn again and again.
    Rows(ProgressBar),
    Lines,
}

/// The counters that the thread looks at, and the requests and logs that it serves beside the view.
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

/// A request for progress that still waits for its answer.
#[derive(Default)]
struct Request {
    since: Option<Instant>,
    is_counting: bool,
}

impl View {
    /// The view that is asked for and possible.
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

    /// The bar that draws the rows, if there are some.
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
                to_begin_of_row(bar);
            }
        }
        counting.request(Stop::GIVEN_UP);
        if let View::Rows(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Puts the cursor to where the last row begins. Drawing leaves it behind the row's last column, and the `^C` that a
/// terminal writes there would begin a line of its own, so that the row above it stays for ever.
pub fn to_begin_of_row(bar: &ProgressBar) {
    if !bar.is_finished() {
        let _ = sys::write_all(std::io::stderr(), b"\r");
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

// Bars and names of a given width, in characters that the terminal has.

/// The characters that a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    Unicode,
    Ascii,
}

impl Charset {
    /// The characters that the locale promises.
    pub fn of_terminal() -> Self {
        if sys::shows_unicode() { Charset::Unicode } else { Charset::Ascii }
    }
}

/// A bar of `width` columns for this part of a whole.
pub fn bar(part: u64, whole: u64, width: usize, charset: Charset) -> String {
    /// Eighths of a column.
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = part.min(whole) as f64 / whole.max(1) as f64;
    match charset {
        Charset::Unicode => {
            let eighths = (share * width as f64 * 8.0) as usize;
            let (full, rest) = (eighths / 8, eighths % 8);
            let begun = "█".repeat(full) + EIGHTHS[rest];
            let left = width - full - usize::from(rest > 0);
            begun + &"░".repeat(left)
        }
        Charset::Ascii => {
            let inside = width.saturating_sub(2);
            let full = (share * inside as f64) as usize;
            format!("[{}{}]", "=".repeat(full), " ".repeat(inside - full))
        }
    }
}

/// The columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// A path in exactly `width` columns: its end, which tells it from others, where it is too long.
pub fn path_end(path: &str, width: usize, charset: Charset) -> String {
    let mut text = path.to_owned();
    if columns(path) > width {
        let mark = if charset == Charset::Unicode { "…" } else { "~" };
        let mut room = width.saturating_sub(1);
        let fits = |&(_, c): &(usize, char)| {
            let wide = c.width().unwrap_or(0);
            let fits = wide <= room;
            room = room.saturating_sub(wide);
            fits
        };
        let start = path.char_indices().rev().take_while(fits).last().map_or(path.len(), |it| it.0);
        text = format!("{mark}{}", &path[start..]);
    }
    let gap = width.saturating_sub(columns(&text));
    text + &" ".repeat(gap)
}

// Calls that do not come back: a server that does not answer, a disk that tries again and again. The thread that
// hangs can say nothing, so another says for it what the run waits for, and ends the program if it was asked to end.

/// Time between two looks …
const LOOK: Duration = Duration::from_secs(1);

/// … and once the run is to stop.
const LOOK_STOPPING: Duration = Duration::from_millis(250);

/// A call that lasts this long is told, …
const LONG: Duration = Duration::from_secs(5);

/// … and one that writes out what waits to be written: a slow disk has much to do.
const LONG_SYNC: Duration = Duration::from_secs(30);

/// It is told again when it has lasted so many times as long.
const AGAIN: u32 = 12;

/// After it was asked to stop, a run has so long to end by itself. A call that lasts as long by then is not waited for:
/// the program is to end within two seconds.
const LAST_WORDS: Duration = Duration::from_millis(1200);

/// … or this long, for a call that writes out what waits to be written.
const LAST_SYNC: Duration = Duration::from_secs(10);

/// The calls that last, and since when.
#[derive(Default)]
pub struct HangingCalls {
    calls: HashMap<u32, HangingCall>,
    looked: Option<Instant>,
    /// Since when the run is to stop.
    stopping: Option<Instant>,
}

struct HangingCall {
    call: PendingCall,
    since: Instant,
    /// When it is told next.
    told_after: Duration,
}

impl HangingCalls {
    /// Looks if it is time to, and tells the calls that last long. Returns the one that keeps a run from stopping.
    pub fn look(&mut self, stop: &Stop, tell: impl Fn(&Error)) -> Option<Error> {
        let now = Instant::now();
        let interval = if self.stopping.is_some() { LOOK_STOPPING } else { LOOK };
        if stop.is_urgent() {
            self.stopping.get_or_insert(now);
        }
        if self.looked.is_some_and(|looked| now < looked + interval) {
            return None;
        }
        self.looked = Some(now);
        self.update(pending_calls(), now);
        for hanging in self.calls.values_mut() {
            let lasts = now - hanging.since;
            if lasts >= hanging.told_after
                && let Some(path) = subject_of(&hanging.call)
            {
                let finding = format!("no answer for {} s; it is waited for", lasts.as_secs());
                tell(&Error::finding(hanging.call.deed, path, finding));
                hanging.told_after *= AGAIN;
            }
        }
        let stopping = self.stopping?;
        self.calls.values().find_map(|HangingCall { call, since, .. }| {
            let most = if call.deed == PendingCall::SYNC { LAST_SYNC } else { LAST_WORDS };
            let lasts = now - *since;
            let path =
                (now >= stopping + most && lasts >= most.min(LOOK)).then(|| subject_of(call))??;
            let finding = format!("no answer for {} s, and the run is to end", lasts.as_secs());
            Some(Error::finding(call.deed, path, finding))
        })
    }

    fn update(&mut self, calls: Vec<PendingCall>, now: Instant) {
        let mut before = std::mem::take(&mut self.calls);
        for call in calls {
            let fresh = |call: PendingCall| {
                let told_after = if call.deed == PendingCall::SYNC { LONG_SYNC } else { LONG };
                HangingCall { call, since: now, told_after }
            };
            let known = before.remove(&call.thread).filter(|known| known.call == call);
            self.calls.insert(call.thread, known.unwrap_or_else(|| fresh(call)));
        }
    }
}

#[cfg(test)]
mod bar_tests {
    use super::*;

    #[test]
    fn bars_fill_their_columns() {
        let all = |charset| [0, 1, 50, 99, 100].map(|part| bar(part, 100, 8, charset));
        assert_eq!(
            all(Charset::Ascii),
            ["[      ]", "[      ]", "[===   ]", "[===== ]", "[======]"]
        );
        assert_eq!(
            all(Charset::Unicode),
            ["░░░░░░░░", "░░░░░░░░", "████░░░░", "███████▉", "████████"]
        );
        for part in 0..=1000 {
            assert_eq!(columns(&bar(part, 1000, 13, Charset::Unicode)), 13, "{part}");
        }
    }

    #[test]
    fn names_keep_their_end_and_their_columns() {
        let end = |path, width| path_end(path, width, Charset::Unicode);
        assert_eq!(end("/mnt/a", 8), "/mnt/a  ");
        assert_eq!(end("/mnt/backup/a", 8), "…ackup/a");
        assert_eq!(path_end("/mnt/backup/a", 8, Charset::Ascii), "~ackup/a");
        // Wide characters and marks without a width.
        for width in 1..12 {
            for name in ["婚礼/视频.mov", "e\u{301}te\u{301}/plage.jpg", "שלום.txt"] {
                assert_eq!(columns(&end(name, width)), width, "{name} in {width}");
            }
        }
    }
}

#[cfg(test)]
mod hanging_tests {
    use super::*;

    #[test]
    fn only_a_call_that_lasts_is_the_same() {
        let call = |thread, mark: &str| PendingCall { thread, deed: "read", mark: mark.into() };
        let (mut hanging, start) = (HangingCalls::default(), Instant::now());
        let later = start + LONG;
        hanging.update(vec![call(1, "a"), call(2, "b"), call(3, "c")], start);
        hanging.update(vec![call(1, "a"), call(2, "other"), call(4, "c")], later);
        let mut since: Vec<_> =
            hanging.calls.iter().map(|(thread, it)| (*thread, it.since)).collect();
        since.sort_unstable();
        assert_eq!(since, [(1, start), (2, later), (4, later)]);
    }
}
