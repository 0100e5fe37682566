//! The events and the progress of a run for a program that follows it, and the signal to stop it.
//!
//! Nothing correct depends on any of this: counters are added to and never waited for, and an
//! observer that ignores every event loses nothing but the view. The library itself prints nothing.

mod progress;

pub use progress::{
    EndState, FileInHand, OutputSample, Progress, RunEnd, STAGES, Sample, SampleSeries,
    StageTiming, Timer, Timings,
};

use std::sync::{Arc, OnceLock, atomic::AtomicUsize, atomic::Ordering::Relaxed};
use std::{fmt, path::Path, time::Duration};

use crate::{error::Error, sys::stat::Kind};

// The events of a copy or of a stream, entry by entry.

/// An event of an entry, told as it happens. The path is that of the entry below its root.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The entry stands at the output, for this reason.
    Stands(&'a [u8], Done),
    /// An entry at the output differs and was left as it is, for the reason given.
    Left(&'a [u8], &'static str),
    /// Not a thing that can be copied: it was not opened.
    Skipped(&'a [u8], Kind),
    /// A part file that a killed run left behind was removed from the output.
    LeftoverRemoved(&'a [u8]),
    /// An old manifest was removed from the output, because so many newer ones are there as were
    /// asked for.
    ManifestRemoved(&'a [u8]),
    /// A directory of the source on which another file system is mounted was not entered.
    OtherVolume(&'a [u8]),
    /// The entry at this path had left the source, and was moved to the trash; a directory with everything in it.
    Departed(&'a [u8]),
    /// The entry at this path of the output has no counterpart in the source, and stays: no earlier run listed it.
    Foreign(&'a [u8]),
    /// The directory at this path of the output has no counterpart in the source either, and stays: something is
    /// mounted on it.
    ForeignMount(&'a [u8]),
    /// An old generation was moved to the trash; where its source was, if it has noted that.
    GenerationRemoved(&'a [u8], Option<&'a str>),
    /// Old trash was removed.
    TrashRemoved(&'a [u8]),
    /// The limits of the file system of the output's directory at this path, in words.
    Limits(&'a Path, &'a str),
    /// The run waits for another to end; what is known of that one.
    Waiting(&'a str),
    /// Number of bytes of a file that were not read again: a run that was killed had copied them.
    Resumed(&'a [u8], u64),
    /// The run was asked to stop: so many bytes of the beginning of the file are kept, and the next run goes on
    /// with them.
    Suspended(&'a [u8], u64),
    /// The entry is not at the output.
    Failed(&'a Error),
    /// A file of the source is not what is expected of it, although nothing says that it was edited. It
    /// was not copied.
    Rotten(&'a Error),
    /// A file is expected and is not in the source.
    Gone(&'a [u8]),
    /// The same of one that was not to be removed.
    Lost(&'a [u8]),
    /// A file of the source is not what is expected of it, because it was edited since.
    Edited(&'a [u8]),
    /// The file is at the output, and nothing was expected of it.
    Unlisted(&'a [u8]),
    /// The entry is at the output, but something about it could not be done.
    Warning(&'a Error),
    /// A pattern of the filter, with its option, because of which no entry is in or out.
    IdlePattern(&'a str),
}

/// Why an entry stands at the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The file was copied to where nothing was.
    Copied,
    /// The file was copied and took the place of something older.
    Replaced,
    /// A further name of a file that was copied under another was made.
    Linked,
    /// The symbolic link was made.
    Symlinked,
    /// The FIFO, socket or device was made.
    Special,
    /// It was there already.
    Kept,
    /// It was there already, and was given the source's permissions, owner and attributes.
    Relabelled,
}

// The one value through which a program follows a run and stops it.

/// Follows a run: `listen` hears what happens, `progress` tells how far it is, `stop` ends it early.
///
/// Keep a clone of `progress` to read it from another thread, and a clone of `stop` to stop the run from
/// another thread; a signal handler stores its code through [`Stop::handle`].
#[derive(Clone, Debug, Default)]
pub struct Observer<L: ?Sized> {
    /// The counters of the run; they must not serve another run.
    pub progress: Arc<Progress>,
    /// Ends the run early, with all its clones.
    pub stop: Stop,
    /// Called from one thread at a time. A slow listener slows the run.
    pub listen: L,
}

impl<L> Observer<L> {
    /// Hears a run through `listen`, with a progress and a stop of its own.
    pub fn new(listen: L) -> Self {
        Self { progress: Arc::default(), stop: Stop::default(), listen }
    }
}

/// Hears the events of a copy or of a stream.
pub type EventListener<'a> = dyn Fn(&Event<'_>) + Sync + 'a;

/// Follows a copy or a stream.
pub type EventObserver<'a> = Observer<EventListener<'a>>;

impl EventObserver<'_> {
    /// Tells a warning, and counts it among the `warnings` of a report.
    pub(crate) fn warn_in(&self, warnings: &mut u64) -> impl FnOnce(&Error) {
        move |error| {
            *warnings += 1;
            (self.listen)(&Event::Warning(error));
        }
    }
}

// The request to end a run early.

/// Asks a run to stop. Clones ask the same run; ask once, it cannot be taken back.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    urgent: Arc<AtomicUsize>,
    winding_up: Arc<AtomicUsize>,
    /// The signal that stops several runs, and this one with them.
    of_all: Option<Arc<Stop>>,
}

impl Stop {
    /// The code of a run that gives itself up: nothing more is begun, but copies that are complete are
    /// brought to their end.
    pub(crate) const GIVEN_UP: usize = usize::MAX;

    /// … and of one whose complete copies have become worthless as well.
    pub(crate) const IN_VAIN: usize = usize::MAX - 1;

    /// One for a run among several: it stops with all of them, and they do not stop with it.
    pub(crate) fn of_one(&self) -> Self {
        Self { of_all: Some(Arc::new(self.clone())), ..Self::default() }
    }

    /// Asks the run to stop: no new file is begun, files on their way are given up, what is
    /// finished is recorded. `code` must not be 0; the report carries the first one given.
    pub fn request(&self, code: usize) {
        let _ = self.urgent.compare_exchange(0, code, Relaxed, Relaxed);
    }

    /// Asks the run to come to an end: no new file is begun, but files on their way are finished.
    /// `code` is as with [`request`](Self::request), which may follow.
    pub fn wind_up(&self, code: usize) {
        let _ = self.winding_up.compare_exchange(0, code, Relaxed, Relaxed);
    }

    /// The code that was asked with, if the run is to stop, the more urgent one if there are two.
    pub fn requested(&self) -> Option<usize> {
        let code = |asked: &AtomicUsize| Some(asked.load(Relaxed)).filter(|code| *code != 0);
        let of_all = self.of_all.as_deref().and_then(Stop::requested);
        code(&self.urgent).or(of_all).or_else(|| code(&self.winding_up))
    }

    /// True if the run was asked to stop, and has not given itself up.
    pub(crate) fn is_asked(&self) -> bool {
        self.requested().is_some_and(|code| code < Self::IN_VAIN)
    }

    /// True if the run is to stop.
    pub fn is_requested(&self) -> bool {
        self.requested().is_some()
    }

    /// True if not even files on their way are to be finished.
    pub fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0 || self.of_all.as_deref().is_some_and(Stop::is_urgent)
    }

    /// True if even copies that are complete are to be let go, if they are not at their end.
    pub fn is_at_once(&self) -> bool {
        !matches!(self.urgent.load(Relaxed), 0 | Self::GIVEN_UP)
            || self.of_all.as_deref().is_some_and(Stop::is_at_once)
    }

    /// The number itself, for a signal handler to store a code in.
    pub fn handle(&self) -> &Arc<AtomicUsize> {
        &self.urgent
    }
}

// The gate before the first thing that a run makes at an output.
//
// Whether the output has room for everything takes a walk over both sides. A run after the first mostly finds all of
// it there and makes nothing. So that walk waits for the first thing that is to be made or changed: every thread asks
// here before, and a run that makes nothing walks once.

/// The permission of a run to make something. It is open, or a look decides when it is first asked.
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

    /// True if anything may be made or changed. The first to ask looks; others wait for the answer.
    pub fn lets_pass(&self) -> bool {
        self.look.is_none_or(|look| *self.answer.get_or_init(look))
    }

    /// True if it was asked, and the answer is there.
    pub fn was_asked(&self) -> bool {
        self.answer.get().is_some()
    }

    /// True if it was asked, and said no.
    pub fn is_shut(&self) -> bool {
        self.answer.get() == Some(&false)
    }
}

impl fmt::Debug for Gate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("answer", &self.answer).finish_non_exhaustive()
    }
}

// The limit of a run, or of one of its outputs: one rule for the summary and for the samples of a receipt.
//
// It names a stage only where the figures are clear, since a wrong name sends people after the wrong disk.

/// A stage limits if its threads were busy for this share of the time, …
const LEAST_SHARE: f64 = 0.5;

/// … and so many times as long as those of every other stage.
const LEAST_LEAD: f64 = 1.2;

/// A rate limit is reached with this share of it: an average contains the start and the end.
const AT_LIMIT: f64 = 0.85;

/// True if so many bytes in this time are as many as a rate limit, in bytes a second, lets through.
pub fn is_at_rate(bytes: u64, time: Duration, limit: Option<u64>) -> bool {
    limit.is_some_and(|limit| bytes as f64 >= AT_LIMIT * limit as f64 * time.as_secs_f64())
}

/// The share of some time that each of a stage's threads was busy, on average.
pub fn share(busy: Duration, threads: usize, time: Duration) -> f64 {
    busy.as_secs_f64() / threads.max(1) as f64 / time.as_secs_f64().max(1e-9)
}

/// The stage that limits, by its place in `shares`, if that is certain. The first is reading; it `waits` where its time
/// has in it what it waits for: a rate limit, or other outputs of the same source.
pub fn limiting_stage(shares: &[f64], waits: bool) -> Option<usize> {
    let mut stages: Vec<usize> = (0..shares.len()).collect();
    stages.sort_by(|&one, &other| shares[other].total_cmp(&shares[one]));
    let &[first, second, ..] = stages.as_slice() else { return None };
    let is_certain = shares[first] >= LEAST_SHARE && shares[first] >= LEAST_LEAD * shares[second];
    (is_certain && !(waits && first == 0)).then_some(first)
}
