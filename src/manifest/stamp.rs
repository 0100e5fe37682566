//! When a run started, as it stands in the names of what the run leaves.
//!
//! `YYYYMMDDTHHMMSSZ`, in UTC, so that names sort by time. When a name with it is taken, that of the next
//! second is: so the names of two runs sort in the order of the runs, for every program that sorts names.
//! Earlier versions put a number behind the time, `-2`, `-3`, …, which sorts before the first; such names
//! are still read.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// A time in a name. The order is that of time, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Whole seconds.
    time: Timestamp,
    /// Which of that second; 1 is not written.
    number: u32,
}

impl Stamp {
    /// That of a run that started at `time`. What is below a second is dropped; a time before 1970,
    /// which only a broken clock shows, counts as 1970.
    pub fn new(time: Timestamp) -> Self {
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        Self { time: time.max(Timestamp::UNIX_EPOCH), number: 1 }
    }

    /// Takes it apart; `None` if it is not one that [`Display`](fmt::Display) writes.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (time, number) = text.split_at_checked(SHAPE.len())?;
        Some(Self { time: parse_time(time)?, number: parse_number(number)? })
    }

    /// When the run started.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Which of that second, counted from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The one to try when this one is taken: that of the next second. `None` at the end of time.
    pub fn next(self) -> Option<Self> {
        let time = self.time.checked_add(SignedDuration::from_secs(1)).ok()?;
        Some(Self { time, number: 1 })
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = Offset::UTC.to_datetime(self.time);
        let (year, month, day) = (t.year(), t.month(), t.day());
        let (hour, minute, second) = (t.hour(), t.minute(), t.second());
        write!(f, "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")?;
        if self.number > 1 {
            write!(f, "-{}", self.number)?;
        }
        Ok(())
    }
}

/// The shape of a time: `#` is a digit.
const SHAPE: &[u8] = b"########T######Z";

/// Reads `YYYYMMDDTHHMMSSZ`, from 1970 on.
fn parse_time(stamp: &[u8]) -> Option<Timestamp> {
    let fits = |(&byte, &shape): (&u8, &u8)| match shape {
        b'#' => byte.is_ascii_digit(),
        letter => byte == letter,
    };
    if stamp.len() != SHAPE.len() || !stamp.iter().zip(SHAPE).all(fits) {
        return None;
    }
    // At most four digits each, so nothing overflows.
    let field = |from: usize, to: usize| {
        stamp[from..to].iter().fold(0i16, |value, digit| value * 10 + i16::from(digit - b'0'))
    };
    let small = |from: usize| field(from, from + 2) as i8;
    let civil = DateTime::new(field(0, 4), small(4), small(6), small(9), small(11), small(13), 0);
    let time = Offset::UTC.to_timestamp(civil.ok()?).ok()?;
    (time >= Timestamp::UNIX_EPOCH).then_some(time)
}

/// Reads what stands behind the time: nothing, or `-` and a number from 2 on, without zeros before
/// it.
fn parse_number(suffix: &[u8]) -> Option<u32> {
    if suffix.is_empty() {
        return Some(1);
    }
    let digits = suffix.strip_prefix(b"-")?;
    if !digits.first()?.is_ascii_digit() || digits[0] == b'0' {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number > 1).then_some(number)
}
