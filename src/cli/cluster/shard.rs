//! `dircopy shard`.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use humansize::{BINARY, format_size};

use crate::cli::cluster::args::ShardArgs;
use crate::cli::cluster::follow::Follower;
use crate::cli::exit::Exit;
use crate::cli::words::engine;
use crate::cluster::directory::plan_dir::PlanDir;
use crate::cluster::directory::token;
use crate::cluster::shard::{ShardJob, ShardReport, ShardState};
use crate::error::{Error, Result};

/// How often it is looked up whether a plan that is being made has more shards.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs shards.
pub fn shard(args: &ShardArgs) -> Exit {
    let follower = Follower::new(&args.verbosity);
    let ran = PlanDir::open(&args.plan).and_then(|plan| {
        let workers = args.workers.map(|workers| workers as usize);
        let job = ShardJob { plan, workers, limit_rate: args.limit_rate, dead: args.dead_after };
        match args.claim {
            true => claim(&job, &follower),
            false => {
                let shard = args.index.map_or_else(|| index(&job.plan), Ok)?;
                let report = run(&job, shard, &follower)?;
                let exit = tell(&report, &follower);
                token::settle(&job.plan, shard, exit == Exit::Complete)?;
                Ok(exit)
            }
        }
    });
    match ran {
        Ok(exit) => follower.exit(exit),
        Err(refused) => follower.refused(&refused),
    }
}

/// The number that the engine gives.
fn index(plan: &PlanDir) -> Result<u32> {
    const DEED: &str = "choose a shard of";
    let refuse = |finding| Error::finding(DEED, &plan.path, finding);
    if let Some(number) = engine::task().map_err(refuse)? {
        return Ok(number);
    }
    let names = engine::variables();
    let finding = format!("neither --index nor --claim is given, nor is one of {names} set");
    Err(refuse(finding))
}

fn run(job: &ShardJob, shard: u32, follower: &Follower) -> Result<ShardReport> {
    let ran = follower.run(|observer| job.run(shard, observer));
    follower.rest();
    ran
}

/// Takes shards until none is left. The exit is that of the worst shard that is still not done in the end.
fn claim(job: &ShardJob, follower: &Follower) -> Result<Exit> {
    let (mut tried, mut exits) = (BTreeSet::new(), Vec::new());
    while follower.stop.requested().is_none() {
        let Some(token) = token::take(&job.plan, job.dead, &tried)? else {
            if job.plan.seal()?.is_some() {
                break;
            }
            sleep(AGAIN);
            continue;
        };
        tried.insert(token.shard);
        let ran = run(job, token.shard, follower);
        let exit = match &ran {
            Ok(report) => tell(report, follower),
            Err(refused) => follower.refused(refused),
        };
        token::give_back(&job.plan, token, exit == Exit::Complete)?;
        exits.push((token.shard, exit));
    }
    if let Some(code) = follower.stop.requested() {
        return Ok(Exit::of_stop(code));
    }
    exits.retain(|(shard, exit)| *exit != Exit::Complete && !job.plan.done(*shard).exists());
    Ok(exits
        .into_iter()
        .map(|(_, exit)| exit)
        .max_by_key(|exit| exit.code())
        .unwrap_or(Exit::Complete))
}

/// Says what became of a shard.
fn tell(ShardReport { shard, state, counts }: &ShardReport, follower: &Follower) -> Exit {
    let copied = counts.copied + counts.replaced;
    let what = format!(
        "{copied} files, {}, copied, {} unchanged",
        format_size(counts.bytes, BINARY),
        counts.unchanged
    );
    match state {
        ShardState::Done => {
            follower.say(&format!("shard {shard} is done: {what}"));
            Exit::Complete
        }
        ShardState::DoneBefore => {
            follower.say(&format!("shard {shard} was done before"));
            Exit::Complete
        }
        ShardState::Incomplete => {
            follower.console.err(&format!(
                "dircopy: shard {shard} is not done: {what}, {} failed, {} left",
                counts.failed, counts.left
            ));
            Exit::Incomplete
        }
        ShardState::Ended(ending) => {
            follower.console.err(&format!("dircopy: shard {shard} was cut short: {what}"));
            if let crate::copy::report::Ending::Stopped(error) = ending {
                follower.console.error("stopped", "stopped: ", error);
            }
            Exit::of(ending, true)
        }
    }
}
