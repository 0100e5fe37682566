//! The space check before anything is touched: what the run needs against what the output has free.
//!
//! Its walk costs about as much as finding the files does. It is saved where space is ample: the output has twice
//! what the source's whole file system uses. Where earlier runs were it waits until something is to be made: mostly
//! nothing is. The estimate is low: holes do not count, nor do directories, the manifest
//! and what the file system packs. So no run is refused that would have fitted. Where the estimate was too low (an
//! output that is not packed as the source is, hard links that become files of their own), or another program takes
//! the space, a disk that fills up is still an error of each file.

use std::sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, atomic::Ordering::Relaxed};
use std::{collections::HashMap, ffi::OsStr, ops::ControlFlow, path::Path, path::PathBuf};

use crate::{
    copy::CopyJob, copy::Prepared, error::Error, error::Result, event::Progress, event::Stop,
    io::Reflink, io::Sparse, manifest::NextLine, parity::Share, path::Shown, state::Knowledge,
    state::Trace, state::rescues::ENDING, sys, sys::Cloned, sys::Dir, sys::DirListing,
    sys::FreeSpace, sys::PartTag, sys::Place, sys::UsedSpace, sys::stat::Stat,
    transfer::share::RenamedFiles, tree::Decision, tree::DestinationStat, tree::OutputDir,
    tree::Patience, tree::Policy, tree::SourceEntry, tree::SourceStat, tree::Walk, tree::WalkEvent,
    tree::WalkItem, tree::overwrite::decide, tree::overwrite::leave_out,
    tree::overwrite::refuse_large, volume::times::TimeMatch,
};

/// The space that a run needs.
#[derive(Clone, Debug, Default)]
struct Need {
    /// In whole blocks of the output, less what gives way; bytes.
    bytes: u64,
    /// Files that are not there yet.
    files: u64,
    /// Space of the parity that is made of them; bytes.
    parity: u64,
    /// Space of part files of a killed run, which are removed or resumed; bytes.
    parts: u64,
    /// Files that are too large for the output, …
    too_large: u64,
    /// … and the paths of the first of them.
    examples: Vec<PathBuf>,
}

/// A file, and what is at the output under its name.
struct OneFile<'a> {
    entry: &'a SourceEntry,
    there: Option<&'a Stat>,
    /// The share of parity that it gets.
    share: Option<Share>,
}

/// Number of files that are named as examples of those that are too large.
const MOST_EXAMPLES: usize = 5;

/// A look that is made: by a dry walk of the source.
struct SpaceCheck<'a> {
    look: SpaceLook<'a>,
    walk: &'a Walk<'a>,
    /// True if the walk may wait until something is to be made.
    may_wait: bool,
    /// The files that have another name at the source now, where new names share data, and the record of a new
    /// snapshot: files that are recorded as the source has them are not looked at.
    recorded: RecordedFiles<'a>,
    stop: &'a Stop,
}

/// The result of a look that refused nothing.
pub enum SpaceAnswer {
    /// There is space, as far as that can be told.
    Fits {
        /// The message about files that are too large for the output's file system, whatever space it has.
        too_large: Option<Error>,
    },
    /// It is to be looked at when something is to be made.
    Later,
}

