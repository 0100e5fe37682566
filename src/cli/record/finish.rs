//! What a run writes down when it ends, and that its report, its figures and its exit code agree.

use serde::Serialize;

use crate::cli::exit::Exit;
use crate::cli::record::json::{Entry, Name};
use crate::cli::record::log::Log;
use crate::cli::record::records::{End, Ran, Records, error};
use crate::cli::show::console::Console;
use crate::error::Error;
use crate::path::Shown;

#[derive(Serialize)]
struct Ended {
    event: &'static str,
    exit_code: u8,
    ending: &'static str,
}

#[derive(Serialize)]
struct Retired {
    event: &'static str,
    #[serde(flatten)]
    path: Name,
}

impl Records<'_> {
    /// Writes what is to be written at the end, `exit` being how the run ended otherwise, and tells what
    /// could not be written. Returns how it ended in all.
    pub fn close(&self, ran: &Ran<'_>, exit: Exit, console: &Console) -> Exit {
        let mut errors = Vec::new();
        let left_out = self
            .report
            .as_ref()
            .is_some_and(|(_, spool)| spool.lock().map_or(true, |mut spool| spool.left_out() > 0));
        let said_all = !left_out && console.said_all() && self.lost_line().is_none();
        let mut end = End { ran, otherwise: exit, said_all };
        if let Err(error) = self.write_metrics(&end) {
            errors.push(error);
            end.said_all = false;
        }
        if let Err(error) = self.write_report(&end) {
            errors.push(error);
            self.take_back(&mut end);
        }
        self.rotate(end.exit(), console);
        self.look_again(&mut end, console);
        self.log_end(&end, &errors);
        // The very last line, too.
        self.look_again(&mut end, console);
        for error in errors.iter().chain(self.lost_line()) {
            console.error("failed", "", error);
        }
        end.exit()
    }

    fn lost_line(&self) -> Option<&Error> {
        self.log.as_ref().and_then(Log::lost)
    }

    /// Looks whether all could be said since the report was written.
    fn look_again(&self, end: &mut End<'_>, console: &Console) {
        if end.said_all && !(console.said_all() && self.lost_line().is_none()) {
            self.take_back(end);
        }
    }

    /// Not all could be said: what stands there must not say that all is well. If that fails as well, there
    /// is nothing more to say.
    fn take_back(&self, end: &mut End<'_>) {
        end.said_all = false;
        let _ = self.write_report(end);
        let _ = self.write_metrics(end);
    }

    /// Removes old reports. What cannot be removed is in nobody's way, and the report that would tell of
    /// it is written.
    fn rotate(&self, exit: Exit, console: &Console) {
        let (Some((place, _)), name) = (&self.report, self.name) else { return };
        let (removed, failed) = place.rotate(exit == Exit::Complete);
        if let Some(log) = &self.log {
            for path in &removed {
                let text =
                    format!("{name}: removed {}: newer reports are there", Shown::path(path));
                log.say(&text, &Retired { event: "retired", path: Name::path(path) });
            }
        }
        if let Some(error) = failed {
            let text = format!("{name}: warning: {error}");
            console.error("warning", "warning: ", &error);
            if let Some(log) = &self.log {
                log.say(&text, &Entry::error("warning", &error));
            }
        }
    }

    fn log_end(&self, end: &End<'_>, errors: &[Error]) {
        let (Some(log), name) = (&self.log, self.name) else { return };
        let (ran, exit) = (end.ran, end.exit());
        if let Some(entry) = ran.error() {
            log.say(&format!("{name}: {}", entry.sentence()), &entry);
        }
        for (output, ran) in self.outputs(ran).filter(|_| self.are_several()) {
            if let Some(entry) = ran.and_then(error) {
                let output = Shown::path(output).to_string();
                let text = format!("{name}: {output}: {}", entry.sentence());
                log.say(&text, &entry.at(Some(&output)));
            }
        }
        for error in errors {
            log.say(&format!("{name}: {error}"), &Entry::error("failed", error));
        }
        let (exit_code, ending) = (exit.code(), exit.name());
        let text = format!("{name}: ended: {ending}, exit code {exit_code}");
        log.say(&text, &Ended { event: "ended", exit_code, ending });
    }
}
