//! The progress of each output at a moment, from the counters of the run.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration, time::Instant};

use humansize::{BINARY, format_size};

use crate::{event::EndState, event::Progress, event::RunEnd, path::Shown, path::count};

/// A number of bytes, with one digit behind the point: what changes ten times a second is read at a glance.
pub fn short_size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => format_size(bytes, BINARY.decimal_places(1).decimal_zeroes(1)),
    }
}

/// Follows the outputs of a run.
pub struct Tracker<'a> {
    started: Instant,
    /// The names of the outputs, where they have some.
    names: &'a [String],
    progress: &'a [Arc<Progress>],
    rates: Vec<OutputRates>,
}

/// The rates of an output: of its bytes, which is shown, and of its work, which tells when it will be done.
#[derive(Default)]
struct OutputRates {
    bytes: Rates,
    work: Rates,
}

/// An entry costs as much as so many bytes: it is looked at, made, labelled and made durable. Without this, many small
/// files were no work, and the time for the rest was unknown.
const ENTRY: u64 = 32 << 10;

/// An output at a moment.
pub struct OutputSnapshot {
    /// Its name, as it is shown.
    pub name: String,
    /// Bytes that are done, and that there are to do, if that is counted.
    pub bytes: u64,
    pub total_bytes: Option<u64>,
    /// The same of files and links; those that wait to become durable are among them.
    pub entries: u64,
    pub total_entries: Option<u64>,
    /// Entries that failed.
    pub failed: u64,
    /// Bytes in a second, of the last seconds.
    pub rate: u64,
    /// Estimated time for the rest.
    pub left: Option<Duration>,
    /// Where everything was written and is being read back: how much of it was, in percent.
    pub read_back: Option<u64>,
    /// True if a check has read everything, and looks what parity can repair.
    pub is_repair_looked_for: bool,
    /// The end of the run, once it is there.
    pub end: Option<RunEnd>,
}

/// A run at a moment.
pub struct RunSnapshot {
    /// In the order in which they were given.
    pub outputs: Vec<OutputSnapshot>,
    /// The file in hand at the output that is furthest behind.
    pub file: Option<FileSnapshot>,
}

/// A file in hand at a moment.
pub struct FileSnapshot {
    /// Its path below the root, as it is shown.
    pub name: String,
    /// Bytes that were read, of how many; none of a small one.
    pub read: Option<(u64, u64)>,
}

impl<'a> Tracker<'a> {
    /// Follows a run that starts now.
    pub fn new(names: &'a [String], progress: &'a [Arc<Progress>]) -> Self {
        let rates = progress.iter().map(|_| OutputRates::default()).collect();
        Self { started: Instant::now(), names, progress, rates }
    }

    /// Takes the state of the run. The rates are of the time between calls, so call it often.
    pub fn look(&mut self) -> RunSnapshot {
        let elapsed = self.started.elapsed();
        // Every output has the same total, and it is counted once.
        let counted = self.progress.iter().find(|progress| progress.counted.load(Relaxed));
        let names = self.names.iter().cloned().chain(std::iter::repeat(String::new()));
        let outputs = names.zip(self.progress).zip(&mut self.rates);
        let outputs = outputs
            .map(|((name, progress), rates)| {
                OutputSnapshot::of(name, progress, counted.map(|total| &**total), rates, elapsed)
            })
            .collect();
        RunSnapshot { outputs, file: self.file() }
    }

    fn file(&self) -> Option<FileSnapshot> {
        let running = self.progress.iter().filter(|progress| progress.ended().is_none());
        let slowest = running.min_by_key(|progress| progress.bytes.load(Relaxed))?;
        let file = slowest.in_hand()?;
        let read = (file.size > 0).then(|| (file.done.load(Relaxed).min(file.size), file.size));
        Some(FileSnapshot { name: Shown::bytes(&file.path).to_string(), read })
    }
}

