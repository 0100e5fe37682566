//! The exit codes: stable, documented in `--help` and the README.

use std::process::ExitCode;

use crate::copy::report::Ending;
use crate::verify::VerifyReport;

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
    /// A check found files that are not as listed, or a copy could not be made that the disk holds as it
    /// was written.
    Untrue,
    /// A check had no manifest that could be read whole.
    Unusable,
    /// Ended by a signal, with 128 and its number.
    Interrupted(u8),
}

impl Exit {
    /// How a run ended. What could not be said, although it should have been, is not success.
    pub fn of(ending: &Ending, said_all: bool) -> Self {
        match ending {
            Ending::Complete if said_all => Exit::Complete,
            Ending::Complete | Ending::Incomplete => Exit::Incomplete,
            Ending::Unproven => Exit::Untrue,
            Ending::Stopped(_) => Exit::Stopped,
            Ending::Interrupted(code) => Exit::Interrupted(u8::try_from(*code).unwrap_or(130)),
        }
    }

    /// How a check ended, by the worst that was found: a file that is known to be wrong outweighs a
    /// line that may hide one, and that a file that may be right.
    pub fn of_check(report: &VerifyReport, said_all: bool) -> Self {
        let counts = &report.counts;
        match report.interrupted {
            Some(code) => Exit::Interrupted(u8::try_from(code).unwrap_or(130)),
            None if counts.is_untrue() => Exit::Untrue,
            None if counts.is_unusable() => Exit::Unusable,
            None if counts.is_incomplete() || !said_all => Exit::Incomplete,
            None => Exit::Complete,
        }
    }

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Complete => 0,
            Exit::Incomplete => 1,
            Exit::Refused => 2,
            Exit::Stopped => 3,
            Exit::Untrue => 4,
            Exit::Unusable => 5,
            Exit::Interrupted(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
