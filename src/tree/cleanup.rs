//! Cleanup of leftovers: part files of a killed run that no run will finish, and their journals.
//!
//! Only in directories that are copied to, and only what has the name of a part file or a journal and
//! is not in the source. No other copy can be at work on them: each output is locked while it is
//! written. What stays is the part file of a stream that is at work, and the one whose journal says that it
//! is the beginning of a file that the source still has in the same version.

use std::ffi::{OsStr, OsString};
use std::io;

use crate::error::{Error, Result};
use crate::hash::Sha256;
use crate::sys::stat::Kind;
use crate::sys::{Dir, DirReader, ShardTag, is_journal_name, is_part_name, shard_of_part};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::journal::{Journal, Version};

/// The beginning of a large file that a killed run left.
#[derive(Debug)]
pub struct ResumablePart {
    /// The name that the file is to have.
    pub name: OsString,
    part: OsString,
    journal: OsString,
}

/// What became of the leftovers of killed runs in a directory.
#[derive(Debug, Default)]
pub struct Leftovers {
    pub removed: Vec<OsString>,
    /// What stays to be gone on with.
    pub resumable: Vec<ResumablePart>,
    /// The first error; what else could be removed is.
    pub error: Option<Error>,
}

/// Whose part files are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup<'a> {
    /// None: another run may be at work.
    Nothing,
    /// Those of every run: this one is alone.
    Everything,
    /// Those that these attempts at a shard left, which are dead.
    OfAttempts(&'a [ShardTag]),
    /// Those that shards of this plan left.
    OfPlan(u32),
}

impl Cleanup<'_> {
    /// Whether a part file of this name is removed.
    fn concerns(self, name: &OsStr) -> bool {
        match self {
            Cleanup::Nothing => false,
            Cleanup::Everything => true,
            Cleanup::OfAttempts(dead) => shard_of_part(name).is_some_and(|tag| dead.contains(&tag)),
            Cleanup::OfPlan(plan) => shard_of_part(name).is_some_and(|tag| tag.plan == plan),
        }
    }
}

/// Which beginnings can be gone on with.
#[derive(Clone, Copy, Debug)]
pub struct Resumable {
    /// Those of files larger than so many bytes.
    pub larger_than: u64,
    /// … whose journals know this.
    pub secret: Sha256,
}

/// What is not removed.
pub struct Protected<'a> {
    /// What is removed at all.
    pub cleanup: Cleanup<'a>,
    /// Beginnings that can be gone on with; none without.
    pub resumable: Option<Resumable>,
    /// Whether links in the source stand for what they point to.
    pub follow: bool,
    /// Whether an earlier run lists a file of this name there, which then is no leftover.
    pub is_data: &'a dyn Fn(&OsStr) -> bool,
    /// Asked before anything is removed.
    pub may_remove: &'a dyn Fn() -> bool,
}

/// Removes what no run will finish from an output directory that was there already, but for what is to be
/// `spared`.
pub fn clean_up(
    source: &SourceDir,
    output: &OutputDir,
    reader: &mut DirReader,
    spared: &Protected<'_>,
) -> Leftovers {
    let Protected { cleanup, resumable, follow, is_data, may_remove } = *spared;
    let mut leftovers = Leftovers::default();
    let Some(dir) = output.handle.as_ref().filter(|_| !output.fresh) else { return leftovers };
    let (mut parts, mut journals, mut trials) = (Vec::new(), Vec::new(), Vec::new());
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
        for listed in batch {
            let all = cleanup == Cleanup::Everything;
            // sshfs lists no kinds.
            let kind = || listed.kind.or_else(|| Some(dir.stat(&listed.name, false).ok()?.kind));
            let names = match &listed.name {
                name if all && is_part_name(name) && kind() == Some(Kind::Dir) => &mut trials,
                name if is_part_name(name) && cleanup.concerns(name) => &mut parts,
                name if all && is_journal_name(name) => &mut journals,
                _ => continue,
            };
            let absent = source.handle.stat(&listed.name, false).err();
            let is_absent = absent.is_some_and(|error| error.kind() == io::ErrorKind::NotFound);
            if is_absent && !is_data(&listed.name) {
                names.push(listed.name.to_os_string());
            }
        }
    }
    let is_any = [&parts, &journals, &trials].iter().any(|names| !names.is_empty());
    if is_any && !may_remove() {
        return leftovers;
    }
    for journal in journals {
        let beginning = resumable.and_then(|Resumable { larger_than, secret }| {
            let found = Journal::open(dir, &journal, &secret).ok()??;
            let now = source.handle.stat(&found.subject.name, follow).ok()?;
            let same = now.kind == Kind::File && found.subject.source == Version::of(&now);
            let at = parts.iter().position(|part| *part == found.subject.part)?;
            (same && now.size > larger_than && found.checkpoint.is_some())
                .then(|| (found.subject.name, parts.swap_remove(at)))
        });
        match beginning {
            Some((name, part)) => leftovers.resumable.push(ResumablePart { name, part, journal }),
            None => leftovers.remove(output, journal),
        }
    }
    // A stream may be writing one: it locks no directory, but its part file.
    let abandoned = parts.into_iter().filter(|part| !dir.is_claimed(part));
    abandoned.for_each(|part| leftovers.remove(output, part));
    trials.into_iter().for_each(|trial| leftovers.remove_trial(output, dir, trial));
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
    fn remove_trial(&mut self, output: &OutputDir, dir: &Dir, name: OsString) {
        match dir.remove_trial_dir(&name) {
            Ok(true) => self.removed.push(name),
            Ok(false) => {}
            Err(error) => {
                let error = Error::io("remove the old trial", output.path_of(&name), error);
                self.error.get_or_insert(error);
            }
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
    match output.handle.as_ref().map(|dir| dir.remove(name)) {
        Some(Ok(())) => Ok(true),
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove the old part file", output.path_of(name), error))
        }
        _ => Ok(false),
    }
}
