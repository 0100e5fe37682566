//! The options of a check that several machines share.

use std::path::PathBuf;

use crate::cli::words::engine;
use crate::verify::{CheckShard, ShardOfCheck};

/// What is checked of a manifest, and where results are.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckShardArgs {
    /// Check only shard K of N, counted from 0, and leave its result in --results
    ///
    /// Each machine checks one; --merge then proves that all of them together are the whole. With N alone the engine
    /// says which: SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX or PBS_ARRAY_INDEX as they are, SGE_TASK_ID less 1.
    #[arg(long, value_name = "K/N", value_parser = parse_shard, requires = "results",
          conflicts_with_all = ["budget", "max_bytes", "complete", "convert_paths", "write_states", "heal_from"],
          help_heading = "Many machines")]
    pub shard: Option<CheckShard>,

    /// Directory for the results of shards, which is made, closed to others; every machine must see it
    #[arg(long, value_name = "DIR", requires = "shard", help_heading = "Many machines")]
    pub results: Option<PathBuf>,

    /// Read no file, but the results of shards in RESULTS: every line must have been checked once, by one that counts
    #[arg(long, value_name = "RESULTS",
          conflicts_with_all = ["shard", "budget", "max_bytes", "complete", "convert_paths", "write_states", "heal_from"],
          help_heading = "Many machines")]
    pub merge: Option<PathBuf>,
}

impl CheckShardArgs {
    /// The shard that is to be checked, if it is one.
    pub fn shard(&self) -> Option<ShardOfCheck> {
        let (shard, results) = self.shard.zip(self.results.clone())?;
        Some(ShardOfCheck { shard, results })
    }
}

/// Reads `K/N`, or `N` where the engine says which.
fn parse_shard(text: &str) -> Result<CheckShard, String> {
    let Ok(of) = text.parse() else { return CheckShard::parse(text) };
    match engine::task()? {
        Some(index) => CheckShard::new(index, of),
        None => Err(format!(
            "which of them? K/{of} says so, or one of {}, and none is set",
            engine::variables()
        )),
    }
}
