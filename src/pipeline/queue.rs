//! Work for the workers: those that have three threads take large files and, unless these are left to workers for
//! small files alone, small ones too.

use crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::tree::found::Batch;

/// Where work comes from.
pub struct Feed {
    /// Without workers for small files alone, everything goes one way, in its order.
    large: Option<Sender<Batch>>,
    all: Sender<Batch>,
    block_size: u64,
}

/// Where a worker takes work.
#[derive(Clone)]
pub struct Tasks {
    large: Option<Receiver<Batch>>,
    all: Option<Receiver<Batch>>,
}

/// Both ends, with room for so many batches that are `waiting` for workers that take everything, and for `small`
/// workers that take files of at most `block_size` bytes.
pub fn tasks(waiting: usize, small: usize, block_size: usize) -> (Feed, Tasks) {
    let (all, from_all) = bounded(waiting + small);
    let (large, from_large) = (small > 0).then(|| bounded(waiting)).unzip();
    let block_size = block_size as u64;
    (Feed { large, all, block_size }, Tasks { large: from_large, all: Some(from_all) })
}

impl Feed {
    /// Waits until there is room for it; false if the workers are gone.
    pub fn send(&self, run: Batch) -> bool {
        let is_large = self.is_large(&run);
        let way = self.large.as_ref().filter(|_| is_large).unwrap_or(&self.all);
        way.send(run).is_ok()
    }

    /// Whether it is for workers that take large files: the walk makes a large file a batch of its own.
    pub fn is_large(&self, run: &Batch) -> bool {
        run.files.last().is_some_and(|file| file.stat.size > self.block_size)
    }
}

impl Tasks {
    /// For a worker that takes small files alone.
    pub fn small(&self) -> Self {
        Self { large: None, all: self.all.clone() }
    }

    /// For a worker that leaves small files to those that take them alone, of which there is one at least.
    pub fn large(&self) -> Self {
        Self { large: self.large.clone(), all: None }
    }

    /// What to do next, as soon as there is something; `None` at the end.
    pub fn next(&self) -> Option<Batch> {
        match (&self.large, &self.all) {
            // When one has come to its end, there may still be something in the other.
            (Some(large), Some(all)) => select! {
                recv(large) -> run => run.or_else(|_| all.recv()).ok(),
                recv(all) -> run => run.or_else(|_| large.recv()).ok(),
            },
            (Some(only), None) | (None, Some(only)) => only.recv().ok(),
            (None, None) => None,
        }
    }
}
