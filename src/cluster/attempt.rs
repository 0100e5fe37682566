//! An attempt at a shard: a directory in `running/` with the manifest that grows and a file that is written to every
//! few seconds as long as its process lives.
//!
//! One whose process died stays, so that the end of the plan knows that there may be something of it at the output.
//!
//! Machines' clocks differ, so an age is told by the clock of the server that has the directory: by the time of the
//! file, and the time of another one that was written to a moment ago.

use std::{
    collections::BTreeSet, fs, fs::File, hash::BuildHasher, hash::Hasher, hash::RandomState, io,
    path::Path, path::PathBuf, thread::Builder, thread::scope, time::Duration,
};

use crossbeam_channel::{RecvTimeoutError, bounded};

use crate::cluster::plan_dir::{CLAIMED, FAILED, OPEN, PLAN, RUNNING, shard_number};
use crate::error::{Deed, Error, Result};
use crate::{
    cluster::PlanDir, sys, sys::Dir, sys::DirListing, sys::PlainUse, sys::ShardTag, sys::stat::Time,
};

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
    pub dir: PathBuf,
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
    pub fn begin(dir: &Path) -> io::Result<Self> {
        let file = File::create_new(dir.join(BEAT_FILE))?;
        written_at(&file)?;
        Ok(Self(file))
    }

    /// Gives more while `work` goes on; a process that is silent for so long is taken for `dead`.
    ///
    /// # Errors
    /// Those of `work`, or there is no thread to be had; `dir` is where the signs are given.
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

/// Time since an entry was made or renamed.
pub fn age_of_entry(path: &Path, clock: &Clock) -> Option<Duration> {
    let dir = Dir::open(path.parent()?).ok()?;
    let stat = dir.stat(path.file_name()?, false).ok()?;
    Some(clock.age(stat.ctime))
}

/// Time since the last sign of life of the attempt in the directory at `path`.
fn silence(path: &Path, clock: &Clock) -> Option<Duration> {
    let file = sys::open_plain(&path.join(BEAT_FILE), PlainUse::Read).ok()?;
    Some(clock.age(Dir::stat_file(&file).ok()?.mtime))
}

/// The least time after which a planner that was silent is taken for dead, however little workers are given.
pub const PLANNER_DEAD: Duration = BEAT.saturating_mul(4);

/// Refuses a plan that is not complete and that nobody makes any more: its planner was silent for so long.
///
/// # Errors
/// It is one, or cannot be looked at.
pub fn refuse_abandoned(plan: &PlanDir, dead: Duration) -> Result<()> {
    let clock = Clock::new(plan)?;
    let begun = || age_of_entry(&plan.below(PLAN), &clock);
    let silence = silence(&plan.path, &clock).or_else(begun);
    if plan.seal()?.is_none() && silence.is_some_and(|silence| silence >= dead.max(PLANNER_DEAD)) {
        let finding = "it is not complete, and `dircopy plan`, which made it, was cut short: remove it, and make a new plan";
        return Err(Error::finding("go on with the plan", &plan.path, finding));
    }
    Ok(())
}

/// The attempts at a shard.
fn attempts(plan: &PlanDir, shard: u32) -> Result<Vec<PathBuf>> {
    let (dir, prefix) = (plan.below(RUNNING), format!("{shard:04}."));
    let names = names(&dir, ATTEMPTS)?.into_iter();
    Ok(names.filter(|name| name.starts_with(&prefix)).map(|name| dir.join(name)).collect())
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
    let is_alive =
        |name: &str| silence(&dir.join(name), &clock).is_some_and(|silence| silence < dead);
    let state = |name: String| Some((shard_number(&name)?, is_alive(&name)));
    Ok(names(&dir, ATTEMPTS)?.into_iter().filter_map(state).collect())
}

