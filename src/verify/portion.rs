//! Checking in portions: what was verified when, so that the next portion is what was not verified for
//! the longest time, and when a portion ends.
//!
//! The state lies in the checked directory and is replaced as a whole. It knows lines by a hash of name
//! and digest, not by their place, so a manifest that was replaced or grew takes nothing away: a file that
//! is still listed with its digest is still verified. All files of one run get one time, that of its start,
//! so the order costs no more than to read the manifest once for each of the runs that lie behind. A file
//! that is not good loses its time: it is among the first of the next portion until it is repaired. All of
//! these together get half of a portion at most, or one that is larger than a portion, or takes longer,
//! would keep the others from ever having their turn.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, Result};
use crate::hash::{Algorithm, Digest};
use crate::manifest::Scanner;
use crate::manifest::scan::Text;
use crate::path::RelPath;
use crate::sys::Dir;
use crate::verify::finding::{Finding, Verdict};
use crate::verify::seen::AsItIs;
use crate::verify::target::Target;

/// The first line of a state.
const HEAD: &str = "dircopy-verified 1";

/// What was verified is written this often: it is what a kill can lose. A million lines are 27 MB.
const SAVE: Duration = Duration::from_secs(60);

/// How much a portion may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// After this time no more files are begun.
    pub time: Option<Duration>,
    /// Nor if they would be more than so many bytes together; one file is always read.
    pub bytes: Option<u64>,
}

/// What a portion came to.
#[derive(Clone, Copy, Debug)]
pub struct Covered {
    /// Lines that the manifest has, a repeated one counted once.
    pub listed: u64,
    /// Of these, those that this run found good.
    pub now: u64,
    /// … and those that were never found good, or were not good when they were looked at last.
    pub never: u64,
    /// When the one was found good that was not for the longest time, in seconds since 1970; `None` if
    /// there are some that never were.
    pub oldest: Option<u64>,
}

/// A portion on its way.
#[derive(Debug)]
pub struct Portion {
    budget: Budget,
    started: Instant,
    account: Mutex<Account>,
    left: AtomicU64,
    state: Mutex<State>,
}

/// What may be begun.
#[derive(Debug)]
struct Account {
    ends: Option<Instant>,
    /// Bytes that may be read.
    most: u64,
    read: u64,
    over: bool,
    /// Whether this is for files that were bad before.
    of_bad: bool,
}

#[derive(Debug, Default)]
struct State {
    /// By the hashes of lines.
    lines: Lines,
    /// The time of this run.
    now: u32,
    /// Where it is kept; not before the manifest was read.
    place: Option<(Dir, OsString)>,
    saved: Option<Instant>,
}

type Lines = HashMap<u64, Line, BuildHasherDefault<AsItIs>>;

/// What is known of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// When it was verified, in seconds since 1970; 0 for never, and for one that is bad.
    time: u32,
    /// Whether it was not good when it was looked at last.
    bad: bool,
    /// Whether this run has given it out.
    given: bool,
}

/// What earlier portions say of a line, in the order in which files are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// It was not good when it was looked at last.
    Bad,
    /// It was never looked at.
    Nothing,
    /// It was good at that time, in seconds since 1970.
    Good(u32),
}

impl Line {
    fn known(self) -> Known {
        match self {
            Line { bad: true, .. } => Known::Bad,
            Line { time: 0, .. } => Known::Nothing,
            Line { time, .. } => Known::Good(time),
        }
    }
}

impl Portion {
    /// A portion that begins now.
    pub fn new(budget: Budget) -> Self {
        let started = Instant::now();
        let ends = budget.time.and_then(|time| started.checked_add(time));
        let most = budget.bytes.unwrap_or(u64::MAX);
        let account = Mutex::new(Account { ends, most, read: 0, over: false, of_bad: false });
        Self { budget, started, account, left: AtomicU64::new(0), state: Mutex::default() }
    }