impl OutputSnapshot {
    fn of(
        name: String,
        progress: &Progress,
        counted: Option<&Progress>,
        rates: &mut OutputRates,
        elapsed: Duration,
    ) -> Self {
        let bytes = progress.bytes.load(Relaxed);
        let new = bytes.saturating_sub(progress.skipped.load(Relaxed));
        let total_bytes = counted.map(|total| total.total_bytes.load(Relaxed));
        let total_entries = counted.map(|total| total.total_entries.load(Relaxed));
        let entries = progress.entries.load(Relaxed).max(progress.handled.load(Relaxed));
        let work = |bytes: u64, entries: u64| bytes.saturating_add(entries.saturating_mul(ENTRY));
        let end = progress.ended();
        if end.is_none() {
            rates.bytes.note(new, elapsed);
            rates.work.note(work(new, entries), elapsed);
        }
        let rest = total_bytes.zip(total_entries).map(|(of_bytes, of_entries)| {
            work(of_bytes.saturating_sub(bytes), of_entries.saturating_sub(entries))
        });
        let read_back = progress.read_back.load(Relaxed);
        let is_read = total_bytes.is_some_and(|total| bytes >= total && read_back < new);
        Self {
            name,
            bytes,
            total_bytes,
            entries,
            total_entries,
            failed: progress.failed.load(Relaxed),
            rate: rates.bytes.per_second() as u64,
            left: rest.and_then(|rest| rates.work.left(rest)),
            read_back: (is_read && read_back > 0).then(|| percent(read_back, new)),
            is_repair_looked_for: progress.is_repair_looked_for.load(Relaxed),
            end,
        }
    }

    /// Percentage done; 100 only when nothing is left to read.
    pub fn percent(&self) -> Option<u64> {
        self.total_bytes.map(|total| percent(self.bytes, total))
    }

    /// The bytes that are done, of how many.
    pub fn amount(&self) -> String {
        match self.total_bytes {
            Some(total) => amount(self.bytes, total),
            None => short_size(self.bytes),
        }
    }

    /// The files that are written, of how many; an output says that it is syncing while they wait for their names.
    pub fn files(&self) -> String {
        match self.total_entries {
            Some(total) => format!("{} of {}", self.entries.min(total), count(total, "file")),
            None => count(self.entries, "file"),
        }
    }

    /// The state of the output in words: its work after all is read, the time that is left, or how it ended.
    pub fn state(&self) -> String {
        match (self.end, self.left, self.read_back) {
            (Some(end), ..) => end_title(end),
            (None, Some(left), _) => format!("{} left", clock(left)),
            (None, None, Some(percent)) => format!("read back {percent}%"),
            _ if self.total_bytes.is_some_and(|total| total > 0 && self.bytes >= total) => {
                match self.is_repair_looked_for {
                    true => "looking what parity can repair".into(),
                    false => "syncing".into(),
                }
            }
            _ => String::new(),
        }
    }

    /// One output in words.
    fn sentence(&self) -> String {
        let mut parts = vec![match (self.end, self.percent()) {
            (Some(end), _) => format!("{} {}", end_title(end), end_note(end)).trim_end().to_owned(),
            (None, Some(percent)) => format!("{percent}%, {}", self.amount()),
            (None, None) => self.amount(),
        }];
        if self.end.is_none() {
            parts.push(format!("{}/s", short_size(self.rate)));
            parts.extend(Some(self.state()).filter(|state| !state.is_empty()));
        }
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        parts.join(", ")
    }
}

/// The part of the whole in percent, 100 only when nothing is missing.
pub fn percent(part: u64, whole: u64) -> u64 {
    match whole {
        0 => 100,
        _ => (u128::from(part.min(whole)) * 100 / u128::from(whole)) as u64,
    }
}

/// Bytes that are done, of how many, both in the unit of that, so that it takes no more room as it grows.
pub fn amount(bytes: u64, of: u64) -> String {
    let all = short_size(of);
    match of.max(1).ilog2() / 10 {
        0 => format!("{bytes} of {all}"),
        power => format!("{:.1} of {all}", bytes as f64 / (1u64 << (10 * power)) as f64),
    }
}

/// The room for the text that has a number up to one in `all`, and `all` behind it.
pub fn most_of(all: &str) -> usize {
    all.find(' ').unwrap_or(all.len()) + " of ".len() + all.len()
}

