//! Several outputs from one reading of the source.
//!
//! Each output is a run of its own, in a thread of its own: with its own walk, lock, space check,
//! decisions, manifest and report, so that what goes wrong at one is nothing to the others. What they
//! share is where the bytes come from.

pub use crate::fanout::MOST_OUTPUTS;

use std::{
    ops::ControlFlow, path::Path, sync::Arc, thread::Builder, thread::ScopedJoinHandle,
    thread::scope, time::Duration, time::Instant,
};

use crate::{
    copy::CopyJob, copy::Ending, copy::OutputRun, copy::Prepared, copy::Report, copy::Reservations,
    copy::before::several, copy::run::means::Means, copy::run::threads::WorkerCount, error::Deed,
    error::Error, error::Result, event::EndState, event::Event, event::EventObserver,
    event::Progress, fanout::Hub, fanout::Slot, hash::Backend, io::Durability, io::Options,
    io::SharedBlocks, state::Knowledge, state::Note, state::OtherOutputs, state::PrivateDir, sys,
    sys::Dir, sys::Durable, sys::stat::Time, transfer::FirstRead, tree::Batch, tree::Cleanup,
    tree::OutputDir, tree::SourceEntry, tree::Walk, tree::WalkEvent, tree::walk::most_levels,
};

/// The most that is held for outputs that are behind, by default; bytes. With the blocks that are on
/// their way in the workers, two outputs stay below 64 MiB on a machine with four cores.
pub const DEFAULT_LAG: u64 = 32 << 20;

/// One of several outputs: its job and the job's observer.
#[derive(Clone, Copy)]
pub struct OutputJob<'a> {
    /// The jobs of a run have the same source, and differ in their outputs only.
    pub job: &'a CopyJob,
    /// Its stop ends the job at this output; clones of one stop end them all.
    pub observer: &'a EventObserver<'a>,
}

/// Runs the jobs side by side, with at most `lag` bytes held for those that are behind. For each, in order, its
/// report, or why it was refused.
///
/// # Errors
/// The outputs are not disjoint, or more than [`MOST_OUTPUTS`], or the source cannot be read: nothing was
/// touched.
pub fn copy_to_all(outputs: &[OutputJob<'_>], lag: u64) -> Result<Vec<Result<Report>>> {
    let Some(OutputJob { job, .. }) = outputs.first() else { return Ok(Vec::new()) };
    if job.generations.is_some() {
        let finding = "generations are of one output; run once for each of several";
        return Err(Error::finding("make a generation in", &job.output, finding));
    }
    let refused = check_disjoint(outputs.iter().map(|output| output.job))?;
    let (noted, settled) = (OtherOutputs::default(), Vec::new());
    let mut beside = Beside { noted, settled, began: sys::time_of_change() };
    for (OutputJob { job, .. }, refused) in outputs.iter().zip(&refused) {
        if refused.is_none() {
            beside.noted.add(&job.output);
            beside.settled.push(&job.output);
        }
    }
    Ok(run_all(outputs, job, refused, lag, &beside))
}

/// The outputs of a run as they were when it began.
pub struct Beside<'a> {
    /// Where the disks were mounted of those that were not refused.
    noted: OtherOutputs,
    /// All that were not.
    settled: Vec<&'a Path>,
    /// The beginning, as [`Options::began`] has it.
    began: Time,
}

