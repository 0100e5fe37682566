//! `dircopy plan`.

use std::{collections::BTreeSet, mem, path::Path, path::PathBuf, thread::sleep, time::Duration};

use humansize::{BINARY, format_size};

use crate::{
    cli::args::values::VerbosityArgs, cli::cluster::FinishArgs, cli::cluster::PlanArgs,
    cli::cluster::ShardArgs, cli::exit::Exit, cli::session::Session, cli::show::Detail,
    cli::show::copy_messages::Gathered, cli::show::rows::typed, cli::words, cluster::Departed,
    cluster::FinishJob, cluster::FinishReport, cluster::PlanDir, cluster::PlanEnd,
    cluster::PlanJob, cluster::PlanReport, cluster::PlanStatus, cluster::RewalkJob,
    cluster::Rewalked, cluster::ShardJob, cluster::ShardReport, cluster::ShardSize,
    cluster::ShardState, cluster::attempt, cluster::attempt::ShardEnd, cluster::done,
    cluster::plan_dir::LOST_MANIFEST, cluster::plan_dir::status, copy::CopyJob, error::Error,
    error::Result, event::Event, event::EventObserver, event::Observer, path::Shown, path::count,
    verify::CheckShard, verify::ShardOfCheck,
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
    let (plan, last) = (typed(path), seal.shards.saturating_sub(1));
    follower.say(&format!(
        "next: dircopy shard --plan {plan} --index N for each N from 0 to {last}, or --claim; then dircopy finish --plan \
         {plan}"
    ));
    if seal.failed > 0 {
        follower.err(&format!("{} could not be planned", count(seal.failed, "entry")));
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
    let FinishReport { seal, unfinished, missing, manifest, before, broken, interrupted } =
        match ran {
            Ok(report) => report,
            Err(refused) => return follower.refused(&refused),
        };
    if let Some(exit) = follower.cut_short(broken.as_ref(), interrupted, "run it again") {
        return exit;
    }
    if unfinished > 0 {
        let of = seal.shards;
        follower.err(&format!("not finished: {unfinished} of {of} shards are not done"));
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
    seal.unplanned.iter().for_each(|why| follower.err(&format!("not planned: {why}")));
    let lines = missing_lines([missing, seal.failed], "once they can be, run it again");
    lines.iter().for_each(|line| follower.err(line));
    let whole = if missing > 0 { Exit::Incomplete } else { Exit::Complete };
    match args.rewalk {
        true => rewalk(&RewalkJob { plan, seal }, whole, &follower),
        false => follower.exit(whole),
    }
}

/// Walks the source once more after the end of a plan that came to `finished`.
fn rewalk(job: &RewalkJob, finished: Exit, follower: &Follower) -> Exit {
    let ran = follower.run(|observer| job.run(observer));
    let Rewalked { new, changed, left, failed, interrupted } = match ran {
        Ok(found) => found,
        Err(error) => {
            follower.session.console.error("failed", "", &error);
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
    follower.err(&format!(
        "since the plan {} new, {changed} changed and {left} left the source{unknown}: plan anew onto \
         the same output, with --overwrite-policy update for what changed; what left stays there",
        entries_are(new)
    ));
    Exit::Incomplete
}

/// What is said of so many entries that are not at the output, and of those of them that could not be planned, which no
/// run of the plan brings there; `next` is what brings the others.
fn missing_lines([missing, unplanned]: [u64; 2], next: &str) -> Vec<String> {
    let anew = "could not be planned: once they can be, plan anew onto the same output";
    let unplanned_line = (unplanned > 0).then(|| format!("{} {anew}", count(unplanned, "entry")));
    let other = missing.saturating_sub(unplanned);
    let other = (other > 0).then(|| format!("{} not at the output: {next}", entries_are(other)));
    unplanned_line.into_iter().chain(other).collect()
}

/// So many entries, as the beginning of a sentence.
fn entries_are(number: u64) -> String {
    format!("{} {}", count(number, "entry"), if number == 1 { "is" } else { "are" })
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
          conflicts_with_all = ["budget", "max_bytes", "not_since", "complete", "convert_paths", "write_states"],
          help_heading = "Many machines")]
    pub shard: Option<CheckShard>,

    /// Directory for the results of shards, which is made, closed to others; every machine must see it
    #[arg(long, value_name = "DIR", requires = "shard", help_heading = "Many machines")]
    pub results: Option<PathBuf>,

    /// Read no file, but the results of shards in RESULTS: every line must have been checked once, by one that counts
    #[arg(long, value_name = "RESULTS",
          conflicts_with_all = ["shard", "budget", "max_bytes", "not_since", "complete", "convert_paths", "write_states"],
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
    let found = PlanDir::open(path).and_then(|plan| {
        let abandoned = attempt::refuse_abandoned(&plan, DEAD).err();
        Ok((status(&plan, DEAD)?, abandoned))
    });
    let (found, abandoned) = match found {
        Ok(found) => found,
        Err(refused) => return follower.refused(&refused),
    };
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
        lost,
    } = found;
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
    for (what, shards) in [("failed", &failed), ("were cut short", &cut_short)] {
        if !shards.is_empty() {
            let names: Vec<String> = shards.iter().take(MOST).map(u32::to_string).collect();
            let more = if shards.len() > MOST { " …" } else { "" };
            follower.say(&format!("shards by number that {what}: {}{more}", names.join(" ")));
        }
    }
    if gone > 0 {
        follower.say(&format!("{gone} files had left the source"));
    }
    if let Some(lost) = lost {
        follower.say(&format!("finished, but the manifest {} {LOST_MANIFEST}", Shown::path(&lost)));
        return follower.exit(Exit::Incomplete);
    }
    let is_done = seal.as_ref().is_some_and(|seal| u64::from(seal.shards) == done);
    match (end, abandoned) {
        (Some(PlanEnd { missing: 0, .. }), _) => {
            follower.say("finished");
            return follower.exit(Exit::Complete);
        }
        (Some(PlanEnd { missing, .. }), _) => {
            let next = "run `dircopy finish` again when they can be";
            let failed = seal.map_or(0, |seal| seal.failed);
            let tell = |line: String| follower.say(&format!("finished, but {line}"));
            missing_lines([missing, failed], next).into_iter().for_each(tell);
        }
        (None, Some(abandoned)) => follower.err(&abandoned.to_string()),
        (None, None) => {
            let [next, claim] = if is_done { ["finish", ""] } else { ["shard", " --claim"] };
            follower.say(&format!("next: dircopy {next} --plan {}{claim}", typed(path)));
        }
    }
    follower.exit(Exit::Incomplete)
}

// `dircopy shard`.

/// Time between two looks whether a plan that is being made has more shards.
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
                let report = follower.run(|observer| job.run(shard, observer))?;
                let exit = tell(&report, &follower);
                attempt::settle(&job.plan, shard, end_of(exit))?;
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
    if let Some(number) = words::task().map_err(refuse)? {
        return Ok(number);
    }
    let names = words::variables();
    let finding = format!("neither --index nor --claim is given, nor is one of {names} set");
    Err(refuse(finding))
}

