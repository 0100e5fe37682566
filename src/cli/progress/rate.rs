//! How fast it goes, and how long the rest takes.

use std::time::Duration;

/// How long something tells in the speed that is shown: as long as a cache takes to fill, so that it is no flicker.
const RECENT: Duration = Duration::from_secs(10);

/// How long it tells in the time that is left: three times as long, because the mix of files changes the speed.
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
    /// So many bytes were done by then, since the start of the run.
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

    /// How long `rest` bytes take, unless that is shorter than the display can be trusted for or it is too early
    /// to say.
    pub fn left(&self, rest: u64) -> Option<Duration> {
        let warm = self.begun.is_some_and(|begun| self.at.saturating_sub(begun) >= WARM_UP);
        let seconds = rest as f64 / self.lasting.per_second();
        (warm && seconds >= 1.0 && seconds.is_finite())
            .then(|| Duration::from_secs_f64(seconds.min(1e9)))
    }
}

#[cfg(test)]
mod tests {
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
