//! What `dircopy` does for a stream, from its arguments to its exit code.

use std::ffi::OsString;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::bounded;
use humansize::{BINARY, format_size};

use crate::cli::args::Args;
use crate::cli::console::{Console, Detail};
use crate::cli::exit::Exit;
use crate::cli::job_file::JobFile;
use crate::cli::progress::View;
use crate::cli::record::records::{Ran, Records, Task, Wanted};
use crate::cli::told::Told;
use crate::error::Error;
use crate::event::{Event, Progress, Stop, Watch};
use crate::path::Shown;
use crate::stream::ends::Fate;
use crate::stream::report::{StreamEnding, StreamReport};
use crate::stream::{Named, StreamJob};
use crate::sys;

/// Passes the inputs on to the outputs.
pub fn stream(args: &Args, job: &StreamJob, file: Option<&JobFile>, command: &[OsString]) -> Exit {
    let view = View::new(args.progress, args.quiet);
    let detail = match args {
        Args { quiet: true, .. } => Detail::Quiet,
        Args { verbose: true, .. } => Detail::Verbose,
        _ => Detail::Normal,
    };
    // Standard output may be where the bytes go.
    let taken = job.outputs.contains(&Named::Standard);
    let console = Console::new(detail, view.bar()).in_json(args.unattended.records.speaks_json());
    let console = console.aside(taken);
    let stop = Stop::default();
    if let Err(error) = sys::on_interrupt(stop.handle()) {
        console.err(&format!("dircopy: warning: cannot catch signals: {error}"));
    }
    let file = file.map(|file| (&*file.path, file.words()));
    let wanted =
        Wanted { detail: Some(detail), name: "dircopy", file, ..args.unattended.records.wanted() };
    let task = Task::Stream { inputs: &job.inputs, outputs: &job.outputs };
    let refuse = |refused: &Error| {
        console.error("refused", refused, &format!("dircopy: {refused}"));
    };
    let records = match Records::open(&wanted, task, command) {
        Ok(records) => records,
        Err(refused) => {
            refuse(&refused);
            return Exit::Refused;
        }
    };
    let told = Told { console: &console, records: &records, at: None };
    args.unattended.give_way().iter().for_each(|warning| told.event(&Event::Warning(warning)));
    let progress = [Progress::default()];
    let [counters] = &progress;
    counters.watched.store(!matches!(view, View::None), Relaxed);
    let ran = std::thread::scope(|scope| {
        let (running, done) = bounded(0);
        view.show_beside(scope, &progress, &console, done);
        let report = job.run(&told, counters, &stop);
        drop::<crossbeam_channel::Sender<()>>(running);
        report
    });
    let (ran, exit) = match &ran {
        Ok(report) => {
            // A reader that went away wants to hear nothing more.
            if !args.quiet && report.ending != StreamEnding::Closed {
                console.out(&summary(report));
            }
            (Ran::Streamed(report), Exit::of_stream(report.ending, console.said_all()))
        }
        Err(refused) => {
            refuse(refused);
            (Ran::Refused(refused), stop.requested().map_or(Exit::Refused, Exit::of_stop))
        }
    };
    let (exit, errors) = records.close(&ran, exit);
    for error in &errors {
        console.error("failed", error, &format!("dircopy: {error}"));
    }
    exit
}

/// The closing summary, without the last line's end.
fn summary(report: &StreamReport) -> String {
    let size = |bytes| format_size(bytes, BINARY);
    let mut text = String::new();
    let mut row = |name: &str, what: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<9} {what}");
    };
    row("read", format!("{} inputs, {}", report.inputs, size(report.bytes)));
    if report.failed > 0 {
        row("failed", format!("{} inputs or manifests", report.failed));
    }
    for (named, fate) in &report.outputs {
        let what = match fate {
            Fate::Stands { replaced: false, .. } => "is complete",
            Fate::Stands { .. } => "is complete, in place of another",
            Fate::Passed => "has everything",
            Fate::Closed => "was no longer read",
            Fate::Stopped => "is given up",
            Fate::Left(_) => "is left as it was",
            Fate::Failed(_) => "failed",
        };
        row("output", format!("{} {what}", Shown::path(named.path())));
    }
    if let Some(digest) = &report.digest {
        row("sha256", digest.to_string());
    }
    let seconds = report.elapsed.as_secs_f64();
    let rate = size((report.bytes as f64 / seconds.max(1e-9)) as u64);
    row("time", format!("{seconds:.2} s, {rate}/s on average"));
    if let Some(manifest) = &report.manifest {
        row("manifest", Shown::path(manifest).to_string());
    }
    text.push_str(match report.ending {
        StreamEnding::Complete => "done: everything is at every output",
        StreamEnding::Incomplete => "NOT COMPLETE: something is missing",
        StreamEnding::Closed => "the reader of an output went away before the end",
        StreamEnding::Stopped => "STOPPED EARLY: no output could be written to its end",
        StreamEnding::Interrupted(_) => "INTERRUPTED: files that were not complete are removed",
    });
    text
}
