//! A file that one output copies from what outputs share, chunk by chunk.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::fanout::chunk::Chunk;
use crate::fanout::hub::Hub;
use crate::fanout::origin::OwnOrigin;
use crate::fanout::output_set::OutputSet;
use crate::fanout::shared_file::{FileKey, NextChunk};

/// A file that an output copies from what outputs share. Dropped when its content is here, or comes from
/// elsewhere.
pub struct Subscription<'a> {
    hub: &'a Hub,
    /// The number of the output.
    number: usize,
    key: FileKey,
    size: u64,
}

impl<'a> Subscription<'a> {
    /// Of output `number` to a file of `size` bytes that the ledger knows it to want.
    pub fn new(hub: &'a Hub, number: usize, key: FileKey, size: u64) -> Self {
        Self { hub, number, key, size }
    }

    fn output(&self) -> OutputSet {
        1 << self.number
    }

    /// The next chunk, of at most `most` bytes, for an output that has the content up to `at`: from the
    /// hub, or read from the source for all. `None` if the output has to read the source by itself, for
    /// whatever reason: it was dropped, or the file could not be read, and it will meet that error itself.
    pub fn next(&self, own: &OwnOrigin<'_>, at: u64, most: u64) -> Option<Arc<Chunk>> {
        let (hub, key, output) = (self.hub, self.key, self.output());
        loop {
            let next = hub.ledger().next(key, output, at);
            let origin = match next {
                NextChunk::Elsewhere => return None,
                NextChunk::Unread(origin) => origin,
                NextChunk::Held(chunk) => {
                    hub.notify();
                    return Some(chunk);
                }
            };
            let Ok(mut origin) = origin.lock() else {
                // The thread that read it died.
                hub.ledger().stop_sharing(key);
                continue;
            };
            // Another output may have read it while this one waited for the origin.
            let next = hub.ledger().next(key, output, at);
            match next {
                NextChunk::Elsewhere => return None,
                NextChunk::Unread(_) if at >= self.size => return None,
                NextChunk::Unread(_) => {}
                NextChunk::Held(chunk) => return Some(chunk),
            }
            let mut block = hub.blocks.block(most.min(self.size - at));
            if !origin.fill(&mut block, at, own) {
                hub.ledger().stop_sharing(key);
                hub.notify();
                return None;
            }
            let chunk = Arc::new(Chunk::new(block));
            hub.make_room(chunk.len() as u64, own.control.stop).add(key, output, at, &chunk);
            return Some(chunk);
        }
    }

    /// Counts the file as one that the output reads from the source by itself from now on.
    pub fn count_alone(&self) {
        if let Some(output) = self.hub.outputs.get(self.number) {
            output.read_alone.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        self.hub.ledger().finish(self.key, self.output());
        self.hub.notify();
    }
}
