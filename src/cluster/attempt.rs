//! An attempt at a shard: a directory in `running/` with the manifest that grows and a file that is written to every
//! few seconds as long as its process lives.
//!
//! One whose process died stays, so that the end of the plan knows that there may be something of it at the output.
//!
//! Machines' clocks differ, so an age is told by the clock of the server that has the directory: by the time of the
//! file, and the time of another one that was written to a moment ago.

use std::{
    collections::BTreeSet, ffi::OsStr, fs::File, hash::BuildHasher, hash::Hasher,
    hash::RandomState, io, path::Path, path::PathBuf, sync::Arc, thread::Builder, thread::scope,
    time::Duration,
};

use crossbeam_channel::{RecvTimeoutError, bounded};

use crate::cluster::plan_dir::{CLAIMED, FAILED, OPEN, PLAN, PlanDir, PlanFile, RUNNING, TOP};
use crate::cluster::plan_dir::{names_in, shard_number};
use crate::error::{Deed, Error, Result};
use crate::{sys, sys::Dir, sys::PartOwner, sys::ShardTag, sys::stat::Time};

/// Number of numbers that are tried for an attempt.
const MOST_TRIES: u32 = 1000;

/// Time between two signs of life of an attempt: a quarter of the time after which it would be taken for dead.
const BEAT: Duration = Duration::from_secs(5);

const BEAT_FILE: &str = "beat";

/// The deed in errors about a directory that has attempts, …
const ATTEMPTS: &str = "look for attempts in";

/// … and about one that has tokens.
const TOKENS: &str = "look for shards in";

/// The clock of the file system that a plan is on.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Time);

/// An attempt of this process.
#[derive(Debug)]
pub struct Attempt {
    pub tag: ShardTag,
    pub dir: Arc<Dir>,
    /// Its path, for messages.
    pub path: PathBuf,
    pub beat: Beat,
}

/// The signs of life of a process in a directory of its own.
#[derive(Debug)]
pub struct Beat(File);

impl Beat {
    /// Gives the first one.
    ///
    /// # Errors
    /// The system's, also if another process is known by that directory.
    pub fn begin(dir: &Dir) -> io::Result<Self> {
        let file = dir.create_new(BEAT_FILE.as_ref(), true)?;
        written_at(&file)?;
        Ok(Self(file))
    }

    /// Gives more while `work` goes on; a process that is silent for so long is taken for `dead`.
    ///
    /// # Errors
    /// Those of `work`, or there is no thread to be had; `dir` is the path of where the signs are given.
    pub fn during<T>(
        &self,
        dir: &Path,
        dead: Duration,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let every = BEAT.min(dead / 4);
        scope(|scope| {
            let (working, over) = bounded::<()>(0);
            let beat = move || {
                while over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                    // Where the plan cannot be written to its end will tell.
                    let _ = written_at(&self.0);
                }
            };
            let begun = Builder::new().name("beat".into()).spawn_scoped(scope, beat);
            begun.deed("start the threads for", dir)?;
            let done = work();
            drop(working);
            done
        })
    }
}

impl Clock {
    pub fn new(plan: &PlanDir) -> Result<Self> {
        let fail = |error| Error::io("ask for the time of", &plan.path, error);
        let probe = match plan.dir.create_nameless(0o600).map_err(fail)? {
            Some(file) => file,
            None => {
                let made = plan.dir.create_part(PartOwner::default());
                let removed = made.and_then(|(file, name)| plan.dir.remove(&name).map(|()| file));
                removed.map_err(fail)?
            }
        };
        written_at(&probe).map(Self).map_err(fail)
    }
}

/// When a file that is written to now was written to, by the clock of its file system.
fn written_at(file: &File) -> std::io::Result<Time> {
    sys::write_all(file, b".")?;
    sys::persist_file(file)?;
    Ok(Dir::stat_file(file)?.mtime)
}

/// Time since an entry was made or renamed.
fn age_of_entry(entry: &PlanFile<'_>, clock: &Clock) -> Option<Duration> {
    Some(clock.0.since(entry.stat().ok()?.ctime))
}

/// Time since the last sign of life in the directory `dir`.
fn silence_in(dir: &Dir, clock: &Clock) -> Option<Duration> {
    // Opened, so that over NFS the server tells.
    let file = dir.open_plain(BEAT_FILE.as_ref()).ok()?;
    Some(clock.0.since(Dir::stat_file(&file).ok()?.mtime))
}

/// The same of the attempt `name`.
fn silence(plan: &PlanDir, name: &str, clock: &Clock) -> Option<Duration> {
    let attempt = plan.below(RUNNING).and_then(|dir| dir.open_dir(name.as_ref(), false));
    silence_in(&attempt.ok()?, clock)
}

