//! The report of a run: counts, times, and how it ended.

use std::{path::Path, path::PathBuf, sync::atomic::Ordering::Relaxed, time::Duration};

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    error::Cause, error::Error, event::Progress, event::StageTiming, event::Stop, event::Timings,
    fanout::Slot, io::HashedFrom, parity::ParityReport, part::Tally, part::content::Method,
    staged::GO_ON_WRITING, state::CountedRun, sys, sys::Durable, sys::ResidentBytes,
    sys::VolumeDetails,
};

/// The entries by outcome. For a run that was not stopped, `seen = copied + replaced + linked + symlinks + specials +
/// unchanged + left + failed`.
///
/// The names of the fields are part of the format of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Files and links found in the source, and directories that could not be entered or listed.
    pub seen: u64,
    /// Files copied to where nothing was.
    pub copied: u64,
    /// Files copied in place of an older file.
    pub replaced: u64,
    /// Files at the output that had other content than their size and time say, or could not be read, and were copied
    /// anew.
    pub anew: u64,
    /// Further names of copied files (only when hard links are kept).
    pub linked: u64,
    /// Symbolic links that were made.
    pub symlinks: u64,
    /// FIFOs, sockets and devices that were made (only when they are copied).
    pub specials: u64,
    /// Files, links and others that were there already.
    pub unchanged: u64,
    /// Symbolic links of those …
    pub unchanged_links: u64,
    /// … and FIFOs, sockets and devices.
    pub unchanged_specials: u64,
    /// Files of those that were given the source's permissions, owner and attributes.
    pub attributes: u64,
    /// Files and links that differ at the output and were left.
    pub left: u64,
    /// Entries that are not at the output because of an error.
    pub failed: u64,
    /// Files that waited until all others were done, because they could not be read (only where what can be read is
    /// kept); not part of `seen`.
    pub put_off: u64,
    /// Those among the failed ones for which there was no room.
    pub without_room: u64,
    /// Files among the failed ones whose copy was not on the medium as it was written and whose second
    /// copy came to nothing either (only when copies are verified).
    pub damaged: u64,
    /// Files that a second reading of the source does not confirm: it failed, or it was something else, twice; the
    /// latter are among the failed ones (only when the source is read twice).
    pub unconfirmed: u64,
    /// Files among the failed ones of which this machine computed two digests.
    pub miscomputed: u64,
    /// Files among the failed ones that are not what is expected of the source, although nothing says
    /// that they were edited (only when it is held against an earlier manifest).
    pub rotten: u64,
    /// Files at the output that were not copied and whose content is not what an earlier run recorded, although
    /// size and time are, and files whose content is not what a history of ASC MHL has; not part of `seen`.
    pub decayed: u64,
    /// FIFOs, sockets and devices, which are not copied; not part of `seen`.
    pub skipped: u64,
    /// Attributes that could not be set, and the like; not part of `seen`.
    pub warnings: u64,
    /// Bytes of the files copied and replaced, holes included.
    pub bytes: u64,
    /// Bytes of the files unchanged.
    pub unchanged_bytes: u64,
    /// Files of those copied and replaced that a run that was killed had begun; not part of `seen`.
    pub resumed: u64,
    /// Bytes of them that were not read again.
    pub resumed_bytes: u64,
    /// Bytes of what the source's file system calls holes, which were believed and not read.
    pub believed_bytes: u64,
    /// Files whose beginning is left to the next run, because this one was asked to stop; not part of `seen`
    /// as those that are done.
    pub suspended: u64,
    /// Bytes of these beginnings, which the next run does not read again.
    pub suspended_bytes: u64,
    /// Files copied, replaced or unchanged that were read back from the device and found right.
    pub from_device: u64,
    /// The bytes of `from_device`.
    pub from_device_bytes: u64,
    /// … and those that could only be read through a cache.
    pub from_cache: u64,
    /// The bytes of `from_cache`.
    pub from_cache_bytes: u64,
    /// Files copied or replaced whose source was read a second time, with the same result …
    pub read_twice: u64,
    /// … and those of them that could only be read through a cache then.
    pub read_twice_from_cache: u64,
    /// Files that this output read from the source by itself, in part at least, although others did
    /// too, because it was behind (only with several outputs).
    pub fallback: u64,
    /// Files that were forgotten, because too many others were copied before this output came to them,
    /// so that the source was read once more (only with several outputs).
    pub reread: u64,
    /// Lines carried over for files that are at the output and that this run neither copied nor
    /// found unchanged: they have left the source, or differ and were left.
    pub reused_lines: u64,
    /// Files and links that have left the source and were moved to the trash (only of a mirror; these are not part of
    /// `seen`).
    pub departed: u64,
    /// The bytes of these.
    pub departed_bytes: u64,
    /// Pieces, a directory with everything in it being one, that have left the source and could not be moved.
    pub not_departed: u64,
    /// Directories of the output that are not open to those who may enter their counterparts, because something is in
    /// them that is not known to be of the source; not part of `seen`.
    pub closed: u64,
    /// Entries of the output that have no counterpart in the source and stay, because no earlier run listed them.
    pub foreign: u64,
    /// Lines of earlier runs that were dropped for what has left the source.
    pub dropped_lines: u64,
    /// Files of the source that were read and are as expected. These three are not part of `seen`.
    pub as_expected: u64,
    /// … that are not, because they were edited.
    pub edited: u64,
    /// Files that are expected and are not in the source.
    pub gone: u64,
    /// Number of these that are files of a list that was expected as it is, as a bag's.
    pub lost: u64,
    /// Lines of what is expected that were of no use: malformed, or of names that no tree can hold.
    pub unusable_lines: u64,
    /// 1 if the bag that is expected does not list all of its payload, or if nothing that is expected is in the source:
    /// of how many files that is, is not known.
    pub unheld: u64,
    /// Files that are in the manifest and could not be put into every further list.
    pub unlisted: u64,
}

