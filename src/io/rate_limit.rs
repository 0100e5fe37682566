//! How fast the source may be read: one account of time for all lanes.
//!
//! Every byte that is read moves the time on to which the account is paid up; who is ahead of it by
//! more than a little waits. Time that nobody used is kept for a little while only, so that a pause is
//! not followed by a rush.

use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::event::Stop;

/// Unused time that is kept. Long enough that a machine whose threads wake late loses nothing, short
/// enough that ten seconds are right to two in a hundred.
const KEPT: Duration = Duration::from_millis(200);

/// Reads are cut so that each takes about this long: smooth to watch.
const PORTION: Duration = Duration::from_millis(50);

/// The smallest portion, in bytes: with smaller ones the calls would be what takes the time.
const LEAST_PORTION: u64 = 4096;

/// Who waits looks up this often whether the run is to stop.
const NAP: Duration = Duration::from_millis(20);

/// A rate that lanes share.
#[derive(Debug)]
pub struct Rate {
    /// Bytes in a second; at least 1.
    bytes: u64,
    /// Up to when everything that was read is paid for.
    paid: Mutex<Instant>,
}

impl Rate {
    /// So many bytes in a second; 0 counts as 1.
    pub fn new(bytes: u64) -> Self {
        Self { bytes: bytes.max(1), paid: Mutex::new(Instant::now()) }
    }

    /// How many bytes to read at a time.
    pub fn portion(&self) -> usize {
        let bytes = self.bytes / (1000 / PORTION.as_millis() as u64);
        usize::try_from(bytes.max(LEAST_PORTION)).unwrap_or(usize::MAX)
    }

    /// Waits until `read` bytes more are due, or the run is to stop at once.
    pub fn pace(&self, read: usize, stop: &Stop) {
        let until = self.book(read, Instant::now());
        while !stop.is_urgent() {
            match until.checked_duration_since(Instant::now()) {
                None | Some(Duration::ZERO) => return,
                Some(rest) => sleep(rest.min(NAP)),
            }
        }
    }

    /// Adds bytes to the account; returns the time they are paid for at.
    fn book(&self, read: usize, now: Instant) -> Instant {
        let cost = Duration::from_secs_f64(read as f64 / self.bytes as f64);
        // What is held is one value, so a panic elsewhere leaves nothing half done.
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = now.checked_sub(KEPT).unwrap_or(now);
        *paid = (*paid).max(kept) + cost;
        *paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_hold_what_ten_seconds_may() {
        let rate = Rate::new(1_000_000);
        let start = Instant::now();
        let (mut now, mut bytes) = (start, 0u64);
        while now - start < Duration::from_secs(10) {
            bytes += 50_000;
            // Threads wake up to 30 ms late.
            now = rate.book(50_000, now).max(now) + Duration::from_millis(bytes % 30);
        }
        assert!((9_500_000..=10_500_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_pause_gains_little() {
        let rate = Rate::new(1000);
        let later = Instant::now() + Duration::from_secs(100);
        assert_eq!(rate.book(1000, later), later - KEPT + Duration::from_secs(1));
    }

    #[test]
    fn who_is_to_stop_does_not_wait() {
        let (rate, stop) = (Rate::new(1), Stop::default());
        stop.request(1);
        rate.pace(1_000_000, &stop);
        assert!(Rate::new(1).portion() == 4096 && Rate::new(u64::MAX).portion() > 1 << 40);
    }
}
