//! One copy by many machines: a plan that is made once, shards that any engine runs, and an end that proves that all
//! of them together are the whole.

pub mod attempt;
pub mod done;
mod finish;
mod finish_tree;
mod merge;
mod pack;
mod plan;
pub mod plan_dir;
mod record_check;
mod rewalk;
mod shard;

pub use done::Departed;
pub use finish::{FinishJob, FinishReport};
pub use merge::{MergeLists, MergedLists};
pub use pack::ShardSize;
pub use plan::{PlanJob, PlanReport};
pub use plan_dir::{PlanDir, PlanEnd, PlanStatus};
pub use rewalk::{RewalkJob, Rewalked};
pub use shard::{ShardJob, ShardReport, ShardState};
