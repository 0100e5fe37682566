//! Cleanup of leftovers: part files of a killed run that no run will finish, and their journals.
//!
//! Only in directories that are copied to, and only what is provably of this user's runs at this output: a part
//! file and a journal by the tags in their names, which are made from a secret in the private directory. So what only
//! has such a name stays, and so does what a run left that keeps its records elsewhere, and may be at work. Only in
//! a tree that is to become a generation nothing is another's. Nor is anything removed that the source has. What stays
//! to be gone on with is the part file whose journal says that it is the beginning of a file that the source still has
//! in the same version. And what was being [made anew](super::anew) as another directory is put back.

use std::{
    ffi::OsStr, ffi::OsString, io, ops::ControlFlow, path::Path, path::PathBuf, sync::Arc,
    sync::Mutex, sync::PoisonError, thread::sleep, time::Duration, time::Instant,
};

use jiff::Timestamp;

use crate::{
    error::Deed, error::Error, error::Result, event::Stop, hash::Sha256, path::Shown,
    state::Missing, state::PrivateDir, state::Secret, sys, sys::Dir, sys::DirListing,
    sys::DirReader, sys::ListedEntry, sys::Lock, sys::ShardTag, sys::is_journal_name,
    sys::is_part_name, sys::shard_of_part, sys::stat::Kind, tree::Found, tree::Journal,
    tree::NameCount, tree::OutputDir, tree::SourceDir, tree::Version, tree::WalkItem,
    tree::anew::go_on, tree::found::Emit, tree::journal,
};

/// The beginning of a large file that a killed run left.
#[derive(Debug)]
pub struct ResumablePart {
    /// The name that the file is to have.
    pub name: OsString,
    part: OsString,
    journal: OsString,
}

/// Number of those that are named: a stranger who may write there could make any number.
const MOST_NAMED: usize = 3;

/// The leftovers of killed runs in a directory, after the cleanup.
#[derive(Debug, Default)]
pub struct Leftovers {
    pub removed: Vec<OsString>,
    /// The parts that stay to be resumed.
    pub resumable: Vec<ResumablePart>,
    /// The first error; what else could be removed is.
    pub error: Option<Error>,
    /// Number of names that the directory lists besides those that runs keep in the root for themselves.
    pub names: u64,
}

/// Whose part files are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup<'a> {
    /// None: another run may be at work.
    Nothing,
    /// None, for no secret shows whose they are. They are named.
    Unknown,
    /// Those of all runs that know this secret: this one is alone.
    OfRuns(Secret),
    /// Those of all runs, as what they are in is to become a generation: nothing in it is another's. A run may have
    /// failed to make the secret, and another made one since.
    OfTree(Option<Secret>),
    /// Those that these attempts at a shard left, which are dead.
    OfAttempts(&'a [ShardTag]),
    /// Those that shards of this plan left.
    OfPlan(u32),
}

impl Cleanup<'_> {
    /// True if a shard finds the directory empty, so that each look for a file would be in vain.
    pub fn finds_bare(&self, dir: &Dir) -> bool {
        matches!(self, Cleanup::OfAttempts(_)) && DirListing::is_empty(dir).unwrap_or(false)
    }

    /// True if a part file of this name is removed.
    fn concerns(self, name: &OsStr) -> bool {
        match self {
            Cleanup::Nothing | Cleanup::Unknown => false,
            Cleanup::OfTree(_) => true,
            Cleanup::OfRuns(secret) => secret.of_parts().is_in(name),
            Cleanup::OfAttempts(dead) => shard_of_part(name).is_some_and(|tag| dead.contains(&tag)),
            Cleanup::OfPlan(plan) => shard_of_part(name).is_some_and(|tag| tag.plan == plan),
        }
    }

    /// True if this name is told, which only looks like that of a leftover.
    fn names_unknown(self, name: &OsStr) -> bool {
        matches!(self, Cleanup::OfRuns(_) | Cleanup::Unknown)
            && (is_part_name(name) || is_journal_name(name))
    }

    /// The seal of the journals that are removed, if any are.
    fn seal(self) -> Option<Sha256> {
        match self {
            Cleanup::OfRuns(secret) | Cleanup::OfTree(Some(secret)) => Some(secret.of_journals()),
            _ => None,
        }
    }
}

