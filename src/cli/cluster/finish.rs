//! `dircopy finish`.

use humansize::{BINARY, format_size};

use crate::cli::cluster::args::FinishArgs;
use crate::cli::cluster::follow::Follower;
use crate::cli::exit::Exit;
use crate::cluster::directory::plan_dir::PlanDir;
use crate::cluster::finish::{FinishJob, FinishReport};
use crate::cluster::since::rewalk::{RewalkJob, Rewalked};
use crate::path::Shown;

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
