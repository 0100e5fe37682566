//! The options for runs that nobody watches: what they leave to read, how they give way, when they end.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ValueEnum, value_parser};
use jiff::Timestamp;

use crate::cli::args::size;
use crate::cli::record::records::Wanted;
use crate::cli::schedule;
use crate::copy::job::CopyJob;
use crate::error::Error;
use crate::sys::{self, IoPriority};

/// What a run leaves for programs to read.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Unattended runs")]
pub struct RecordArgs {
    /// Write a report of the run to FILE when it ends, however it ends, as JSON; docs/report.schema.json
    /// says what is in it. Into a directory each run writes one with its time in its name
    #[arg(long, value_name = "FILE|DIR")]
    pub report: Option<PathBuf>,

    /// When the report was written, remove old ones of this kind of run from the directory it went to; the
    /// newest N stay, and the newest of a run that exited with 0
    #[arg(long, value_name = "N", requires = "report")]
    pub keep_reports: Option<NonZero<usize>>,

    /// Write the figures of the run to FILE when it ends, for Prometheus' textfile collector
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,

    /// Append what happens to FILE, beside what is said on standard error
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// How what happens is written: to the file of --log, otherwise on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The options of a copy that nobody watches.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Unattended runs")]
pub struct Unattended {
    #[command(flatten)]
    pub records: RecordArgs,

    /// Read the source no faster than SIZE in a second, all lanes together: 50M, 800KB …
    #[arg(long, value_name = "SIZE", value_parser = size::parse_rate)]
    pub limit_rate: Option<u64>,

    /// After this time (45m, 8h, 1h30m) begin no more files, finish those in hand, and exit with 6
    #[arg(long, value_name = "DURATION", value_parser = schedule::parse_duration)]
    pub max_duration: Option<Duration>,

    /// The same when the clock shows HH:MM next, local time
    #[arg(long, value_name = "HH:MM", value_parser = schedule::parse_time)]
    pub stop_at: Option<Timestamp>,

    /// Be so nice to other programs that want the processor, from -20 to 19; a warning if that is not
    /// allowed
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = value_parser!(i32).range(-20..=19))]
    pub nice: Option<i32>,

    /// Give way at the disk: idle, best-effort or best-effort:N, N from 0 to 7 (Linux, and only disks
    /// whose scheduler looks at it); a warning if that is not allowed
    #[arg(long, value_name = "CLASS", value_parser = parse_ionice)]
    pub ionice: Option<IoPriority>,

    /// If another run is at work on the output, wait until it ends instead of refusing
    #[arg(long)]
    pub wait: bool,

    /// After a run with nothing amiss, remove old manifests from the output; the newest N stay
    #[arg(long, value_name = "N")]
    pub keep_manifests: Option<NonZero<usize>>,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// As on a terminal
    Text,
    /// One JSON object a line
    Json,
}

impl RecordArgs {
    /// Where things are to go.
    pub fn wanted(&self) -> Wanted<'_> {
        let json = self.log_format == LogFormat::Json;
        Wanted {
            report: self.report.as_deref(),
            keep_reports: self.keep_reports,
            metrics: self.metrics.as_deref(),
            log: self.log.as_deref().map(|path| (path, json)),
            ..Wanted::default()
        }
    }

    /// Whether standard error gets JSON.
    pub fn speaks_json(&self) -> bool {
        self.log.is_none() && self.log_format == LogFormat::Json
    }
}

impl Unattended {
    /// Hands on what is the job's.
    pub fn apply(&self, job: &mut CopyJob) {
        job.limit_rate = self.limit_rate;
        job.wait = self.wait;
        job.keep_manifests = self.keep_manifests;
    }

    /// Gives way to other programs, for this thread and those it will start; returns what was refused.
    pub fn give_way(&self) -> Vec<Error> {
        let fail = |deed| move |error| Error::io(deed, "this process", error);
        let nice = self.nice.map_or(Ok(()), sys::set_nice);
        let ionice = self.ionice.map_or(Ok(()), sys::set_io_priority);
        let nice = nice.map_err(fail("set the niceness of")).err();
        let ionice = ionice.map_err(fail("set the turn at the disk of")).err();
        nice.into_iter().chain(ionice).collect()
    }
}

/// Reads `idle`, `best-effort` or `best-effort:N`. 4 is what programs have that set nothing.
fn parse_ionice(text: &str) -> Result<IoPriority, String> {
    match text.split_once(':') {
        None if text == "idle" => return Ok(IoPriority::Idle),
        None if text == "best-effort" => return Ok(IoPriority::BestEffort(4)),
        Some(("best-effort", level)) => {
            if let [digit @ b'0'..=b'7'] = level.as_bytes() {
                return Ok(IoPriority::BestEffort(digit - b'0'));
            }
        }
        _ => {}
    }
    Err("expected idle, best-effort or best-effort:N, N from 0 (first) to 7 (last)".into())
}