/// The entries that only look like leftovers and stay, because their owner is not known: those of all directories are
/// told once.
#[derive(Debug, Default)]
pub struct UnknownParts(Mutex<UnknownCount>);

#[derive(Debug, Default)]
struct UnknownCount {
    entries: u64,
    first: Vec<PathBuf>,
}

impl UnknownParts {
    fn add(&self, path: impl FnOnce() -> PathBuf) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.entries += 1;
        if count.first.len() < MOST_NAMED {
            count.first.push(path());
        }
    }

    /// The warning about those that were found since it was asked last. An output whose root is `closed` although the
    /// source's is not, a run that was killed may not have come to open.
    pub fn told(&self, closed: bool) -> Option<Error> {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let UnknownCount { entries, first } = std::mem::take(&mut *count);
        let mut finding = String::from("no run that keeps its records here made it");
        let (path, names) = first.split_first()?;
        if entries > 1 {
            let names = Shown::first_of(entries - 1, names.iter().map(|path| Shown::path(path)));
            finding += &format!(", nor {} more that look so: {names}", entries - 1);
        }
        finding += "; remove what no other run is at work on";
        if closed {
            finding +=
                ", and open the output to others (chmod), which a killed run may have left closed";
        }
        Some(Error::finding("remove what looks like a part file,", path, finding))
    }
}

/// The entries that are not removed.
pub struct Protected<'a> {
    /// The leftovers that are removed at all.
    pub cleanup: Cleanup<'a>,
    /// Beginnings of files that are larger than this can be gone on with; bytes. None without.
    pub resumable: Option<u64>,
    /// True if links in the source stand for what they point to.
    pub follow: bool,
    /// True if an earlier run lists a file of this name there, which then is no leftover.
    pub is_data: &'a dyn Fn(&OsStr) -> bool,
    /// Asked before anything is removed.
    pub may_remove: &'a dyn Fn() -> bool,
    /// Gets those that only look like leftovers.
    pub unknown: &'a UnknownParts,
    /// Ends what takes long.
    pub stop: Option<&'a Stop>,
}

/// Removes what no run will finish from an output directory that was there already, but for what is to be
/// `spared`. Without its counterpart at the source nothing in it is gone on with.
pub fn clean_up(
    source: Option<&SourceDir>,
    output: &OutputDir,
    reader: &mut DirReader,
    spared: &Protected<'_>,
) -> Leftovers {
    let Protected { cleanup, resumable, follow, is_data, may_remove, .. } = *spared;
    let mut leftovers = Leftovers::default();
    let is_empty = output.fresh || output.bare;
    let Some(dir) = output.handle.as_ref().filter(|_| !is_empty) else { return leftovers };
    let (mut parts, mut journals, mut trials) = (Vec::new(), Vec::new(), Vec::new());
    let (mut strange, mut halves): (Vec<OsString>, Vec<OsString>) = Default::default();
    let seal = cleanup.seal();
    loop {
        let batch = match reader.next_batch(dir) {
            Ok(batch) if batch.is_empty() => break,
            Ok(batch) => batch,
            Err(error) => {
                leftovers.error =
                    Some(Error::io("look for old part files in", output.path(), error));
                break;
            }
        };
        // A list that was copied is a file like any.
        let is_own = |it: &&ListedEntry| NameCount::is_own(it) && !is_data(&it.name);
        let own = batch.iter().filter(|it| output.rel.is_root() && is_own(it)).count();
        leftovers.names += (batch.len() - own) as u64;
        for listed in batch {
            let name = &*listed.name;
            let kind = || listed.kind_in(dir).ok();
            let names = match () {
                () if is_part_name(name) && cleanup.concerns(name) => match kind() {
                    Some(Kind::Dir) => &mut trials,
                    _ => &mut parts,
                },
                () if seal.is_some_and(|seal| journal::is_name_by(name, &seal)) => &mut journals,
                () if matches!(cleanup, Cleanup::OfTree(_)) && is_journal_name(name) => &mut parts,
                () if cleanup.names_unknown(name) => match kind() {
                    Some(Kind::Dir) => &mut halves,
                    _ => &mut strange,
                },
                () => continue,
            };
            let there = source.map(|source| source.handle.stat(&listed.name, false));
            let is_absent =
                there.is_none_or(|it| it.is_err_and(|it| it.kind() == io::ErrorKind::NotFound));
            if is_absent && !is_data(&listed.name) {
                names.push(listed.name.to_os_string());
            }
        }
        strange.drain(..).for_each(|name| spared.unknown.add(|| output.path_of(&name)));
    }
    let is_any = [&parts, &journals, &trials, &halves].iter().any(|names| !names.is_empty());
    if is_any && !may_remove() {
        return leftovers;
    }
    for journal in journals {
        let found = seal.and_then(|seal| Journal::open(dir, &journal, &seal).ok().flatten());
        let Some(Found { subject, checkpoint: Some(_), .. }) = found else {
            leftovers.remove(output, journal);
            continue;
        };
        let beginning = resumable.and_then(|larger_than| {
            let now = source?.handle.stat(&subject.name, follow).ok()?;
            let same = now.kind == Kind::File && subject.source == Version::of(&now);
            let at = parts.iter().position(|part| *part == subject.part)?;
            (same && now.size > larger_than).then(|| parts.swap_remove(at))
        });
        match beginning {
            Some(part) => {
                let name = subject.name;
                leftovers.resumable.push(ResumablePart { name, part, journal });
            }
            None => leftovers.remove(output, journal),
        }
    }
    halves.into_iter().for_each(|half| leftovers.go_on(output, dir, &half, spared));
    parts.into_iter().for_each(|part| leftovers.remove(output, part));
    trials.into_iter().for_each(|trial| leftovers.remove_trial(output, dir, trial, spared));
    leftovers
}