impl Counts {
    /// The entries whose fate is known.
    pub fn settled(&self) -> u64 {
        let Counts {
            copied, replaced, linked, symlinks, specials, unchanged, left, failed, ..
        } = self;
        copied + replaced + linked + symlinks + specials + unchanged + left + failed
    }

    /// True if anything was written, or read back: then how far that is proven is told.
    pub fn is_any_proven(&self) -> bool {
        self.copied + self.replaced + self.from_device + self.from_cache > 0
    }

    /// Files that are at the output as in the source, each name by itself.
    pub fn files(&self) -> u64 {
        let Counts { copied, replaced, linked, unchanged, unchanged_links, .. } = self;
        let all = [copied, replaced, linked, unchanged].into_iter();
        let all = all.fold(0, |sum: u64, some| sum.saturating_add(*some));
        all.saturating_sub(unchanged_links.saturating_add(self.unchanged_specials))
    }

    /// FIFOs, sockets and devices that are.
    pub fn all_specials(&self) -> u64 {
        self.specials.saturating_add(self.unchanged_specials)
    }

    /// Symbolic links that are.
    pub fn links(&self) -> u64 {
        self.symlinks.saturating_add(self.unchanged_links)
    }

    /// True if what earlier runs left may go: everything is at the output, and nothing there has rotted, of which an
    /// older list or the trash may have what is needed.
    pub(crate) fn has_nothing_amiss(&self) -> bool {
        self.is_whole() && self.decayed == 0
    }

    /// True if everything is at the output, and everything that is expected was of use.
    pub(crate) fn is_whole(&self) -> bool {
        let missing = self.failed + self.left + self.unusable_lines + self.lost;
        missing + self.not_departed + self.closed + self.unlisted + self.unheld == 0
    }

