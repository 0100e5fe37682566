//! The end of a run: its report, its metrics, its log, its last line and its exit code agree.

use serde::Serialize;

use crate::cli::exit::Exit;
use crate::cli::record::entry::RecordEntry;
use crate::cli::record::json::JsonName;
use crate::cli::record::log::Log;
use crate::cli::record::records::Records;
use crate::cli::record::task::{Finished, RunResult, error};
use crate::cli::show::console::Console;
use crate::error::Error;
use crate::event::Stop;
use crate::path::Shown;

#[derive(Serialize)]
struct EndedLine {
    event: &'static str,
    exit_code: u8,
    ending: &'static str,
}

#[derive(Serialize)]
struct RemovedLine {
    event: &'static str,
    #[serde(flatten)]
    path: JsonName,
}

/// What is amiss where something could not be written.
pub const UNWRITTEN: &str = "not every message or record could be written";

/// … and where only the command failed.
const NOT_TOLD: &str = "the command of --on-end failed";

/// How the end of a run is told.
pub struct Closing<'c> {
    /// The last line for this exit code, and for what was amiss at the end if the run itself was complete.
    pub verdict: &'c dyn Fn(Exit, &str) -> String,
    /// Whether it is shown on the screen.
    pub is_shown: bool,
    /// Signals ask for the end of what still runs.
    pub stop: &'c Stop,
}

impl Records<'_> {
    /// Records the end of the run, `exit` being how it ended if everything can be written, and reports what
    /// could not be. Returns the exit code of the program.
    pub fn finish(
        &self,
        ran: &RunResult<'_>,
        exit: Exit,
        console: &Console,
        closing: &Closing<'_>,
    ) -> Exit {
        let mut errors = Vec::new();
        let left_out = self
            .report
            .as_ref()
            .is_some_and(|(_, spool)| spool.lock().map_or(true, |mut spool| spool.left_out() > 0));
        let all_written = !left_out && console.all_written() && self.lost_line().is_none();
        let mut end = Finished { ran, exit_before: exit, all_written };
        if let Err(error) = self.write_metrics(&end) {
            errors.push(error);
            end.all_written = false;
        }
        if let Err(error) = self.write_report(&end) {
            errors.push(error);
            self.take_back(&mut end);
        }
        self.rotate(end.exit(), console);
        self.look_again(&mut end, console);
        let mut amiss = UNWRITTEN;
        if let Err(error) = self.tell(&end, closing) {
            if end.all_written {
                amiss = NOT_TOLD;
            }
            self.note(&RecordEntry::error("warning", &error));
            errors.push(error);
            self.take_back(&mut end);
        }
        self.log_end(&end, &errors);
        // The very last line of the log, too.
        self.look_again(&mut end, console);
        for error in errors.iter().chain(self.lost_line()) {
            console.error("failed", "", error);
        }
        if closing.is_shown {
            console.out(&(closing.verdict)(end.exit(), amiss));
        }
        if end.all_written && !console.all_written() {
            self.look_again(&mut end, console);
            self.log_end(&end, &[]);
        }
        end.exit()
    }

    fn lost_line(&self) -> Option<&Error> {
        self.log.as_ref().and_then(Log::lost)
    }

    /// Looks whether everything could be written since the report was.
    fn look_again(&self, end: &mut Finished<'_>, console: &Console) {
        if end.all_written && !(console.all_written() && self.lost_line().is_none()) {
            self.take_back(end);
        }
    }

    /// Something could not be written, so neither report nor metrics may say that all is well. If they
    /// cannot be replaced either, the exit code is all that is left to say it.
    fn take_back(&self, end: &mut Finished<'_>) {
        end.all_written = false;
        let _ = self.write_report(end);
        let _ = self.write_metrics(end);
    }

    /// Removes old reports. One that cannot be removed is a warning only: this run's report is written.
    fn rotate(&self, exit: Exit, console: &Console) {
        let (Some((destination, _)), name) = (&self.report, self.name) else { return };
        let (removed, failed) = destination.rotate(exit == Exit::Complete);
        if let Some(log) = &self.log {
            for path in &removed {
                let text =
                    format!("{name}: removed {}: newer reports are there", Shown::path(path));
                log.write(
                    &text,
                    &RemovedLine { event: "report-removed", path: JsonName::path(path) },
                );
            }
        }
        if let Some(error) = failed {
            let text = format!("{name}: warning: {error}");
            console.error("warning", "warning: ", &error);
            if let Some(log) = &self.log {
                log.write(&text, &RecordEntry::error("warning", &error));
            }
        }
    }

    fn log_end(&self, end: &Finished<'_>, errors: &[Error]) {
        let (Some(log), name) = (&self.log, self.name) else { return };
        let (ran, exit) = (end.ran, end.exit());
        if let Some(entry) = ran.error() {
            log.write(&format!("{name}: {}", entry.sentence()), &entry);
        }
        for (output, ran) in self.outputs(ran).filter(|_| self.are_several()) {
            if let Some(entry) = ran.and_then(error) {
                let output = Shown::path(output).to_string();
                let text = format!("{name}: {output}: {}", entry.sentence());
                log.write(&text, &entry.at(Some(&output)));
            }
        }
        for error in errors {
            log.write(&format!("{name}: {error}"), &RecordEntry::error("failed", error));
        }
        let (exit_code, ending) = (exit.code(), exit.name());
        let text = format!("{name}: ended: {ending}, exit code {exit_code}");
        log.write(&text, &EndedLine { event: "ended", exit_code, ending });
    }
}
