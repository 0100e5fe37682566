//! How far a plan is, from its directory alone.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::cluster::directory::done::{self, DoneTotals};
use crate::cluster::directory::plan_dir::{
    DONE, FAILED, PlanDir, PlanEnd, SHARDS, Seal, shard_number,
};
use crate::cluster::directory::{attempt, token};
use crate::error::{Error, Result};

/// How far a plan is.
#[derive(Clone, Debug, Default)]
pub struct PlanStatus {
    /// What the plan has, once it is complete.
    pub seal: Option<Seal>,
    /// Shards whose lists are there.
    pub listed: u64,
    /// Shards that are recorded as done, and their files and bytes.
    pub done: u64,
    pub files: u64,
    pub bytes: u64,
    /// Files that were not in the source any more when their shards came to them.
    pub gone: u64,
    /// Shards that attempts are at work on.
    pub running: u64,
    /// Shards of which files failed, and those whose last attempt was cut short.
    pub failed: Vec<u32>,
    pub cut_short: Vec<u32>,
    /// From the first list to the last record.
    pub took: Duration,
    pub end: Option<PlanEnd>,
}

/// Looks how far a plan is; an attempt that was silent for so long is `dead`.
pub fn status(plan: &PlanDir, dead: Duration) -> Result<PlanStatus> {
    let mut status = PlanStatus { seal: plan.seal()?, ..PlanStatus::default() };
    status.end = plan.finished()?;
    status.listed = shards(&plan.below(SHARDS), "list")?.len() as u64;
    let recorded = shards(&plan.below(DONE), "sha256sum")?;
    status.done = recorded.len() as u64;
    let begun = fs::metadata(plan.below("plan.json")).and_then(|it| it.modified()).ok();
    for shard in &recorded {
        let path = plan.done(*shard);
        let DoneTotals { files, gone, bytes } = done::totals(&path).unwrap_or_default();
        status.files += files;
        status.gone += gone;
        status.bytes = status.bytes.saturating_add(bytes);
        let ended = fs::metadata(&path).and_then(|it| it.modified()).ok();
        let took = begun.zip(ended).and_then(|(begun, ended)| ended.duration_since(begun).ok());
        status.took = status.took.max(took.unwrap_or_default());
    }
    let running = attempt::running(plan, dead)?;
    let is = |shard: u32, alive| running.contains(&(shard, alive));
    let open = |shard: &u32| !recorded.contains(shard);
    let mut alive: Vec<u32> = running.iter().filter(|it| it.1).map(|it| it.0).collect();
    alive.sort_unstable();
    alive.dedup();
    status.running = alive.iter().filter(|shard| open(shard)).count() as u64;
    let failed = token::shards_in(plan, FAILED)?;
    status.failed = failed.into_iter().filter(open).collect();
    let mut cut: Vec<u32> = running.iter().filter(|it| !it.1).map(|it| it.0).collect();
    cut.retain(|shard| open(shard) && !is(*shard, true) && !status.failed.contains(shard));
    cut.sort_unstable();
    cut.dedup();
    status.cut_short = cut;
    Ok(status)
}

/// The numbers of the shards that have a file in a directory.
fn shards(dir: &Path, extension: &str) -> Result<Vec<u32>> {
    let fail = |error| Error::io("look at the plan in", dir, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        if Path::new(&name).extension().is_some_and(|it| it == extension) {
            found.extend(shard_number(&name.to_string_lossy()));
        }
    }
    Ok(found)
}