/// The least time after which a planner that was silent is taken for dead, however little workers are given.
pub const PLANNER_DEAD: Duration = BEAT.saturating_mul(4);

/// Refuses a plan that is not complete and that nobody makes any more: its planner was silent for so long.
///
/// # Errors
/// It is one, or cannot be looked at.
pub fn refuse_abandoned(plan: &PlanDir, dead: Duration) -> Result<()> {
    let clock = Clock::new(plan)?;
    let begun = || age_of_entry(&plan.file(TOP, PLAN), &clock);
    let silence = silence_in(&plan.dir, &clock).or_else(begun);
    if plan.seal()?.is_none() && silence.is_some_and(|silence| silence >= dead.max(PLANNER_DEAD)) {
        let finding = "it is not complete, and `dircopy plan`, which made it, was cut short: remove it, and make a new plan";
        return Err(Error::finding("go on with the plan", &plan.path, finding));
    }
    Ok(())
}

/// The shards that attempts are at work on: they said within `dead` that they are alive.
pub fn alive(plan: &PlanDir, dead: Duration) -> Result<BTreeSet<u32>> {
    Ok(running(plan, dead)?.into_iter().filter_map(|(shard, is)| is.then_some(shard)).collect())
}

/// The attempts at a shard that were silent for so long.
pub fn dead(plan: &PlanDir, shard: u32, silent: Duration) -> Result<Vec<ShardTag>> {
    let clock = Clock::new(plan)?;
    let prefix = format!("{shard:04}.");
    let number = |name: String| {
        let attempt = u32::from_str_radix(name.strip_prefix(&prefix)?, 16).ok()?;
        // One without a file to be written to has just begun, or died at once and made nothing.
        (silence(plan, &name, &clock)? >= silent).then_some(ShardTag {
            plan: plan.plan.plan,
            shard,
            attempt,
        })
    };
    Ok(plan.names(ATTEMPTS, RUNNING)?.into_iter().filter_map(number).collect())
}

/// The shards that attempts are at work on, and those of which only dead attempts are left.
pub fn running(plan: &PlanDir, dead: Duration) -> Result<Vec<(u32, bool)>> {
    let clock = Clock::new(plan)?;
    let is_alive = |name: &str| silence(plan, name, &clock).is_some_and(|silence| silence < dead);
    let state = |name: String| Some((shard_number(&name)?, is_alive(&name)));
    Ok(plan.names(ATTEMPTS, RUNNING)?.into_iter().filter_map(state).collect())
}

/// The shards that are recorded as done, and at which another attempt is still at work, or was after that and died,
/// which is told: it may put an older version in the place of what is recorded.
pub fn beyond_records(plan: &PlanDir, dead: Duration) -> Result<Vec<(u32, bool)>> {
    let clock = Clock::new(plan)?;
    let state = |name: String| {
        let (shard, silence) = (shard_number(&name)?, silence(plan, &name, &clock)?);
        let recorded = age_of_entry(&plan.done(shard), &clock)?;
        let is_alive = silence < dead;
        // It may have died just before the next sign.
        (is_alive || silence <= recorded + BEAT.min(dead / 4)).then_some((shard, !is_alive))
    };
    Ok(plan.names(ATTEMPTS, RUNNING)?.into_iter().filter_map(state).collect())
}

impl Attempt {
    /// Begins an attempt at a shard.
    pub fn begin(plan: &PlanDir, shard: u32) -> Result<Self> {
        let path = plan.path_below(RUNNING);
        let fail = |error| Error::io("begin the shard in", &path, error);
        let running = plan.below(RUNNING).map_err(fail)?;
        for _ in 0..MOST_TRIES {
            let attempt = RandomState::new().build_hasher().finish() as u32;
            let name = format!("{shard:04}.{attempt:08x}");
            if running.make_dir(name.as_ref(), true).unless_taken().map_err(fail)?.is_none() {
                continue;
            }
            let dir = running.open_dir(name.as_ref(), false).map_err(fail)?;
            let beat = Beat::begin(&dir).map_err(|error| {
                // Nobody is to wait for it to be given up for dead.
                let _ = remove_from(&running, name.as_ref(), &dir);
                fail(error)
            })?;
            let tag = ShardTag { plan: plan.plan.plan, shard, attempt };
            return Ok(Self { tag, dir: dir.into(), path: path.join(&name), beat });
        }
        Err(fail(io::ErrorKind::AlreadyExists.into()))
    }

    /// The attempt is over: what it left is removed.
    pub fn end(self, plan: &PlanDir) -> Result<()> {
        let name = self.path.file_name().unwrap_or_default();
        let removed = plan.below(RUNNING).and_then(|above| remove_from(&above, name, &self.dir));
        removed.deed("remove", &self.path)
    }
}

