//! Which shard a worker takes: each has a token, an empty file whose name says where it stands, and taking one is a
//! rename, which only one worker can do.
//!
//! `open/COST-SHARD-TRY` waits to be taken, the costliest first; `claimed/SHARD-TRY` is at work; `failed/SHARD-TRY`
//! came to its end without being done. The try counts up, so that of two workers which take a shard from a dead one,
//! only one finds the name that it renames.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::cluster::directory::attempt::{self, Clock};
use crate::cluster::directory::plan_dir::{CLAIMED, FAILED, OPEN, PlanDir};
use crate::error::{Error, Result};

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
    fs::File::create_new(&path).map(drop).map_err(|error| Error::io("make", path, error))
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
    let claimed = names(&plan.below(CLAIMED))?;
    // Looked up once for all of them.
    let alive = if claimed.is_empty() { BTreeSet::new() } else { attempt::alive(plan, dead)? };
    let clock = Clock::new(plan)?;
    for name in claimed {
        let Some(token) = ShardToken::parse(&name) else { continue };
        // Also one that is recorded as done: its worker died in between, or the record is wrong.
        if alive.contains(&token.shard) {
            continue;
        }
        // One that has just been taken may not have begun.
        let age = attempt::age_of_entry(&plan.below(CLAIMED).join(&name), &clock);
        if age.is_none_or(|age| age >= dead)
            && rename(plan, [CLAIMED, &name], [CLAIMED, &token.next().name()])?
        {
            return Ok(Some(token.next()));
        }
    }
    for name in names(&plan.below(FAILED))? {
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
        let mut open = names(&plan.below(OPEN))?;
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

/// The shard came to its end: its token goes, or says that it failed.
pub fn give_back(plan: &PlanDir, token: ShardToken, is_done: bool) -> Result<()> {
    let path = plan.below(CLAIMED).join(token.name());
    match is_done {
        true => remove(&path),
        false => rename(plan, [CLAIMED, &token.name()], [FAILED, &token.name()]).map(drop),
    }
}

/// A shard that was run by its number came to its end: its token says so.
pub fn settle(plan: &PlanDir, shard: u32, is_done: bool) -> Result<()> {
    for dir in [OPEN, CLAIMED, FAILED] {
        for name in names(&plan.below(dir))? {
            let Some(token) = of_name(dir, &name).filter(|token| token.shard == shard) else {
                continue;
            };
            match is_done {
                true => remove(&plan.below(dir).join(&name))?,
                false => drop(rename(plan, [dir, &name], [FAILED, &token.name()])?),
            }
        }
    }
    Ok(())
}

/// The shards whose token is in the directory `dir`.
pub fn shards_in(plan: &PlanDir, dir: &str) -> Result<BTreeSet<u32>> {
    let number = |name: String| of_name(dir, &name).map(|token| token.shard);
    Ok(names(&plan.below(dir))?.into_iter().filter_map(number).collect())
}

/// The token that a name in the directory `dir` is.
fn of_name(dir: &str, name: &str) -> Option<ShardToken> {
    ShardToken::parse(if dir == OPEN { name.split_once('-')?.1 } else { name })
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let fail = |error| Error::io("look for shards in", dir, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        names.extend(entry.map_err(fail)?.file_name().into_string());
    }
    Ok(names)
}

/// Renames a token; false if it is gone.
fn rename(plan: &PlanDir, from: [&str; 2], to: [&str; 2]) -> Result<bool> {
    let path = |[dir, name]: [&str; 2]| plan.below(dir).join(name);
    match fs::rename(path(from), path(to)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("take the shard", path(from), error)),
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::directory::plan_dir::{FrozenPlan, FrozenWalk, PlanOptions};
    use crate::io::options::{Cache, Reflink, Sparse};
    use crate::tree::overwrite::Policy;

    #[test]
    fn workers_that_begin_at_once_take_each_shard_once() {
        let dir = tempfile::tempdir().unwrap();
        let options = PlanOptions {
            policy: Policy::Default,
            follow_links: false,
            sync: true,
            verify: None,
            reflink: Reflink::Auto,
            sparse: Sparse::Auto,
            cache: Cache::Drop,
            state: None,
            walk: FrozenWalk::default(),
        };
        let plan = FrozenPlan {
            format: PlanDir::format(),
            plan: 1,
            version: String::new(),
            source: "/".into(),
            output: "/".into(),
            source_inode: 1,
            output_inode: 1,
            options,
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
