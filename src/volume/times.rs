//! The comparison of a file's time at the output with that of its source, as far as its file system can hold it.
//!
//! A file system that cuts times, or makes others of them, shows one time for many. So what it makes of the source's
//! time, as a trial shows, is no proof that the copy was given that one: the content is asked, unless a record tells
//! which time it was given. Nor is a time that merely looks cut: such a copy may have come from another file system.
//!
//! A time that the file system does not hold (FAT begins with 1980) comes out as another, and its copy would look
//! newer for ever. Which other is not guessed: the very time is given to a file of our own. And FAT stores what a
//! clock on the wall says, so all its times move by whole quarters of an hour with the zone of the machine.

use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::HashMap, ffi::OsStr, io, time::SystemTime, time::UNIX_EPOCH};

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    state::MovedTimes, sys::Dir, sys::DirListing, sys::ListedEntry, sys::stat::Stat,
    sys::stat::Time, sys::traits::TimeTraits, volume::NameSet, volume::alike::Sameness,
    volume::alike::fold_simply, volume::alike::form_of, volume::alike::sameness,
};

/// Number of answers that are kept.
const MOST_ASKED: usize = 4096;

/// Difference from the clock up to which a time is about now; seconds.
const ABOUT: u64 = 10;

/// FAT's steps; seconds.
const FAT_STEP: u64 = 2;

/// A day; seconds.
const DAY: i64 = 86_400;

/// A function that finds by a trial the time that a file has when it is given one; `None` if it cannot be tried.
pub type TimeTrial<'a> = &'a dyn Fn(Time) -> Option<Time>;

/// The time of a file at the output against that of the source's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeMatch {
    /// The copy was given that very time.
    Same,
    /// It may have been given that time, or another that is shown alike: content decides.
    Unclear,
    /// It was given another.
    Other,
}

/// A file system's treatment of times.
#[derive(Debug)]
pub struct VolumeTimes {
    /// The results of trials.
    traits: TimeTraits,
    /// The move of all times that earlier runs set.
    moved: MovedTimes,
    /// A directory of this user's runs, for trials where nothing may be made.
    own_dir: Option<Dir>,
    asked: Mutex<HashMap<Time, Option<Time>>>,
}

impl Default for VolumeTimes {
    fn default() -> Self {
        Self::new(TimeTraits::EVERY, MovedTimes::default(), None)
    }
}

impl VolumeTimes {
    /// The times of a file system with these traits, which have `moved`. `own_dir` is asked where nothing may be made.
    pub fn new(traits: TimeTraits, moved: MovedTimes, own_dir: Option<Dir>) -> Self {
        Self { traits, moved, own_dir, asked: Mutex::default() }
    }

    /// The move of all times that earlier runs set.
    pub fn moved(&self) -> &MovedTimes {
        &self.moved
    }

    /// True if this time is held as it is, and no other is stored as it.
    pub fn are_exact_at(&self, time: Time) -> bool {
        let TimeTraits { step, are_of_fat, .. } = self.traits;
        step == Some(1) && !are_of_fat && self.moved.by.is_empty() && self.traits.hold(time)
    }

    /// Compares `there` with `source`, where a record tells which time the copy was `given`, or nothing does. If only a
    /// trial tells, `try_out` makes it.
    pub fn compare(
        &self,
        source: Time,
        there: Time,
        given: Option<Time>,
        try_out: TimeTrial<'_>,
    ) -> TimeMatch {
        match given {
            Some(given) if given == source => TimeMatch::Same,
            Some(_) => TimeMatch::Other,
            None if source == there && self.are_exact_at(source) => TimeMatch::Same,
            None if source.may_be_stored_as(there) || self.is_held_as(source, there, try_out) => {
                TimeMatch::Unclear
            }
            None => TimeMatch::Other,
        }
    }

    /// True if a file here that was given the time `source` has the time `there`. If only a trial tells, `try_out`
    /// makes it.
    pub fn is_held_as(&self, source: Time, there: Time, try_out: TimeTrial<'_>) -> bool {
        let is_of = |source: Time| {
            self.is_cut_to(source, there)
                || self.moved.by.iter().any(|by| self.is_cut_to(source, there.later_by(-by)))
        };
        is_of(source)
            || !self.traits.hold(source)
                && (self.ask(source, try_out).is_some_and(is_of) || self.is_of_fat(source, there))
    }

    /// True if `there` is `source`, or that cut to the steps here.
    pub fn is_cut_to(&self, source: Time, there: Time) -> bool {
        source == there || self.traits.step.is_some_and(|step| source.cut_to(step) == there)
    }

    /// True if `there` is what FAT or exFAT may make on the disk of the time `source`, which it does not hold. It is
    /// not seen before the file system is mounted anew.
    fn is_of_fat(&self, source: Time, there: Time) -> bool {
        let moved = self.moved.by.iter().map(|by| there.later_by(-by));
        self.traits.are_of_fat
            && std::iter::once(there).chain(moved).any(|there| {
                let is = |secs: i64| secs.abs_diff(there.secs) <= FAT_STEP;
                is(source.secs.clamp(TimeTraits::FAT_FIRST, TimeTraits::FAT_LAST))
                    // exfat-fuse takes 2100 for a leap year.
                    || in_128_years(source).is_some_and(|secs| is(secs) || is(secs - DAY))
            })
    }

