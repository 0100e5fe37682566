//! Blocks: a fixed number of buffers a lane, which go home when they are dropped.
//!
//! Memory is therefore lanes × blocks × block size, whatever the files are, and a reader that is
//! ahead waits for a block to come home.

use std::cell::Cell;
use std::ops::Deref;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::io::timing::{Clock, Timer};

/// The blocks of a lane, each made when it is first wanted: one that copies small files needs one of them.
pub struct Pool {
    size: usize,
    /// So many more may be made.
    unmade: Cell<usize>,
    at_home: Receiver<Vec<u8>>,
    home: Sender<Vec<u8>>,
}

/// A buffer out of a pool, with some of it filled.
pub struct Block {
    bytes: Vec<u8>,
    filled: usize,
    /// Where it came from, unless it was made for its content.
    home: Option<Sender<Vec<u8>>>,
}

/// Blocks that outputs share: made when they are wanted, and kept for the next when they come home.
/// How many there are at a time is for others to bound.
pub struct Store {
    size: usize,
    at_home: Receiver<Vec<u8>>,
    home: Sender<Vec<u8>>,
}

impl Store {
    /// A store of blocks of `size` bytes that keeps `count` of them.
    pub fn new(count: usize, size: usize) -> Self {
        let (home, at_home) = bounded(count);
        Self { size, at_home, home }
    }

    /// An empty block with room for so many bytes, or for as many as blocks have.
    pub fn block(&self, bytes: u64) -> Block {
        match usize::try_from(bytes) {
            Ok(bytes) if bytes < self.size => {
                Block { bytes: vec![0; bytes], filled: 0, home: None }
            }
            _ => {
                let bytes = self.at_home.try_recv().unwrap_or_else(|_| vec![0; self.size]);
                Block { bytes, filled: 0, home: Some(self.home.clone()) }
            }
        }
    }
}

impl Pool {
    /// `count` blocks of `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        let (home, at_home) = bounded(count);
        Self { size, unmade: Cell::new(count), at_home, home }
    }

    /// An empty block, as soon as there is one; the time until then is the clock's `waited`.
    pub fn take(&self, clock: &Clock) -> Block {
        let bytes = self.at_home.try_recv().unwrap_or_else(|_| match self.unmade.get() {
            0 => {
                let _waiting = Timer::start(&clock.waited);
                // The pool holds a sender itself, so the channel cannot be disconnected.
                self.at_home.recv().unwrap_or_default()
            }
            unmade => {
                self.unmade.set(unmade - 1);
                vec![0; self.size]
            }
        });
        Block { bytes, filled: 0, home: Some(self.home.clone()) }
    }
}

impl Block {
    /// The room that is left behind what is filled.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// So many bytes of the room were filled.
    pub fn fill(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.bytes.len());
    }

    /// Forgets what was filled.
    pub fn clear(&mut self) {
        self.filled = 0;
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // There is room for every block of a pool, so this only fails when the pool is gone.
        if let Some(home) = &self.home {
            let _ = home.try_send(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_home() {
        let (pool, clock) = (Pool::new(2, 8), Clock::default());
        for round in 0..10 {
            let (mut one, two) = (pool.take(&clock), pool.take(&clock));
            assert!(pool.at_home.is_empty() && pool.unmade.get() == 0, "two blocks are all");
            assert!(one.is_empty() && two.is_empty(), "round {round}: a block comes empty");
            one.room()[..3].copy_from_slice(b"abc");
            one.fill(3);
            assert_eq!(one[..], *b"abc");
            assert_eq!(one.room().len(), 5);
            drop(two);
            assert_eq!(pool.take(&clock).room().len(), 8);
        }
        drop(pool.take(&clock));
    }
}
