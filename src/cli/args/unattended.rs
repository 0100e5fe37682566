//! The options for unattended runs: what they record, how they give way, when they end.

use std::{ffi::OsStr, num::NonZero, path::Path, path::PathBuf, time::Duration};

use clap::{ArgAction, builder::PathBufValueParser, builder::TypedValueParser, value_parser};
use jiff::Timestamp;

use crate::{
    cli::args::values::Choice, cli::args::values::Choose, cli::args::values::one_of, cli::jobs,
    cli::jobs::Deadline, cli::record::task::RecordOptions, cli::report::is_page,
    cli::session::OnEnd, cli::show::Detail, cli::words, copy::CopyJob, error::Error, sys,
    sys::IoPriority,
};

/// What a run writes for programs to read.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Unattended runs")]
pub struct RecordArgs {
    /// Write a report of the run as JSON to FILE, however the run ends
    ///
    /// Into a directory each run writes one with its time in its name. docs/report.schema.json says what is
    /// in it. A FILE that ends in .html becomes a page for people, as by `dircopy report`. Given twice: both.
    #[arg(long, value_name = "FILE|DIR", help_heading = None, action = ArgAction::Append,
          value_parser = PathBufValueParser::new().try_map(report_path))]
    pub report: Vec<PathBuf>,

    /// Keep only the newest N reports of this kind of run in the directory of --report
    ///
    /// The newest report of a run that exited with 0 stays too.
    #[arg(long, value_name = "N", requires = "report", hide_short_help = true)]
    pub keep_reports: Option<NonZero<usize>>,

    /// Have ssh-keygen sign the report with this SSH key: REPORT.sig beside it
    ///
    /// A private key without a passphrase, or the public one of a key that an agent has. Refused before the first byte
    /// if it cannot sign. `dircopy report --check` checks it, or `ssh-keygen -Y verify` (docs/guide/receipts.md).
    #[arg(long, value_name = "KEY", requires = "report", hide_short_help = true)]
    pub sign: Option<PathBuf>,

    /// Write the figures of the run to FILE, for Prometheus' textfile collector
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub metrics: Option<PathBuf>,

    /// Append what happens to FILE, in addition to standard error
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub log: Option<PathBuf>,

    /// Format of the file of --log; without that, of standard error
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = one_of::<LogFormat>(),
          hide_short_help = true)]
    pub log_format: LogFormat,

    /// Run COMMAND when the run has ended, however it did: a program and its arguments
    ///
    /// No shell runs it; for one write sh -c "…". Quotes hold words together. The variables DIRCOPY_EXIT_CODE,
    /// DIRCOPY_VERDICT, DIRCOPY_REPORT and others say how the run ended (docs/guide/scheduled.md). It has a minute, 8
    /// seconds after a signal. If it fails, an exit code of 0 becomes 1.
    #[arg(long, value_name = "COMMAND", value_parser = OnEnd::parse, hide_short_help = true)]
    pub on_end: Option<OnEnd>,
}

/// The options of an unattended copy.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Unattended runs")]
pub struct UnattendedArgs {
    #[command(flatten)]
    pub records: RecordArgs,

    /// Read the source no faster than SIZE a second: 50M, 800KB …
    ///
    /// All workers and outputs together.
    #[arg(long, value_name = "SIZE", value_parser = words::parse_rate, help_heading = None)]
    pub limit_rate: Option<u64>,