impl SpaceCheck<'_> {
    /// Refuses a run for which the output has no space. `prepared` is what a dry run was prepared to.
    ///
    /// # Errors
    /// There is not enough space.
    fn run(&self, prepared: Prepared) -> Result<SpaceAnswer> {
        let fits = Ok(SpaceAnswer::Fits { too_large: None });
        let Prepared { source, output, file, parent, .. } = &prepared;
        let Some(at) = output.handle.as_ref().or(parent.as_ref()) else { return fits };
        // What is packed takes less space than it has bytes.
        if Place::of(at).is_ok_and(|place| place.is_some_and(|place| place.packs())) {
            return fits;
        }
        // Without an answer there is nothing to go by; the copy itself will tell.
        let (Ok(free), Ok(id)) = (sys::room(at), at.identity()) else { return fits };
        let root = Arc::clone(&output.root);
        let reserve = |need: &Need, certainty, claim| {
            let fits = |left: &FreeSpace| need.fits(left, &root);
            self.look.reservations.reserve(id.dev, free, certainty, claim, fits)
        };
        let is_ample = |most: UsedSpace| {
            let UsedSpace { bytes, files } = and(most, most);
            let twice = Need { bytes, files, ..Need::default() };
            reserve(&twice, Certainty::AtMost, most).is_ok()
        };
        // Elsewhere there may be files to name that are too large.
        let holds_any = file.is_none() && output.largest_file().is_none() && !output.is_fat();
        if holds_any
            && !self.walk.classifier.selection.follow_links
            && sys::most_below(&source.handle).is_some_and(is_ample)
        {
            return fits;
        }
        if holds_any && self.may_wait {
            return Ok(SpaceAnswer::Later);
        }
        let need = match file {
            Some(entry) => {
                let mut need = Need::default();
                self.add(&mut need, output, entry, &free);
                need
            }
            None => self.sum(prepared, &free),
        };
        let claim = UsedSpace { bytes: need.taken(), files: need.files };
        reserve(&need, Certainty::Exactly, claim)?;
        Ok(SpaceAnswer::Fits { too_large: need.too_large(&root) })
    }

    /// The space for everything that the walk finds.
    fn sum(&self, prepared: Prepared, free: &FreeSpace) -> Need {
        let SpaceLook { job, progress, outputs, .. } = self.look;
        let stat_workers = job.workers_for(&prepared, false, outputs).stat_workers();
        let Prepared { source, output, .. } = prepared;
        let (sum, missed) = (Mutex::new(Need::default()), AtomicBool::new(false));
        let walked = self.walk.run_parallel(source, output, stat_workers, &|found| {
            let mut need = Need::default();
            match &found {
                WalkEvent::Files(batch) => {
                    let size = |file: &SourceEntry| file.stat.size;
                    self.count(batch.files.len(), batch.files.iter().map(size).sum());
                    for file in &batch.files {
                        self.add(&mut need, &batch.output, file, free);
                    }
                }
                WalkEvent::Item(WalkItem::HardLink(..) | WalkItem::Symlink(..)) => self.count(1, 0),
                WalkEvent::Item(WalkItem::Done(output)) => {
                    need.add_parts(output, self.look.job.rescue);
                }
                WalkEvent::Item(WalkItem::Failed(_)) => missed.store(true, Relaxed),
                WalkEvent::Item(_) => {}
            }
            sum.lock().unwrap_or_else(PoisonError::into_inner).join(need);
            match self.stop.is_requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let whole = walked.is_continue() && !missed.into_inner();
        progress.counted.store(whole, Relaxed);
        sum.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what one file takes.
    fn add(&self, need: &mut Need, output: &OutputDir, entry: &SourceEntry, free: &FreeSpace) {
        let options = &self.look.job.options;
        if leave_out(&options.selection, SourceStat(&entry.stat)).is_some()
            || self.is_recorded(output, entry)
        {
            return;
        }
        // An entry that cannot be looked at will fail, and takes nothing.
        let Ok(there) = output.look(&entry.name) else { return };
        // It is taken for the renamed file that it looks like: if it is another, the disk may fill up.
        let is_renamed = |renamed: &RenamedFiles<'_>| renamed.may_have(&entry.stat);
        if there.is_none() && self.recorded.renamed.is_some_and(is_renamed) {
            need.files += 1;
            return;
        }
        let share = self.look.job.parity.map(Share);
        need.add(options.policy, output, OneFile { entry, there: there.as_ref(), share }, free);
    }

    /// True if a snapshot should have the file as it is in the source, so that it takes nothing.
    fn is_recorded(&self, output: &OutputDir, entry: &SourceEntry) -> bool {
        let stat = &entry.stat;
        let is_as = |trace: Trace| {
            (trace.size, trace.mtime) == (stat.size, stat.mtime) && stat.ctime < trace.ctime
        };
        self.recorded.known.is_some_and(|known| {
            let path = output.rel.join(&entry.name);
            known.recorded_trace(path.as_bytes(), &mut NextLine::default()).is_some_and(is_as)
        })
    }

    fn count(&self, entries: usize, bytes: u64) {
        self.look.progress.total_entries.fetch_add(entries as u64, Relaxed);
        self.look.progress.total_bytes.fetch_add(bytes, Relaxed);
    }
}

impl Need {
    /// Adds what others need.
    fn join(&mut self, other: Need) {
        let Need { bytes, files, parity, parts, too_large, examples } = other;
        self.parity = self.parity.saturating_add(parity);
        self.bytes = self.bytes.saturating_add(bytes);
        self.files += files;
        self.parts = self.parts.saturating_add(parts);
        self.too_large += too_large;
        let room = MOST_EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(examples.into_iter().take(room));
    }

    /// Adds what one file takes.
    fn add(&mut self, policy: Policy, output: &OutputDir, file: OneFile<'_>, free: &FreeSpace) {
        let OneFile { entry, there, share } = file;
        let source = SourceStat(&entry.stat);
        // What may be the same mostly is.
        let destination = there.map(|stat| {
            let compared = output.compare_times(entry.stat.mtime, stat.mtime, None);
            DestinationStat { stat, same_time: compared != TimeMatch::Other }
        });
        let decision = decide(policy, source, destination);
        if !matches!(decision, Decision::Create | Decision::Replace) {
            return;
        }
        if refuse_large(output.largest_file(), source).is_some() {
            self.too_large += 1;
            if self.examples.len() < MOST_EXAMPLES {
                self.examples.push(output.path_of(&entry.name));
            }
            return;
        }
        // Another file system that is mounted below the output has space of its own.
        if !output.volume.with_root {
            return;
        }
        self.files += u64::from(decision == Decision::Create);
        let parity = share.map_or(0, |share| share.least(entry.stat.size));
        self.parity = self.parity.saturating_add(parity);
        let freed = there.map_or(0, |there| there.allocated);
        self.bytes = self
            .bytes
            .saturating_add(least(&entry.stat, free, !output.is_fat()).saturating_sub(freed));
    }

    /// Adds the part files in a directory, and where they are gone on with what a rescue has.
    fn add_parts(&mut self, output: &OutputDir, rescues: bool) {
        let Some(dir) = output.handle.as_ref().filter(|_| output.volume.with_root) else { return };
        let Some(tag) = output.volume.parts.output else { return };
        self.parts = self.parts.saturating_add(part_files(dir, tag, rescues));
    }

    /// The space that is taken in the end; bytes.
    fn taken(&self) -> u64 {
        self.bytes.saturating_sub(self.parts).saturating_add(self.parity)
    }

    /// The message about files that are too large.
    fn too_large(&self, output: &Path) -> Option<Error> {
        let examples = self.examples.iter().map(|path| Shown::path(path));
        let names = Shown::first_of(self.too_large, examples);
        let finding = format!(
            "its file system is FAT, where no file can have 4 GiB: {names} cannot be copied; exFAT can hold \
             them, and --exclude or --max-size leave them out"
        );
        (self.too_large > 0).then(|| Error::finding("copy everything to", output, finding))
    }

    fn fits(&self, free: &FreeSpace, output: &Path) -> Result<()> {
        let (bytes, files) = (self.taken(), self.files);
        let remedy = "make room, choose another output, leave files out (--exclude), or copy as \
                      much as fits (--no-space-check)";
        let finding = if bytes > free.bytes {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            format!(
                "it has {} MiB free, and the files to copy take at least {} MiB{}; {remedy}",
                free.bytes >> 20,
                mib(bytes),
                if self.parity > 0 { " with their parity" } else { "" }
            )
        } else if let Some(most) = free.files.filter(|most| files > *most) {
            format!("it can hold {most} more files, and there are {files} to copy; {remedy}")
        } else {
            return Ok(());
        };
        Err(Error::finding("copy to", output, finding))
    }
}

/// The space of the part files with this tag in a directory, and with `rescues` of what a rescue has; bytes.
pub fn part_files(dir: &Dir, tag: PartTag, rescues: bool) -> u64 {
    let listed = DirListing::of(dir).into_iter().flatten().map_while(Result::ok);
    let is_rescued = |name: &OsStr| rescues && name.as_encoded_bytes().ends_with(ENDING.as_bytes());
    let parts = listed.filter(|it| tag.is_in(&it.name) || is_rescued(&it.name));
    let size = |name: &OsStr| dir.stat(name, false).map_or(0, |part| part.allocated);
    parts.map(|part| size(&part.name)).fold(0, u64::saturating_add)
}

/// The least that a copy of a file takes, in bytes.
pub fn least(stat: &Stat, free: &FreeSpace, has_holes: bool) -> u64 {
    let filled = if has_holes { stat.size.min(stat.allocated) } else { stat.size };
    filled.next_multiple_of(free.block.max(1))
}

// When a run looks whether its output has space: before anything else, or, where earlier runs were, before the first
// thing that it makes.

/// A look at the space of an output.
#[derive(Clone, Copy)]
pub struct SpaceLook<'a> {
    pub job: &'a CopyJob,
    /// The space that outputs of the run reserve.
    pub reservations: &'a Reservations,
    /// Has its final totals afterwards, if a walk is made.
    pub progress: &'a Progress,
    /// Number of outputs of the run.
    pub outputs: usize,
}

impl SpaceLook<'_> {
    /// Looks before the run, if it is to look. Several outputs, which reserve what they need of one device, are looked
    /// at then, and so is one that no run was at: there all is to be made.
    ///
    /// # Errors
    /// There is no space.
    pub fn before(&self, patience: Patience<'_>) -> Result<SpaceAnswer> {
        let job = self.job;
        if !job.options.check_space {
            return Ok(SpaceAnswer::Fits { too_large: None });
        }
        let may_wait = self.outputs == 1 && !job.dry_run && job.shard.is_none();
        self.run(patience, may_wait, RecordedFiles::default())
    }

    /// Looks; if it `may_wait`, and anything was made at the output before, perhaps later.
    ///
    /// # Errors
    /// There is no space.
    pub fn run(
        &self,
        patience: Patience<'_>,
        may_wait: bool,
        recorded: RecordedFiles<'_>,
    ) -> Result<SpaceAnswer> {
        let Self { job, outputs, .. } = *self;
        let dry = job.prepare(true, patience)?;
        // Clones take next to no space.
        if job.options.reflink != Reflink::Never
            && job.options.sparse == Sparse::Auto
            && dry.may_share
        {
            return Ok(SpaceAnswer::Fits { too_large: None });
        }
        let recorded = RecordedFiles {
            known: recorded.known.filter(|_| job.prunes),
            renamed: recorded.renamed.filter(|renamed| {
                let can_clone = || dry.output.handle.as_ref().and_then(Dir::try_clone_within);
                renamed.links.is_usable() || matches!(can_clone(), Some(Cloned::Yes))
            }),
        };
        let (walk, stop) = (&job.walk(&dry, true, None, outputs), patience.stop);
        let may_wait = may_wait && job.has_private_dir(&dry);
        SpaceCheck { look: *self, walk, may_wait, recorded, stop }.run(dry)
    }
}

