//! How far a plan is, from its directory alone.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use crate::cluster::directory::plan_dir::{DONE, FAILED, PlanDir, SHARDS, Seal, shard_number};
use crate::cluster::directory::{attempt, token};
use crate::error::{Error, Result};

/// So much of the end of a record is looked at; bytes.
const TAIL: u64 = 256;

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
    /// Shards that attempts are at work on.
    pub running: u64,
    /// Shards of which files failed, and those whose last attempt was cut short.
    pub failed: Vec<u32>,
    pub cut_short: Vec<u32>,
    /// From the first list to the last record.
    pub took: Duration,
    pub is_finished: bool,
}

/// Looks how far a plan is; an attempt that was silent for so long is `dead`.
pub fn status(plan: &PlanDir, dead: Duration) -> Result<PlanStatus> {
    let mut status = PlanStatus { seal: plan.seal()?, ..PlanStatus::default() };
    status.is_finished = plan.finished()?.is_some();
    status.listed = shards(&plan.below(SHARDS), "list")?.len() as u64;
    let done = shards(&plan.below(DONE), "sha256sum")?;
    status.done = done.len() as u64;
    let begun = fs::metadata(plan.below("plan.json")).and_then(|it| it.modified()).ok();
    for shard in &done {
        let path = plan.done(*shard);
        let (files, bytes) = totals(&path).unwrap_or_default();
        status.files += files;
        status.bytes = status.bytes.saturating_add(bytes);
        let ended = fs::metadata(&path).and_then(|it| it.modified()).ok();
        let took = begun.zip(ended).and_then(|(begun, ended)| ended.duration_since(begun).ok());
        status.took = status.took.max(took.unwrap_or_default());
    }
    let running = attempt::running(plan, dead)?;
    let is = |shard: u32, alive| running.contains(&(shard, alive));
    let open = |shard: &u32| !done.contains(shard);
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

/// The files and bytes that the end of a record tells. Whether they are right is the end of the plan's to say.
fn totals(path: &Path) -> Option<(u64, u64)> {
    let mut file = fs::File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    let mut parts = text.lines().last()?.strip_prefix("# end ")?.split(' ');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
