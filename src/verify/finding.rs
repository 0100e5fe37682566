//! The findings of a check, and the way a program hears of them.

use std::{path::Path, path::PathBuf, sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    chain::Damage, error::Error, event::Observer, event::Progress, event::Stop, hash::Digest,
    io::HashedFrom, manifest::Fault, manifest::ManifestName, manifest::OtherName,
    parity::ParityReport, path::RelPath, state::SinceRecorded, state::Trace,
    state::plugs::Replugged, sys::stat::Kind, tree::LastDir, verify::Coverage, verify::ManifestAt,
    verify::ManifestLines, verify::Rival, verify::ShardCoverage, verify::Target,
    verify::TargetSpec, verify::VerifyJob, verify::expand,
    verify::lines::manifest_lines::converted, verify::lines::shards::LinesWanted,
    verify::lines::shards::WantedLines, verify::target::OpenTarget,
};

/// The verdict on a listed file.
#[derive(Debug)]
pub enum Verdict {
    /// It has the listed digest.
    Good(HashedFrom),
    /// The file is there and has another digest, this one if it is known; where it differs, if there is a chain that
    /// tells.
    Differs(HashedFrom, Option<Digest>, Option<Box<Damage>>),
    /// The file is there and has another size than is on record for what is listed, so it was not read; where it
    /// differs, if there is a chain that tells.
    OtherSize {
        /// The size of the file, in bytes.
        found: u64,
        /// The one on record.
        recorded: u64,
        /// The places that differ, as far as the recorded size goes.
        damage: Option<Box<Damage>>,
    },
    /// There is nothing of that name.
    Missing,
    /// Its name leads through something that is not a directory; symbolic links are not followed.
    NotThrough(Kind),
    /// The name belongs to something that is not a regular file, and was not opened.
    NotAFile(Kind),
    /// It could not be read, or changed meanwhile.
    Unreadable(Error),
    /// The name is not one below the root, for this reason; nothing was opened.
    Refused(String),
}

/// What contradicts a line of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A later generation of the same history has another digest of the file.
    LaterGeneration,
    /// This user's runs recorded otherwise what the bag holds.
    Record(SinceRecorded),
    /// It is a tag manifest of a bag, and this user's last run wrote it otherwise.
    TagList,
}

/// A file that is bad in one of several directories that are copies of each other. Directories are as they
/// were given.
#[derive(Debug)]
pub struct Comparison {
    /// Its name below each of them.
    pub path: RelPath,
    /// Where it is bad, and in which way: `differs`, `missing`, `not a regular file` or `unreadable`.
    pub bad: Vec<(&'static str, PathBuf)>,
    /// True if somewhere nothing else than a file has its name or stands on the way to it.
    pub may_be_replaced: bool,
    /// Where it has the digest that is listed where it is bad.
    pub good: Vec<PathBuf>,
    /// Where another digest is listed, or two.
    pub other: Vec<PathBuf>,
}

impl Comparison {
    /// True if the file can be made whole from where it is good.
    pub fn is_repairable(&self) -> bool {
        self.may_be_replaced && !self.good.is_empty()
    }
}

/// The repair of a bad file, done or possible.
#[derive(Debug)]
pub struct Mend {
    /// Its name below its root.
    pub path: RelPath,
    /// The roots of the trees that gave what it lacked.
    pub from: Vec<PathBuf>,
    /// Number of bytes that were taken from them.
    pub bytes: u64,
    /// True if all the rest is shared with the bad file, instead of written once more.
    pub is_cloned: bool,
    /// True if nothing was done.
    pub dry_run: bool,
}

/// The verdict on the files that are listed of one of several directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeVerdict {
    /// Files that have the listed digest.
    pub good: u64,
    /// Files that have another.
    pub differ: u64,
    /// Listed files that are not there, or not as regular files.
    pub missing: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// Files that are not listed, where all must be.
    pub unlisted: u64,
    /// Other trouble: with the directory, the manifest or its lines.
    pub other: u64,
    /// True if its manifest lists nothing because the last run found nothing.
    pub none_found: bool,
}

impl TreeVerdict {
    /// True if all that is listed is as listed, and something is, or nothing was found to be listed.
    pub fn is_good(&self) -> bool {
        (self.good > 0 || self.none_found)
            && self.differ + self.missing + self.unreadable + self.unlisted + self.other == 0
    }
}