    /// From now on lines are given out of which this is known; all those before are begun, or left. What is
    /// known to be bad gets half of the portion at most, and the rest half of it at least.
    pub fn begin(&self, known: Known) {
        let mut account = self.account();
        let after = |from: Instant, time| from.checked_add(time);
        let half = self.budget.time.map(|time| time / 2);
        let most = self.budget.bytes.unwrap_or(u64::MAX);
        if known == Known::Bad {
            let ends = half.and_then(|half| after(self.started, half));
            *account = Account { ends, most: most / 2, read: 0, over: false, of_bad: true };
        } else if account.of_bad {
            let ends = self.budget.time.and_then(|time| after(self.started, time));
            let ends = ends.max(half.and_then(|half| after(Instant::now(), half)));
            let most = most - account.read.min(most / 2);
            *account = Account { ends, most, read: 0, over: false, of_bad: false };
        }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        // Nothing in there can panic half-way.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in there can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no more files are to be begun.
    pub fn is_over(&self) -> bool {
        let mut account = self.account();
        account.over |= account.ends.is_some_and(|ends| Instant::now() >= ends);
        account.over
    }

    /// Whether a file of so many bytes may be begun. If not, none may from now on: the next is not a
    /// smaller one, but the next in its turn.
    pub fn takes(&self, size: u64) -> bool {
        let mut account = self.account();
        let read = account.read.saturating_add(size);
        let fits = account.read == 0 || read <= account.most;
        match fits {
            true => account.read = read,
            false => account.over = true,
        }
        fits
    }

    /// A line that was given out is left for another portion.
    pub fn leave(&self) {
        self.left.fetch_add(1, Relaxed);
    }

    /// How many were left.
    pub fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Reads what was verified of the lines that were listed, and writes it back, so that a directory that
    /// cannot be written to is known before anything is read. A state that is of no use is told, and is as
    /// good as none.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn recall(&self, target: &Target) -> Result<Option<Error>> {
        let name = state_name(target);
        let path = target.root.join(&name);
        let fail = |error| Error::io("open the directory of", &path, error);
        let dir = target.handle()?.try_clone().map_err(fail)?;
        let mut wrong = None;
        {
            let mut state = self.state();
            let read = match dir.open_file(&name, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
                opened => opened.and_then(|file| recall(file, &mut state.lines)),
            };
            let newest = read.unwrap_or_else(|error| {
                state.lines.values_mut().for_each(|line| *line = Line::default());
                let error = Error::io("read what was verified from", &path, error);
                wrong = Some(error.with_note("; all of it counts as never verified"));
                0
            });
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            // A run is later than those before it, whatever the clock says.
            state.now = u32::try_from(now.as_secs()).unwrap_or(0).max(newest.saturating_add(1));
            state.place = Some((dir, name));
        }
        self.save(target)?;
        Ok(wrong)
    }

    /// The manifest has this line.
    pub fn list(&self, path: &RelPath, digest: &Digest) {
        self.state().lines.entry(key(path, digest)).or_default();
    }

    /// What is known of lines, in the order in which they have their turn.
    pub fn turns(&self) -> BTreeSet<Known> {
        self.state().lines.values().map(|line| line.known()).collect()
    }

    /// Whether this is known of the line, and it is to be given out now.
    pub fn give(&self, path: &RelPath, digest: &Digest, known: Known) -> bool {
        match self.state().lines.get_mut(&key(path, digest)) {
            Some(line) if line.known() == known && !line.given => {
                line.given = true;
                true
            }
            _ => false,
        }
    }

    /// Notes what was found: a good file was verified now, any other was not.
    pub fn hear(&self, finding: &Finding) {
        if let Finding::File { path, listed, verdict, .. } = finding {
            let mut state = self.state();
            let bad = !matches!(verdict, Verdict::Good(_));
            let time = if bad { 0 } else { state.now };
            if let Some(line) = state.lines.get_mut(&key(path, listed)) {
                (line.time, line.bad) = (time, bad);
            }
        }
    }

    /// Writes what was verified, if it was not written lately.
    pub fn save_now_and_then(&self, target: &Target) -> Result<()> {
        if self.state().saved.is_some_and(|saved| saved.elapsed() < SAVE) {
            return Ok(());
        }
        self.save(target)
    }

    /// Writes what was verified; does nothing before the manifest was read.
    ///
    /// # Errors
    /// It cannot be written; what was there before still is.
    pub fn save(&self, target: &Target) -> Result<()> {
        let mut state = self.state();
        let State { lines, place: Some((dir, name)), saved, .. } = &mut *state else {
            return Ok(());
        };
        // Also if it fails: that is told once in a while, not for each file.
        *saved = Some(Instant::now());
        let publish = |temporary: &OsStr| dir.publish(temporary, name, true);
        dir.write_atomically(|file| write(file, lines), publish)
            .map_err(|error| Error::io("write what was verified to", target.root.join(name), error))
    }

    /// What the portion came to; `None` if it is not known what there was to cover.
    pub fn covered(&self) -> Option<Covered> {
        let state = self.state();
        state.place.as_ref()?;
        let count = |time| state.lines.values().filter(|line| line.time == time).count() as u64;
        let (now, never) = (count(state.now), count(0));
        let oldest = state.lines.values().map(|line| u64::from(line.time)).min();
        let oldest = oldest.filter(|time| *time > 0);
        Some(Covered { listed: state.lines.len() as u64, now, never, oldest })
    }
}

/// What the state of a target is called.
pub fn state_name(target: &Target) -> OsString {
    let name = target.manifest.file_name().filter(|_| target.ours.is_none());
    let mut name = name.map_or_else(|| OsString::from("dircopy"), OsString::from);
    name.push(".verified");
    name
}

