//! Several outputs from one reading of the source.
//!
//! Each output is a run of its own, in a thread of its own: with its own walk, lock, space check,
//! decisions, manifest and report, so that what goes wrong at one is nothing to the others. What they
//! share is where the bytes come from.

use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

use crate::copy::before::disjoint;
use crate::copy::before::reservation::Reservations;
use crate::copy::job::CopyJob;
use crate::copy::report::{Ending, Report};
use crate::copy::run::means::Means;
use crate::copy::run::output_run::OutputRun;
use crate::error::{Error, Result};
use crate::event::{EndState, Event, EventObserver, Progress};
use crate::fanout::hub::Hub;
pub use crate::fanout::output_set::MOST_OUTPUTS;
use crate::fanout::slot::Slot;
use crate::io::block::SharedBlocks;
use crate::state::other_outputs::OtherOutputs;
use crate::state::private_dir::{Missing, PrivateDir};
use crate::sys::Dir;

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
    let reports = run_all(outputs, job, refused, lag);
    if !job.dry_run {
        note_others(outputs, &reports);
    }
    Ok(reports)
}

/// Lets each output know the others, so that the disk of one can be missed by what is noted at another.
fn note_others(outputs: &[OutputJob<'_>], reports: &[Result<Report>]) {
    let ran = || outputs.iter().zip(reports);
    for (OutputJob { job, observer }, report) in ran() {
        let is_begun = matches!(report, Ok(report) if !matches!(report.ending, Ending::Nothing(_)));
        let open = |root: &Dir| {
            PrivateDir::open_at(root, &job.output, job.private_place(), Missing::Leave).ok()?
        };
        let private = Dir::open(&job.output).ok().filter(|_| is_begun);
        let Some(private) = private.as_ref().and_then(open) else { continue };
        let (mut others, earlier) =
            (OtherOutputs::default(), OtherOutputs::read(&private).unwrap_or_default());
        for (OutputJob { job: other, .. }, report) in ran() {
            match report {
                _ if other.output == job.output => {}
                Ok(_) => others.add(&other.output),
                Err(_) => others.keep(&earlier, &other.output),
            }
        }
        if let Err(error) = others.write(&private, job.sync) {
            let error =
                Error::io("write the private note of the other outputs in", private.path(), error);
            (observer.listen)(&Event::Warning(&error));
        }
    }
}

fn run_all(
    outputs: &[OutputJob<'_>],
    job: &CopyJob,
    refused: Vec<Option<Error>>,
    lag: u64,
) -> Vec<Result<Report>> {
    let in_flight = outputs.len() * job.most_workers() * job.blocks(outputs.len());
    let block_size = job.block_size.max(1);
    let held = usize::try_from(lag).unwrap_or(usize::MAX) / block_size;
    let blocks = SharedBlocks::new(held.saturating_add(in_flight).min(1 << 20), block_size);
    let hub = Hub::new(outputs.len(), lag, blocks, job.limit_rate);
    let reservations = &Reservations::default();
    if !Means::suffice(outputs.iter().map(|output| output.job)) {
        let one = |(output, refused)| one_by_itself(output, refused, reservations);
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
                let report = OutputRun { job, observer, slot: guest.slot, reservations }.run();
                guest.progress.end(end_state(job, &report), begun.elapsed());
                drop(guest);
                report
            };
            let thread = Builder::new().name(format!("output-{number}")).spawn_scoped(scope, run);
            threads.push(
                thread.map_err(|error| Error::io("start the threads for", &job.output, error)),
            );
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
) -> Result<Report> {
    let begun = Instant::now();
    let report = match refused {
        Some(refused) => Err(refused),
        None => OutputRun { job, observer, slot: None, reservations }.run(),
    };
    observer.progress.end(end_state(job, &report), begun.elapsed());
    report
}

/// What is at the output of a run that is over.
fn end_state(job: &CopyJob, report: &Result<Report>) -> EndState {
    match report {
        Err(_) => EndState::Refused,
        Ok(Report { ending: Ending::Complete, counts, .. }) => match job.verify {
            Some(_) if counts.from_cache == 0 => EndState::ReadBack,
            Some(_) => EndState::ReadThroughCache,
            None if job.sync => EndState::Durable,
            None => EndState::Written,
        },
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
    disjoint::check(source, &jobs)
}

/// Why these jobs, which have the same source, would be refused for what they ask, their source or their
/// outputs; nothing is made. Whether there is room is not looked at: that takes a walk.
pub fn check_all(jobs: &[CopyJob]) -> Vec<Error> {
    // One that is alone may be around its source.
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
