//! What a dry run makes of a file whose time does not tell whether it is the source's: as in a run its content decides,
//! and nothing is set.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::sync::Arc;

use crate::copy::job::CopyJob;
use crate::error::Result;
use crate::event::Stop;
use crate::hash::Algorithm;
use crate::manifest::index::NextLine;
use crate::state::belief::Belief;
use crate::state::knowledge::Knowledge;
use crate::state::private_dir::{Missing, PrivateDir};
use crate::sys::stat::Stat;
use crate::transfer::existing::both::BothFiles;
use crate::transfer::existing::late::LateCopy;
use crate::transfer::prepare::{belief, compare_times};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::overwrite::{self, Decision, DestinationStat, Policy, SourceStat};
use crate::volume::times::TimeMatch;

/// Compares files of both sides.
pub struct DryContent<'a> {
    job: &'a CopyJob,
    follow: bool,
    /// The roots of both sides.
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
    /// What earlier runs recorded, read when it is first asked for.
    known: OnceCell<Option<Knowledge>>,
    stop: &'a Stop,
}

impl<'a> DryContent<'a> {
    /// For a job that follows links or not, between these roots.
    pub fn new(
        job: &'a CopyJob,
        follow: bool,
        source: &Arc<SourceDir>,
        output: &Arc<OutputDir>,
        stop: &'a Stop,
    ) -> Self {
        let (source, output) = (Arc::clone(source), Arc::clone(output));
        Self { job, follow, source, output, known: OnceCell::new(), stop }
    }

    /// What becomes of a file, which is `there` at the output.
    ///
    /// # Errors
    /// Content decides, and one side cannot be read or changes meanwhile.
    pub fn decide(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        entry: &SourceEntry,
        there: &Stat,
    ) -> Result<Decision> {
        let (policy, algorithm, stat) =
            (self.job.policy, self.job.algorithm, SourceStat(&entry.stat));
        let decide_if = |same_time| {
            let destination = DestinationStat { stat: there, same_time };
            overwrite::decide(policy, stat, Some(destination))
        };
        let mut time = output.compare_times(entry.stat.mtime, there.mtime, None);
        let guessed = decide_if(time != TimeMatch::Other);
        let is_clear = match guessed {
            Decision::Keep => time == TimeMatch::Same,
            Decision::Leave(_) => algorithm == Algorithm::None || there.size != entry.stat.size,
            _ => true,
        };
        if is_clear {
            return Ok(guessed);
        }
        let belief = self.belief(output, entry, there);
        time = compare_times(algorithm, output, stat, there, belief);
        let decision = decide_if(time != TimeMatch::Other);
        let (is_late, otherwise) = match decision {
            Decision::Keep if time == TimeMatch::Unclear => (false, decide_if(false)),
            Decision::Leave(_) => match LateCopy::of(policy, output, &entry.stat, there, belief) {
                Some(late) => (late.is_late, decision),
                None => return Ok(decision),
            },
            _ => return Ok(decision),
        };
        let both = BothFiles { source, output, entry, there };
        let Some(both) = both.hash(algorithm, self.follow, self.stop)? else { return Ok(decision) };
        let is_recorded = match belief {
            Belief::Doubtful(remembered) => remembered.digests().any(|it| it == both.source),
            _ => false,
        };
        let is_damaged = (is_late || decision == Decision::Keep) && is_recorded;
        Ok(match both.source == both.copy {
            true => Decision::Keep,
            false if is_damaged && policy != Policy::Never => Decision::Replace,
            false => otherwise,
        })
    }

    /// What earlier runs found out about what is there.
    fn belief(&self, output: &OutputDir, entry: &SourceEntry, there: &Stat) -> Belief {
        let (path, stat) = (output.rel.join(&entry.name), SourceStat(&entry.stat));
        let known = self.known.get_or_init(|| self.load()).as_ref();
        known.map_or(Belief::Nothing, |known| {
            belief(known, output, path.as_bytes(), stat, there, &mut NextLine::default())
        })
    }

    /// What cannot be read of it says nothing.
    fn load(&self) -> Option<Knowledge> {
        let (root, path) = (self.output.handle.as_ref()?, &self.job.output);
        let elsewhere = self.job.state.as_deref();
        let private = PrivateDir::open(root, path, elsewhere, Missing::Leave).ok().flatten();
        let is_in_source = |name: &OsStr| self.source.handle.stat(name, false).is_ok();
        let is_to_stop = || self.stop.is_requested();
        Some(Knowledge::load(private.as_ref(), root, path, &is_in_source, &is_to_stop).0)
    }
}
