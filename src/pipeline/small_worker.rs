//! A worker for small files alone: one thread with one block, which a batch of them fits into.

use crossbeam_channel::Sender;

use crate::io::block::BlockPool;
use crate::io::read_back::ReadBack;
use crate::pipeline::queue::Tasks;
use crate::transfer::context::Context;
use crate::transfer::outcome::CommitterMessage;
use crate::transfer::small::path::copy_files;

/// A worker for small files.
pub struct SmallWorker<'a> {
    /// What the run shares.
    pub context: &'a Context<'a>,
    pub pool: BlockPool,
    /// For files that are there already.
    pub read_back: ReadBack,
    /// Where work comes from.
    pub tasks: Tasks,
    pub results: Sender<CommitterMessage>,
}

impl SmallWorker<'_> {
    /// Works until there is no more to do, or the committer is gone.
    pub fn work(mut self) {
        while let Some(run) = self.tasks.next() {
            let mut scratch = self.pool.take(&self.context.control.timings.read);
            let results = copy_files(self.context, run, &mut scratch, &mut self.read_back);
            if self.results.send(CommitterMessage::Results(results)).is_err() {
                return;
            }
        }
    }
}