/// Removes the directory `name`, which is `dir`, with what is in it.
fn remove_from(above: &Dir, name: &OsStr, dir: &Dir) -> io::Result<()> {
    names_in(dir)?.iter().try_for_each(|name| dir.remove(name.as_ref()))?;
    above.remove_dir(name)
}

// Which shard a worker takes: each has a token, an empty file whose name says where it stands, and taking one is a
// rename, which only one worker can do.
//
// `open/COST-SHARD-TRY` waits to be taken, the costliest first; `claimed/SHARD-TRY` is at work; `failed/SHARD-TRY`
// came to its end without being done. The try counts up, so that of two workers which take a shard from a dead one,
// only one finds the name that it renames. A shard whose run was asked to stop, or lost the output, waits again as the
// next try.

/// A shard that this worker has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardToken {
    pub shard: u32,
    attempt: u32,
}

impl ShardToken {
    fn name(self) -> String {
        format!("{:04}-{}", self.shard, self.attempt)
    }

    fn parse(name: &str) -> Option<Self> {
        let (shard, attempt) = name.split_once('-')?;
        Some(Self { shard: shard.parse().ok()?, attempt: attempt.parse().ok()? })
    }

    fn next(self) -> Self {
        Self { attempt: self.attempt.wrapping_add(1), ..self }
    }
}

/// Puts the token of a new shard out.
pub fn put_out(plan: &PlanDir, shard: u32, cost: u64) -> Result<()> {
    let name = format!("{cost:016x}-{}", ShardToken { shard, attempt: 0 }.name());
    let made = plan.below(OPEN).and_then(|dir| dir.create_new(name.as_ref(), false));
    made.map(drop).deed_at("make", || plan.file(OPEN, name).path())
}

/// Puts tokens out for `shards`, which the end of the plan found not done, where there are none: a shard that was done
/// before its record was lost has none. They are the last to be taken.
pub fn put_back(plan: &PlanDir, shards: &[u32]) -> Result<()> {
    let mut known = BTreeSet::new();
    // In the order in which tokens move, so that none is missed.
    for dir in [OPEN, CLAIMED, FAILED] {
        known.append(&mut shards_in(plan, dir)?);
    }
    for shard in shards.iter().filter(|shard| !known.contains(shard)) {
        put_out(plan, *shard, 0)?;
    }
    Ok(())
}

/// Takes a shard: the costliest that waits, else one whose worker is dead for so long, else one that failed and is not
/// among `tried`. `None` if there is none.
pub fn take(plan: &PlanDir, dead: Duration, tried: &BTreeSet<u32>) -> Result<Option<ShardToken>> {
    if let Some(token) = take_open(plan)? {
        return Ok(Some(token));
    }
    let claimed = plan.names(TOKENS, CLAIMED)?;
    // Looked up once for all of them.
    let alive = if claimed.is_empty() { BTreeSet::new() } else { alive(plan, dead)? };
    let clock = Clock::new(plan)?;
    for name in claimed {
        let Some(token) = ShardToken::parse(&name) else { continue };
        // Also one that is recorded as done: its worker died in between, or the record is wrong.
        if alive.contains(&token.shard) {
            continue;
        }
        // One that has just been taken may not have begun.
        let age = age_of_entry(&plan.file(CLAIMED, &name), &clock);
        if age.is_none_or(|age| age >= dead)
            && rename(plan, [CLAIMED, &name], [CLAIMED, &token.next().name()])?
        {
            return Ok(Some(token.next()));
        }
    }
    for name in plan.names(TOKENS, FAILED)? {
        let Some(token) = ShardToken::parse(&name).filter(|it| !tried.contains(&it.shard)) else {
            continue;
        };
        if rename(plan, [FAILED, &name], [CLAIMED, &token.next().name()])? {
            return Ok(Some(token.next()));
        }
    }
    Ok(None)
}

/// Takes the costliest shard that waits. A worker that comes too late skips ever more of them, or hundreds that begin
/// at once would meet at each; only if it finds none it tries all.
fn take_open(plan: &PlanDir) -> Result<Option<ShardToken>> {
    for may_skip in [true, false] {
        let mut open = plan.names(TOKENS, OPEN)?;
        open.sort();
        let mut reach = 1;
        while let Some(name) = open.pop() {
            let Some(token) = of_name(OPEN, &name) else { continue };
            if rename(plan, [OPEN, &name], [CLAIMED, &token.name()])? {
                return Ok(Some(token));
            }
            if may_skip {
                reach = (reach * 2).min(open.len() + 1);
                let random = RandomState::new().build_hasher().finish();
                open.truncate(open.len() - (random % reach as u64) as usize);
            }
        }
    }
    Ok(None)
}

