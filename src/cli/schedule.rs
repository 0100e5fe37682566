//! When a run is to end by itself.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

use crate::cli::exit::TIME_IS_UP;
use crate::event::Stop;

/// How often the clock is looked at: it may be set, and the machine may sleep.
const LOOK: Duration = Duration::from_secs(1);

/// When a run is to end.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    /// At the latest then, by this machine's running time.
    after: Option<Instant>,
    /// At the latest then, by the clock.
    at: Option<Timestamp>,
    /// So long after that, files in hand are given up too.
    grace: Duration,
}

impl Deadline {
    /// So long after now, and when the clock shows `at`, whichever comes first, and `grace` for the files that
    /// are in hand then.
    pub fn new(after: Option<Duration>, at: Option<Timestamp>, grace: Duration) -> Self {
        // What is too far away to be told as a time never comes.
        Self { after: after.and_then(|after| Instant::now().checked_add(after)), at, grace }
    }

    /// Whether there is any.
    pub fn is_set(&self) -> bool {
        self.after.is_some() || self.at.is_some()
    }

    /// Winds the run up when it is time, and stops it when the grace is over too. Both are told first. Returns
    /// when the run ends: then the other end of `done` is dropped.
    pub fn watch(&self, stop: &Stop, done: &Receiver<()>, tell: impl Fn(&str)) {
        let is_over_within = |wait| done.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
        loop {
            let left = self.left();
            if left.is_zero() {
                break;
            }
            if is_over_within(left.min(LOOK)) {
                return;
            }
        }
        tell("the time is up: finishing the files in hand");
        stop.wind_up(TIME_IS_UP);
        if !is_over_within(self.grace) {
            tell("the grace is over too: giving up the files in hand");
            stop.request(TIME_IS_UP);
        }
    }

    fn left(&self) -> Duration {
        let after = self.after.map(|after| after.saturating_duration_since(Instant::now()));
        let by_clock = |at: Timestamp| {
            Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO)
        };
        after.into_iter().chain(self.at.map(by_clock)).min().unwrap_or(Duration::MAX)
    }
}

/// Reads a duration: `90s`, `45m`, `8h`, `1h30m`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a duration such as 90s, 45m, 8h or 1h30m".to_owned();
    let duration: SignedDuration = text.parse().map_err(|_| expected())?;
    match Duration::try_from(duration) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(expected()),
    }
}

/// Reads a time of the day, `HH:MM`, and says when the local clock shows it next. Where no time zone is
/// configured, as in a container, it is UTC.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let zone = match TimeZone::try_system() {
        Ok(zone) => zone,
        Err(_) if std::env::var_os("TZ").is_none() => TimeZone::UTC,
        Err(error) => {
            let rule = "give TZ a name that is known here, or a rule: CET-1CEST,M3.5.0,M10.5.0/3";
            return Err(format!("cannot tell the local time ({error}); {rule}"));
        }
    };
    next(text, &Timestamp::now().to_zoned(zone))
}

fn next(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let expected = || "expected a time of the day such as 06:30".to_owned();
    let digits = |at: std::ops::Range<usize>| {
        let digits = text.get(at).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        digits.and_then(|digits| digits.parse::<i8>().ok()).ok_or_else(expected)
    };
    if text.len() != 5 || text.as_bytes()[2] != b':' {
        return Err(expected());
    }
    let time = Time::new(digits(0..2)?, digits(3..5)?, 0, 0).map_err(|_| expected())?;
    let on = |date: jiff::civil::Date| {
        let at = date.to_datetime(time).to_zoned(now.time_zone().clone());
        at.map_err(|error| error.to_string())
    };
    let today = on(now.date())?;
    if today > *now {
        return Ok(today.timestamp());
    }
    let tomorrow = now.date().checked_add(1.day()).map_err(|error| error.to_string())?;
    Ok(on(tomorrow)?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_the_clock_shows_it() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let at = |now: &str, time: &str| {
            let now: Timestamp = now.parse().unwrap();
            next(time, &now.to_zoned(zone.clone())).map(|at| at.to_string())
        };
        let good = |time: &str| Ok(time.to_owned());
        assert_eq!(at("2026-01-10T22:00:00Z", "06:30"), good("2026-01-11T05:30:00Z"));
        assert_eq!(at("2026-01-10T02:00:00Z", "06:30"), good("2026-01-10T05:30:00Z"));
        assert_eq!(at("2026-01-10T05:30:00Z", "06:30"), good("2026-01-11T05:30:00Z"));
        // The clock goes on from 02:00 to 03:00 on the 29th, and is back at 02:00 in October.
        assert_eq!(at("2026-03-28T23:30:00Z", "02:30"), good("2026-03-29T01:30:00Z"));
        assert_eq!(at("2026-03-28T22:30:00Z", "06:00"), good("2026-03-29T04:00:00Z"));
        for wrong in [
            "",
            "6:30",
            "24:00",
            "06:60",
            "0630",
            "06:30:00",
            "ab:cd",
            "-1:30",
            "+6:30",
            "06:3\u{e9}",
        ] {
            assert!(at("2026-01-10T22:00:00Z", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        for (text, seconds) in
            [("90s", 90), ("45m", 2700), ("8h", 28_800), ("1h30m", 5400), ("2h 5m", 7500)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "8", "0s", "-1h", "banana", "8x"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_runs_out() {
        let (stop, (_running, done)) = (Stop::default(), crossbeam_channel::bounded(0));
        let told = std::cell::Cell::new(0);
        let tell = |_: &str| {
            told.set(told.get() + 1);
            assert!(stop.is_requested() == (told.get() == 2) && !stop.is_urgent());
        };
        let soon = Duration::from_millis(10);
        Deadline::new(Some(soon), None, soon).watch(&stop, &done, tell);
        assert!(told.get() == 2 && stop.requested() == Some(TIME_IS_UP) && stop.is_urgent());
    }
}
