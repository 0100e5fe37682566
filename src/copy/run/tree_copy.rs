//! The copy to one output, as a run that does more than that has it done.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::copy::before::prepare::Prepared;
use crate::copy::before::tree_copy::TreeCopy;
use crate::copy::job::CopyJob;
use crate::copy::report::Report;
use crate::copy::run::output_run::OutputRun;
use crate::error::{Error, Result};
use crate::tree::found::WalkEvent;
use crate::tree::lock::Patience;

impl TreeCopy for OutputRun<'_> {
    fn copy_tree(&self, job: &CopyJob) -> Result<Report> {
        OutputRun { job, ..*self }.copy_or_tell()
    }

    fn look_for_space(&self, job: &CopyJob, patience: Patience<'_>) -> Result<Option<Error>> {
        OutputRun { job, ..*self }.check_space(patience)
    }

    fn walk_source(
        &self,
        job: &CopyJob,
        prepared: &Prepared,
        emit: &mut dyn FnMut(WalkEvent) -> ControlFlow<()>,
    ) {
        let run = OutputRun { job, ..*self };
        let (source, output) = (Arc::clone(&prepared.source), Arc::clone(&prepared.output));
        // That it ends early is no more than it was asked for.
        let _ = run.walk(prepared, true, None).run(source, output, emit);
    }
}
