//! What `dircopy` does for a stream, from its arguments to its exit code.

use std::ffi::OsString;

use crate::cli::args::copy::Args;
use crate::cli::args::job_file::JobFile;
use crate::cli::exit::Exit;
use crate::cli::record::records::{Ran, Task, Wanted};
use crate::cli::service::Service;
use crate::cli::session::{Watched, stop_by_signals};
use crate::cli::show::console::{Console, Detail};
use crate::cli::show::reporter::Told;
use crate::cli::show::rows::{Rows, size};
use crate::event::Event;
use crate::io::read_back::HashedFrom;
use crate::path::Shown;
use crate::stream::outcome::OutputOutcome;
use crate::stream::report::{StreamEnding, StreamReport};
use crate::stream::{Endpoint, StreamJob};

/// Passes the inputs on to the outputs.
pub fn stream(args: &Args, job: &StreamJob, file: Option<&JobFile>, command: &[OsString]) -> Exit {
    let (view, detail) = (args.say.view(), args.say.detail());
    // Standard output may be where the bytes go.
    let taken = job.outputs.contains(&Endpoint::Standard);
    let console = Console::new("dircopy", detail, view.bar()).aside(taken);
    let console = console.in_json(args.unattended.records.speaks_json());
    let stop = stop_by_signals(&console);
    let file = file.map(|file| (&*file.path, file.words()));
    let wanted =
        Wanted { detail: Some(detail), name: "dircopy", file, ..args.unattended.records.wanted() };
    let task = Task::Stream { inputs: &job.inputs, outputs: &job.outputs };
    let service = Service::find();
    let watched = Watched { view: &view, service: &service, console: &console };
    let records = match watched.open(&wanted, task, command, &stop) {
        Ok(records) => records,
        Err(exit) => return exit,
    };
    let told = Told { console: &console, records: &records, at: None };
    args.unattended.give_way().iter().for_each(|warning| told.event(&Event::Warning(warning)));
    let ran = watched.run_one(&stop, |progress| job.run(&told.observer(progress, stop.clone())));
    let (ran, exit) = match &ran {
        Ok(report) => {
            // A reader that went away wants to hear nothing more.
            if detail != Detail::Quiet && report.ending != StreamEnding::Closed {
                console.out(&summary(report));
            }
            (Ran::Streamed(report), Exit::of_stream(report.ending, console.said_all()))
        }
        Err(refused) => (Ran::Refused(refused), watched.refused(refused, &stop)),
    };
    watched.end(&records, &ran, exit)
}

/// The closing summary, without the last line's end.
fn summary(report: &StreamReport) -> String {
    let mut rows = Rows::new(9);
    rows.row("read", format_args!("{} inputs, {}", report.inputs, size(report.bytes)));
    rows.counted(&[("failed", report.failed, "inputs or manifests")]);
    for (named, fate) in &report.outputs {
        let what = match fate {
            OutputOutcome::Stands { replaced: false, .. } => "is complete",
            OutputOutcome::Stands { .. } => "is complete, in place of another",
            OutputOutcome::Passed => "has everything",
            OutputOutcome::Closed => "was no longer read",
            OutputOutcome::Stopped(_) => "is given up",
            OutputOutcome::Left(_) => "is left as it was",
            OutputOutcome::Failed(_) => "failed",
            OutputOutcome::Unproven(_) => "failed: the disk does not hold it as it was written",
        };
        let proof = match fate {
            OutputOutcome::Stands { proof: Some(HashedFrom::Device), .. } => {
                ", read back from the device"
            }
            OutputOutcome::Stands { proof: Some(HashedFrom::Cache), .. } => {
                ", read back only through a cache"
            }
            _ => "",
        };
        rows.row("output", format_args!("{} {what}{proof}", Shown::path(named.path())));
    }
    if let Some(digest) = &report.digest {
        rows.row("sha256", digest);
    }
    rows.time(report.elapsed, report.bytes);
    if let Some(manifest) = &report.manifest {
        rows.row("manifest", Shown::path(manifest));
    }
    rows.ending(match report.ending {
        StreamEnding::Complete => "done: everything is at every output",
        StreamEnding::Incomplete => "NOT COMPLETE: something is missing",
        StreamEnding::Unproven => "NOT PROVEN: the disk does not hold what was written to it",
        StreamEnding::Closed => "the reader of an output went away before the end",
        StreamEnding::Stopped => "STOPPED EARLY: no output could be written to its end",
        StreamEnding::Interrupted(_) => "INTERRUPTED: files that were not complete are removed",
    })
}