/// The verdict on a bag by all that was found of it (RFC 8493).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagVerdict {
    /// Complete, and every file has its listed digests.
    Valid,
    /// Everything is there that must be, and listed, but a file has another digest or could not be read.
    Complete,
    /// Something is missing, or not listed, or cannot be read as what it must be.
    Incomplete,
}

impl std::fmt::Display for BagVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BagVerdict::Valid => "a valid bag",
            BagVerdict::Complete => "a complete bag, but not a valid one",
            BagVerdict::Incomplete => "not a complete bag",
        })
    }
}

/// A finding of a check. Lines are counted from 1.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// A listed file was looked for.
    File {
        /// The line that lists it.
        line: u64,
        /// The name, as far as it may be one.
        path: RelPath,
        /// The digest on the line.
        listed: Digest,
        /// The verdict on it.
        verdict: Verdict,
        /// Number of bytes that were hashed.
        bytes: u64,
        /// Number of bytes that were not hashed, because they are the data of a file that was hashed.
        shared: u64,
        /// What the file was when it was read, if it is as listed, came from the device, and that is the root's.
        proven: Option<Trace>,
    },
    /// There is no file of the name, but there is one if `\` is taken for `/`; it is judged next.
    Converted {
        /// Where in the manifest, from 1.
        line: u64,
        /// The name on it.
        from: RelPath,
        /// The name that was taken instead.
        to: RelPath,
    },
    /// The name is not one below the root; nothing was opened.
    Refused {
        /// Where in the manifest, from 1.
        line: u64,
        /// The name as it stands there, not to be shown raw.
        name: Vec<u8>,
        /// The rule that it breaks.
        why: String,
    },
    /// The name was on an earlier line too.
    Twice {
        /// Where in the manifest, from 1.
        line: u64,
        /// Where the name was first.
        first: u64,
        /// The name that both lines have.
        path: RelPath,
        /// True if both have the same digest. If so, the file is checked once.
        same: bool,
    },
    /// A line, or that there is none, contradicts what is known of the file otherwise.
    Contradicts {
        /// Where in the manifest, from 1; 0 if no line has the file.
        line: u64,
        /// The file.
        path: RelPath,
        /// What knows it otherwise.
        by: Witness,
    },
    /// The line cannot be read.
    Malformed {
        /// Where in the manifest, from 1.
        line: u64,
        /// The place in the line at which reading it failed.
        fault: Fault,
    },
    /// The last line of a manifest of dircopy is not ended: it is cut off and says nothing.
    Torn {
        /// Where in the manifest, from 1.
        line: u64,
        /// True if the manifest is that of a run that did not come to its end, which explains the finding.
        unfinished: bool,
    },
    /// Lines of a manifest with SHA-256 digests have digests of another algorithm: their files are not
    /// checked by these.
    OtherAlgorithm {
        /// The first of these lines.
        line: u64,
        /// Its name, as in `SHA512`.
        algorithm: OtherName,
        /// Number of such lines.
        lines: u64,
    },
    /// Files are listed with no digest that can be checked, on this line or another: they are not checked.
    Unproven {
        /// The first of these lines.
        line: u64,
        /// The algorithm of its digest; `None` if all its digests failed.
        algorithm: Option<OtherName>,
        /// Number of such files.
        files: u64,
        /// True if nothing in the list, or the history, has a digest that can be checked.
        is_all: bool,
    },
    /// Something is odd and nothing is amiss.
    Notice(Error),
    /// A part of an archive is not there, or is not as the archive describes it.
    Incomplete(Error),
    /// The verdict on all that is listed of one of several directories; told at the end, for each.
    Tree(PathBuf, TreeVerdict),
    /// The verdict on a bag as a whole.
    Bag(BagVerdict),
    /// The manifest is UTF-16 text. It is read all the same.
    Utf16,
    /// The manifest lists nothing.
    Nothing,
    /// The manifest lists nothing, and is what the last run wrote: that found no file.
    NoneFound,
    /// The check waits for another run to end; what is known of that one.
    Waiting(String),
    /// The record of earlier scrubs is lost, for this reason.
    Forgotten(Error),
    /// A later run than that of the newest finished manifest was cut short.
    Unfinished(ManifestName),
    /// Another manifest may be taken for the one that holds.
    Rival(Rival),
    /// There are other lists, which are not checked.
    Others(Vec<String>),
    /// A regular file below the root is on no line.
    Unlisted(RelPath),
    /// A directory could not be looked through for files that are not listed.
    Unsearched(Error),
    /// The manifest or the root cannot be used, or not to its end.
    Unusable(Error),
    /// A file is bad in one of several directories that are copies of each other; told at the end, for each
    /// of these files.
    Compared(Comparison),
    /// A bad file has parity: of its set so many slices are bad, and so many recovery slices are left. Told at the end.
    Parity {
        /// Its name below its root.
        path: RelPath,
        /// Slices of the set that are bad or missing.
        bad: usize,
        /// Recovery slices that are good.
        left: usize,
        /// True if it can be repaired.
        is_enough: bool,
    },
    /// Number of findings of bad files that were too many to be compared.
    NotCompared(u64),
    /// The check itself broke.
    Broken(Error),
    /// Trees that are to be copies of one another list different digests for a file; told for each such name.
    Conflict(RelPath),
    /// A bad file was made whole, or could be.
    Healed(Mend),
    /// A bad file was not made whole.
    NotHealed {
        /// Its name below its root.
        path: RelPath,
        /// The obstacle.
        why: String,
        /// The places that no tree has good, as far as that is known.
        lost: Option<Box<Damage>>,
    },
    /// Number of bad files that were too many to be remembered and made whole.
    TooManyBad(u64),
    /// A file was made whole, and something beside its content is not as it was.
    Warning(Error),
}

