//! Blocks: a fixed number of buffers for each worker, which return to their pool when they are dropped.
//!
//! Memory is therefore workers × blocks × block size, whatever the files are. A reader that is ahead of
//! the other stages waits until a block returns.

use std::cell::Cell;
use std::ops::Deref;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::event::timing::{StageTiming, Timer};

/// The blocks of one worker, each made when it is first needed: copying small files takes one.
pub struct BlockPool {
    size: usize,
    /// So many more may be made.
    unmade: Cell<usize>,
    free: Receiver<Vec<u8>>,
    give_back: Sender<Vec<u8>>,
}

/// A buffer out of a pool, with some of it filled.
pub struct Block {
    bytes: Vec<u8>,
    filled: usize,
    /// The way back to its pool, unless it was made for one content.
    give_back: Option<Sender<Vec<u8>>>,
}

/// Blocks that several outputs share: made when they are needed, and kept for reuse when they return.
/// The caller bounds how many are in use at a time.
pub struct SharedBlocks {
    size: usize,
    free: Receiver<Vec<u8>>,
    give_back: Sender<Vec<u8>>,
}

impl SharedBlocks {
    /// Blocks of `size` bytes, of which at most `count` are kept for reuse.
    pub fn new(count: usize, size: usize) -> Self {
        let (give_back, free) = bounded(count);
        Self { size, free, give_back }
    }

    /// An empty block with room for so many bytes, or for as many as blocks have.
    pub fn block(&self, bytes: u64) -> Block {
        match usize::try_from(bytes) {
            Ok(bytes) if bytes < self.size => {
                Block { bytes: vec![0; bytes], filled: 0, give_back: None }
            }
            _ => {
                let bytes = self.free.try_recv().unwrap_or_else(|_| vec![0; self.size]);
                Block { bytes, filled: 0, give_back: Some(self.give_back.clone()) }
            }
        }
    }
}

impl BlockPool {
    /// `count` blocks of `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        let (give_back, free) = bounded(count);
        Self { size, unmade: Cell::new(count), free, give_back }
    }

    /// An empty block, as soon as there is one; the time until then counts as `waited`.
    pub fn take(&self, timing: &StageTiming) -> Block {
        let bytes = self.free.try_recv().unwrap_or_else(|_| match self.unmade.get() {
            0 => {
                let _waiting = Timer::start(&timing.waited);
                // The pool holds a sender itself, so the channel cannot be disconnected.
                self.free.recv().unwrap_or_default()
            }
            unmade => {
                self.unmade.set(unmade - 1);
                vec![0; self.size]
            }
        });
        Block { bytes, filled: 0, give_back: Some(self.give_back.clone()) }
    }
}

impl Block {
    /// The part that is not filled yet.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// So many bytes of the [`room`](Self::room) were filled.
    pub fn fill(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.bytes.len());
    }

    /// Makes all of it room again.
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
        // The channel has room for every block of a pool, so this only fails when the pool is gone.
        if let Some(give_back) = &self.give_back {
            let _ = give_back.try_send(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_return_to_their_pool() {
        let (pool, timing) = (BlockPool::new(2, 8), StageTiming::default());
        for round in 0..10 {
            let (mut one, two) = (pool.take(&timing), pool.take(&timing));
            assert!(pool.free.is_empty() && pool.unmade.get() == 0, "two blocks are all");
            assert!(one.is_empty() && two.is_empty(), "round {round}: a block comes empty");
            one.room()[..3].copy_from_slice(b"abc");
            one.fill(3);
            assert_eq!(one[..], *b"abc");
            assert_eq!(one.room().len(), 5);
            drop(two);
            assert_eq!(pool.take(&timing).room().len(), 8);
        }
        drop(pool.take(&timing));
    }
}