    /// Takes over what is counted elsewhere: beside the files, and of an output among several.
    pub(crate) fn take_over(&mut self, slot: Option<Slot<'_>>, progress: &Progress) {
        self.believed_bytes = progress.believed.load(Relaxed);
        if let Some(slot) = slot {
            (self.fallback, self.reread) = (slot.read_alone(), slot.forgotten());
        }
    }

    /// Counts a file of so many bytes that was read back and found right.
    pub fn verified(&mut self, proof: HashedFrom, size: u64) {
        let (files, bytes) = match proof {
            HashedFrom::Device => (&mut self.from_device, &mut self.from_device_bytes),
            HashedFrom::Cache => (&mut self.from_cache, &mut self.from_cache_bytes),
        };
        (*files, *bytes) = (*files + 1, bytes.saturating_add(size));
    }

    /// Counts a file whose second reading at the source agrees with the first.
    pub fn read_twice(&mut self, second: HashedFrom) {
        self.read_twice += 1;
        self.read_twice_from_cache += u64::from(second == HashedFrom::Cache);
    }
}

/// Time that a stage worked and waited, summed over the workers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StageTime {
    /// Working.
    #[serde(rename = "busy_seconds", serialize_with = "seconds")]
    pub busy: Duration,
    /// Waiting for another stage.
    #[serde(rename = "waited_seconds", serialize_with = "seconds")]
    pub waited: Duration,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stages {
    /// Opening and reading the source.
    pub read: StageTime,
    /// Hashing.
    pub hash: StageTime,
    /// Threads that write part files.
    pub write: StageTime,
    /// Reading back what was copied.
    pub read_back: StageTime,
    /// Making durable, publishing and recording. Its wait is that for something to do.
    pub commit: StageTime,
}

impl Stages {
    /// The times by the clocks of a run.
    pub(crate) fn of(timings: &Timings) -> Self {
        let time = |clock: &StageTiming| StageTime { busy: clock.busy(), waited: clock.waited() };
        Self {
            read: time(&timings.read),
            hash: time(&timings.hash),
            write: time(&timings.write),
            read_back: time(&timings.prove),
            commit: time(&timings.commit),
        }
    }
}

/// The end of a run.
#[derive(Debug, Default)]
pub enum Ending {
    /// Everything asked for was done.
    Complete,
    /// The run came to its end, but entries failed or were left different.
    #[default]
    Incomplete,
    /// The run came to its end, but the output's medium did not hold what was written to it, and for
    /// some files not at the second attempt either: these are not at the output.
    Unproven,
    /// The run came to its end, but files of the source are not what was expected of it, and were not copied, or are
    /// gone where all is expected; or files that are only at the output are not what was recorded of them. They have
    /// rotted.
    Rotten,
    /// The source has nothing to copy, which looks as if its disk were not there.
    Nothing(Error),
    /// The run was given up: an output became unusable, the source is gone, the manifest could not be written, or the
    /// program broke.
    Stopped(Error),
    /// The run was given up: this machine computed two digests of the same bytes.
    Miscomputed(Error),
    /// The run was asked to stop, with this code.
    Interrupted(usize),
}

impl Ending {
    /// The end of a run that was given up because of `broken`, if it was.
    pub(crate) fn of(counts: &Counts, stop: &Stop, broken: Option<Error>) -> Self {
        match (broken, stop.requested()) {
            (Some(error), _) if counts.miscomputed > 0 => Ending::Miscomputed(error),
            (Some(error), _) => Ending::Stopped(error),
            (None, Some(code)) => Ending::Interrupted(code),
            (None, None) if counts.damaged + counts.unconfirmed > 0 => Ending::Unproven,
            (None, None) if counts.rotten + counts.lost > 0 => Ending::Rotten,
            (None, None) if !counts.is_whole() => Ending::Incomplete,
            (None, None) if counts.decayed > 0 => Ending::Rotten,
            (None, None) => Ending::Complete,
        }
    }

