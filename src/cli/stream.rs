//! A stream by `dircopy`, from its arguments to its exit code.

use std::ffi::OsString;

use crate::cli::args::job_file::JobFile;
use crate::cli::exit::Exit;
use crate::cli::invocation::CopyInvocation;
use crate::cli::record::options::RecordOptions;
use crate::cli::record::task::{RunResult, Task};
use crate::cli::session::{Session, Setup};
use crate::cli::show::gathered::Gathered;
use crate::cli::show::line::Detail;
use crate::cli::show::reporter::Reporter;
use crate::cli::show::stream_summary::{summary, verdict};
use crate::event::Event;
use crate::stream::report::StreamEnding;
use crate::stream::{Endpoint, StreamJob};

/// Copies the inputs to every output, one after the other.
pub fn stream(
    CopyInvocation { args, given, unknown, .. }: &CopyInvocation,
    job: &StreamJob,
    file: Option<&JobFile>,
    command: &[OsString],
) -> Exit {
    let detail = args.verbosity.detail();
    let records = &args.unattended.records;
    let opened = Session::open(Setup {
        options: RecordOptions { file, ..records.options("dircopy", detail) },
        view: args.verbosity.view(),
        aside: job.outputs.contains(&Endpoint::Standard),
        task: Task::Stream { inputs: &job.inputs, outputs: &job.outputs, given },
        command,
    });
    let session = match opened {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    if let Some(unknown) = unknown.iter().flatten().next() {
        return session.end_refused(unknown);
    }
    let (console, records) = (&session.console, &session.records);
    let reporter = Reporter { console, records, output: None, gathered: Gathered::default() };
    args.unattended.give_way().iter().for_each(|warning| reporter.event(&Event::Warning(warning)));
    let ran = session
        .run_one(None, |progress| job.run(&reporter.observer(progress, session.stop.clone())));
    reporter.rest();
    let report = match &ran {
        Ok(report) => report,
        Err(refused) => return session.end_refused(refused),
    };
    // A reader that closed its end wants no summary.
    let says = detail != Detail::Quiet && report.ending != StreamEnding::Closed;
    if says {
        session.console.out_rows(summary(report));
    }
    let exit = Exit::of_stream(report.ending, session.console.all_written());
    session
        .end(&RunResult::Streamed(report), exit, !says, |exit, amiss| verdict(report, exit, amiss))
}
