//! `dircopy plan`.

use std::{path::Path, path::PathBuf, time::Duration};

use humansize::{BINARY, format_size};

use crate::{
    cli::cluster::FinishArgs, cli::cluster::PlanArgs, cli::cluster::shard::Follower,
    cli::exit::Exit, cli::words, cluster::FinishJob, cluster::FinishReport, cluster::PlanDir,
    cluster::PlanEnd, cluster::PlanJob, cluster::PlanReport, cluster::PlanStatus,
    cluster::RewalkJob, cluster::Rewalked, cluster::ShardSize, cluster::plan_dir::LOST_MANIFEST,
    cluster::plan_dir::status, copy::CopyJob, path::Shown, verify::CheckShard,
    verify::ShardOfCheck,
};

/// Makes a plan, or says how far one is.
pub fn plan(args: &PlanArgs, job: Option<CopyJob>) -> Exit {
    let follower = Follower::new(&args.verbosity);
    let (Some(job), Some(path)) = (job, &args.plan) else {
        return show(args.status.as_deref().unwrap_or(".".as_ref()), &follower);
    };
    let size = ShardSize { bytes: args.shard_bytes, files: args.shard_files };
    let job = PlanJob { job, path: path.clone(), size };
    let ran = follower.run(|observer| job.run(observer));
    follower.rest();
    let PlanReport { seal, broken, interrupted } = match ran {
        Ok(report) => report,
        Err(refused) => return follower.refused(&refused),
    };
    let next = "remove the plan's directory and plan anew";
    if let Some(exit) = follower.cut_short(broken.as_ref(), interrupted, next) {
        return exit;
    }
    follower.say(&format!(
        "planned {} files, {}, in shards 0 to {}, with {} directories and {} links, in {}",
        seal.files,
        format_size(seal.bytes, BINARY),
        seal.shards.saturating_sub(1),
        seal.directories,
        seal.symlinks + seal.hard_links,
        Shown::path(path),
    ));
    if seal.failed > 0 {
        follower.console.err(&format!("dircopy: {} entries could not be planned", seal.failed));
    }
    follower.exit(if seal.failed == 0 { Exit::Complete } else { Exit::Incomplete })
}

// `dircopy finish`.

/// Finishes a plan.
pub fn finish(args: &FinishArgs) -> Exit {
    let follower = Follower::new(&args.verbosity);
    let plan = match PlanDir::open(&args.plan) {
        Ok(plan) => plan,
        Err(refused) => return follower.refused(&refused),
    };
    let job = FinishJob { plan: plan.clone(), wait: args.wait, dead: args.dead_after };
    let ran = follower.run(|observer| job.run(observer));
    follower.rest();
    let FinishReport { seal, unfinished, missing, manifest, before, broken, interrupted } =
        match ran {
            Ok(report) => report,
            Err(refused) => return follower.refused(&refused),
        };
    if let Some(exit) = follower.cut_short(broken.as_ref(), interrupted, "run it again") {
        return exit;
    }
    if unfinished > 0 {
        let text =
            format!("dircopy: not finished: {unfinished} of {} shards are not done", seal.shards);
        follower.console.err(&text);
        return Exit::Incomplete;
    }
    if let Some(manifest) = &manifest {
        let again = if before { "finished before" } else { "finished" };
        let recorded = match missing {
            0 => "all recorded as copied",
            _ => "all but what is named recorded as copied",
        };
        follower.say(&format!(
            "{again}: {} files, {}, in {} shards, {recorded}; the manifest is {}",
            seal.files,
            format_size(seal.bytes, BINARY),
            seal.shards,
            Shown::path(manifest)
        ));
    }
    if missing > 0 {
        follower.console.err(&format!(
            "dircopy: {missing} entries are not at the output: once they can be, run it again"
        ));
    }
    let whole = if missing > 0 { Exit::Incomplete } else { Exit::Complete };
    match args.rewalk {
        true => rewalk(&RewalkJob { plan, seal }, whole, &follower),
        false => follower.exit(whole),
    }
}