/// Hears what a check finds, and where.
pub type FindingListener<'a> = dyn Fn(&Target, &Finding) + Sync + 'a;

/// The observer of a check: each finding as it comes, and the progress.
pub type FindingObserver<'a> = Observer<FindingListener<'a>>;

/// Findings of one target, on their way to the thread that tells them.
#[derive(Debug)]
pub struct Findings {
    pub target: Arc<Target>,
    /// The findings, in the order in which they are to be told.
    pub found: Vec<Finding>,
}

impl Findings {
    /// Findings of this target.
    pub fn new(target: &Arc<Target>, found: Vec<Finding>) -> Self {
        Self { target: Arc::clone(target), found }
    }
}

// Counting what there is to do, beside the check, so that progress has a total.
//
// Only a hint: it reads the manifests once more, looks at the files and ignores errors, and is
// given up when the check ends. A line that names a file a second time is counted again. Where a
// manifest cannot be read twice, there is no total.

/// Adds up the files that the manifests list into the totals of `progress`.
pub fn count(plans: &[TargetSpec], wanted: Option<LinesWanted>, progress: &Progress, stop: &Stop) {
    if !plans.iter().all(can_be_read_twice) || progress.counting.swap(true, Relaxed) {
        return;
    }
    for OpenTarget { target, found } in plans.iter().filter_map(|plan| plan.open().ok()) {
        let manifest = found.manifest;
        let len = manifest.metadata().map_or(0, |manifest| manifest.len());
        let mut wanted = wanted.map(|wanted| WantedLines::new(wanted, len));
        let mut lines = ManifestLines::new(&target, manifest);
        let mut last = LastDir::default();
        while let Ok(Some(line)) = lines.next_file() {
            if stop.is_requested() {
                return;
            }
            if wanted.as_mut().is_some_and(|wanted| !wanted.is_checked(&line)) {
                continue;
            }
            progress.total_entries.fetch_add(1, Relaxed);
            let size = size(&target, &line.path, &mut last).unwrap_or_default();
            progress.total_bytes.fetch_add(size, Relaxed);
        }
    }
    progress.counted.store(true, Relaxed);
}

/// True if a second reading takes nothing from the check, as it would from a pipe.
pub fn can_be_read_twice(plan: &TargetSpec) -> bool {
    match &plan.manifest {
        None => true,
        Some(ManifestAt::File(path)) => std::fs::metadata(path).is_ok_and(|file| file.is_file()),
        Some(ManifestAt::StandardInput) => false,
    }
}

/// The size of a regular file below the root.
fn size(target: &Target, path: &RelPath, last: &mut LastDir) -> Option<u64> {
    let stat = last.stat(target.handle().ok()?, path, false).ok()?;
    (stat.kind == Kind::File).then_some(stat.size)
}

// The report of a check.

