//! A part file that takes its content by what moves it, rather than from memory.

use crate::error::{Error, Result};
use crate::io::watched_file::WatchedFile;
use crate::part::part_file::Part;
use crate::path::Shown;
use crate::sys::{self, KernelCopy, Mover};

impl Part {
    /// Lets `mover` append what `source` has from `at` on, at most `most` bytes; 0 at the end.
    /// `None` when it has to be read and written.
    pub fn take(
        &mut self,
        mover: &mut Mover,
        source: &WatchedFile<'_>,
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

    /// An error of a call that concerns both files: of the output if the error says so, of the source
    /// otherwise.
    pub fn or_source_error(
        &self,
        deed: &'static str,
        source: &WatchedFile<'_>,
        error: std::io::Error,
    ) -> Error {
        if sys::is_disk_full(&error) || sys::is_output_gone(&error) {
            Error::io("write", self.path(), error)
        } else {
            let path = Shown::path(&self.path()).to_string();
            source.error(deed, error).with_note(format!("; it was on its way to {path}"))
        }
    }
}