/// Removes beginnings that the run does not go on with after all.
pub fn remove_resumable(output: &OutputDir, resumable: Vec<ResumablePart>) -> Leftovers {
    let mut leftovers = Leftovers::default();
    for ResumablePart { part, journal, .. } in resumable {
        leftovers.remove(output, journal);
        leftovers.remove(output, part);
    }
    leftovers
}

impl Leftovers {
    /// Removes a directory that a trial was made in; one with files that no trial makes stays.
    fn remove_trial(
        &mut self,
        output: &OutputDir,
        dir: &Dir,
        name: OsString,
        spared: &Protected<'_>,
    ) {
        match dir.remove_trial_dir(&name) {
            Ok(true) => self.removed.push(name),
            Ok(false) => spared.unknown.add(|| output.path_of(&name)),
            Err(error) => {
                let error = Error::io("remove the old trial", output.path_of(&name), error);
                self.error.get_or_insert(error);
            }
        }
    }

    /// Goes on with a directory that was to take the place of another.
    fn go_on(&mut self, output: &OutputDir, dir: &Dir, half: &OsStr, spared: &Protected<'_>) {
        let never = Stop::default();
        let stop = spared.stop.unwrap_or(&never);
        match go_on(dir, half, stop) {
            Ok(true) => {}
            Ok(false) => spared.unknown.add(|| output.path_of(half)),
            Err(_) if stop.is_requested() => {}
            Err(error) => {
                let error =
                    Error::io("go on making a directory anew as", output.path_of(half), error);
                self.error.get_or_insert(error);
            }
        }
    }

    /// Hands on what was removed.
    pub fn tell(self, output: &Arc<OutputDir>, emit: &mut impl Emit) -> ControlFlow<()> {
        for name in self.removed {
            emit.item(WalkItem::LeftoverRemoved(Arc::clone(output), name))?;
        }
        match self.error {
            Some(error) => emit.item(WalkItem::Warning(error)),
            None => ControlFlow::Continue(()),
        }
    }

    /// Removes a part file or a journal.
    pub fn remove(&mut self, output: &OutputDir, name: OsString) {
        match remove(output, &name) {
            Ok(true) => self.removed.push(name),
            Ok(false) => {}
            Err(error) => drop(self.error.get_or_insert(error)),
        }
    }
}

