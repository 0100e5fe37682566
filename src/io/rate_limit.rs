//! How fast the source may be read: one account of time for all workers.
//!
//! Every byte read moves the time up to which the account is paid. A worker that is ahead of that time
//! by more than [`PORTION`] waits. Unused time is kept for [`KEPT`] only, so that no rush follows a pause.

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

/// A waiting thread checks this often whether the run is to stop.
const NAP: Duration = Duration::from_millis(20);

/// A rate that all workers of a run keep together.
#[derive(Debug)]
pub struct RateLimit {
    /// Bytes in a second; at least 1.
    bytes: u64,
    /// Up to when everything that was read is paid for.
    paid: Mutex<Instant>,
}

impl RateLimit {
    /// At most so many bytes in a second; 0 counts as 1.
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

    /// Adds bytes to the account; returns the time at which they are paid for.
    fn book(&self, read: usize, now: Instant) -> Instant {
        let cost = Duration::from_secs_f64(read as f64 / self.bytes as f64);
        // The mutex holds one value, so a panic elsewhere leaves nothing half done.
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
        let rate = RateLimit::new(1_000_000);
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
        let rate = RateLimit::new(1000);
        let later = Instant::now() + Duration::from_secs(100);
        assert_eq!(rate.book(1000, later), later - KEPT + Duration::from_secs(1));
    }

    #[test]
    fn a_run_that_is_to_stop_does_not_wait() {
        let (rate, stop) = (RateLimit::new(1), Stop::default());
        stop.request(1);
        rate.pace(1_000_000, &stop);
        assert!(
            RateLimit::new(1).portion() == 4096 && RateLimit::new(u64::MAX).portion() > 1 << 40
        );
    }
}