/// Number of lines by verdict. The names of the fields are part of the format of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checked {
    /// Files that have the listed digest.
    pub good: u64,
    /// Files that have another.
    pub differ: u64,
    /// Listed files, and parts of archives, that are not there, or not as regular files that can be reached without
    /// following a symbolic link.
    pub missing: u64,
    /// Parts of archives that must be there and are not, or are not what the archive says of itself.
    pub incomplete: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// Names that are refused.
    pub refused: u64,
    /// Lines that cannot be read.
    pub malformed: u64,
    /// Lines with digests by algorithms that are not known here, beside others: it was only looked whether there is
    /// such a file.
    pub unhashed: u64,
    /// Files that are listed with no digest that can be checked, on any line.
    pub unproven: u64,
    /// Names that stand on a second line, with the same digest.
    pub repeated: u64,
    /// Names that stand on a second line, with another digest.
    pub contradicted: u64,
    /// Files found when `\` was taken for `/`.
    pub converted: u64,
    /// Files that are on no line.
    pub unlisted: u64,
    /// Names of files that are bad in one of several directories and good in another.
    pub repairable: u64,
    /// Bad files that could be made whole.
    pub healable: u64,
    /// Files that were bad and were made whole. They count among those that are good.
    pub healed: u64,
    /// Bytes that were taken from other trees for them.
    pub healed_bytes: u64,
    /// Bad files that could not be made whole.
    pub not_healed: u64,
    /// Large files that got states beside their manifest.
    pub states_made: u64,
    /// Names for which trees list different digests.
    pub conflicting: u64,
    /// Manifests that list nothing.
    pub empty: u64,
    /// Manifests and roots that could not be used …
    pub unusable: u64,
    /// … and those of them that are not there.
    #[serde(skip)]
    pub absent: u64,
    /// Number of other failures.
    pub broken: u64,
    /// Bad files for which parity does not suffice.
    pub beyond_repair: u64,
    /// Bytes that were hashed.
    pub bytes: u64,
    /// Good files that were not read, because their data is that of a file that was read.
    pub shared: u64,
    /// The bytes of these.
    pub shared_bytes: u64,
    /// Files that were read, good or not, and came from the device.
    pub from_device: u64,
    /// … and may have come from a cache.
    pub from_cache: u64,
}

impl Checked {
    /// Adds a finding to the counts of its kind.
    pub fn add(&mut self, finding: &Finding) {
        let counter = match finding {
            Finding::File { verdict, bytes, shared, .. } => {
                self.bytes += bytes;
                self.shared += u64::from(*shared > 0);
                self.shared_bytes += shared;
                if *shared == 0
                    && let Verdict::Good(proof) | Verdict::Differs(proof, ..) = verdict {
                    match proof {
                        HashedFrom::Device => self.from_device += 1,
                        HashedFrom::Cache => self.from_cache += 1,
                    }
                }
                match verdict {
                    Verdict::Good(_) => &mut self.good,
                    Verdict::Differs(..) | Verdict::OtherSize { .. } => &mut self.differ,
                    Verdict::Missing | Verdict::NotThrough(_) | Verdict::NotAFile(_) => {
                        &mut self.missing
                    }
                    Verdict::Unreadable(_) => &mut self.unreadable,
                    Verdict::Refused(_) => &mut self.refused,
                }
            }
            Finding::Converted { .. } => &mut self.converted,
            Finding::Refused { .. } => &mut self.refused,
            Finding::Twice { same: true, .. } => &mut self.repeated,
            Finding::Twice { same: false, .. } | Finding::Contradicts { .. } => &mut self.contradicted,
            Finding::Malformed { .. } | Finding::Torn { unfinished: false, .. } => {
                &mut self.malformed
            }
            Finding::OtherAlgorithm { lines, .. } => {
                self.unhashed += lines;
                return;
            }
            Finding::Unproven { files, is_all: false, .. } => {
                self.unproven += files;
                return;
            }
            Finding::Nothing | Finding::Unproven { .. } => &mut self.empty,
            Finding::Incomplete(_) => &mut self.incomplete,
            Finding::Unlisted(_) => &mut self.unlisted,
            Finding::Compared(comparison) if comparison.is_repairable() => &mut self.repairable,
            Finding::Parity { is_enough: true, .. } => &mut self.repairable,
            Finding::Parity { .. } => &mut self.beyond_repair,
            Finding::Unsearched(_) | Finding::Broken(_) => &mut self.broken,
            Finding::Rival(Rival::Doubtful(_)) => &mut self.unusable,
            Finding::Unusable(error) => {
                self.absent += u64::from(error.is_of_absent());
                &mut self.unusable
            }
            Finding::Torn { .. }
            | Finding::Utf16
            | Finding::NoneFound
            | Finding::Notice(_)
            | Finding::Bag(_)
            | Finding::Tree(..)
            | Finding::Waiting(_)
            | Finding::Unfinished(_)
            | Finding::Rival(_)
            | Finding::Others(_)
            | Finding::Forgotten(_)
            | Finding::Compared(_)
            | Finding::NotCompared(_)
            // A run that makes files whole counts what became of them.
            | Finding::Conflict(_)
            | Finding::Healed(_)
            | Finding::NotHealed { .. }
            | Finding::TooManyBad(_)
            | Finding::Warning(_) => return,
        };
        *counter += 1;
    }

