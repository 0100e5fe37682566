//! How much to do in one call: enough that the call costs nothing beside the work, and little
//! enough that whoever counts progress or asks to stop is not kept waiting.

use std::time::Duration;

/// A first piece is this large: on a device of 1 MiB/s it takes a second.
const FIRST: u64 = 1 << 20;

/// A piece that took less than this is followed by one twice as large …
const QUICK: Duration = Duration::from_millis(50);

/// … and one that took more than this, by one half as large.
const SLOW: Duration = Duration::from_millis(250);

/// The size of the next piece, in bytes.
#[derive(Debug)]
pub struct Pace {
    next: u64,
    most: u64,
}

impl Pace {
    /// Pieces of at most `most` bytes.
    pub fn up_to(most: u64) -> Self {
        Self { next: FIRST.min(most), most }
    }

    /// How much to do now.
    pub fn piece(&self) -> u64 {
        self.next
    }

    /// The last piece took this long.
    pub fn took(&mut self, time: Duration) {
        if time < QUICK {
            self.next = (self.next * 2).min(self.most);
        } else if time > SLOW {
            self.next = (self.next / 2).max(FIRST.min(self.most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_device() {
        let mut pace = Pace::up_to(16 << 20);
        for expected in [1, 2, 4, 8, 16, 16] {
            assert_eq!(pace.piece(), expected << 20);
            pace.took(Duration::from_millis(1));
        }
        pace.took(Duration::from_millis(100));
        assert_eq!(pace.piece(), 16 << 20);
        for expected in [8, 4, 2, 1, 1] {
            pace.took(Duration::from_secs(1));
            assert_eq!(pace.piece(), expected << 20);
        }
        assert_eq!(Pace::up_to(100).piece(), 100);
    }
}
