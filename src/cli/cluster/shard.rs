//! `dircopy shard`.

use std::collections::BTreeSet;
use std::mem;
use std::thread::sleep;
use std::time::Duration;

use humansize::{BINARY, format_size};

use crate::cli::cluster::args::ShardArgs;
use crate::cli::cluster::follow::Follower;
use crate::cli::exit::Exit;
use crate::cli::words::engine;
use crate::cluster::directory::departed::Departed;
use crate::cluster::directory::done;
use crate::cluster::directory::plan_dir::PlanDir;
use crate::cluster::directory::token;
use crate::cluster::shard::{ShardJob, ShardReport, ShardState};
use crate::error::{Error, Result};
use crate::event::Event;

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

/// Takes shards until none is left, or the output is of no use any more. The exit is that of the worst shard that is
/// still not done in the end.
fn claim(job: &ShardJob, follower: &Follower) -> Result<Exit> {
    let (mut tried, mut exits, mut has_told) = (BTreeSet::new(), Vec::new(), false);
    while follower.stop.requested().is_none() {
        let Some(token) = token::take(&job.plan, job.dead, &tried)? else {
            if job.plan.seal()?.is_some() {
                break;
            }
            if !mem::replace(&mut has_told, true) {
                follower.tell(&Event::Waiting(
                    "the plan is not complete: `dircopy plan` is at work on it, or was cut short",
                ));
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
        // Every other shard would meet the same here. Workers elsewhere may take them.
        if exit == Exit::Stopped {
            return Ok(exit);
        }
        exits.push((token.shard, exit));
    }
    if let Some(code) = follower.stop.requested() {
        return Ok(Exit::of_stop(code));
    }
    exits.retain(|(shard, exit)| *exit != Exit::Complete && !is_whole(&job.plan, *shard));
    Ok(exits
        .into_iter()
        .map(|(_, exit)| exit)
        .max_by_key(|exit| exit.code())
        .unwrap_or(Exit::Complete))
}

/// Whether a shard is recorded as done, with all of its files.
fn is_whole(plan: &PlanDir, shard: u32) -> bool {
    done::totals(&plan.done(shard)).is_some_and(|totals| totals.gone == 0)
}

/// Says which files of a shard that is done are not in the source any more.
fn tell_departed(shard: u32, Departed { gone, away }: Departed, follower: &Follower) -> Exit {
    if gone > 0 {
        follower.console.err(&format!(
            "dircopy: {gone} files of shard {shard} have left the source: `dircopy finish` names them; should they come \
             back, run the shard again"
        ));
    }
    if away == 0 {
        return Exit::Complete;
    }
    follower.console.err(&format!(
        "dircopy: {away} files of shard {shard} are away with all that was in their directories: is the whole source \
         mounted here? Then run the shard again; if they have left for good, `dircopy finish` names them"
    ));
    Exit::Incomplete
}

/// Says what became of a shard.
fn tell(report: &ShardReport, follower: &Follower) -> Exit {
    let ShardReport { shard, state, counts, departed } = report;
    let copied = counts.copied + counts.replaced;
    let what = format!(
        "{copied} files, {}, copied, {} unchanged",
        format_size(counts.bytes, BINARY),
        counts.unchanged
    );
    match state {
        ShardState::Done => {
            follower.say(&format!("shard {shard} is done: {what}"));
            tell_departed(*shard, *departed, follower)
        }
        ShardState::DoneBefore => {
            follower.say(&format!("shard {shard} was done before"));
            tell_departed(*shard, *departed, follower)
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
