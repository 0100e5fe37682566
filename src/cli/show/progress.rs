//! Progress: a bar on a terminal, a plain line now and then elsewhere.
//!
//! Drawn by a thread of its own from the counters of the run, which never waits for it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use humansize::{BINARY, format_size};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::show::console::Console;
use crate::cli::show::line::count;
use crate::event::Progress;
use crate::path::Shown;

/// How often the bar is drawn: smooth to the eye, and no load.
const DRAW: Duration = Duration::from_millis(100);

/// How often a plain line is written.
const LINE: Duration = Duration::from_secs(5);

/// How long something tells in the speed: as long as a cache takes to fill, so that it is no flicker.
const RECENT: Duration = Duration::from_secs(10);

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
    Bar(ProgressBar),
    Lines,
}

impl View {
    /// What is asked for and possible.
    pub fn new(when: When, quiet: bool) -> Self {
        match (when, std::io::stderr().is_terminal()) {
            (When::Never, _) | (When::Auto, false) => View::None,
            (When::Auto, true) if quiet => View::None,
            (_, true) => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                View::Bar(bar.with_style(style(COUNTING)))
            }
            (When::Always, false) => View::Lines,
        }
    }

    /// The bar, if there is one.
    pub fn bar(&self) -> Option<ProgressBar> {
        match self {
            View::Bar(bar) => Some(bar.clone()),
            _ => None,
        }
    }

    /// Shows progress in a thread of its own until the other end of `done` is dropped. Where there is
    /// no thread to be had, the run is not worse for it.
    pub fn show_beside<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        progress: &'scope [Arc<Progress>],
        console: &'scope Console,
        done: Receiver<()>,
    ) {
        if matches!(self, View::None) {
            return;
        }
        let show = move || self.show(progress, console, &done);
        if let Err(error) = Builder::new().name("progress".into()).spawn_scoped(scope, show) {
            console.warn(&format!("cannot show progress: {error}"));
        }
    }

    fn show(&self, progress: &[Arc<Progress>], console: &Console, done: &Receiver<()>) {
        let started = Instant::now();
        let wait = |every| done.recv_timeout(every) == Err(RecvTimeoutError::Timeout);
        match self {
            View::None => {}
            View::Lines => {
                while let (true, Some(seen)) = (wait(LINE), Snapshot::of(progress)) {
                    console.err(&format!("dircopy: {}", line(&seen, started.elapsed())));
                }
            }
            View::Bar(bar) => {
                let (mut sized, mut rate) = (false, RecentRate::default());
                while let (true, Some(seen)) = (wait(DRAW), Snapshot::of(progress)) {
                    draw(bar, &seen, &mut sized, &mut rate);
                }
                bar.finish_and_clear();
            }
        }
    }
}

/// The bar while the total is not known …
const COUNTING: &str = "{spinner} {bytes} ({prefix}) {elapsed}  {wide_msg}";

/// … and when it is.
const COUNTED: &str = "{bar:20} {percent:>3}% {bytes}/{total_bytes} ({prefix})  {wide_msg}";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// What is seen of the progress of one output or several: that of the slowest.
struct Snapshot<'a> {
    progress: &'a Progress,
    /// The output whose total is shown: all have the same, and it is counted once.
    total: &'a Progress,
    /// What is said of the others.
    others: String,
}

impl<'a> Snapshot<'a> {
    fn of(all: &'a [Arc<Progress>]) -> Option<Self> {
        let bytes = |progress: &&Arc<Progress>| progress.bytes.load(Relaxed);
        let running = || all.iter().filter(|progress| !progress.over.load(Relaxed));
        let slowest = running().min_by_key(bytes).or(all.first())?;
        let total = all.iter().find(|progress| progress.counted.load(Relaxed)).unwrap_or(slowest);
        let fastest = all.iter().map(|progress| bytes(&progress)).max().unwrap_or(0);
        let others = match all.len() {
            0 | 1 => String::new(),
            number => {
                let (fastest, done) = (format_size(fastest, BINARY), number - running().count());
                format!(", slowest of {number} outputs ({done} done, the fastest at {fastest})")
            }
        };
        Some(Self { progress: slowest, total, others })
    }
}

