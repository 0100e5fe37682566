//! An attempt at a shard: a directory in `running/` with the manifest that grows and a file that is written to every
//! few seconds as long as its process lives.
//!
//! One whose process died stays, so that the end of the plan knows that there may be something of it at the output.
//!
//! Machines' clocks differ, so an age is told by the clock of the server that has the directory: by the time of the
//! file, and the time of another one that was written to a moment ago.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::cluster::directory::plan_dir::{PlanDir, RUNNING, shard_number};
use crate::error::{Error, Result};
use crate::sys::stat::Time;
use crate::sys::{self, Dir, PlainUse, ShardTag};

/// So many numbers are tried for an attempt.
const MOST_TRIES: u32 = 1000;

/// How often an attempt says that it is alive, or four times until it would be taken for dead.
const BEAT: Duration = Duration::from_secs(5);

const BEAT_FILE: &str = "beat";

/// The clock of the file system that a plan is on.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Time);

/// An attempt of this process.
#[derive(Debug)]
pub struct Attempt {
    pub tag: ShardTag,
    pub dir: PathBuf,
    beat: File,
}

impl Clock {
    pub fn new(plan: &PlanDir) -> Result<Self> {
        let fail = |error| Error::io("ask for the time of", &plan.path, error);
        let probe = tempfile::tempfile_in(&plan.path).map_err(fail)?;
        Ok(Self(written_at(&probe).map_err(fail)?))
    }

    fn age(&self, time: Time) -> Duration {
        let Time { secs, nanos } = self.0;
        let at = |secs: i64, nanos: u32| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
        let age = at(secs, nanos) - at(time.secs, time.nanos);
        Duration::from_nanos(u64::try_from(age.max(0)).unwrap_or(u64::MAX))
    }
}

/// When a file that is written to now was written to, by the clock of its file system.
fn written_at(file: &File) -> std::io::Result<Time> {
    sys::write_all(file, b".")?;
    sys::persist_file(file)?;
    Ok(Dir::stat_file(file)?.mtime)
}

/// How long ago something happened to an entry: it was made or renamed.
pub fn age_of_entry(path: &Path, clock: &Clock) -> Option<Duration> {
    let dir = Dir::open(path.parent()?).ok()?;
    let stat = dir.stat(path.file_name()?, false).ok()?;
    Some(clock.age(stat.ctime))
}

/// How long ago the attempt in the directory at `path` was alive.
fn silence(path: &Path, clock: &Clock) -> Option<Duration> {
    let file = sys::open_plain(&path.join(BEAT_FILE), PlainUse::Read).ok()?;
    Some(clock.age(Dir::stat_file(&file).ok()?.mtime))
}

/// The attempts at a shard.
fn attempts(plan: &PlanDir, shard: u32) -> Result<Vec<PathBuf>> {
    let (dir, prefix) = (plan.below(RUNNING), format!("{shard:04}."));
    let fail = |error| Error::io("look for attempts in", &dir, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(&dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The shards that attempts are at work on: they said within `dead` that they are alive.
pub fn alive(plan: &PlanDir, dead: Duration) -> Result<BTreeSet<u32>> {
    Ok(running(plan, dead)?.into_iter().filter_map(|(shard, is)| is.then_some(shard)).collect())
}

/// The attempts at a shard that were silent for so long.
pub fn dead(plan: &PlanDir, shard: u32, silent: Duration) -> Result<Vec<ShardTag>> {
    let clock = Clock::new(plan)?;
    // One without a file to be written to has just begun, or died at once and made nothing.
    let is_dead = |path: &PathBuf| silence(path, &clock).is_some_and(|silence| silence >= silent);
    let number = |path: PathBuf| {
        let (_, attempt) = path.file_name()?.to_str()?.split_once('.')?;
        let attempt = u32::from_str_radix(attempt, 16).ok()?;
        Some(ShardTag { plan: plan.plan.plan, shard, attempt })
    };
    Ok(attempts(plan, shard)?.into_iter().filter(is_dead).filter_map(number).collect())
}

/// The shards that attempts are at work on, and those of which only dead attempts are left.
pub fn running(plan: &PlanDir, dead: Duration) -> Result<Vec<(u32, bool)>> {
    let (dir, clock) = (plan.below(RUNNING), Clock::new(plan)?);
    let fail = |error| Error::io("look for attempts in", &dir, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(&dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let Some(shard) = shard_number(&entry.file_name().to_string_lossy()) else { continue };
        found.push((shard, silence(&entry.path(), &clock).is_some_and(|silence| silence < dead)));
    }
    Ok(found)
}

impl Attempt {
    /// Begins an attempt at a shard.
    pub fn begin(plan: &PlanDir, shard: u32) -> Result<Self> {
        let fail = |error| Error::io("begin the shard in", plan.below(RUNNING), error);
        for _ in 0..MOST_TRIES {
            let attempt = RandomState::new().build_hasher().finish() as u32;
            let dir = plan.below(RUNNING).join(format!("{shard:04}.{attempt:08x}"));
            match fs::create_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(fail)?,
            }
            let beat = File::create_new(dir.join(BEAT_FILE)).map_err(fail)?;
            written_at(&beat).map_err(fail)?;
            let tag = ShardTag { plan: plan.plan.plan, shard, attempt };
            return Ok(Self { tag, dir, beat });
        }
        Err(fail(io::ErrorKind::AlreadyExists.into()))
    }

    /// Says in a thread that the attempt is alive until `over` has no sender any more; one that is silent for so
    /// long is taken for `dead`.
    pub fn beat_beside<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        over: Receiver<()>,
        dead: Duration,
    ) -> std::io::Result<()> {
        let every = BEAT.min(dead / 4);
        let beat = move || {
            while over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // Where the plan cannot be written to the shard's end will tell.
                let _ = written_at(&self.beat);
            }
        };
        std::thread::Builder::new().name("beat".into()).spawn_scoped(scope, beat).map(drop)
    }

    /// The attempt is over: what it left is removed.
    pub fn end(self) -> Result<()> {
        fs::remove_dir_all(&self.dir).map_err(|error| Error::io("remove", &self.dir, error))
    }
}