/// The records of earlier runs, as far as the look asks for them.
#[derive(Clone, Copy, Default)]
pub struct RecordedFiles<'a> {
    /// The renamed files, which take no space where data can be shared.
    pub renamed: Option<&'a RenamedFiles<'a>>,
    /// The record of the output's files.
    pub known: Option<&'a Knowledge>,
}

/// A look that comes when the run is about to make the first thing, and ends it if there is no space.
pub struct LateSpaceLook<'a> {
    look: SpaceLook<'a>,
    stop: &'a Stop,
    refusal: Mutex<Option<Error>>,
}

impl<'a> LateSpaceLook<'a> {
    /// One that asks `stop` to end the run.
    pub fn new(look: SpaceLook<'a>, stop: &'a Stop) -> Self {
        Self { look, stop, refusal: Mutex::new(None) }
    }

    /// True if there is space, given the records.
    pub fn lets_pass(&self, recorded: RecordedFiles<'_>) -> bool {
        let patience = Patience { wait: false, deed: "copy to", tell: &|_| (), stop: self.stop };
        let Err(refusal) = self.look.run(patience, false, recorded) else { return true };
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
        self.stop.request(Stop::GIVEN_UP);
        false
    }

    /// Why there is none.
    pub fn refusal(self) -> Option<Error> {
        self.refusal.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

// The space that several outputs reserve on one file system, so that what fits for each of them alone is not
// begun where it does not fit for all.

/// The space that the outputs of a run reserve on their file systems.
#[derive(Debug, Default)]
pub struct Reservations(Mutex<HashMap<u64, FileSystemClaims>>);

/// The reservations on one file system.
#[derive(Debug)]
struct FileSystemClaims {
    /// The free space when the first output looked: others may be writing by now.
    free: FreeSpace,
    exact: UsedSpace,
    at_most: UsedSpace,
}

/// The certainty of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// So much is needed: no other output can have it.
    Exactly,
    /// It may be less. Others are not refused for it, but have to find out what they need exactly.
    AtMost,
}

impl Reservations {
    /// Reserves `claim` of the file system `dev`, of which `free` is free as the system says, if `fits` says
    /// that it fits in what others leave of it.
    ///
    /// # Errors
    /// It does not fit, as `fits` says.
    pub fn reserve(
        &self,
        dev: u64,
        free: FreeSpace,
        certainty: Certainty,
        claim: UsedSpace,
        fits: impl FnOnce(&FreeSpace) -> Result<()>,
    ) -> Result<()> {
        // No call in between can panic.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = UsedSpace::default();
        let reserved =
            all.entry(dev).or_insert(FileSystemClaims { free, exact: nothing, at_most: nothing });
        let taken = match certainty {
            Certainty::Exactly => reserved.exact,
            Certainty::AtMost => and(reserved.exact, reserved.at_most),
        };
        let left = FreeSpace {
            bytes: reserved.free.bytes.saturating_sub(taken.bytes),
            files: reserved.free.files.map(|free| free.saturating_sub(taken.files)),
            ..free
        };
        fits(&left).map_err(|error| match taken.bytes.max(taken.files) {
            0 => error,
            _ => error.with_note("; another output on that file system takes the rest"),
        })?;
        let sum = match certainty {
            Certainty::Exactly => &mut reserved.exact,
            Certainty::AtMost => &mut reserved.at_most,
        };
        *sum = and(*sum, claim);
        Ok(())
    }
}

fn and(one: UsedSpace, other: UsedSpace) -> UsedSpace {
    UsedSpace {
        bytes: one.bytes.saturating_add(other.bytes),
        files: one.files.saturating_add(other.files),
    }
}

#[cfg(test)]
mod space_tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let room = FreeSpace { bytes: 8192, block: 4096, files: Some(2) };
        let out = Path::new("/out");
        assert!(
            Need { bytes: 8192 + 4096, files: 2, parts: 4096, ..Need::default() }
                .fits(&room, out)
                .is_ok()
        );
        let error =
            Need { bytes: 8193, ..Need::default() }.fits(&room, out).unwrap_err().to_string();
        assert!(error.contains("has 0 MiB free") && error.contains("at least 1 MiB"), "{error}");
        let error = Need { files: 3, ..Need::default() }.fits(&room, out).unwrap_err().to_string();
        assert!(error.contains("hold 2 more files"), "{error}");
        let unlimited = FreeSpace { files: None, ..room };
        assert!(Need { files: u64::MAX, ..Need::default() }.fits(&unlimited, out).is_ok());
    }
}