/// A time as a clock shows it: `0:25`, `1:02:03`, `4d 07h`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        1..96 => format!("{hours}:{:02}:{:02}", minutes % 60, seconds % 60),
        _ => format!("{}d {:02}h", hours / 24, hours % 24),
    }
}

/// The words for the end of an output, with the time it took.
pub fn end_title(RunEnd { state, elapsed }: RunEnd) -> String {
    match state {
        EndState::Refused => "REFUSED".into(),
        EndState::Amiss => format!("NOT COMPLETE {}", clock(elapsed)),
        _ => format!("DONE {}", clock(elapsed)),
    }
}

/// Advice on an output that ended so.
pub fn end_note(RunEnd { state, .. }: RunEnd) -> &'static str {
    match state {
        EndState::Refused | EndState::Amiss => "",
        EndState::Written => "not synced",
        EndState::ReadThroughCache => "read through a cache",
        EndState::Synced => "not known to be on a disk",
        EndState::Durable => "on its disk",
        EndState::ReadBack => "read back",
    }
}

impl RunSnapshot {
    /// True if the amount of work is known.
    pub fn has_total(&self) -> bool {
        self.outputs.iter().any(|output| output.total_bytes.is_some())
    }

    /// The progress of the run in one line.
    pub fn line(&self) -> String {
        let each = |output: &OutputSnapshot| match (&*output.name, self.outputs.len()) {
            ("", _) | (_, 1) => output.sentence(),
            (name, _) => format!("{name}: {}", output.sentence()),
        };
        let mut line = self.outputs.iter().map(each).collect::<Vec<_>>().join("; ");
        if let [only] = &*self.outputs {
            line = format!("{}, {line}", only.files());
        }
        match &self.file {
            Some(FileSnapshot { name, read: Some((read, size)) }) => {
                format!("{line}; {name} {}%", percent(*read, *size))
            }
            Some(FileSnapshot { name, read: None }) => format!("{line}; {name}"),
            None => line,
        }
    }
}

// The speed, and the time for the rest.

/// Time for which a sample counts in the speed that is shown: as long as a cache takes to fill, so that it is no
/// flicker.
const RECENT: Duration = Duration::from_secs(10);

/// Time for which a sample counts in the time that is left: three times as long, because the mix of files changes the
/// speed.
const LASTING: Duration = Duration::from_secs(30);

/// Before so much time was spent with bytes, a run says nothing about the rest: at first buffers fill, and
/// a rate of the first seconds foretold seven times the time that a run took.
const WARM_UP: Duration = Duration::from_secs(5);

/// The rate of the last seconds. It counts bytes that were read and written: a terabyte that was there already
/// says nothing about how long the rest takes.
#[derive(Default)]
struct RecentRate {
    /// Bytes and seconds, weighted less the longer ago they were.
    bytes: f64,
    seconds: f64,
}

impl RecentRate {
    fn note(&mut self, bytes: f64, seconds: f64, window: Duration) {
        let keep = (-seconds / window.as_secs_f64()).exp();
        self.bytes = self.bytes * keep + bytes;
        self.seconds = self.seconds * keep + seconds;
    }

    fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { 0.0 }
    }
}

/// The rates of one output.
#[derive(Default)]
pub struct Rates {
    bytes: u64,
    at: Duration,
    /// When the first byte was seen.
    begun: Option<Duration>,
    shown: RecentRate,
    lasting: RecentRate,
}

impl Rates {
    /// Number of bytes that were done by then, since the start of the run.
    pub fn note(&mut self, bytes: u64, at: Duration) {
        if bytes > 0 {
            self.begun.get_or_insert(self.at);
        }
        let (more, seconds) = (bytes.saturating_sub(self.bytes), at.saturating_sub(self.at));
        let (more, seconds) = (more as f64, seconds.as_secs_f64());
        if self.begun.is_some() {
            self.shown.note(more, seconds, RECENT);
            self.lasting.note(more, seconds, LASTING);
        }
        (self.bytes, self.at) = (bytes, at);
    }

    /// Bytes in a second, of the last seconds.
    pub fn per_second(&self) -> f64 {
        self.shown.per_second()
    }