    /// After this time (45m, 8h, 1h30m) start no more files, finish the current ones, exit with 6
    #[arg(long, value_name = "DURATION", value_parser = jobs::parse_duration,
          hide_short_help = true)]
    pub max_duration: Option<Duration>,

    /// The same when the clock next shows HH:MM, local time
    #[arg(long, value_name = "HH:MM", value_parser = jobs::parse_time, hide_short_help = true)]
    pub stop_at: Option<Timestamp>,

    /// How long the files in hand may take then; after that they are given up
    #[arg(long, value_name = "DURATION", value_parser = jobs::parse_duration,
          default_value = "1m", hide_short_help = true)]
    pub grace: Duration,

    /// Niceness, from -20 to 19; a warning if it cannot be set
    #[arg(long, value_name = "N", allow_negative_numbers = true, hide_short_help = true,
          value_parser = value_parser!(i32).range(-20..=19))]
    pub nice: Option<i32>,

    /// Disk priority: idle, best-effort or best-effort:N, N from 0 to 7; a warning if it cannot be set
    ///
    /// Linux, and only disks whose scheduler looks at it.
    #[arg(long, value_name = "CLASS", value_parser = parse_ionice, hide_short_help = true)]
    pub ionice: Option<IoPriority>,

    /// Wait for another run on the output to end instead of refusing
    #[arg(long, hide_short_help = true)]
    pub wait: bool,

    /// Refuse an OUTPUT that is not on a disk mounted for it (exit 2), instead of filling the system's disk
    ///
    /// OUTPUT must be at or below a mount point other than "/", where a file system is mounted from its top, not one
    /// directory of it. LABEL= and UUID= always ask for that.
    #[arg(long, hide_short_help = true)]
    pub require_mount: bool,

    /// Refuse an OUTPUT where a sync is not known to reach a device of this machine (exit 2)
    ///
    /// Servers, FUSE, memory and mounts with nobarrier are refused, with the reason. docs/guide/proof.md has all.
    #[arg(long, conflicts_with = "no_sync", hide_short_help = true)]
    pub require_durable: bool,

    /// Keep the private record below DIR instead of in OUTPUT/.dircopy
    ///
    /// For outputs on file systems without owners, such as FAT, and on shares. DIR must exist; each output
    /// has a directory of its own there, by its path.
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub state: Option<PathBuf>,

    /// After a run without failures keep only the newest N manifests at the output
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub keep_manifests: Option<NonZero<usize>>,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// As on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

impl Choose for LogFormat {
    const CHOICES: &'static [Choice<Self>] = &[
        ("text", LogFormat::Text, "As on a terminal"),
        ("json", LogFormat::Json, "One JSON object a line"),
    ];
}

impl RecordArgs {
    /// The report, a page that is made of it beside that, and one of them that is one too many.
    fn reports(&self) -> [Option<&Path>; 3] {
        let (pages, others): (Vec<&Path>, Vec<&Path>) =
            self.report.iter().map(|path| &**path).partition(|path| is_page(path));
        match (&others[..], &pages[..]) {
            ([_, more, ..], _) | (_, [_, more, ..]) => [None, None, Some(*more)],
            ([report], page) => [Some(*report), page.first().copied(), None],
            ([], page) => [page.first().copied(), None, None],
        }
    }

    /// What the program `name` records; the log has messages in this detail.
    pub fn options(&self, name: &'static str, detail: Detail) -> RecordOptions<'_> {
        let json = self.log_format == LogFormat::Json;
        let [report, page, report_too_many] = self.reports();
        RecordOptions {
            name,
            detail: Some(detail),
            json_on_stderr: json && self.log.is_none(),
            report,
            page,
            report_too_many,
            sign: self.sign.as_deref(),
            keep_reports: self.keep_reports,
            metrics: self.metrics.as_deref(),
            on_end: self.on_end.as_ref(),
            log: self.log.as_deref().map(|path| (path, json)),
            ..RecordOptions::default()
        }
    }
}

impl UnattendedArgs {
    /// Sets the options that are the job's.
    pub fn apply(&self, job: &mut CopyJob) {
        job.limit_rate = self.limit_rate;
        job.wait = self.wait;
        job.state.clone_from(&self.state);
        job.keep_manifests = self.keep_manifests;
    }

    /// When the run is to end by itself, counted from now.
    pub fn deadline(&self) -> Deadline {
        Deadline::new(self.max_duration, self.stop_at, self.grace)
    }

    /// Lowers the priority of this thread and those it will start; returns the errors of the system.
    pub fn give_way(&self) -> Vec<Error> {
        let fail = |deed| move |error| Error::io(deed, "this process", error);
        let nice = self.nice.map_or(Ok(()), sys::set_nice);
        let ionice = self.ionice.map_or(Ok(()), sys::set_io_priority);
        let nice = nice.map_err(fail("set the niceness of")).err();
        let ionice = ionice.map_err(fail("set the disk priority of")).err();
        nice.into_iter().chain(ionice).collect()
    }
}

/// Takes the path of a report, unless its ending asks for another form than there are.
fn report_path(path: PathBuf) -> Result<PathBuf, String> {
    let end = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_kind = end.chars().all(|c| c.is_ascii_alphabetic()) && !path.is_dir();
    if end.is_empty() || !is_kind || is_page(&path) || end.eq_ignore_ascii_case("json") {
        return Ok(path);
    }
    Err(format!(
        "a report is JSON (FILE.json) or a page (FILE.html), not .{end}; what is on the screen goes to --log FILE"
    ))
}

/// Reads `idle`, `best-effort` or `best-effort:N`. 4 is the level of programs that set none.
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
