//! The exit codes: stable, documented in `--help` and the README.

use std::process::ExitCode;

use crate::copy::report::{Ending, Report};
use crate::error::Result;
use crate::stream::report::StreamEnding;
use crate::verify::VerifyReport;

/// What a run is asked to stop with when the time that was set is over.
pub const TIME_IS_UP: usize = 6;

/// What shells say of a program that SIGPIPE ended: 128 and the signal's number.
const READER_GONE: usize = 141;

/// What the program's exit tells a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for was done.
    Complete,
    /// Finished, but not everything was done.
    Incomplete,
    /// Usage error, or refused before anything was touched.
    Refused,
    /// Stopped early.
    Stopped,
    /// A check found files that are not as listed, a copy could not be made that the disk holds as it
    /// was written, or files of the source have rotted.
    Untrue,
    /// A check had no manifest that could be read whole and lists files.
    Unusable,
    /// The time that was set was over before the run was.
    TimeIsUp,
    /// Ended by a signal, with 128 and its number.
    Interrupted(u8),
}

impl Exit {
    /// How a run ended. A run whose messages or records could not all be written is no success.
    pub fn of(ending: &Ending, all_written: bool) -> Self {
        match ending {
            Ending::Complete if all_written => Exit::Complete,
            Ending::Complete | Ending::Incomplete | Ending::Nothing(_) => Exit::Incomplete,
            Ending::Unproven | Ending::Rotten => Exit::Untrue,
            Ending::Stopped(_) => Exit::Stopped,
            Ending::Interrupted(code) => Exit::of_stop(*code),
        }
    }

    /// How a run to several outputs ended: as the worst of them did. One that was refused was not
    /// touched, but others were.
    pub fn of_all(ran: &[Result<Report>], all_written: bool) -> Self {
        if ran.iter().all(Result::is_err) {
            return Exit::Refused;
        }
        let exit = |ran: &Result<Report>| match ran {
            Ok(report) => Exit::of(&report.ending, all_written),
            Err(_) => Exit::Incomplete,
        };
        ran.iter().map(exit).max_by_key(|exit| exit.weight()).unwrap_or(Exit::Complete)
    }

    /// How one of several outputs ended.
    pub fn of_one(ran: &Result<Report>, all_written: bool) -> Self {
        ran.as_ref().map_or(Exit::Refused, |report| Exit::of(&report.ending, all_written))
    }

    /// How bad it is that one of several outputs ended so.
    fn weight(self) -> u8 {
        match self {
            Exit::Complete => 0,
            Exit::Refused | Exit::Incomplete | Exit::Unusable => 1,
            Exit::Stopped => 2,
            Exit::Untrue => 3,
            Exit::TimeIsUp => 4,
            Exit::Interrupted(_) => 5,
        }
    }

    /// How a stream ended. A reader that goes away ends it as it ends other programs.
    pub fn of_stream(ending: StreamEnding, all_written: bool) -> Self {
        match ending {
            StreamEnding::Complete if all_written => Exit::Complete,
            StreamEnding::Complete | StreamEnding::Incomplete => Exit::Incomplete,
            StreamEnding::Unproven => Exit::Untrue,
            StreamEnding::Closed => Exit::of_stop(READER_GONE),
            StreamEnding::Stopped => Exit::Stopped,
            StreamEnding::Interrupted(code) => Exit::of_stop(code),
        }
    }

    /// How a check ended, by the worst that was found: a file that is known to be wrong outweighs a
    /// line that may hide one, and that a file that may be right.
    pub fn of_check(report: &VerifyReport, all_written: bool) -> Self {
        let counts = &report.counts;
        match report.interrupted {
            Some(code) => Exit::of_stop(code),
            None if counts.is_untrue() => Exit::Untrue,
            None if counts.is_unusable() => Exit::Unusable,
            None if counts.is_incomplete() || !all_written => Exit::Incomplete,
            None => Exit::Complete,
        }
    }

    /// How a run ended that was asked to stop with this code.
    pub fn of_stop(code: usize) -> Self {
        match code {
            TIME_IS_UP => Exit::TimeIsUp,
            code => Exit::Interrupted(u8::try_from(code).unwrap_or(130)),
        }
    }

    /// The same after a line or a record could not be written.
    pub fn unwritten(self) -> Self {
        if self == Exit::Complete { Exit::Incomplete } else { self }
    }

    /// What it is called in reports and logs.
    pub fn name(self) -> &'static str {
        match self {
            Exit::Complete => "complete",
            Exit::Incomplete => "incomplete",
            Exit::Refused => "refused",
            Exit::Stopped => "stopped",
            Exit::Untrue => "untrue",
            Exit::Unusable => "unusable",
            Exit::TimeIsUp => "time-is-up",
            Exit::Interrupted(_) => "interrupted",
        }
    }

    pub fn code(self) -> u8 {
        match self {
            Exit::Complete => 0,
            Exit::Incomplete => 1,
            Exit::Refused => 2,
            Exit::Stopped => 3,
            Exit::Untrue => 4,
            Exit::Unusable => 5,
            Exit::TimeIsUp => 6,
            Exit::Interrupted(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
