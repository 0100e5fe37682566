//! What a run writes down when it ends, and that its report, its figures and its exit code agree.

use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::exit::Exit;
use crate::cli::record::json::{Entry, Name};
use crate::cli::record::records::{Ran, Records, error};
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
    pub fn close(&self, ran: &Ran<'_>, mut exit: Exit, console: &Console) -> Exit {
        let mut errors = Vec::new();
        if self.log.as_ref().is_some_and(|log| !log.is_whole()) {
            exit = exit.unsaid();
        }
        let left_out = self
            .report
            .as_ref()
            .is_some_and(|(_, spool)| spool.lock().map_or(true, |mut spool| spool.left_out() > 0));
        if left_out {
            exit = exit.unsaid();
        }
        // A report that cannot be written changes the exit code that the figures give.
        if let Err(error) = self.write_metrics(ran, exit) {
            errors.push(error);
            exit = exit.unsaid();
        }
        if let Err(error) = self.write_report(ran, exit) {
            errors.push(error);
            exit = exit.unsaid();
            // What can be said of that was said; what stands there must not say that all is well.
            let _ = self.write_report(ran, exit);
            let _ = self.write_metrics(ran, exit);
        }
        self.rotate(exit, console);
        self.log_end(ran, exit, &errors);
        for error in &errors {
            console.error("failed", "", error);
        }
        exit
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

    fn log_end(&self, ran: &Ran<'_>, exit: Exit, errors: &[Error]) {
        let (Some(log), name) = (&self.log, self.name) else { return };
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