/// Takes shards until none is left, or the output is of no use any more. The exit is that of the worst shard that is
/// still not done in the end.
fn claim(job: &ShardJob, follower: &Follower) -> Result<Exit> {
    let (mut tried, mut exits, mut has_told) = (BTreeSet::new(), Vec::new(), false);
    while follower.session.stop.requested().is_none() {
        let Some(token) = attempt::take(&job.plan, job.dead, &tried)? else {
            if job.plan.seal()?.is_some() {
                break;
            }
            attempt::refuse_abandoned(&job.plan, job.dead)?;
            if !mem::replace(&mut has_told, true) {
                follower.tell(&Event::Waiting(
                    "the plan is not complete: `dircopy plan` is at work on it, or was cut short a moment ago",
                ));
            }
            sleep(AGAIN);
            continue;
        };
        tried.insert(token.shard);
        let ran = follower.run(|observer| job.run(token.shard, observer));
        let exit = match &ran {
            Ok(report) => tell(report, follower),
            Err(refused) => follower.refused(refused),
        };
        attempt::give_back(&job.plan, token, end_of(exit))?;
        // Every other shard would meet the same here. Workers elsewhere may take them.
        if exit == Exit::Stopped {
            return Ok(exit);
        }
        exits.push((token.shard, exit));
    }
    if let Some(code) = follower.session.stop.requested() {
        return Ok(Exit::of_stop(code));
    }
    exits.retain(|(shard, exit)| *exit != Exit::Complete && !is_whole(&job.plan, *shard));
    Ok(exits
        .into_iter()
        .map(|(_, exit)| exit)
        .max_by_key(|exit| exit.code())
        .unwrap_or(Exit::Complete))
}

