//! A file of the source that is read for several outputs: whoever wants the next piece first reads it.

use crate::error::Result;
use crate::io::block::Block;
use crate::io::watched_file::{PausedFile, WatchedFile};

/// The open file, between two who read on in it.
#[derive(Default)]
pub enum Source {
    /// Nobody has opened it yet.
    #[default]
    Closed,
    /// It was read up to here; bytes.
    Open(PausedFile, u64),
    /// Somebody is reading, or it is read to its end, or cannot be read.
    Gone,
}

impl Source {
    /// Fills `block`, which begins at `at`; whether that was possible. `open` opens the file, `on` goes
    /// on with an open one.
    pub fn fill<'a>(
        &mut self,
        block: &mut Block,
        at: u64,
        open: impl FnOnce() -> Result<WatchedFile<'a>>,
        on: impl FnOnce(PausedFile) -> WatchedFile<'a>,
    ) -> bool {
        // Whatever happens now, nobody goes on where this does not come to its end.
        let (file, position) = match std::mem::replace(self, Source::Gone) {
            Source::Closed => match open() {
                Ok(file) => (file, 0),
                Err(_) => return false,
            },
            Source::Open(file, position) => (on(file), position),
            Source::Gone => return false,
        };
        if position != at && file.seek(at).is_err() {
            return false;
        }
        if !fill(block, &file) {
            return false;
        }
        let end = at + block.len() as u64;
        match end >= file.before().size {
            true => file.close(),
            false => *self = Source::Open(file.pause(), end),
        }
        true
    }
}

/// Fills a block with what comes next; whether there was so much.
pub fn fill(block: &mut Block, file: &WatchedFile<'_>) -> bool {
    while !block.room().is_empty() {
        match file.read(block.room()) {
            Ok(0) | Err(_) => return false,
            Ok(read) => block.fill(read),
        }
    }
    true
}