/// Removes a part file or a journal; whether it was there.
pub fn remove(output: &OutputDir, name: &OsStr) -> Result<bool> {
    let Some(dir) = &output.handle else { return Ok(false) };
    let removed = dir.remove(name).if_there();
    Ok(removed.deed_at("remove the old part file", || output.path_of(name))?.is_some())
}

// Keeping other runs out of a directory, and waiting for one that is at it: a copy is alone at its output,
// and so is a check that remembers there what it has verified.

/// Time between two tries, and two looks at the stop signal.
const AGAIN: Duration = Duration::from_millis(200);

/// Time between two messages of a run that waits.
const TELL: Duration = Duration::from_secs(3600);

/// The behaviour at a directory that another run has locked.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Wait until that run ends, instead of refusing.
    pub wait: bool,
    /// The deed that needs the directory, in messages.
    pub deed: &'static str,
    /// Is told of the waiting.
    pub tell: &'a dyn Fn(&str),
    /// Ends the waiting too.
    pub stop: &'a Stop,
}

/// Who else may be at work on a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockShare {
    /// No other run.
    Alone,
    /// Other shards of a plan.
    WithShards,
}

impl Patience<'_> {
    /// Waits until no other run is at work on the directory at `path`, and leaves it unlocked: what is looked at
    /// next is then not half of another run. One that is not there, or cannot be opened, is no reason
    /// to wait.
    pub fn until_free(self, path: &Path, elsewhere: Option<&Path>) -> Result<()> {
        let Some(root) = Dir::open(path).ok().filter(|_| self.wait) else { return Ok(()) };
        match PrivateDir::open(&root, path, elsewhere, Missing::Leave) {
            Ok(Some(private)) => self.lock(&private, path).map(drop),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Locks the output at `path` by its private directories: any other directory can be locked by all that may
    /// read it. The lock lasts as long as `private`.
    ///
    /// # Errors
    /// Another run has it, and is not to be waited for; or the run was stopped while it waited.
    pub fn lock(self, private: &PrivateDir, path: &Path) -> Result<Lock> {
        self.lock_as(LockShare::Alone, private, path)
    }

    /// The same, alone or together with other runs of a plan.
    ///
    /// # Errors
    /// Fails as [`lock`](Self::lock) does.
    pub fn lock_as(self, sharing: LockShare, private: &PrivateDir, path: &Path) -> Result<Lock> {
        let mut lock = Lock::Unknown;
        for dir in private.locked() {
            if self.lock_dir(sharing, dir, path)? == Lock::Held {
                lock = Lock::Held;
            }
        }
        Ok(lock)
    }

    fn lock_dir(self, sharing: LockShare, dir: &Dir, path: &Path) -> Result<Lock> {
        let mut told: Option<Instant> = None;
        loop {
            let lock = match sharing {
                LockShare::Alone => dir.lock(),
                LockShare::WithShards => dir.lock_shared(),
            };
            let lock = lock.deed("lock", path)?;
            if lock != Lock::Taken {
                return Ok(lock);
            }
            if !self.wait {
                let finding = format!(
                    "{} is at work on it; wait until that one ends (--wait does)",
                    holder(dir)
                );
                return Err(Error::finding(self.deed, path, finding));
            }
            if self.stop.is_requested() {
                let finding = "another run was still at work on it when this one was to stop";
                return Err(Error::finding(self.deed, path, finding));
            }
            if told.is_none_or(|told| told.elapsed() >= TELL) {
                told = Some(Instant::now());
                (self.tell)(&format!("{} is at work on {}", holder(dir), Shown::path(path)));
            }
            sleep(AGAIN);
        }
    }
}

fn holder(dir: &Dir) -> String {
    known_holder(dir).unwrap_or_else(|| "another dircopy".into())
}

/// The process that holds the lock and when it started, if the system tells.
pub fn known_holder(dir: &Dir) -> Option<String> {
    let holder = sys::lock_holder(dir).filter(|holder| holder.process != std::process::id())?;
    let (process, name) = (holder.process, Shown::bytes(&holder.name));
    Some(match Timestamp::from_second(holder.since) {
        Ok(since) => format!("another dircopy (process {process}, {name}, since {since})"),
        Err(_) => format!("another dircopy (process {process}, {name})"),
    })
}