#[cfg(test)]
mod reservation_tests {
    use super::*;
    use super::{Certainty::AtMost, Certainty::Exactly};
    use crate::error::Error;

    #[test]
    fn what_one_output_reserves_is_not_there_for_another() {
        let reservations = Reservations::default();
        let claim = |dev, free, bytes, certainty| {
            let free = FreeSpace { bytes: free, block: 1, files: Some(10) };
            let fits = |left: &FreeSpace| match bytes <= left.bytes {
                true => Ok(()),
                false => Err(Error::finding("copy to", "out", "too much")),
            };
            let claim = UsedSpace { bytes, files: 1 };
            reservations.reserve(dev, free, certainty, claim, fits)
        };
        assert!(claim(1, 100, 60, Exactly).is_ok());
        let error = claim(1, 100, 50, Exactly).unwrap_err().to_string();
        assert!(error.contains("another output"), "{error}");
        // What the first has written by now is not counted twice.
        assert!(claim(1, 70, 40, Exactly).is_ok());
        assert!(claim(2, 100, 50, Exactly).is_ok());
        let error = claim(3, 100, 200, Exactly).unwrap_err().to_string();
        assert!(!error.contains("another output"), "{error}");
        // A claim that may be less is in the way only of others that may be less.
        assert!(claim(4, 100, 60, AtMost).is_ok() && claim(4, 100, 60, AtMost).is_err());
        assert!(claim(4, 100, 60, Exactly).is_ok() && claim(4, 100, 60, Exactly).is_err());
    }
}