    /// Why the run was given up, if it was.
    pub fn given_up(&self) -> Option<&Error> {
        match self {
            Ending::Stopped(error) | Ending::Miscomputed(error) => Some(error),
            _ => None,
        }
    }
}

/// What a run lost that it cannot go on without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost<'a> {
    /// The disk of the source or of an output, at this path; it is so, in words.
    Disk(&'a Path, &'static str),
    /// The room of the output.
    Room,
}

/// The deed of a run that lost its source.
pub(crate) const GO_ON_READING: &str = "go on reading";

/// … and of one whose disk is there.
pub(crate) const READ_ON: &str = "read to the end";

/// The report of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The entries by outcome.
    pub counts: Counts,
    /// The end of the run: complete, or why not.
    pub ending: Ending,
    /// Files and links that there were to do, if they were counted.
    pub total: Option<u64>,
    /// Duration of the run, from the first look at the source to the last sync.
    pub elapsed: Duration,
    /// Where the time went.
    pub stages: Stages,
    /// The copy methods by which the content of files came, as far as they were completed at the output; those that
    /// moved nothing are left out.
    pub methods: Vec<(Method, Tally)>,
    /// Bytes of large files that came into memory by this run and stayed there: of the source, …
    pub source_stayed: ResidentBytes,
    /// … and of the output.
    pub output_stayed: ResidentBytes,
    /// Number of workers.
    pub workers: usize,
    /// Number of threads that read copies back.
    pub verifiers: usize,
    /// True if the source was held against an earlier manifest.
    pub expected: bool,
    /// True if an earlier run was cut short, and this one went on with its records.
    pub resumed: bool,
    /// The manifest, finished or not, if one was written.
    pub manifest: Option<PathBuf>,
    /// Where what has left the source was moved to, if anything was.
    pub trash: Option<PathBuf>,
    /// The Media Hash List that was written, if one was: of a history the generation of the whole output.
    pub media_list: Option<PathBuf>,
    /// The lists beside the manifest that were written; none of a manifest that is not finished.
    pub lists: Vec<PathBuf>,
    /// What was made of the output's parity while files were copied, if that was asked for.
    pub parity: Option<ParityReport>,
    /// The facts about the file systems of the source …
    pub source_volume: VolumeDetails,
    /// … and of the output, when the run began.
    pub output_volume: VolumeDetails,
    /// The worth of syncs at the output; `None` if nothing was synced.
    pub durable: Option<Durable>,
    /// True if some of what was hashed was hashed twice.
    pub hashed_twice: bool,
    /// The number of the device that the output is on, while the system runs.
    pub output_device: u64,
    /// Its number among the runs at the output, for its receipt; `None` of one that keeps nothing there.
    pub counted: Option<CountedRun>,
}

impl Report {
    /// The report of a run that only told what would happen.
    pub(crate) fn dry(counts: Counts, stop: &Stop, elapsed: Duration) -> Self {
        let ending = Ending::of(&counts, stop, None);
        Self { ending, counts, elapsed, ..Self::default() }
    }

    /// What the run to `output` lost, if that is why it was given up. What it keeps elsewhere is named by its error.
    pub fn lost(&self, output: &Path) -> Option<Lost<'_>> {
        let Counts { failed, without_room, left, .. } = self.counts;
        let error = match &self.ending {
            Ending::Incomplete if without_room > 0 && without_room == failed && left == 0 => {
                return Some(Lost::Room);
            }
            Ending::Stopped(error) => error,
            _ => return None,
        };
        match (error.cause(), error.deed()) {
            (Cause::Io(cause), _) if sys::is_disk_full(cause) => {
                error.path().starts_with(output).then_some(Lost::Room)
            }
            (Cause::Finding(_), GO_ON_READING | GO_ON_WRITING) => {
                Some(Lost::Disk(error.path(), "gone"))
            }
            (Cause::Io(_), GO_ON_WRITING) => Some(Lost::Disk(error.path(), "gone or broken")),
            _ => None,
        }
    }
}