    /// The time that the run which gave it the time `source` saw, if that was not held for long and is `there` now.
    pub fn as_given(&self, source: Time, there: Time) -> Option<Time> {
        let step = self.traits.step.filter(|_| self.traits.are_of_fat && !self.traits.hold(source));
        step.filter(|_| self.is_of_fat(source, there)).map(|step| source.cut_to(step))
    }

    /// True if a file that is given the time `source` gets another each time, as the clock has it then. If only a trial
    /// tells, `try_out` makes it.
    pub fn loses(&self, source: Time, try_out: TimeTrial<'_>) -> bool {
        // Where no time can be set, each attempt says so.
        let is_kept = self.traits.step.is_none() || self.traits.hold(source);
        !is_kept && self.ask(source, try_out).is_none()
    }

    fn ask(&self, time: Time, try_out: TimeTrial<'_>) -> Option<Time> {
        let asked = || self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = asked().get(&time) {
            return *known;
        }
        let held = match &self.own_dir {
            Some(own) => own.try_own_time(time).ok(),
            None => try_out(time),
        };
        let held = held.filter(|held| time.may_be_stored_as(*held) || !is_about_now(*held));
        let mut asked = asked();
        if asked.len() >= MOST_ASKED {
            asked.clear();
        }
        asked.insert(time, held);
        held
    }
}

/// The same date in the 128 years from 1980 on: FAT's years have seven bits.
fn in_128_years(time: Time) -> Option<i64> {
    let date = Timestamp::from_second(time.secs).ok()?.to_zoned(TimeZone::UTC).datetime();
    let year = 1980 + (date.year() - 1980).rem_euclid(128);
    let date = date.with().year(year).build().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// True if a time is that of now: sshfs takes 1970 for the wish to have that.
fn is_about_now(time: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).is_ok_and(|now| now.abs_diff(time.secs) <= ABOUT)
}

// Which entries of an output are in the source under another spelling: the output may fold letter case, or forms of
// Unicode. Such an entry has not left the source.
//
// A name that the output finds and does not list stands for one that it lists. What file systems fold differs, and
// inode numbers do not always tell. So of what seems to be missing it is the entry that is the same but for case and
// form, or one that is [alike](crate::volume::alike), or else each that has the same size and times. Of several it is
// the one of the same size and times. Where that leaves a choice, all of them stay. A name that is not copied stands
// for nothing.

/// The counterpart in the source of an entry of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counterpart {
    /// Nothing.
    None,
    /// The entry of this name there.
    Named(Arc<OsStr>),
    /// One of several things.
    Unclear,
}

/// A directory that both trees have.
pub struct SpellingSearch<'a> {
    pub source: &'a Dir,
    pub output: &'a Dir,
    /// The names that the output lists.
    pub listed: &'a NameSet,
    /// The names that it lists and the source does not, byte for byte.
    pub missing: &'a [Arc<OsStr>],
    /// True if the source's entry is copied.
    pub is_copied: &'a dyn Fn(&ListedEntry) -> io::Result<bool>,
}

impl SpellingSearch<'_> {
    /// The missing names that the source has under another spelling.
    ///
    /// # Errors
    /// Something could not be looked at, so nothing is known to be missing.
    pub fn run(&self) -> io::Result<HashMap<Arc<OsStr>, Counterpart>> {
        let mut found = HashMap::new();
        if self.missing.is_empty() {
            return Ok(found);
        }
        let mut candidates = None;
        for entry in DirListing::of(self.source)? {
            let entry = entry?;
            if self.listed.has(self.listed.hash(&entry.name)) {
                continue;
            }
            let Some(there) = stat_if_there(self.output, &entry.name)? else { continue };
            if !(self.is_copied)(&entry)? {
                continue;
            }
            let name = entry.name;
            let candidates = match &mut candidates {
                Some(candidates) => candidates,
                missing => missing.insert(self.candidates()?),
            };
            let same = candidates.of(&name, &there);
            // Of several it is the one that is what the output finds by the new name.
            let is_it = |other: &&Arc<OsStr>| candidates.is_as(other, &there);
            let exact: Vec<_> = same.iter().filter(is_it).collect();
            let same = if exact.len() == 1 { exact } else { same.iter().collect() };
            for other in same.iter().copied() {
                let is_clear = same.len() == 1 && !found.contains_key(other);
                let counterpart = match is_clear {
                    true => Counterpart::Named(Arc::clone(&name)),
                    false => Counterpart::Unclear,
                };
                found.insert(Arc::clone(other), counterpart);
            }
        }
        Ok(found)
    }

    fn candidates(&self) -> io::Result<Candidates> {
        let mut candidates = Candidates::default();
        for name in self.missing {
            let add = || Arc::clone(name);
            candidates.by_name.entry(folded(name)).or_default().push(add());
            candidates.by_form.entry(form_of(name.as_encoded_bytes())).or_default().push(add());
            if let Some(stat) = stat_if_there(self.output, name)? {
                candidates.by_stat.entry(sameness(&stat)).or_default().push(add());
            }
        }
        Ok(candidates)
    }
}

