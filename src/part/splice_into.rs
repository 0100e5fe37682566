//! A part file that takes its content by what moves it, rather than from memory.

use crate::error::Result;
use crate::io::watched_file::Reading;
use crate::part::part_file::Part;
use crate::sys::{KernelCopy, Mover};

impl Part {
    /// Lets `mover` append what `source` has from `at` on, at most `most` bytes; 0 at the end.
    /// `None` when it has to be read and written.
    pub fn take(
        &mut self,
        mover: &mut Mover,
        source: &Reading<'_>,
        at: u64,
        most: u64,
    ) -> Result<Option<u64>> {
        if mover.way() == KernelCopy::None {
            return Ok(None);
        }
        let most = most.min(source.before_move(at));
        self.take_by(most, |part, most| {
            let moved = mover.go_on(source.file(), part.file()?, most);
            moved.map_err(|error| part.or_source_error("copy", source, error))
        })
    }

    /// Lets `moving` append at most as many bytes as it is told, by a way of its own; `None` when
    /// that did nothing.
    pub fn take_by(
        &mut self,
        most: u64,
        moving: impl FnOnce(&Self, u64) -> Result<Option<u64>>,
    ) -> Result<Option<u64>> {
        let moved = moving(self, most.min(self.before_move()))?;
        if let Some(bytes) = moved {
            self.moved(bytes)?;
        }
        Ok(moved)
    }
}