fn run_all(
    outputs: &[OutputJob<'_>],
    job: &CopyJob,
    refused: Vec<Option<Error>>,
    lag: u64,
    beside: &Beside<'_>,
) -> Vec<Result<Report>> {
    let in_flight = outputs.len() * job.most_workers() * job.blocks(outputs.len());
    let block_size = job.options.block_size.max(1);
    let held = usize::try_from(lag).unwrap_or(usize::MAX) / block_size;
    let blocks = SharedBlocks::new(held.saturating_add(in_flight).min(1 << 20), block_size);
    let hub = Hub::new(outputs.len(), lag, blocks, job.limit_rate);
    let (reservations, read) = (&Reservations::default(), &FirstRead::default());
    // What a dry run says of each stands together.
    if job.dry_run || !Means::suffice(outputs.iter().map(|output| output.job)) {
        let one = |(output, refused)| one_by_itself(output, refused, reservations, read, beside);
        return outputs.iter().zip(refused).map(one).collect();
    }
    // A dry run reads nothing.
    let slot = |number| Some(Slot::new(&hub, number)).filter(|_| !job.dry_run);
    scope(|scope| {
        let mut threads = Vec::new();
        for (number, (&output, refused)) in outputs.iter().zip(refused).enumerate() {
            let OutputJob { job, observer } = output;
            let guest = Participation { slot: slot(number), progress: &observer.progress };
            if let Some(refused) = refused {
                guest.progress.end(EndState::Refused, Duration::ZERO);
                threads.push(Err(refused));
                continue;
            }
            let run = move || {
                let begun = Instant::now();
                let slot = guest.slot;
                let beside = Some(beside);
                let report = OutputRun { job, observer, slot, reservations, read, beside }.run();
                guest.progress.end(end_state(job, &report), begun.elapsed());
                drop(guest);
                report
            };
            let thread = Builder::new().name(format!("output-{number}")).spawn_scoped(scope, run);
            threads.push(thread.deed("start the threads for", &job.output));
        }
        let finish = |(thread, output): (Result<ScopedJoinHandle<'_, _>>, &OutputJob<'_>)| {
            thread?.join().unwrap_or_else(|_| {
                let died = "the thread that copies there died; this is a defect of dircopy";
                Err(Error::finding("finish the copy to", &output.job.output, died))
            })
        };
        threads.into_iter().zip(outputs).map(finish).collect()
    })
}

/// Runs the job of one of several outputs while no other's runs, unless it is refused: where memory or descriptors are
/// too few for all at a time.
fn one_by_itself(
    &OutputJob { job, observer }: &OutputJob<'_>,
    refused: Option<Error>,
    reservations: &Reservations,
    read: &FirstRead,
    beside: &Beside<'_>,
) -> Result<Report> {
    let begun = Instant::now();
    let report = match refused {
        Some(refused) => Err(refused),
        None => {
            let beside = Some(beside);
            OutputRun { job, observer, slot: None, reservations, read, beside }.run()
        }
    };
    observer.progress.end(end_state(job, &report), begun.elapsed());
    report
}

/// The state of an output after its run.
pub fn end_state(job: &CopyJob, report: &Result<Report>) -> EndState {
    match report {
        Err(_) => EndState::Refused,
        Ok(Report { ending: Ending::Complete, durable: None, .. }) => EndState::Written,
        Ok(Report { ending: Ending::Complete, durable: Some(durable), counts, .. }) => {
            match job.options.verify {
                _ if *durable != Durable::Device => EndState::Synced,
                true if !job.options.verifies_kept() => EndState::Durable,
                true if counts.from_cache == 0 => EndState::ReadBack,
                true => EndState::ReadThroughCache,
                false => EndState::Durable,
            }
        }
        Ok(_) => EndState::Amiss,
    }
}

/// For each of several jobs why its output is refused, if it is.
fn check_disjoint<'a>(jobs: impl Iterator<Item = &'a CopyJob>) -> Result<Vec<Option<Error>>> {
    let jobs: Vec<&CopyJob> = jobs.collect();
    let Some(CopyJob { source, .. }) = jobs.first() else { return Ok(Vec::new()) };
    if let Some(CopyJob { output, .. }) = jobs.get(MOST_OUTPUTS) {
        let finding = format!("there can be {MOST_OUTPUTS} outputs");
        return Err(Error::finding("copy to", output, finding));
    }
    several::check(source, &jobs)
}

/// Why these jobs, which have the same source, would be refused for what they ask, their source or their
/// outputs; nothing is made. Whether there is room is not looked at: that takes a walk.
pub fn check_all(jobs: &[CopyJob]) -> Vec<Error> {
    // A single output may be around its source.
    let refused = if jobs.len() > 1 { check_disjoint(jobs.iter()).err() } else { None };
    match refused {
        Some(refused) => vec![refused],
        None => jobs.iter().filter_map(|job| job.check().err()).collect(),
    }
}

/// An output as long as it takes part: when this goes, whatever the reason, the others know.
struct Participation<'a> {
    slot: Option<Slot<'a>>,
    progress: &'a Progress,
}

impl Drop for Participation<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.end();
        }
        // Unless it has ended already.
        self.progress.end(EndState::Amiss, Duration::ZERO);
    }
}

// The setup of a run, by its job and both sides: its walk, its workers, and how it makes things durable.

