//! Checking a tree against its manifest.
//!
//! One thread reads the manifests and hands out their lines in batches, workers look at the files
//! and then open and hash them, and the thread that runs the job tells what they find. Memory is
//! bounded by the queues and the window of what is looked at ahead, but for 16 bytes and some slack
//! for each line, by which a name that is listed twice is noticed.

mod ahead;
pub mod check;
pub mod copies;
mod count;
pub mod finding;
pub mod job;
pub mod lines;
pub mod portion;
pub mod report;
pub mod seen;
pub mod target;
mod unlisted;
mod work;

pub use crate::io::read_back::Proof;
pub use ahead::Order;
pub use copies::Comparison;
pub use finding::{Finding, FindingListener, FindingObserver, Verdict};
pub use job::VerifyJob;
pub use portion::{Budget, Covered};
pub use report::{Checked, VerifyReport};
pub use target::{ManifestAt, Target};