    /// Time for `rest` bytes, unless it is shorter than the display can be trusted for or it is too early to say.
    pub fn left(&self, rest: u64) -> Option<Duration> {
        let warm = self.begun.is_some_and(|begun| self.at.saturating_sub(begun) >= WARM_UP);
        let seconds = rest as f64 / self.lasting.per_second();
        (warm && seconds >= 1.0 && seconds.is_finite())
            .then(|| Duration::from_secs_f64(seconds.min(1e9)))
    }
}

#[cfg(test)]
mod snapshot_tests {
    use super::*;

    #[test]
    fn times_are_those_of_a_clock() {
        let all = [0, 25, 61, 3600 + 62, 96 * 3600, 1_000_000];
        let shown = all.map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0:00", "0:25", "1:01", "1:01:02", "4d 00h", "11d 13h"]);
    }

    #[test]
    fn amounts_are_whole_only_at_the_end() {
        assert_eq!(percent(u64::MAX - 1, u64::MAX), 99);
        assert_eq!((percent(0, 0), percent(7, 7), percent(9, 7)), (100, 100, 100));
        assert_eq!(amount(1 << 20, 3 << 20), "1.0 of 3.0 MiB");
        assert_eq!(amount(1 << 10, 3 << 20), "0.0 of 3.0 MiB");
        assert_eq!((amount(7, 900), amount(0, 0)), ("7 of 900 B".into(), "0 of 0 B".into()));
        assert_eq!(most_of("27.0 GiB"), amount(27 << 30, 27 << 30).len());
    }

    #[test]
    fn only_what_a_disk_said_to_have_is_on_it() {
        let note = |state| end_note(RunEnd { state, elapsed: Duration::from_secs(25) });
        let durable = [EndState::Durable, EndState::ReadBack].map(note);
        assert_eq!(durable, ["on its disk", "read back"]);
        use EndState::{Amiss, ReadThroughCache, Refused, Synced, Written};
        let others = [Refused, Amiss, Written, Synced, ReadThroughCache].map(note);
        assert!(others.iter().all(|note| !durable.contains(note)), "{others:?}");
    }

    #[test]
    fn a_line_has_every_output() {
        let progress: Vec<Arc<Progress>> = vec![Arc::default(), Arc::default()];
        progress[0].bytes.store(1 << 20, Relaxed);
        progress[1].total_bytes.store(2 << 20, Relaxed);
        progress[1].counted.store(true, Relaxed);
        progress[1].end(EndState::Durable, Duration::from_secs(25));
        let names = ["/a".to_owned(), "/b".to_owned()];
        let line = Tracker::new(&names, &progress).look().line();
        assert!(line.starts_with("/a: 50%, 1.0 of 2.0 MiB, "), "{line}");
        assert!(line.ends_with("; /b: DONE 0:25 on its disk"), "{line}");
        assert_eq!(Tracker::new(&[], &[]).look().line(), "");
    }
}

#[cfg(test)]
mod rate_tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rates = Rates::default();
        assert_eq!(rates.per_second(), 0.0);
        for second in 1..100 {
            rates.note(second * 1000, Duration::from_secs(second));
        }
        assert!((999.0..1001.0).contains(&rates.per_second()));
        for second in 100..200 {
            rates.note(99_000, Duration::from_secs(second));
        }
        assert!(rates.per_second() < 1.0);
        // A file that is read again takes back what it had counted.
        rates.note(0, Duration::from_secs(200));
        assert!(rates.per_second() >= 0.0);
    }

    #[test]
    fn the_rest_is_told_when_it_can_be_known() {
        let mut rates = Rates::default();
        assert_eq!(rates.left(1000), None);
        // A minute in which nothing is copied, because a walk looks for room.
        for second in 1..=60 {
            rates.note(0, Duration::from_secs(second));
        }
        for second in 61..=70 {
            let left = rates.left(100_000);
            assert_eq!(left.is_some(), second > 65, "after {second} s: {left:?}");
            rates.note((second - 60) * 1000, Duration::from_secs(second));
        }
        assert_eq!(rates.left(100_000).unwrap().as_secs_f64().round(), 100.0);
        assert_eq!(rates.left(999), None, "less than a second");
    }
}
