//! The copy of a tree, as a run that does more than that has it done.

use std::ops::ControlFlow;

use crate::copy::before::prepare::Prepared;
use crate::copy::job::CopyJob;
use crate::copy::report::Report;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::tree::found::WalkEvent;
use crate::tree::lock::Patience;

/// What a run that does more than copying a tree has done by one that copies.
pub trait TreeCopy {
    /// Copies the tree of this job, or in a dry run tells what would be copied.
    ///
    /// # Errors
    /// It was refused.
    fn copy_tree(&self, job: &CopyJob) -> Result<Report>;

    /// Refuses a job for which the output has no space; returns what is to be told of files that are too large.
    ///
    /// # Errors
    /// There is not enough.
    fn look_for_space(&self, job: &CopyJob, patience: Patience<'_>) -> Result<Option<Error>>;

    /// Walks the source of a job that was prepared as a dry run.
    fn walk_source(
        &self,
        job: &CopyJob,
        prepared: &Prepared,
        emit: &mut dyn FnMut(WalkEvent) -> ControlFlow<()>,
    );
}

/// Whether a walk goes on.
pub fn go_on_unless(stop: &Stop) -> ControlFlow<()> {
    if stop.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