    /// True if a listed file differs from its manifest, or a file is not listed that should be.
    pub fn is_untrue(&self) -> bool {
        let wrong = self.differ + self.missing + self.incomplete + self.contradicted;
        wrong + self.unlisted + self.conflicting > 0
    }

    /// True if a manifest could not be read as one or has nothing to check, or there was none.
    pub fn is_unusable(&self) -> bool {
        self.malformed + self.refused + self.empty + self.unusable > 0
    }

    /// True if manifests could be read, and their only fault is that they have nothing to check.
    pub fn is_empty(&self) -> bool {
        self.empty > 0 && self.malformed + self.refused + self.unusable == 0
    }

    /// True if a question remained open because of an error.
    pub fn is_incomplete(&self) -> bool {
        self.unreadable + self.unproven + self.broken > 0
    }
}

/// The report of a check.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Number of lines by verdict.
    pub counts: Checked,
    /// The coverage of a scrub.
    pub covered: Option<Coverage>,
    /// What a scrub verified could not be noted.
    pub unnoted: bool,
    /// The coverage of one of the shards of a check, or of their merged results.
    pub shard: Option<ShardCoverage>,
    /// The files that were read back after the device was away, if there are any.
    pub replugged: Option<Replugged>,
    /// The parity that was made, if that was asked for.
    pub parity: Option<ParityReport>,
    /// The code it was asked to stop with, if it was.
    pub interrupted: Option<usize>,
    /// Duration of the check.
    pub elapsed: Duration,
}

// The lists that are checked against: a file that one of them names is content, which nothing but a copy replaces.

impl VerifyJob {
    /// True if a list of this check names the file at `path`, which is canonical. What cannot be read names none.
    ///
    /// Lists are read to their end, so it is for a file that lies below one of the directories by chance.
    pub fn lists(&self, path: &Path) -> bool {
        let specs = self.specs().map(|specs| expand(specs).specs).unwrap_or_default();
        specs.iter().any(|spec| self.is_listed(spec, path).is_some())
    }

    fn is_listed(&self, spec: &TargetSpec, path: &Path) -> Option<()> {
        let root = spec.names_start_at().canonicalize().ok()?;
        let below = path.strip_prefix(root).ok().filter(|_| can_be_read_twice(spec))?;
        let wanted = RelPath::of(below);
        let open = spec.open().ok()?;
        let mut lines = ManifestLines::new(&open.target, open.found.manifest);
        while let Ok(Some(line)) = lines.next_file() {
            let is_converted = || converted(&line.path).is_ok_and(|path| path == wanted);
            if line.path == wanted || (self.convert_paths && is_converted()) {
                return Some(());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::PartOf;

    #[test]
    fn what_is_listed_and_there_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let digest = "ab".repeat(32);
        let lines = "@  one\n@  sub/two\n?\n# note\n@  missing\n@  ../out\nSHA256 (sub) = @";
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        for (name, content) in
            [("one", "12345"), ("sub/two", "67"), ("list", &lines.replace('@', &digest))]
        {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let counted = |manifests: Vec<ManifestAt>, stop: &Stop| {
            let plan = |manifest| TargetSpec {
                is_written: false,
                manifest: Some(manifest),
                dir: None,
                root: None,
                state: None,
                part: PartOf::Alone,
            };
            let progress = Progress::default();
            count(&manifests.into_iter().map(plan).collect::<Vec<_>>(), None, &progress, stop);
            let totals = [&progress.total_entries, &progress.total_bytes];
            progress.counted.load(Relaxed).then(|| totals.map(|total| total.load(Relaxed)))
        };
        let list = || ManifestAt::File(dir.path().join("list"));
        let go_on = Stop::default();
        assert_eq!(counted(vec![list()], &go_on), Some([4, 7]));
        assert_eq!(counted(vec![list(), list()], &go_on), Some([8, 14]));
        assert_eq!(counted(vec![list(), ManifestAt::StandardInput], &go_on), None);
        assert_eq!(counted(vec![ManifestAt::File(dir.path().into())], &go_on), None);
        let stopped = Stop::default();
        stopped.request(1);
        assert_eq!(counted(vec![list()], &stopped), None);
    }
}