/// True if a shard is recorded as done, with all of its files.
fn is_whole(plan: &PlanDir, shard: u32) -> bool {
    done::totals(plan.done(shard).open()).is_some_and(|totals| totals.gone == 0)
}

/// The end of a shard's run with this exit.
fn end_of(exit: Exit) -> ShardEnd {
    match exit {
        Exit::Complete => ShardEnd::Done,
        Exit::Stopped | Exit::Interrupted(_) => ShardEnd::CutShort,
        _ => ShardEnd::Failed,
    }
}

/// Says which files of a shard that is done are not in the source any more.
fn tell_departed(shard: u32, Departed { gone, away }: Departed, follower: &Follower) -> Exit {
    if gone > 0 {
        follower.err(&format!(
            "{gone} files of shard {shard} have left the source: `dircopy finish` names them; should they come \
             back, run the shard again"
        ));
    }
    if away == 0 {
        return Exit::Complete;
    }
    follower.err(&format!(
        "{away} files of shard {shard} are away with all that was in their directories: is the whole source \
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
            let remedy = match counts.left {
                0 => "",
                _ => {
                    " by the plan's policy: move them away at the output and run the shard again, or plan anew with another \
                     --overwrite-policy"
                }
            };
            follower.err(&format!(
                "shard {shard} is not done: {what}, {} failed, {} left{remedy}",
                counts.failed, counts.left
            ));
            Exit::Incomplete
        }
        ShardState::Ended(ending) => {
            follower.err(&format!("shard {shard} was cut short: {what}"));
            if let Some(error) = ending.given_up() {
                follower.session.console.error("stopped", "stopped: ", error);
            }
            Exit::of(ending, true)
        }
    }
}

// The frame of the commands of a plan: the screen, signals, and progress.

/// A run of a command of a plan, and what of its events is told once.
pub struct Follower<'a> {
    pub session: Session<'a>,
    gathered: Gathered,
    is_quiet: bool,
}

impl<'a> Follower<'a> {
    /// Catches signals.
    pub fn new(verbosity: &VerbosityArgs) -> Self {
        Self::of(Session::bare(verbosity), verbosity)
    }

    /// The same of a run that leaves records.
    pub fn of(session: Session<'a>, verbosity: &VerbosityArgs) -> Self {
        let is_quiet = verbosity.detail() == Detail::Quiet;
        Self { session, gathered: Gathered::default(), is_quiet }
    }

    /// Runs `work`, shows how far it is, and tells its events.
    pub fn run<R>(&self, work: impl FnOnce(&EventObserver<'_>) -> R) -> R {
        let (stop, listen) = (self.session.stop.clone(), |event: &Event<'_>| self.tell(event));
        let run = |progress| work(&Observer { progress, stop, listen });
        let ran = self.session.run_one(None, run);
        self.session.console.rest(&self.gathered, None);
        ran
    }

    /// Tells an event.
    pub fn tell(&self, event: &Event<'_>) {
        self.session.console.event(event, None, &self.gathered);
        self.session.records.event(event, None);
    }

    /// A line for standard output, unless only what is wrong is to be said.
    pub fn say(&self, line: &str) {
        if !self.is_quiet {
            self.session.console.out_sentence(line);
        }
    }

    /// A line for standard error.
    pub fn err(&self, text: &str) {
        self.session.console.err(&format!("dircopy: {text}"));
    }

    /// The exit of a command that did not come to its end, if so; `next` says more of an interrupted one.
    pub fn cut_short(
        &self,
        broken: Option<&Error>,
        interrupted: Option<usize>,
        next: &str,
    ) -> Option<Exit> {
        if let Some(error) = broken {
            self.session.console.error("stopped", "stopped: ", error);
            return Some(Exit::Stopped);
        }
        let code = interrupted?;
        self.err(&format!("interrupted: {next}"));
        Some(Exit::of_stop(code))
    }

    /// Ends a command that was refused.
    pub fn refused(&self, error: &Error) -> Exit {
        self.session.console.refused(error);
        self.session.stop.requested().map_or(Exit::Refused, Exit::of_stop)
    }

    /// The exit of a command that is whole, or not.
    pub fn exit(&self, exit: Exit) -> Exit {
        if self.session.console.all_written() { exit } else { exit.unwritten() }
    }
}