/// The shards that are recorded as done, and at which another attempt is still at work, or was after that and died,
/// which is told: it may put an older version in the place of what is recorded.
pub fn beyond_records(plan: &PlanDir, dead: Duration) -> Result<Vec<(u32, bool)>> {
    let (dir, clock) = (plan.below(RUNNING), Clock::new(plan)?);
    let state = |name: String| {
        let (shard, silence) = (shard_number(&name)?, silence(&dir.join(&name), &clock)?);
        let recorded = age_of_entry(&plan.done(shard), &clock)?;
        let is_alive = silence < dead;
        // It may have died just before the next sign.
        (is_alive || silence <= recorded + BEAT.min(dead / 4)).then_some((shard, !is_alive))
    };
    Ok(names(&dir, ATTEMPTS)?.into_iter().filter_map(state).collect())
}

impl Attempt {
    /// Begins an attempt at a shard.
    pub fn begin(plan: &PlanDir, shard: u32) -> Result<Self> {
        let fail = |error| Error::io("begin the shard in", plan.below(RUNNING), error);
        for _ in 0..MOST_TRIES {
            let attempt = RandomState::new().build_hasher().finish() as u32;
            let dir = plan.below(RUNNING).join(format!("{shard:04}.{attempt:08x}"));
            if fs::create_dir(&dir).unless_taken().map_err(fail)?.is_none() {
                continue;
            }
            let beat = Beat::begin(&dir).map_err(fail)?;
            let tag = ShardTag { plan: plan.plan.plan, shard, attempt };
            return Ok(Self { tag, dir, beat });
        }
        Err(fail(io::ErrorKind::AlreadyExists.into()))
    }

    /// The attempt is over: what it left is removed.
    pub fn end(self) -> Result<()> {
        for name in names(&self.dir, "remove")? {
            fs::remove_file(self.dir.join(name)).deed("remove", &self.dir)?;
        }
        fs::remove_dir(&self.dir).deed("remove", &self.dir)
    }
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
    let path = plan.below(OPEN).join(name);
    fs::File::create_new(&path).map(drop).deed("make", path)
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
    let claimed = names(&plan.below(CLAIMED), TOKENS)?;
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
        let age = age_of_entry(&plan.below(CLAIMED).join(&name), &clock);
        if age.is_none_or(|age| age >= dead)
            && rename(plan, [CLAIMED, &name], [CLAIMED, &token.next().name()])?
        {
            return Ok(Some(token.next()));
        }
    }
    for name in names(&plan.below(FAILED), TOKENS)? {
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
        let mut open = names(&plan.below(OPEN), TOKENS)?;
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
            Self::Done => remove(&plan.below(dir).join(name)),
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
    let names = names(&plan.below(OPEN), TOKENS)?.into_iter();
    Ok(names.filter_map(again).map(|token| token.shard).collect())
}

/// A shard that was run by its number came to its end: its token says so.
pub fn settle(plan: &PlanDir, shard: u32, end: ShardEnd) -> Result<()> {
    for dir in [OPEN, CLAIMED, FAILED] {
        for name in names(&plan.below(dir), TOKENS)? {
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
    Ok(names(&plan.below(dir), TOKENS)?.into_iter().filter_map(number).collect())
}

/// The token that a name in the directory `dir` is.
fn of_name(dir: &str, name: &str) -> Option<ShardToken> {
    ShardToken::parse(if dir == OPEN { name.split_once('-')?.1 } else { name })
}

fn names(dir: &Path, deed: &'static str) -> Result<Vec<String>> {
    let fail = |error| Error::io(deed, dir, error);
    let mut names = Vec::new();
    for entry in DirListing::at(dir).map_err(fail)? {
        names.extend(entry.map_err(fail)?.name.to_str().map(str::to_owned));
    }
    Ok(names)
}

/// Renames a token; false if it is gone.
fn rename(plan: &PlanDir, from: [&str; 2], to: [&str; 2]) -> Result<bool> {
    let path = |[dir, name]: [&str; 2]| plan.below(dir).join(name);
    let renamed = fs::rename(path(from), path(to)).if_there();
    Ok(renamed.deed_at("take the shard", || path(from))?.is_some())
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).if_there().map(drop).deed("remove", path)
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
