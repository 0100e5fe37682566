//! What earlier runs recorded of the output, as a run takes it.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::copy::before::prepare::Prepared;
use crate::copy::commit::accounting::Accounting;
use crate::copy::commit::committer::Committer;
use crate::copy::job::CopyJob;
use crate::copy::mirror::departures::Departures;
use crate::copy::mirror::look::Looked;
use crate::copy::mirror::removal::Removal;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::Algorithm;
use crate::state::knowledge::Knowledge;
use crate::state::private_dir::PrivateDir;
use crate::state::source_mark::SourceMark;
use crate::transfer::baseline::Baseline;
use crate::tree::dirs::SourceDir;

/// What earlier runs recorded, as far as this run needs it.
pub struct EarlierRecords {
    /// What the source is held against.
    pub baseline: Option<Baseline>,
    /// What is known of the output's files.
    pub known: Option<Knowledge>,
    /// It holds the output's lock.
    pub private: Option<PrivateDir>,
    /// What could not be read.
    pub warnings: Vec<Error>,
    /// What has left the source, if that is to leave the output.
    pub looked: Option<Looked>,
}

impl EarlierRecords {
    /// What has left the source, if that is known.
    pub fn departures(&self) -> Option<&Departures> {
        match &self.looked {
            Some(Looked::Found(found)) => Some(found),
            _ => None,
        }
    }

    /// That the trees could not be compared is something that was asked for and not done.
    pub fn settle_departures(&self, accounting: &mut Accounting<'_>) {
        if let Some(Looked::Unknown(error)) = &self.looked {
            accounting.not_departed(1, error);
        }
    }

    /// What is to leave the output at the end.
    pub fn removal<'a>(
        &'a self,
        job: &'a CopyJob,
        committer: &Committer<'_>,
        source: &Arc<SourceDir>,
        stop: &'a Stop,
    ) -> Option<Removal<'a>> {
        let (mirror, departures) = (job.mirror.as_ref()?, self.departures()?);
        Some(Removal {
            mirror,
            departures,
            source: Arc::clone(source),
            output: Arc::clone(committer.root()),
            private: self.private.as_ref(),
            follow: job.follow_links,
            durable: job.sync,
            stop,
        })
    }

    /// The run is complete: later ones are to know its source again, with `durable` after a power cut too.
    pub fn know_source(&self, source: &SourceDir, durable: bool) -> Result<()> {
        let Some(private) = &self.private else { return Ok(()) };
        let now = match self.departures() {
            Some(departures) if !departures.source.root.is_empty() => departures.source.clone(),
            _ => SourceMark::of(&source.handle),
        };
        let last = SourceMark::read(private);
        // A run that is no mirror has not looked at what is mounted below.
        let holds =
            |last: SourceMark| last == now || self.departures().is_none() && last.root == now.root;
        if last.is_some_and(holds) {
            return Ok(());
        }
        let fail =
            |error| Error::io("write the private note of the source in", private.path(), error);
        now.write(private, durable).map_err(fail)
    }
}

/// What is known of the files that are at the output.
pub fn known(
    job: &CopyJob,
    prepared: &Prepared,
    private: Option<&PrivateDir>,
    stop: &Stop,
    warnings: &mut Vec<Error>,
) -> Option<Knowledge> {
    let Prepared { source, output, .. } = prepared;
    let root = output.handle.as_ref()?;
    if job.algorithm == Algorithm::None || output.fresh || job.shard.is_some() {
        return None;
    }
    let is_in_source = |name: &OsStr| source.handle.stat(name, false).is_ok();
    let (path, is_to_stop) = (&job.output, || stop.is_requested());
    let (known, unreadable) = Knowledge::load(private, root, path, &is_in_source, &is_to_stop);
    warnings.extend(unreadable);
    Some(known.proving_with(job.algorithm))
}
