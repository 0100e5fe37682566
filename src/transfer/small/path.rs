//! A batch of small files, copied by one thread: one file after the other, or several read side by side
//! and hashed together. Files without a digest go this way too, whatever their size: the kernel moves
//! their bytes.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::event::timing::Timings;
use crate::io::block::Block;
use crate::io::read_back::ReadBack;
use crate::manifest::index::NextLine;
use crate::part::transfer::Transfer;
use crate::sys::stat::Stat;
use crate::transfer::context::Context;
use crate::transfer::outcome::{Action, Outcome, TransferResult};
use crate::transfer::prepare::prepare;
use crate::transfer::retry;
use crate::transfer::small::batch::{Admission, SmallBatch};
use crate::transfer::small::file::SmallFile;
use crate::transfer::small::seen::look_at_all;
use crate::tree::found::Batch;

/// Copies files through the block `scratch`; `read_back` is for those that are there already.
pub fn copy_files(
    context: &Context<'_>,
    run: Batch,
    scratch: &mut Block,
    read_back: &mut ReadBack,
) -> Vec<TransferResult> {
    let _in_hand = run.files.first().and_then(|first| {
        let path = |path: &mut Vec<u8>| run.source.rel.join_into(&first.name, path);
        context.control.progress.take_in_hand(0, path)
    });
    let seen = look_at_all(context, &run);
    let Batch { source, output, files } = run;
    let timings = Timings::default();
    let results = Vec::with_capacity(files.len());
    let batch = SmallBatch::new(context, &timings);
    let mut path = SmallPath {
        context,
        timings: &timings,
        batch,
        next: NextLine::default(),
        scratch,
        results,
    };
    for (entry, seen) in files.into_iter().zip(seen) {
        let transfer = Transfer::new(Arc::clone(&source), Arc::clone(&output), entry);
        path.take(transfer, seen, read_back);
    }
    path.complete_batch();
    let results = path.results;
    context.control.timings.add(&timings);
    results
}

/// What the files of a batch share.
struct SmallPath<'a> {
    context: &'a Context<'a>,
    timings: &'a Timings,
    /// Those that wait to be hashed together; their contents are in `scratch`.
    batch: SmallBatch<'a>,
    /// Where in the record the next file is expected.
    next: NextLine,
    scratch: &'a mut Block,
    /// What became of each so far, in their order.
    results: Vec<TransferResult>,
}

impl SmallPath<'_> {
    /// Settles the next file, of which this was `seen` at the output, or lets it wait in the batch.
    fn take(&mut self, mut transfer: Transfer, seen: Option<Stat>, read_back: &mut ReadBack) {
        let mut warnings = Vec::new();
        let action = match self.context.control.stop.is_requested() {
            true => Action::Settled(Outcome::Abandoned),
            false => {
                prepare(self.context, &transfer, seen, &mut self.next, read_back, &mut warnings)
            }
        };
        let outcome = match action {
            Action::Settled(outcome) => outcome,
            Action::Copy { replaces, warning } => {
                transfer.target.replaces = replaces;
                warnings.extend(warning);
                self.copy(&mut transfer, &mut warnings).unwrap_or_else(Outcome::Failed)
            }
        };
        self.results.push(TransferResult { transfer, outcome, warnings, resumed: 0 });
        if self.batch.is_full() {
            self.complete_batch();
        }
    }

    fn copy(&mut self, transfer: &mut Transfer, warnings: &mut Vec<Error>) -> Result<Outcome> {
        if !self.batch.has_room(transfer, self.scratch) {
            self.complete_batch();
        }
        match self.batch.take(transfer, self.results.len(), self.scratch, warnings)? {
            // Which is what becomes of it unless it is written.
            Admission::Waits => Ok(Outcome::Abandoned),
            Admission::Alone => {
                // The block is needed.
                self.complete_batch();
                self.copy_alone(transfer, warnings)
            }
            Admission::Changed(first) => {
                self.complete_batch();
                self.copy_again(transfer, warnings, first)
            }
        }
    }

    /// Writes the files that wait.
    fn complete_batch(&mut self) {
        self.batch.complete(&mut self.results, self.scratch);
    }

    /// Copies a file, and once more if it changed while it was read.
    fn copy_alone(
        &mut self,
        transfer: &mut Transfer,
        warnings: &mut Vec<Error>,
    ) -> Result<Outcome> {
        match self.small_file(transfer, true).copy(self.scratch, warnings) {
            Ok(outcome) => Ok(outcome),
            Err(failure) if failure.is_changed => {
                self.copy_again(transfer, warnings, failure.error)
            }
            Err(failure) => Err(failure.error),
        }
    }

    /// Copies a file once more that changed while it was read, as `first` says; then `transfer` has what it
    /// was the second time.
    fn copy_again(
        &mut self,
        transfer: &mut Transfer,
        warnings: &mut Vec<Error>,
        first: Error,
    ) -> Result<Outcome> {
        match retry::look_again(self.context, transfer) {
            Some(now) => transfer.target.entry.stat = now,
            None => return Err(first),
        }
        let copied = self.small_file(transfer, false).copy(self.scratch, warnings);
        let outcome = copied.map_err(|failure| failure.error)?;
        // A shard tells of all together that they are not what was planned.
        if self.context.shared.changed.is_none() {
            warnings.push(retry::warning(first));
        }
        Ok(outcome)
    }

    fn small_file<'f>(&self, transfer: &'f Transfer, is_shared: bool) -> SmallFile<'f>
    where
        Self: 'f,
    {
        let Self { context, timings, .. } = *self;
        SmallFile { context, timings, transfer, is_shared }
    }
}