/// The missing names, by properties that may be known of them.
#[derive(Default)]
struct Candidates {
    by_name: HashMap<String, Vec<Arc<OsStr>>>,
    by_form: HashMap<Vec<u8>, Vec<Arc<OsStr>>>,
    by_stat: HashMap<Sameness, Vec<Arc<OsStr>>>,
}

impl Candidates {
    /// True if this one is the entry that is `there`.
    fn is_as(&self, other: &Arc<OsStr>, there: &Stat) -> bool {
        self.by_stat.get(&sameness(there)).is_some_and(|same| same.contains(other))
    }

    /// The names that may be the entry that the output finds by this name.
    fn of(&self, name: &OsStr, there: &Stat) -> &[Arc<OsStr>] {
        let by_form = || self.by_form.get(&form_of(name.as_encoded_bytes()));
        let by_stat = || self.by_stat.get(&sameness(there));
        let same = self.by_name.get(&folded(name)).or_else(by_form).or_else(by_stat);
        same.map_or(&[], |same| same)
    }
}

fn folded(name: &OsStr) -> String {
    fold_simply(&name.to_string_lossy())
}

/// The metadata of `name` in `dir`; `None` if nothing is called so, or nothing can be.
fn stat_if_there(dir: &Dir, name: &OsStr) -> io::Result<Option<Stat>> {
    match dir.stat(name, false) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_have_moved_are_the_same() {
        let time = |secs| Time { secs, nanos: 500 };
        let moved = MovedTimes { by: vec![3600], is_new: false };
        let seconds = TimeTraits { step: Some(1_000_000_000), ..TimeTraits::EVERY };
        let times = VolumeTimes::new(seconds, moved, None);
        for (there, same) in [(0, true), (3600, true), (-3600, false), (900, false)] {
            let there = Time { secs: 1_000_000_000 + there, nanos: 0 };
            assert_eq!(times.is_held_as(time(1_000_000_000), there, &|_| None), same, "{there:?}");
        }
        let traits = seconds.of_fat(true);
        let fat = VolumeTimes::new(traits, MovedTimes::default(), None);
        // 1970, 2 January 2110, and 2108.
        for (source, there, same) in [
            (0, 315_532_800, true),
            (1, 315_532_802, true),
            (4_418_064_000, 378_777_600, true),
            (4_418_064_000, 378_691_200, true),
            (4_418_064_000, TimeTraits::FAT_LAST - 1, true),
            (4_354_819_200, 315_532_800, true),
            (0, 378_691_200, false),
            (1_000_000_000, 315_532_800, false),
            (4_418_064_000, 315_532_800, false),
        ] {
            assert_eq!(
                fat.is_held_as(time(source), time(there), &|_| None),
                same,
                "{source} {there}"
            );
        }
        let there = time(1_000_003_600);
        assert!(!VolumeTimes::default().is_held_as(time(1_000_000_000), there, &|_| None));
    }

    #[test]
    fn coarse_times_are_in_doubt_unless_a_record_tells() {
        use TimeMatch::{Other, Same, Unclear};
        let time = |secs: i64, nanos| Time { secs: 1_000_000_000 + secs, nanos };
        let of = |step| {
            let traits = TimeTraits { step: Some(step), ..TimeTraits::EVERY };
            VolumeTimes::new(traits, MovedTimes::default(), None)
        };
        let (exact, seconds) = (of(1), of(1_000_000_000));
        for (times, source, there, given, expected) in [
            (&exact, time(0, 5), time(0, 5), None, Same),
            (&exact, time(1, 0), time(0, 0), None, Unclear),
            (&exact, time(1, 0), time(0, 0), Some(time(0, 0)), Other),
            (&exact, time(0, 5), time(0, 0), Some(time(0, 5)), Same),
            (&exact, time(2, 0), time(0, 0), None, Other),
            (&seconds, time(0, 0), time(0, 0), None, Unclear),
            (&seconds, time(0, 5), time(0, 0), None, Unclear),
            (&seconds, time(0, 5), time(0, 0), Some(time(0, 5)), Same),
            (&seconds, time(0, 6), time(0, 0), Some(time(0, 5)), Other),
            (&seconds, time(0, 0), time(0, 0), Some(time(0, 5)), Other),
        ] {
            let compared = times.compare(source, there, given, &|_| None);
            assert_eq!(compared, expected, "{source:?} {there:?} {given:?}");
        }
        assert!(seconds.is_held_as(time(0, 5), time(0, 0), &|_| None));
        assert!(!exact.is_held_as(time(0, 5), time(0, 0), &|_| None));
    }
}