impl CopyJob {
    /// The walk, which makes nothing if it is `dry`, of one of so many `outputs`.
    pub(crate) fn walk<'a>(
        &'a self,
        prepared: &Prepared,
        dry: bool,
        known: Option<&'a Knowledge>,
        outputs: usize,
    ) -> Walk<'a> {
        Walk {
            classifier: self.classifier(),
            dry,
            cleanup: match (&self.shard, prepared.secret) {
                (Some(shard), _) => Cleanup::OfAttempts(&shard.dead),
                (None, secret) if self.pruned && !dry => Cleanup::OfTree(secret),
                (None, Some(secret)) if prepared.is_ours_alone => Cleanup::OfRuns(secret),
                (None, None) if !dry => Cleanup::Unknown,
                (None, _) => Cleanup::Nothing,
            },
            resumable: self.journaling(prepared.secret).map(|journaling| journaling.interval),
            chains: self.durability(&prepared.output) == Durability::Grouped { at_once: false },
            known,
            source_root: prepared.source_id,
            output_root: prepared.output_id,
            names: self.names.as_ref(),
            spares_others: !dry && self.shard.is_none() && self.options.policy.spares_others(),
            leaves_dirs: self.shard.is_some(),
            is_ours_alone: self.pruned,
            gate: None,
            stop: None,
            live: Arc::default(),
            names_met: None,
            unknown: Arc::default(),
            most_levels: most_levels(sys::open_file_limit() / outputs as u64),
        }
    }

    /// The options of transfers to one of so many `outputs`. What is read for one of those `beside` one another serves
    /// all.
    pub(crate) fn options(
        &self,
        prepared: &Prepared,
        outputs: usize,
        beside: Option<&Beside<'_>>,
    ) -> Options<'_> {
        let output = prepared.output.handle.as_ref();
        let parts = prepared.output.volume.parts;
        Options {
            asked: &self.options,
            further: self.options.further,
            block_size: self.options.block_size.max(1),
            blocks: self.blocks(outputs),
            follow: self.follows(prepared),
            durability: self.durability(&prepared.output),
            nameless: !self.options.sync
                && output.is_some_and(|dir| dir.can_publish_nameless(parts)),
            journaling: self.journaling(prepared.secret).filter(|_| prepared.is_ours_alone),
            pruned: self.pruned,
            is_payload: self.payload.is_some(),
            prunes: self.prunes,
            began: beside.map_or_else(sys::time_of_change, |beside| beside.began),
            histories: self.media.as_ref().is_some_and(|it| it.histories.is_some()),
        }
    }

    /// True if a symbolic link in the source stands for what it points to. A source that is one file may be named
    /// through a link of the user's own; another's may have taken its place since.
    pub(crate) fn follows(&self, prepared: &Prepared) -> bool {
        let is_link = |file: &SourceEntry| prepared.source.handle.is_own_link(&file.name);
        self.options.selection.follow_links || prepared.file.as_ref().is_some_and(is_link)
    }

    /// The way in which the copy to `output` is made durable.
    pub(crate) fn durability(&self, output: &OutputDir) -> Durability {
        let at_once = output.handle.as_ref().is_some_and(Dir::can_persist_all);
        if self.options.sync { Durability::Grouped { at_once } } else { Durability::Off }
    }

    /// Number of workers that suit both sides and the limits of the process, if outputs share the reading or not.
    pub(crate) fn workers_for(
        &self,
        prepared: &Prepared,
        shared: bool,
        outputs: usize,
    ) -> WorkerCount {
        let Prepared { source, output, .. } = prepared;
        let (source, output) = (&source.handle, output.handle.as_ref());
        let pairs = self.options.backend.suiting(2) != Backend::One;
        let count = WorkerCount::suiting(self.workers, source, output, shared, pairs);
        Means::of_one(outputs).suiting(self, count)
    }
}

// The copy to one output, as a run that does more than that has it done.

impl OutputRun<'_> {
    /// The same run of another job.
    pub(crate) fn with<'b>(&'b self, job: &'b CopyJob) -> OutputRun<'b> {
        OutputRun { job, ..*self }
    }

    /// Lets the output of this private directory know the others, so that the disk of one can be missed by what is
    /// noted at another: from the beginning, as this run may not come to its end, nor their disks stay.
    pub(crate) fn note_others(&self, private: Option<&PrivateDir>) {
        let Self { job, observer, beside, .. } = *self;
        let private = private.filter(|_| job.is_of_itself());
        let (Some(private), Some(beside)) = (private, beside) else { return };
        let earlier = OtherOutputs::read(private).unwrap_or_default();
        let others = beside.noted.but(&job.output).and_of(&earlier, &beside.settled);
        if let Err(error) = others.update(private, job.options.sync) {
            let error =
                Error::io("write the private note of the other outputs in", private.path(), error);
            (observer.listen)(&Event::Warning(&error));
        }
    }

    /// Shows all of the source, be it one file, of a job that was prepared as a dry run.
    pub(crate) fn walk_source(&self, prepared: &Prepared, mut take: impl FnMut(&WalkEvent)) {
        let (source, output) = (Arc::clone(&prepared.source), Arc::clone(&prepared.output));
        if let Some(entry) = &prepared.file {
            return take(&WalkEvent::Files(Batch { source, output, files: vec![entry.clone()] }));
        }
        let emit = &mut |found: WalkEvent| {
            take(&found);
            match self.observer.stop.is_requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        // It ends early only where the run is to stop.
        let _ = self.walk(prepared, true, None).run(source, output, emit);
    }
}
