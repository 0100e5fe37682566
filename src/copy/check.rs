//! Looking at a job before it is run.

use crate::copy::job::CopyJob;
use crate::copy::lock::Patience;
use crate::copy::prepare::prepare;
use crate::error::Result;
use crate::event::Stop;
use crate::lane::ways::Reflink;

impl CopyJob {
    /// Looks whether the job would be refused for what it asks, its source or its output, and makes
    /// nothing. Whether there is room is not looked at: that takes a walk.
    ///
    /// # Errors
    /// Why the job would be refused.
    pub fn check(&self) -> Result<()> {
        self.makes_sense()?;
        let stop = Stop::default();
        let patience = Patience { wait: false, watch: &(), stop: &stop };
        let must_clone = self.reflink == Reflink::Always;
        prepare(&self.source, &self.output, must_clone, true, patience).map(drop)
    }
}
