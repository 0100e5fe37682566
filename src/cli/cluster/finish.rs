//! `dircopy finish`.

use humansize::{BINARY, format_size};

use crate::cli::cluster::args::FinishArgs;
use crate::cli::cluster::follow::Follower;
use crate::cli::exit::Exit;
use crate::cluster::directory::plan_dir::PlanDir;
use crate::cluster::finish::{FinishJob, FinishReport};
use crate::path::Shown;

/// Finishes a plan.
pub fn finish(args: &FinishArgs) -> Exit {
    let follower = Follower::new(&args.verbosity);
    let ran = PlanDir::open(&args.plan).and_then(|plan| {
        let job = FinishJob { plan, wait: args.wait, dead: args.dead_after };
        follower.run(|observer| job.run(observer))
    });
    follower.rest();
    let FinishReport { seal, unfinished, missing, manifest, before, broken, interrupted } =
        match ran {
            Ok(report) => report,
            Err(refused) => return follower.refused(&refused),
        };
    if let Some(error) = broken {
        follower.console.error("stopped", "stopped: ", &error);
        return Exit::Stopped;
    }
    if let Some(code) = interrupted {
        follower.console.err("dircopy: interrupted: run it again");
        return Exit::of_stop(code);
    }
    if unfinished > 0 {
        let text =
            format!("dircopy: not finished: {unfinished} of {} shards are not done", seal.shards);
        follower.console.err(&text);
        return Exit::Incomplete;
    }
    if let Some(manifest) = &manifest {
        let again = if before { "finished before" } else { "finished" };
        follower.say(&format!(
            "{again}: {} files, {}, in {} shards; the manifest is {}",
            seal.files,
            format_size(seal.bytes, BINARY),
            seal.shards,
            Shown::path(manifest)
        ));
    }
    if missing > 0 {
        follower.console.err(&format!("dircopy: {missing} entries are not at the output"));
        return Exit::Incomplete;
    }
    follower.exit(Exit::Complete)
}
