//! `dircopy plan`.

use humansize::{BINARY, format_size};

use crate::cli::cluster::args::PlanArgs;
use crate::cli::cluster::follow::Follower;
use crate::cli::cluster::status::show;
use crate::cli::exit::Exit;
use crate::cluster::pack::ShardSize;
use crate::cluster::plan::{PlanJob, PlanReport};
use crate::copy::job::CopyJob;
use crate::path::Shown;

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
