//! Whether a file at the output has the time of its source, as far as its file system can hold that.
//!
//! A time that the file system does not hold (FAT begins with 1980) comes out as another, and its copy would look
//! newer for ever. Which other is not guessed: the very time is given to a file of our own. And FAT stores what a
//! clock on the wall says, so all its times move by whole quarters of an hour with the zone of the machine.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::state::reference_time::MovedTimes;
use crate::sys::Dir;
use crate::sys::stat::Time;
use crate::sys::traits::TimeTraits;

/// So many answers are kept.
const MOST_ASKED: usize = 4096;

/// So far from the clock is about now; seconds.
const ABOUT: u64 = 10;

/// FAT's steps; seconds.
const FAT_STEP: u64 = 2;

/// A day; seconds.
const DAY: i64 = 86_400;

/// Which time a file has that is given one, found out by a trial; `None` if it cannot be tried.
pub type TimeTrial<'a> = &'a dyn Fn(Time) -> Option<Time>;

/// What a file system makes of times.
#[derive(Debug)]
pub struct VolumeTimes {
    /// What trials showed.
    traits: TimeTraits,
    /// How all times that earlier runs set have moved since.
    moved: MovedTimes,
    /// What is asked where nothing may be made: a directory of this user's runs.
    own_dir: Option<Dir>,
    asked: Mutex<HashMap<Time, Option<Time>>>,
}

impl Default for VolumeTimes {
    fn default() -> Self {
        Self::new(TimeTraits::EVERY, MovedTimes::default(), None)
    }
}

impl VolumeTimes {
    /// Of a file system with these traits, whose times have `moved`. `own_dir` is asked where nothing may be made.
    pub fn new(traits: TimeTraits, moved: MovedTimes, own_dir: Option<Dir>) -> Self {
        Self { traits, moved, own_dir, asked: Mutex::default() }
    }

    /// How all times that earlier runs set have moved since.
    pub fn moved(&self) -> &MovedTimes {
        &self.moved
    }

    /// Whether `there` is what a file has that was given the time `source`. If only a trial tells,
    /// `try_out` makes it.
    pub fn is_held_as(&self, source: Time, there: Time, try_out: TimeTrial<'_>) -> bool {
        let is_of = |source: Time| {
            source.is_stored_as(there)
                || self.moved.by.iter().any(|by| source.is_stored_as(there.later_by(-by)))
        };
        is_of(source)
            || !self.traits.hold(source)
                && (self.ask(source, try_out).is_some_and(is_of) || self.is_of_fat(source, there))
    }

    /// Whether `there` is what FAT or exFAT may make on the disk of the time `source`, which it does not hold. It is
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

    /// As what a file was seen by the run that gave it the time `source`, if that was not held for long and is
    /// `there` now.
    pub fn as_given(&self, source: Time, there: Time) -> Option<Time> {
        let step = self.traits.step.filter(|_| self.traits.are_of_fat && !self.traits.hold(source));
        step.filter(|_| self.is_of_fat(source, there)).map(|step| source.cut_to(step))
    }

    /// Whether a file that is given the time `source` gets another each time, as the clock has it then. If only a
    /// trial tells, `try_out` makes it.
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
        let held = held.filter(|held| time.is_stored_as(*held) || !is_about_now(*held));
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

/// Whether a time is that of now: sshfs takes 1970 for the wish to have that.
fn is_about_now(time: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).is_ok_and(|now| now.abs_diff(time.secs) <= ABOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_have_moved_are_the_same() {
        let time = |secs| Time { secs, nanos: 500 };
        let moved = MovedTimes { by: vec![3600], is_new: false };
        let times = VolumeTimes::new(TimeTraits::EVERY, moved, None);
        for (there, same) in [(0, true), (3600, true), (-3600, false), (900, false)] {
            let there = Time { secs: 1_000_000_000 + there, nanos: 0 };
            assert_eq!(times.is_held_as(time(1_000_000_000), there, &|_| None), same, "{there:?}");
        }
        let traits = TimeTraits::EVERY.of_fat(true);
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
}
