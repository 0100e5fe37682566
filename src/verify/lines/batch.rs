//! Lines go to the workers in batches: a message for each small file would cost as much as checking it.

use std::convert::Infallible;
use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::verify::lines::manifest_lines::ManifestLine;
use crate::verify::target::Target;

/// Lines of a batch.
const LINES: usize = 64;

/// Bytes of names of a batch. Names as long as a line may be must not fill the memory.
const BYTES: usize = 64 << 10;

/// Nothing is ever sent: the thread that waits hears when the last clone is dropped.
pub type PassGuard = Sender<Infallible>;

/// Lines for a worker.
#[derive(Debug)]
pub struct LineBatch {
    /// The manifest they are lines of.
    pub target: Arc<Target>,
    /// In a scrub: dropped when the last file of the batch was begun, or is skipped.
    pub pass: Option<PassGuard>,
    pub lines: std::vec::IntoIter<ManifestLine>,
}

/// Lines on their way to be a batch.
#[derive(Debug, Default)]
pub struct FillingBatch {
    lines: Vec<ManifestLine>,
    bytes: usize,
}

impl FillingBatch {
    pub fn push(&mut self, line: ManifestLine) {
        self.bytes += line.path.as_bytes().len();
        self.lines.push(line);
    }

    /// Whether it is large enough to be given out.
    pub fn is_full(&self) -> bool {
        self.lines.len() >= LINES || self.bytes >= BYTES
    }

    /// The lines; none are left.
    pub fn take(&mut self) -> Vec<ManifestLine> {
        self.bytes = 0;
        std::mem::replace(&mut self.lines, Vec::with_capacity(LINES))
    }
}
