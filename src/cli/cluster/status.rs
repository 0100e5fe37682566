//! `dircopy plan --status`.

use std::path::Path;
use std::time::Duration;

use humansize::{BINARY, format_size};

use crate::cli::cluster::follow::Follower;
use crate::cli::exit::Exit;
use crate::cluster::directory::plan_dir::{LOST_MANIFEST, PlanDir, PlanEnd};
use crate::cluster::status::{PlanStatus, status};
use crate::path::Shown;

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
