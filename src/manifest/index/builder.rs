//! An index being made, line by line, by a reader that knows which lines count.

use std::io;

use super::own;
use super::slot::{Hashing, IndexSlot};

/// The lines so far.
#[derive(Debug)]
pub struct IndexBuilder {
    pub(super) hashing: Hashing,
    pub(super) slots: Vec<IndexSlot>,
    most: usize,
}

impl IndexBuilder {
    /// There will be so many lines at most.
    ///
    /// # Errors
    /// [`OutOfMemory`](io::ErrorKind::OutOfMemory): then the file is as good as none, and the run goes on.
    pub fn with_room(most: usize) -> io::Result<Self> {
        Self::hashed(Hashing::new(IndexSlot::HASH_MASK), most)
    }

    pub(super) fn hashed(hashing: Hashing, most: usize) -> io::Result<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(most).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { hashing, slots, most })
    }

    /// Adds the line at `offset`, which is of `name`; whether there was room.
    pub fn add(&mut self, name: &[u8], offset: u64) -> bool {
        let has_room = self.slots.len() < self.most;
        if has_room {
            self.slots.push(IndexSlot::new(self.hashing.hash(name), offset));
        }
        has_room
    }

    /// Adds the line of a manifest that dircopy wrote; whether it is one, and there was room. What it says is
    /// looked at when it is asked for.
    pub fn add_line(&mut self, line: &[u8], offset: u64) -> bool {
        match own::plain_name(line) {
            Some(name) => self.add(name, offset),
            None => own::with_record(line, |record| self.add(record.name, offset)).unwrap_or(false),
        }
    }

    /// Forgets the lines behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.slots.truncate(len);
    }
}
