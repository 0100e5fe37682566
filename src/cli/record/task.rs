//! What a run does and how it ended, as reports, metrics and logs have it.

use std::path::{Path, PathBuf};

use crate::cli::exit::Exit;
use crate::cli::record::entry::RecordEntry;
use crate::copy::report::{Ending, Report};
use crate::error::{Error, Result};
use crate::path::Shown;
use crate::stream::{Endpoint, StreamReport};
use crate::verify::VerifyReport;

/// What a run is about.
pub enum Task<'a> {
    /// A copy from one path to others.
    Copy {
        source: &'a Path,
        outputs: &'a [PathBuf],
        given: &'a [PathBuf],
        dry_run: bool,
    },
    Stream {
        inputs: &'a [Endpoint],
        outputs: &'a [Endpoint],
        given: &'a [PathBuf],
    },
    /// A check of these directories.
    Check(&'a [PathBuf]),
}

impl<'a> Task<'a> {
    /// The outputs as they were given: with placeholders, or on a disk that is named.
    pub(crate) fn given(&self) -> &'a [PathBuf] {
        match self {
            Task::Copy { given, .. } | Task::Stream { given, .. } => given,
            Task::Check(_) => &[],
        }
    }

    /// The names of what it has a progress for, as they are shown.
    pub(crate) fn names(&self) -> Vec<String> {
        let shown = |path: &Path| Shown::path(path).to_string();
        match self {
            Task::Copy { outputs, .. } => outputs.iter().map(|output| shown(output)).collect(),
            // All outputs of a stream, and all directories of a check, have one progress.
            Task::Stream { outputs, .. } => {
                let names: Vec<_> = outputs.iter().map(|output| shown(output.path())).collect();
                vec![names.join(", ")]
            }
            Task::Check([]) => vec![".".into()],
            Task::Check(dirs) => {
                vec![dirs.iter().map(|dir| shown(dir)).collect::<Vec<_>>().join(", ")]
            }
        }
    }

    /// What it is called in reports.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Task::Copy { .. } => "copy",
            Task::Stream { .. } => "stream",
            Task::Check(_) => "verify",
        }
    }
}

/// How a run ended.
pub enum RunResult<'a> {
    Refused(&'a Error),
    /// A call did not come back after the run was asked to stop.
    Stuck(&'a Error),
    /// A copy: its report for each output, or why that was refused.
    Copied(&'a [Result<Report>]),
    Streamed(&'a StreamReport),
    Checked(&'a VerifyReport),
}

/// How a run ended, with what could not be written of it.
pub(crate) struct Finished<'r> {
    pub(crate) ran: &'r RunResult<'r>,
    /// How it ended if everything that it says and records was written.
    pub(crate) exit_before: Exit,
    pub(crate) all_written: bool,
}

impl Finished<'_> {
    /// What the program exits with.
    pub(crate) fn exit(&self) -> Exit {
        if self.all_written { self.exit_before } else { self.exit_before.unwritten() }
    }
}

impl RunResult<'_> {
    /// Why it was refused, or stopped early.
    pub(crate) fn error(&self) -> Option<RecordEntry<'static>> {
        match self {
            RunResult::Refused(error) => Some(RecordEntry::error("refused", error)),
            RunResult::Stuck(error) => Some(RecordEntry::error("stopped", error)),
            // Of several each has its own.
            RunResult::Copied([ran]) => error(ran),
            _ => None,
        }
    }
}

/// Why an output was refused, or given up early.
pub(crate) fn error(ran: &Result<Report>) -> Option<RecordEntry<'static>> {
    match ran {
        Err(error) => Some(RecordEntry::error("refused", error)),
        Ok(Report { ending: Ending::Stopped(error), .. }) => {
            Some(RecordEntry::error("stopped", error))
        }
        Ok(Report { ending: Ending::Nothing(error), .. }) => {
            Some(RecordEntry::error("failed", error))
        }
        Ok(_) => None,
    }
}
