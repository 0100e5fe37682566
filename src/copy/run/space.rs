//! When a run looks whether its output has space: before anything else, or, where earlier runs were, before the first
//! thing that it makes.

use std::sync::{Mutex, PoisonError};

use crate::copy::before::reservation::Reservations;
use crate::copy::before::space::{SpaceAnswer, SpaceCheck};
use crate::copy::job::CopyJob;
use crate::error::{Error, Result};
use crate::event::{Progress, Stop};
use crate::io::options::{Reflink, Sparse};
use crate::state::knowledge::Knowledge;
use crate::sys::{Cloned, Dir};
use crate::transfer::renamed::tree::RenamedFiles;
use crate::tree::lock::Patience;

/// A look at the space of an output.
pub struct SpaceLook<'a> {
    pub job: &'a CopyJob,
    /// The space that outputs of the run reserve.
    pub reservations: &'a Reservations,
    /// Has its final totals afterwards, if a walk is made.
    pub progress: &'a Progress,
    /// How many outputs the run has.
    pub outputs: usize,
}

impl SpaceLook<'_> {
    /// Looks before the run, if it is to look. Several outputs, which reserve what they need of one device, are looked
    /// at then, and so is one that no run was at: there all is to be made.
    ///
    /// # Errors
    /// There is no space.
    pub fn before(&self, patience: Patience<'_>) -> Result<SpaceAnswer> {
        let job = self.job;
        if !job.check_space {
            return Ok(SpaceAnswer::Fits { too_large: None });
        }
        let may_wait = self.outputs == 1 && !job.dry_run && job.shard.is_none();
        self.run(patience, may_wait, RecordedFiles::default())
    }

    /// Looks; if it `may_wait`, and anything was made at the output before, perhaps later.
    ///
    /// # Errors
    /// There is no space.
    pub fn run(
        &self,
        patience: Patience<'_>,
        may_wait: bool,
        recorded: RecordedFiles<'_>,
    ) -> Result<SpaceAnswer> {
        let Self { job, reservations, progress, outputs } = *self;
        let dry = job.prepare(true, patience)?;
        // Clones take next to no space.
        if job.reflink != Reflink::Never && job.sparse == Sparse::Auto && dry.may_share {
            return Ok(SpaceAnswer::Fits { too_large: None });
        }
        let check = SpaceCheck {
            walk: &job.walk(&dry, true, None, outputs),
            stat_workers: &|dry| job.workers_for(dry, false, outputs).stat_workers(),
            max_size: job.max_size,
            policy: job.policy,
            may_wait: may_wait && job.has_private_dir(&dry),
            snapshot: recorded.known.filter(|_| job.prunes),
            renamed: recorded.renamed.filter(|renamed| {
                let can_clone = || dry.output.handle.as_ref().and_then(Dir::try_clone_within);
                renamed.links.is_it() || matches!(can_clone(), Some(Cloned::Yes))
            }),
            reservations,
            progress,
            stop: patience.stop,
        };
        check.run(dry)
    }
}

/// What earlier runs recorded, as far as the look asks for it.
#[derive(Clone, Copy, Default)]
pub struct RecordedFiles<'a> {
    /// What has another name now, and takes no space where data can be shared.
    pub renamed: Option<&'a RenamedFiles<'a>>,
    /// What is at the output.
    pub known: Option<&'a Knowledge>,
}

/// A look that comes when the run is about to make the first thing, and ends it if there is no space.
pub struct LateLook<'a> {
    look: SpaceLook<'a>,
    stop: &'a Stop,
    refusal: Mutex<Option<Error>>,
}

impl<'a> LateLook<'a> {
    /// One that asks `stop` to end the run.
    pub fn new(look: SpaceLook<'a>, stop: &'a Stop) -> Self {
        Self { look, stop, refusal: Mutex::new(None) }
    }

    /// Whether there is space, given what is recorded.
    pub fn lets_pass(&self, recorded: RecordedFiles<'_>) -> bool {
        let patience = Patience { wait: false, deed: "copy to", tell: &|_| (), stop: self.stop };
        let Err(refusal) = self.look.run(patience, false, recorded) else { return true };
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
        self.stop.request(Stop::GIVEN_UP);
        false
    }

    /// Why there is none.
    pub fn refusal(self) -> Option<Error> {
        self.refusal.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