/// Walks the source once more after the end of a plan that came to `finished`.
fn rewalk(job: &RewalkJob, finished: Exit, follower: &Follower) -> Exit {
    let ran = follower.run(|observer| job.run(observer));
    follower.rest();
    let Rewalked { new, changed, left, failed, interrupted } = match ran {
        Ok(found) => found,
        Err(error) => {
            follower.console.error("failed", "", &error);
            return Exit::Incomplete;
        }
    };
    let next = "the source was not walked to its end";
    if let Some(exit) = follower.cut_short(None, interrupted, next) {
        return exit;
    }
    if new + changed + left + failed == 0 {
        follower.say("the source is as it is at the output");
        return follower.exit(finished);
    }
    let unknown = match failed {
        0 => String::new(),
        failed => format!(", {failed} could not be looked at"),
    };
    follower.console.err(&format!(
        "dircopy: since the plan {new} entries are new, {changed} changed and {left} left the source{unknown}: plan anew \
         onto the same output, with --overwrite-policy update for what changed; what left stays there"
    ));
    Exit::Incomplete
}

// The options of a check that several machines share.

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
    match words::task()? {
        Some(index) => CheckShard::new(index, of),
        None => Err(format!(
            "which of them? K/{of} says so, or one of {}, and none is set",
            words::variables()
        )),
    }
}

// `dircopy plan --status`.

/// A worker that was silent for so long is told as dead.
const DEAD: Duration = Duration::from_secs(120);

/// So many shards are named.
const MOST: usize = 20;

/// Says how far the plan at `path` is.
pub fn show(path: &Path, follower: &Follower) -> Exit {
    let found = PlanDir::open(path).and_then(|plan| status(&plan, DEAD));
    let PlanStatus {
        seal,
        listed,
        done,
        files,
        bytes,
        gone,
        running,
        failed,
        cut_short,
        took,
        end,
    } = match found {
        Ok(found) => found,
        Err(refused) => return follower.refused(&refused),
    };
    let all = match &seal {
        Some(seal) => format!("{} shards", seal.shards),
        None => format!("{listed} shards so far"),
    };
    let incomplete = if seal.is_none() { "; the plan is not complete" } else { "" };
    follower.say(&format!("{done} of {all} done, {running} running{incomplete}"));
    let of = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let size = |bytes| format_size(bytes, BINARY);
    match &seal {
        Some(seal) => follower.say(&format!(
            "{files} of {} files, {} of {} ({:.1} %)",
            seal.files,
            size(bytes),
            size(seal.bytes),
            of(bytes, seal.bytes)
        )),
        None => follower.say(&format!("{files} files, {}", size(bytes))),
    }
    if took > Duration::ZERO && bytes > 0 {
        follower.say(&format!(
            "{}/s since the plan was begun",
            size((bytes as f64 / took.as_secs_f64()) as u64)
        ));
    }
    for (what, shards) in [("failed", &failed), ("cut short", &cut_short)] {
        if !shards.is_empty() {
            let names: Vec<String> = shards.iter().take(MOST).map(u32::to_string).collect();
            let more = if shards.len() > MOST { " …" } else { "" };
            follower.say(&format!("{what}: {}{more}", names.join(" ")));
        }
    }
    if gone > 0 {
        follower.say(&format!("{gone} files had left the source"));
    }
    if let Some(lost) = end.as_ref().and_then(PlanEnd::lost_manifest) {
        follower.say(&format!("finished, but the manifest {} {LOST_MANIFEST}", Shown::path(lost)));
        return follower.exit(Exit::Incomplete);
    }
    match end {
        Some(PlanEnd { missing: 0, .. }) => {
            follower.say("finished");
            follower.exit(Exit::Complete)
        }
        Some(PlanEnd { missing, .. }) => {
            follower.say(&format!(
                "finished, but {missing} entries are not at the output: run `dircopy finish` again when they can be"
            ));
            follower.exit(Exit::Incomplete)
        }
        None => follower.exit(Exit::Incomplete),
    }
}
