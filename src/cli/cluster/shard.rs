//! `dircopy shard`.

use std::{
    collections::BTreeSet, mem, sync::Arc, sync::atomic::AtomicBool,
    sync::atomic::Ordering::Relaxed, thread::sleep, time::Duration,
};

use crossbeam_channel::{Sender, bounded};
use humansize::{BINARY, format_size};

use crate::{
    cli::args::values::VerbosityArgs, cli::cluster::ShardArgs, cli::exit::Exit,
    cli::progress::View, cli::progress::Watched, cli::show::Console, cli::show::Detail,
    cli::show::copy_messages::Gathered, cli::words, cluster::Departed, cluster::PlanDir,
    cluster::ShardJob, cluster::ShardReport, cluster::ShardState, cluster::attempt, cluster::done,
    error::Error, error::Result, event::Event, event::EventObserver, event::Observer,
    event::Progress, event::Stop, sys,
};

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
                let report = run(&job, shard, &follower)?;
                let exit = tell(&report, &follower);
                attempt::settle(&job.plan, shard, exit == Exit::Complete)?;
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
        let Some(token) = attempt::take(&job.plan, job.dead, &tried)? else {
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
        attempt::give_back(&job.plan, token, exit == Exit::Complete)?;
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

/// True if a shard is recorded as done, with all of its files.
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
            if let Some(error) = ending.given_up() {
                follower.console.error("stopped", "stopped: ", error);
            }
            Exit::of(ending, true)
        }
    }
}

// The frame of the commands of a plan: the screen, signals, and progress.

/// The screen of a command of a plan, and what stops it.
pub struct Follower {
    pub console: Console,
    pub stop: Stop,
    view: View,
    /// Set by a signal that asks how far the command is.
    asked: Arc<AtomicBool>,
    gathered: Gathered,
    is_quiet: bool,
}

impl Follower {
    /// Catches signals.
    pub fn new(verbosity: &VerbosityArgs) -> Self {
        let (detail, view) = (verbosity.detail(), verbosity.view());
        let (console, stop) = (Console::new("dircopy", detail, view.bar()), Stop::default());
        let asked = Arc::default();
        let caught = sys::on_interrupt(stop.handle()).and_then(|()| sys::on_status_request(&asked));
        if let Err(error) = caught {
            console.warn(&format!("cannot catch signals: {error}"));
        }
        sys::raise_open_file_limit();
        let is_quiet = detail == Detail::Quiet;
        Self { console, stop, view, asked, gathered: Gathered::default(), is_quiet }
    }

    /// Runs `work`, and shows how far it is.
    pub fn run<R>(&self, work: impl FnOnce(&EventObserver<'_>) -> R) -> R {
        let progress = [Arc::<Progress>::default()];
        progress[0].watched.store(!matches!(self.view, View::None), Relaxed);
        let listen = |event: &Event<'_>| self.tell(event);
        let tell_hanging = |error: &Error| self.console.error("warning", "warning: ", error);
        let end_stuck = |error: &Error| {
            self.console.error("stopped", "", error);
            let exit = self.stop.requested().map_or(Exit::Stopped, Exit::of_stop);
            std::process::exit(exit.code().into());
        };
        std::thread::scope(|scope| {
            let (running, done) = bounded(0);
            let (names, asked, samples) = (&[][..], &*self.asked, None);
            let (stop, hanging, stuck) = (&self.stop, &tell_hanging, &end_stuck);
            let (progress, count) = (&progress, None);
            let watched = Watched { names, progress, asked, count, samples, stop, hanging, stuck };
            self.view.watch_beside(scope, watched, &self.console, done);
            let progress = Arc::clone(&progress[0]);
            let result = work(&Observer { progress, stop: self.stop.clone(), listen });
            drop::<Sender<()>>(running);
            result
        })
    }

    /// Tells an event.
    pub fn tell(&self, event: &Event<'_>) {
        self.console.event(event, None, &self.gathered);
    }

    /// Tells what was gathered.
    pub fn rest(&self) {
        self.console.rest(&self.gathered, None);
    }

    /// A line for standard output, unless only what is wrong is to be said.
    pub fn say(&self, line: &str) {
        if !self.is_quiet {
            self.console.out(line);
        }
    }

    /// The exit of a command that did not come to its end, if so; `next` says more of an interrupted one.
    pub fn cut_short(
        &self,
        broken: Option<&Error>,
        interrupted: Option<usize>,
        next: &str,
    ) -> Option<Exit> {
        if let Some(error) = broken {
            self.console.error("stopped", "stopped: ", error);
            return Some(Exit::Stopped);
        }
        let code = interrupted?;
        self.console.err(&format!("dircopy: interrupted: {next}"));
        Some(Exit::of_stop(code))
    }

    /// Ends a command that was refused.
    pub fn refused(&self, error: &Error) -> Exit {
        self.console.refused(error);
        self.stop.requested().map_or(Exit::Refused, Exit::of_stop)
    }

    /// The exit of a command that is whole, or not.
    pub fn exit(&self, exit: Exit) -> Exit {
        if self.console.all_written() { exit } else { exit.unwritten() }
    }
}
