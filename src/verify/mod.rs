//! Checking a tree against its manifest.
//!
//! One thread reads the manifests and hands out their lines in batches. Workers look at the files, and
//! then open and hash them. The thread that runs the job tells the findings. Memory is bounded by the
//! queues and the look-ahead queue, but for 16 bytes and some slack for each line, by which a name that is
//! listed twice is noticed.

mod archive;
mod choice;
mod count;
mod finding;
mod job;
mod lines;
mod listed;
mod others;
mod own_lists;
mod report;
mod scrub;
mod several;
mod shards;
mod shared;
mod target;
mod unlisted;
mod work;

pub use crate::chain::damage::Damage;
pub use crate::io::read_back::HashedFrom;
pub(crate) use archive::expand::expand;
pub(crate) use archive::expanded::{Bag, Expanded};
pub use archive::part::PartOf;
pub use choice::{Rival, has_own_manifest};
pub(crate) use finding::Findings;
pub use finding::{
    BagVerdict, Comparison, Finding, FindingListener, FindingObserver, Mend, TreeVerdict, Verdict,
};
pub use job::VerifyJob;
pub use lines::manifest_lines::ManifestLines;
pub use lines::seen::{NameHasher, SeenNames};
pub use lines::shards::CheckShard;
pub use report::{Checked, ShardCoverage, VerifyReport};
pub use scrub::budget::Budget;
pub use scrub::verified::Coverage;
pub use shards::MergeJob;
pub use shards::run::ShardOfCheck;
pub use target::{ManifestAt, Target, TargetSpec};
pub use work::check::ReadFrom;
pub use work::look_ahead::ReadOrder;