/// The end of a run of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardEnd {
    Done,
    /// Files of it failed.
    Failed,
    CutShort,
}

impl ShardEnd {
    /// Moves the token, which is called `name` in the directory `dir`.
    fn settle(self, plan: &PlanDir, [dir, name]: [&str; 2], token: ShardToken) -> Result<()> {
        match self {
            Self::Done => {
                let removed = plan.below(dir).and_then(|dir| dir.remove(name.as_ref()));
                removed.if_there().map(drop).deed_at("remove", || plan.file(dir, name).path())
            }
            Self::Failed => rename(plan, [dir, name], [FAILED, &token.name()]).map(drop),
            // Who takes it next tries what this one did not.
            Self::CutShort => {
                let waits = format!("{:016x}-{}", 0, token.next().name());
                rename(plan, [dir, name], [OPEN, &waits]).map(drop)
            }
        }
    }
}

/// The shard came to its end: its token says so.
pub fn give_back(plan: &PlanDir, token: ShardToken, end: ShardEnd) -> Result<()> {
    end.settle(plan, [CLAIMED, &token.name()], token)
}

/// The shards whose last run was cut short, and that wait to be taken again.
pub fn cut_short(plan: &PlanDir) -> Result<BTreeSet<u32>> {
    let again = |name: String| of_name(OPEN, &name).filter(|token| token.attempt > 0);
    let names = plan.names(TOKENS, OPEN)?.into_iter();
    Ok(names.filter_map(again).map(|token| token.shard).collect())
}

/// A shard that was run by its number came to its end: its token says so.
pub fn settle(plan: &PlanDir, shard: u32, end: ShardEnd) -> Result<()> {
    for dir in [OPEN, CLAIMED, FAILED] {
        for name in plan.names(TOKENS, dir)? {
            let Some(token) = of_name(dir, &name).filter(|token| token.shard == shard) else {
                continue;
            };
            end.settle(plan, [dir, &name], token)?;
        }
    }
    Ok(())
}

/// The shards whose token is in the directory `dir`.
pub fn shards_in(plan: &PlanDir, dir: &str) -> Result<BTreeSet<u32>> {
    let number = |name: String| of_name(dir, &name).map(|token| token.shard);
    Ok(plan.names(TOKENS, dir)?.into_iter().filter_map(number).collect())
}

/// The token that a name in the directory `dir` is.
fn of_name(dir: &str, name: &str) -> Option<ShardToken> {
    ShardToken::parse(if dir == OPEN { name.split_once('-')?.1 } else { name })
}

/// Renames a token; false if it is gone.
fn rename(plan: &PlanDir, [from, name]: [&str; 2], [to, new]: [&str; 2]) -> Result<bool> {
    let rename = |dir: Dir| dir.rename(name.as_ref(), &plan.below(to)?, new.as_ref());
    let renamed = plan.below(from).and_then(rename).if_there();
    Ok(renamed.deed_at("take the shard", || plan.file(from, name).path())?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::plan_dir::FrozenPlan, cluster::plan_dir::RootLabel, io::CopyOptions};

    #[test]
    fn workers_that_begin_at_once_take_each_shard_once() {
        let dir = tempfile::tempdir().unwrap();
        let plan = FrozenPlan {
            format: PlanDir::format(),
            plan: 1,
            version: String::new(),
            name: None,
            source: "/".into(),
            output: "/".into(),
            source_inode: 1,
            output_inode: 1,
            newest: None,
            source_label: RootLabel::default(),
            state: None,
            options: CopyOptions::default(),
        };
        let plan = PlanDir::create(&dir.path().join("plan"), plan);
        // Windows has no plans.
        if cfg!(windows) {
            return assert!(plan.is_err());
        }
        let plan = plan.unwrap();
        (0..200).for_each(|shard| put_out(&plan, shard, u64::from(shard)).unwrap());
        let work = || {
            let of_one = || take(&plan, Duration::from_secs(100), &BTreeSet::new()).unwrap();
            std::iter::from_fn(of_one).map(|token| token.shard).collect::<Vec<_>>()
        };
        let mut taken = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..16).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|it| it.join().unwrap()).collect::<Vec<_>>()
        });
        taken.sort_unstable();
        assert_eq!(taken, (0..200).collect::<Vec<_>>());
        // The costliest comes first.
        put_out(&plan, 300, 7).unwrap();
        put_out(&plan, 301, 8).unwrap();
        assert_eq!(work(), [301, 300]);
    }
}