fn draw(bar: &ProgressBar, seen: &Snapshot<'_>, sized: &mut bool, rate: &mut RecentRate) {
    let Snapshot { progress, total, .. } = seen;
    if !*sized && total.counted.load(Relaxed) {
        *sized = true;
        bar.set_length(total.total_bytes.load(Relaxed));
        bar.set_style(style(COUNTED));
    }
    let mut message = entries(seen, *sized);
    let current = progress.current();
    if !current.is_empty() {
        message = format!("{message}  {}", Shown::bytes(&current));
    }
    bar.set_message(message);
    let bytes = progress.bytes.load(Relaxed);
    rate.note(bytes.saturating_sub(progress.skipped.load(Relaxed)), bar.elapsed());
    let left = total.total_bytes.load(Relaxed).saturating_sub(bytes) as f64 / rate.per_second();
    let mut speed = format!("{}/s", format_size(rate.per_second() as u64, BINARY));
    if let (true, Some(left)) = (*sized, worth_saying(left)) {
        speed = format!("{speed}, {:#} left", HumanDuration(left));
    }
    bar.set_prefix(speed);
    bar.set_position(bytes);
}

/// The rate of the last seconds. It counts bytes that were read and written: a terabyte that was there already
/// says nothing about how long the rest takes.
#[derive(Default)]
struct RecentRate {
    bytes: u64,
    at: Duration,
    /// Bytes and seconds, weighted less the longer ago they were.
    sum: (f64, f64),
}

impl RecentRate {
    /// So many bytes were done by then.
    fn note(&mut self, bytes: u64, at: Duration) {
        let more = bytes.saturating_sub(self.bytes) as f64;
        let seconds = at.saturating_sub(self.at).as_secs_f64();
        let keep = (-seconds / RECENT.as_secs_f64()).exp();
        self.sum = (self.sum.0 * keep + more, self.sum.1 * keep + seconds);
        (self.bytes, self.at) = (bytes, at);
    }

    fn per_second(&self) -> f64 {
        if self.sum.1 > 0.0 { self.sum.0 / self.sum.1 } else { 0.0 }
    }
}

/// Files done, of how many, and how many failed.
fn entries(seen: &Snapshot<'_>, counted: bool) -> String {
    let Snapshot { progress, total, others } = seen;
    let done = progress.entries.load(Relaxed);
    let mut text = match counted {
        true => format!("{done} of {}", count(total.total_entries.load(Relaxed), "file")),
        false => count(done, "file"),
    };
    let failed = progress.failed.load(Relaxed);
    if failed > 0 {
        text = format!("{text}, {failed} failed");
    }
    text + others
}

/// How far a run is, in a line; nothing of a run to nowhere.
pub fn how_far(progress: &[Arc<Progress>], elapsed: Duration) -> Option<String> {
    Snapshot::of(progress).map(|seen| line(&seen, elapsed))
}

fn line(seen: &Snapshot<'_>, elapsed: Duration) -> String {
    let Snapshot { progress, total, .. } = seen;
    let counted = total.counted.load(Relaxed);
    let bytes = progress.bytes.load(Relaxed);
    let mut size = format_size(bytes, BINARY);
    if counted {
        let total = total.total_bytes.load(Relaxed);
        let skipped = progress.skipped.load(Relaxed);
        let rest = rest(bytes.saturating_sub(skipped), total.saturating_sub(skipped), elapsed);
        size = format!("{size} of {}{rest}", format_size(total, BINARY));
    }
    format!("{}, {size}", entries(seen, counted))
}

/// How long the rest will take at the average rate so far, in words.
fn rest(bytes: u64, total: u64, elapsed: Duration) -> String {
    if bytes == 0 || total <= bytes {
        return String::new();
    }
    let rest = elapsed.as_secs_f64() * (total - bytes) as f64 / bytes as f64;
    worth_saying(rest).map_or_else(String::new, |rest| format!(", {} left", HumanDuration(rest)))
}

/// A time that is left, unless it is shorter than the display can be trusted for; seconds.
fn worth_saying(left: f64) -> Option<Duration> {
    (left >= 1.0 && left.is_finite()).then(|| Duration::from_secs_f64(left.min(1e9)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_for_less_than_a_second() {
        assert_eq!(rest(999, 1000, Duration::from_secs(10)), "");
        assert_eq!(rest(500, 1000, Duration::from_secs(10)), ", 10 seconds left");
        assert_eq!(worth_saying(0.4), None);
        assert_eq!(worth_saying(f64::INFINITY), None);
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rate = RecentRate::default();
        assert_eq!(rate.per_second(), 0.0);
        for second in 1..100 {
            rate.note(second * 1000, Duration::from_secs(second));
        }
        assert!((999.0..1001.0).contains(&rate.per_second()));
        for second in 100..200 {
            rate.note(99_000, Duration::from_secs(second));
        }
        assert!(rate.per_second() < 1.0);
        // A file that is read again takes back what it had counted.
        rate.note(0, Duration::from_secs(200));
        assert!(rate.per_second() >= 0.0);
    }
}
