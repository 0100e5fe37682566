//! Checking a tree against its manifest.
//!
//! One thread reads the manifests and hands out their lines in batches. Workers look at the files, and
//! then open and hash them. The thread that runs the job tells the findings. Memory is bounded by the
//! queues and the look-ahead queue, but for 16 bytes and some slack for each line, by which a name that is
//! listed twice is noticed.

mod batch;
mod budget;
pub mod check;
mod collector;
mod count;
pub mod finding;
pub mod job;
mod line_reader;
mod look_ahead;
mod manifest_lines;
mod replicas;
pub mod report;
mod scrub;
mod seen;
pub mod target;
mod threads;
mod unlisted;
mod verified;
mod worker;

pub use crate::io::read_back::HashedFrom;
pub use budget::Budget;
pub use finding::{Comparison, Finding, FindingListener, FindingObserver, Verdict};
pub use job::VerifyJob;
pub use look_ahead::ReadOrder;
pub use report::{Checked, VerifyReport};
pub use target::{ManifestAt, Target};
pub use verified::Coverage;
