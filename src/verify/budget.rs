//! The budget of one scrub: a time, a number of bytes, or both, and what it leaves out.
//!
//! Files that were bad before come first, in half of the budget at most. Otherwise a bad file that is
//! larger than the budget, or takes longer, would keep all others from ever being read.

use std::{time::Duration, time::Instant};

/// Limits for one scrub: time and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// After this time no more files are begun.
    pub time: Option<Duration>,
    /// Nor if they would be more than so many bytes together; one file is always read.
    pub bytes: Option<u64>,
    /// Time after the end of the budget when the files in hand are given up, too; without it they are read to their
    /// ends.
    pub grace: Option<Duration>,
    /// Files that were found good at this time or later are left out, in seconds since 1970.
    pub not_since: Option<u32>,
}

/// The rest of a budget for the files that are read now.
#[derive(Debug)]
pub struct Allowance {
    budget: Budget,
    started: Instant,
    ends: Option<Instant>,
    /// Bytes that may be read.
    most: u64,
    read: u64,
    spent: bool,
    /// True for the share of files that were bad before.
    of_bad: bool,
    /// True if these files have at least half of the time from when the first of them can be begun: a single worker may
    /// still have a bad one in hand.
    half_is_due: bool,
}

impl Allowance {
    /// All of a budget, of which the time begins now.
    pub fn new(budget: Budget) -> Self {
        let started = Instant::now();
        Self {
            budget,
            started,
            ends: budget.time.and_then(|time| started.checked_add(time)),
            most: budget.bytes.unwrap_or(u64::MAX),
            read: 0,
            spent: false,
            of_bad: false,
            half_is_due: false,
        }
    }

    /// Files that were bad before are read from now on, in half of the budget.
    pub fn begin_bad(&mut self) {
        let half = self.budget.time.map(|time| time / 2);
        self.ends = half.and_then(|half| self.started.checked_add(half));
        self.most = self.budget.bytes.unwrap_or(u64::MAX) / 2;
        (self.read, self.spent, self.of_bad) = (0, false, true);
    }

    /// Other files are read from now on, in at least half of the budget.
    pub fn begin_others(&mut self) {
        if !self.of_bad {
            return;
        }
        self.ends = self.budget.time.and_then(|time| self.started.checked_add(time));
        self.half_is_due = true;
        let most = self.budget.bytes.unwrap_or(u64::MAX);
        self.most = most - self.read.min(most / 2);
        (self.read, self.spent, self.of_bad) = (0, false, false);
    }

    /// When a file that is begun now is given up, if it is not read by then.
    pub fn gives_up_at(&self) -> Option<Instant> {
        self.ends?.checked_add(self.budget.grace?)
    }

    /// True if no more files may be begun.
    pub fn is_spent(&mut self) -> bool {
        // The first of these was not asked for yet.
        if self.half_is_due {
            return false;
        }
        self.spent |= self.ends.is_some_and(|ends| Instant::now() >= ends);
        self.spent
    }

    /// True if a worker that is free may begin a file.
    pub fn may_begin(&mut self) -> bool {
        if std::mem::take(&mut self.half_is_due) {
            let half = self.budget.time.and_then(|time| Instant::now().checked_add(time / 2));
            self.ends = self.ends.max(half);
        }
        !self.is_spent()
    }

    /// True if a file of so many bytes may be begun. If not, the allowance is spent: the next file is the next in the
    /// order, not a smaller one.
    pub fn takes(&mut self, size: u64) -> bool {
        let read = self.read.saturating_add(size);
        let fits = self.read == 0 || read <= self.most;
        match fits {
            true => self.read = read,
            false => self.spent = true,
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_hand_has_the_time_and_the_grace() {
        let second = Duration::from_secs(1);
        let budget = Budget { time: Some(second), grace: Some(4 * second), ..Budget::default() };
        let mut left = Allowance::new(budget);
        assert_eq!(left.gives_up_at(), Some(left.started + 5 * second));
        left.begin_bad();
        assert_eq!(left.gives_up_at(), Some(left.started + 9 * second / 2));
        for budget in [Budget { grace: None, ..budget }, Budget { time: None, ..budget }] {
            assert_eq!(Allowance::new(budget).gives_up_at(), None);
        }
    }

    /// A bad file, however large it is and however long it takes, leaves half to the others.
    #[test]
    fn bad_files_get_half_of_a_budget() {
        let hour = Duration::from_secs(3600);
        let mut left =
            Allowance::new(Budget { time: Some(hour), bytes: Some(100), ..Budget::default() });
        let started = left.started;
        left.begin_bad();
        assert!(left.ends == Some(started + hour / 2));
        assert!(left.takes(30) && left.takes(20) && !left.takes(1) && left.is_spent());
        left.begin_others();
        assert!(left.ends == Some(started + hour) && !left.is_spent());
        left.begin_others();
        assert!(left.takes(30) && left.takes(20) && !left.takes(1));
        // One that is too large, and took longer than a scrub may.
        left.begin_bad();
        assert!(left.takes(1000) && !left.takes(1));
        if let Some(earlier) = started.checked_sub(2 * hour) {
            left.started = earlier;
            assert!(left.ends < Some(Instant::now() + hour));
        }
        left.begin_others();
        assert!(left.may_begin() && left.ends.is_some_and(|ends| ends > Instant::now()));
        assert!(left.takes(50) && !left.takes(1));
    }
}
