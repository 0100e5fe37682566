//! Work for the lanes: every lane takes small files, and large ones only those that have three threads.

use crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::tree::node::Run;

/// Where work comes from.
pub struct Feed {
    /// Without lanes for small files alone, everything goes one way, in its order.
    large: Option<Sender<Run>>,
    all: Sender<Run>,
    block_size: u64,
}

/// Where a lane takes work.
#[derive(Clone)]
pub struct Tasks {
    large: Option<Receiver<Run>>,
    all: Receiver<Run>,
}

/// Both ends, for `lanes` that take everything and `small` that take files of at most `block_size` bytes.
pub fn tasks(lanes: usize, small: usize, block_size: usize) -> (Feed, Tasks) {
    let (all, from_all) = bounded(2 * lanes + small);
    let (large, from_large) = (small > 0).then(|| bounded(2 * lanes)).unzip();
    let block_size = block_size as u64;
    (Feed { large, all, block_size }, Tasks { large: from_large, all: from_all })
}

impl Feed {
    /// Waits until there is room for it; false if the lanes are gone.
    pub fn send(&self, run: Run) -> bool {
        let is_large = self.is_large(&run);
        let way = self.large.as_ref().filter(|_| is_large).unwrap_or(&self.all);
        way.send(run).is_ok()
    }

    /// Whether it is for lanes that take everything: the walk makes a large file a run of its own.
    pub fn is_large(&self, run: &Run) -> bool {
        run.files.last().is_some_and(|file| file.stat.size > self.block_size)
    }
}

impl Tasks {
    /// For a lane that takes small files alone.
    pub fn small(&self) -> Self {
        Self { large: None, all: self.all.clone() }
    }

    /// What to do next, as soon as there is something; `None` at the end.
    pub fn next(&self) -> Option<Run> {
        let Some(large) = &self.large else { return self.all.recv().ok() };
        // When one has come to its end, there may still be something in the other.
        select! {
            recv(large) -> run => run.or_else(|_| self.all.recv()).ok(),
            recv(self.all) -> run => run.or_else(|_| large.recv()).ok(),
        }
    }
}