/// The hash of a line: the first 64 bits of the SHA-256 of digest and name.
fn key(path: &RelPath, digest: &Digest) -> u64 {
    let mut hasher = Algorithm::Sha256.start();
    hasher.update(&digest.0);
    hasher.update(path.as_bytes());
    let Some(Digest([a, b, c, d, e, f, g, h, ..])) = hasher.finish() else { return 0 };
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Reads a state into the lines that are known; returns the newest time in it.
fn recall(file: File, lines: &mut Lines) -> io::Result<u32> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let (mut scanner, mut number, mut newest) = (Scanner::new(file), 0_u64, 0);
    while let Some(line) = scanner.next_line()? {
        let (Text::Whole(text), true) = (line.text, line.ended) else { return Err(wrong()) };
        let text = std::str::from_utf8(text).map_err(|_| wrong())?;
        if line.number == 1 {
            if text != HEAD {
                return Err(wrong());
            }
            continue;
        }
        match text.split_once(' ').ok_or_else(wrong)? {
            ("end", end) if end.parse() == Ok(number) => return Ok(newest),
            (key, time) => {
                let key = u64::from_str_radix(key, 16).map_err(|_| wrong())?;
                let time = time.parse().map_err(|_| wrong())?;
                if let Some(line) = lines.get_mut(&key) {
                    (line.time, line.bad) = (time, time == 0);
                }
                (number, newest) = (number + 1, newest.max(time));
            }
        }
    }
    // It is cut off.
    Err(wrong())
}

fn write(file: &mut File, lines: &Lines) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let (mut text, mut number) = (String::new(), 0);
    writeln!(out, "{HEAD}")?;
    for (key, line) in lines.iter().filter(|(_, line)| line.known() != Known::Nothing) {
        text.clear();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{key:016x} {}", line.time);
        out.write_all(text.as_bytes())?;
        number += 1;
    }
    writeln!(out, "end {number}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::read_back::Proof;

    #[test]
    fn what_was_verified_is_written_once_in_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let portion = Portion::new(Budget::default());
        let target = Target::none();
        let digest = Digest([7; 32]);
        let paths = [&b"a"[..], b"b", b"c"].map(|name| RelPath::parse(name).unwrap());
        for path in &paths {
            portion.list(path, &digest);
        }
        let place = (Dir::open(dir.path()).unwrap(), "state".into());
        portion.state().now = 5;
        portion.state().place = Some(place);
        let verify = |path: &RelPath, verdict| {
            let path = path.clone();
            portion.hear(&Finding::File { line: 1, path, listed: digest, verdict, bytes: 1 });
            portion.save_now_and_then(&target).unwrap();
        };
        let written = || {
            let line = |path| (key(path, &digest), Line::default());
            let mut lines: Lines = paths.iter().map(line).collect();
            recall(File::open(dir.path().join("state")).unwrap(), &mut lines).unwrap();
            paths.each_ref().map(|path| lines[&key(path, &digest)].time)
        };
        let [a, b, c] = &paths;
        verify(a, Verdict::Good(Proof::Device));
        assert_eq!(written(), [5, 0, 0]);
        verify(b, Verdict::Good(Proof::Device));
        assert_eq!(written(), [5, 0, 0]);
        portion.state().saved = Instant::now().checked_sub(SAVE);
        verify(c, Verdict::Differs(Proof::Device));
        assert_eq!(written(), [5, 5, 0]);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }

    /// What is bad, however large it is and however long it takes, leaves half to the others.
    #[test]
    fn bad_files_get_half_of_a_portion() {
        let hour = Duration::from_secs(3600);
        let mut portion = Portion::new(Budget { time: Some(hour), bytes: Some(100) });
        let started = portion.started;
        portion.begin(Known::Bad);
        assert!(portion.account().ends == Some(started + hour / 2));
        assert!(portion.takes(30) && portion.takes(20) && !portion.takes(1) && portion.is_over());
        portion.begin(Known::Nothing);
        assert!(portion.account().ends == Some(started + hour) && !portion.is_over());
        portion.begin(Known::Good(1));
        assert!(portion.takes(30) && portion.takes(20) && !portion.takes(1));
        // One that is too large, and took longer than a portion may.
        portion.begin(Known::Bad);
        assert!(portion.takes(1000) && !portion.takes(1));
        if let Some(earlier) = started.checked_sub(2 * hour) {
            portion.started = earlier;
            assert!(portion.account().ends < Some(Instant::now() + hour));
        }
        portion.begin(Known::Nothing);
        assert!(portion.account().ends.is_some_and(|ends| ends > Instant::now()));
        assert!(portion.takes(50) && !portion.takes(1));
    }
}
