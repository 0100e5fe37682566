//! The amount of work of one call: enough that the call costs nothing beside the work, and little enough that progress
//! is counted and a request to stop is seen in time.

use std::time::Duration;

/// The first chunk has this size: on a device of 1 MiB/s it takes a second.
const FIRST: u64 = 1 << 20;

/// A chunk that took less than this is followed by one twice as large …
const QUICK: Duration = Duration::from_millis(50);

/// … and one that took more than this, by one half as large.
const SLOW: Duration = Duration::from_millis(250);

/// The size of the next chunk, in bytes, as the device turns out to need it.
#[derive(Debug)]
pub struct AdaptiveChunk {
    next: u64,
    most: u64,
}

impl AdaptiveChunk {
    /// Chunks of at most `most` bytes.
    pub fn up_to(most: u64) -> Self {
        Self { next: FIRST.min(most), most }
    }

    /// Number of bytes to move in the next call.
    pub fn size(&self) -> u64 {
        self.next
    }

    /// Takes in how long the last chunk took.
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
        let mut chunk = AdaptiveChunk::up_to(16 << 20);
        for expected in [1, 2, 4, 8, 16, 16] {
            assert_eq!(chunk.size(), expected << 20);
            chunk.took(Duration::from_millis(1));
        }
        chunk.took(Duration::from_millis(100));
        assert_eq!(chunk.size(), 16 << 20);
        for expected in [8, 4, 2, 1, 1] {
            chunk.took(Duration::from_secs(1));
            assert_eq!(chunk.size(), expected << 20);
        }
        assert_eq!(AdaptiveChunk::up_to(100).size(), 100);
    }
}
