//! Which generations stay, by the rules that restic has for snapshots.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::Offset;

use crate::copy::dated_name::DatedName;

/// How many of each kind stay; none of any stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepRule {
    /// What is counted, and how many of it.
    counts: Vec<(Period, u64)>,
}

/// What generations are counted by: of each such time the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Last,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Period {
    const ALL: [(&'static str, Self); 6] = [
        ("last", Self::Last),
        ("hourly", Self::Hour),
        ("daily", Self::Day),
        ("weekly", Self::Week),
        ("monthly", Self::Month),
        ("yearly", Self::Year),
    ];

    /// The period that a generation, the one of this number, falls into; UTC.
    fn of(self, name: DatedName, number: usize) -> i64 {
        let time = Offset::UTC.to_datetime(name.time());
        let date: Date = time.date();
        let day = date.year() as i64 * 1000 + i64::from(date.day_of_year());
        match self {
            Self::Last => number as i64,
            Self::Hour => day * 100 + i64::from(time.hour()),
            Self::Day => day,
            Self::Week => {
                let week = date.iso_week_date();
                i64::from(week.year()) * 100 + i64::from(week.week())
            }
            Self::Month => i64::from(date.year()) * 100 + i64::from(date.month()),
            Self::Year => date.year().into(),
        }
    }
}

impl KeepRule {
    /// Reads `last=7,daily=14,weekly=8,monthly=12,yearly=5`; an error says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected =
            "expected something like last=7,hourly=24,daily=14,weekly=8,monthly=12,yearly=5";
        let mut counts: Vec<(Period, u64)> = Vec::new();
        for part in text.split(',') {
            let (word, number) = part.trim().split_once('=').ok_or(expected)?;
            let (_, period) =
                Period::ALL.into_iter().find(|(name, _)| *name == word).ok_or(expected)?;
            if counts.iter().any(|(other, _)| *other == period) {
                return Err(format!("{word} is there twice"));
            }
            counts.push((period, number.parse().map_err(|_| expected)?));
        }
        match counts.iter().any(|(_, number)| *number > 0) {
            true => Ok(Self { counts }),
            false => Err("that would keep nothing".into()),
        }
    }

    /// Which of `generations` go. The newest stays in any case. As in restic, of each period the newest counts, and the
    /// oldest of all stays while a number is not used up.
    pub fn surplus(&self, generations: &[DatedName]) -> Vec<DatedName> {
        let mut newest_first = generations.to_vec();
        newest_first.sort_unstable_by(|a, b| b.cmp(a));
        let mut open: Vec<(Period, u64, Option<i64>)> =
            self.counts.iter().map(|&(period, number)| (period, number, None)).collect();
        let last = newest_first.len().saturating_sub(1);
        let mut surplus = Vec::new();
        for (number, &name) in newest_first.iter().enumerate() {
            let mut stays = number == 0;
            for (period, left, seen) in &mut open {
                let now = Some(period.of(name, number));
                if *left > 0 && (*seen != now || number == last) {
                    stays = true;
                    *seen = now;
                    *left -= 1;
                }
            }
            if !stays {
                surplus.push(name);
            }
        }
        surplus
    }
}

impl fmt::Display for KeepRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (period, number)) in self.counts.iter().enumerate() {
            let name = Period::ALL.iter().find(|(_, other)| other == period).map_or("", |it| it.0);
            write!(f, "{}{name}={number}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(rule: &str, names: &[&str]) -> Vec<String> {
        let names: Vec<_> = names.iter().map(|name| DatedName::parse(name).unwrap()).collect();
        let surplus = KeepRule::parse(rule).unwrap().surplus(&names);
        names.iter().filter(|name| !surplus.contains(name)).map(ToString::to_string).collect()
    }

    const NAMES: [&str; 7] = [
        "2025-12-30T020000Z",
        "2026-01-31T020000Z",
        "2026-02-01T020000Z",
        "2026-02-27T020000Z",
        "2026-02-28T020000Z",
        "2026-02-28T030000Z",
        "2026-03-01T020000Z",
    ];

    #[test]
    fn of_each_period_the_newest_stays() {
        assert_eq!(kept("last=2", &NAMES), NAMES[5..]);
        assert_eq!(kept("daily=3", &NAMES), [NAMES[3], NAMES[5], NAMES[6]]);
        assert_eq!(kept("monthly=3", &NAMES), [NAMES[1], NAMES[5], NAMES[6]]);
        assert_eq!(kept("weekly=1", &NAMES), [NAMES[6]]);
        assert_eq!(kept("last=1,yearly=2", &NAMES), [NAMES[0], NAMES[6]]);
        // The oldest stays while not enough of a kind are there.
        assert_eq!(kept("yearly=5", &NAMES), [NAMES[0], NAMES[6]]);
        assert_eq!(kept("last=9", &NAMES), NAMES);
        assert_eq!(kept("last=1", &NAMES[..1]), NAMES[..1]);
        assert_eq!(kept("daily=2", &[]), [""; 0]);
    }

    #[test]
    fn what_is_written_is_read() {
        let rule = "last=7,hourly=1,daily=14,weekly=8,monthly=12,yearly=5";
        assert_eq!(KeepRule::parse(rule).unwrap().to_string(), rule);
        for wrong in ["", "7", "last", "last=", "last=-1", "last=0", "secondly=2", "last=1,last=2"]
        {
            assert!(KeepRule::parse(wrong).is_err(), "{wrong}");
        }
    }
}
