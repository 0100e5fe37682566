//! What a check leaves to say.

use std::time::Duration;

use serde::Serialize;

use crate::io::read_back::HashedFrom;
use crate::verify::finding::{Finding, Verdict};
use crate::verify::scrub::verified::Coverage;

/// What became of the lines. The names of the fields are part of the format of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Manifests and roots that could not be used.
    pub unusable: u64,
    /// What else could not be done.
    pub broken: u64,
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
                    && let Verdict::Good(proof) | Verdict::Differs(proof, _) = verdict {
                    match proof {
                        HashedFrom::Device => self.from_device += 1,
                        HashedFrom::Cache => self.from_cache += 1,
                    }
                }
                match verdict {
                    Verdict::Good(_) => &mut self.good,
                    Verdict::Differs(..) => &mut self.differ,
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
            Finding::Compared(comparison) if !comparison.good.is_empty() => &mut self.repairable,
            Finding::Unsearched(_) | Finding::Broken(_) => &mut self.broken,
            Finding::Unusable(_) => &mut self.unusable,
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

    /// Whether a listed file is not what its manifest says, or a file is not listed that should be.
    pub fn is_untrue(&self) -> bool {
        let wrong = self.differ + self.missing + self.incomplete + self.contradicted;
        wrong + self.unlisted + self.conflicting > 0
    }

    /// Whether a manifest could not be read as one or has nothing to check, or there was none.
    pub fn is_unusable(&self) -> bool {
        self.malformed + self.refused + self.empty + self.unusable > 0
    }

    /// Whether manifests could be read, and all that was amiss with any of them is that it has nothing to check.
    pub fn is_empty(&self) -> bool {
        self.empty > 0 && self.malformed + self.refused + self.unusable == 0
    }

    /// Whether something could not be found out.
    pub fn is_incomplete(&self) -> bool {
        self.unreadable + self.unproven + self.broken > 0
    }
}

/// What the shards of a check covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardCoverage {
    /// Which shard was checked; `None` if the results of all were merged.
    pub index: Option<u32>,
    /// How many there are.
    pub of: u32,
    /// Lines whose files were looked for.
    pub lines: u64,
    /// When the first of the shards began, by the clock of its machine: seconds since 1970.
    pub began: i64,
    /// When the last of them ended.
    pub ended: i64,
}

/// What a check leaves to say.
#[derive(Clone, Copy, Debug)]
pub struct VerifyReport {
    /// What became of the lines.
    pub counts: Checked,
    /// What it covered, if it was a scrub.
    pub covered: Option<Coverage>,
    /// What it covered, if it was one of the shards of a check, or merged their results.
    pub shard: Option<ShardCoverage>,
    /// The code it was asked to stop with, if it was.
    pub interrupted: Option<usize>,
    /// How long it took.
    pub elapsed: Duration,
}
