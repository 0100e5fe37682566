//! The name of a directory that a run makes for itself: when the run began, as `2026-11-21T020000Z`, in UTC. Names
//! sort by time.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// A time in whole seconds, as the name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatedName(Timestamp);

impl DatedName {
    /// That of a run that began at `time`.
    pub fn new(time: Timestamp) -> Self {
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        Self(time.max(Timestamp::UNIX_EPOCH))
    }

    /// `None` if the text is not what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let time = DateTime::strptime("%Y-%m-%dT%H%M%SZ", text).ok()?;
        let name = Self(Offset::UTC.to_timestamp(time).ok()?);
        (name.to_string() == text).then_some(name)
    }

    /// The one to try when this one is taken.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(1)).ok().map(Self)
    }

    pub fn time(self) -> Timestamp {
        self.0
    }
}

impl fmt::Display for DatedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = Offset::UTC.to_datetime(self.0);
        let (year, month, day) = (t.year(), t.month(), t.day());
        let (hour, minute, second) = (t.hour(), t.minute(), t.second());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}{minute:02}{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = DatedName::parse("2026-11-21T020000Z").unwrap();
        assert_eq!(name.to_string(), "2026-11-21T020000Z");
        assert_eq!(name.next().unwrap().to_string(), "2026-11-21T020001Z");
        for text in ["2026-11-21T020000", "2026-11-21T0200Z", "2026-1-21T020000Z", "latest", ""] {
            assert_eq!(DatedName::parse(text), None, "{text}");
        }
    }
}
