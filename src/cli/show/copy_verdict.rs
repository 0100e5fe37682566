//! The last line of a copy: the verdict over every output, in words that agree with the exit code.

use std::collections::BTreeSet;

use crate::cli::exit::{Exit, TIME_IS_UP};
use crate::cli::show::copy_summary::CopySummary;
use crate::cli::show::line::count;
use crate::cli::show::rows::warn;
use crate::copy::report::{Counts, Ending, Report};
use crate::error::Result;
use crate::path::Shown;

const INTERRUPTED: &str = "INTERRUPTED";

const TIME_OVER: &str = "TIME IS UP";

impl CopySummary<'_> {
    /// The last line: the verdict over every output, refused ones included, of a run that ends with `exit`. `amiss`
    /// says what was at its end, if nothing else.
    pub fn verdict(&self, exit: Exit, amiss: &str) -> String {
        if self.args.dry_run {
            return self.dry_verdict(exit);
        }
        let at = match self.outputs.len() {
            1 => "the output".to_owned(),
            number => format!("all {number} outputs{}", self.places()),
        };
        let is_complete = |report: &&Result<Report>| {
            matches!(report, Ok(Report { ending: Ending::Complete, .. }))
        };
        let complete = self.reports.iter().filter(is_complete).count();
        let has_none = self.reports.iter().flatten().all(|report| report.counts.seen == 0);
        match self.reports {
            _ if complete == self.reports.len() && exit == Exit::Complete && has_none => {
                "done: no file was copied, as none was found in the source".into()
            }
            _ if complete == self.reports.len() && exit == Exit::Complete => {
                format!("done: everything is at {at}")
            }
            _ if complete == self.reports.len() => {
                warn("NOT COMPLETE", exit, &format!("everything is at {at}, but {amiss}"))
            }
            [Ok(report), rest @ ..] if rest.is_empty() || self.is_of_nothing() => {
                let (title, text) = ending(report);
                warn(title, exit, &text)
            }
            reports => {
                let (number, text) = (reports.len(), self.endings());
                let with_number = || format!("{complete} of {number} outputs complete: {text}");
                match exit {
                    Exit::Interrupted(_) => warn(INTERRUPTED, exit, &with_number()),
                    Exit::TimeIsUp => warn(TIME_OVER, exit, &with_number()),
                    _ => warn(&format!("{complete} OF {number} OUTPUTS COMPLETE"), exit, &text),
                }
            }
        }
    }

    /// How the outputs ended that are not complete, those that ended alike together.
    fn endings(&self) -> String {
        let mut endings: Vec<(String, Vec<String>)> = Vec::new();
        for (output, report) in self.outputs.iter().zip(self.reports) {
            let text = match report {
                Ok(Report { ending: Ending::Complete, .. }) => continue,
                Ok(report) => ending(report).1,
                Err(_) => String::new(),
            };
            let name = Shown::path(output).to_string();
            // One that was refused is named by itself.
            match endings.iter_mut().find(|(other, _)| *other == text && !text.is_empty()) {
                Some((_, names)) => names.push(name),
                None => endings.push((text, vec![name])),
            }
        }
        let number = self.outputs.len();
        let text = |(text, names): &(String, Vec<String>)| match names.join(", ") {
            names if text.is_empty() => format!("nothing was copied to {names}"),
            _ if names.len() == number => text.clone(),
            names => format!("{names}: {text}"),
        };
        endings.iter().map(text).collect::<Vec<_>>().join("; ")
    }

    /// That outputs are on one device, if they are: what one loss takes is one place.
    fn places(&self) -> String {
        let devices = self.reports.iter().flatten().map(|report| report.output_device);
        match devices.collect::<BTreeSet<_>>().len() {
            devices if devices >= self.outputs.len() => String::new(),
            1 => ", on one device: one place".into(),
            devices => format!(", on {devices} devices: {devices} places"),
        }
    }

    /// Whether the source has nothing to copy, wherever to.
    fn is_of_nothing(&self) -> bool {
        let is_nothing = |report| matches!(report, &Ok(Report { ending: Ending::Nothing(_), .. }));
        self.reports.iter().all(is_nothing)
    }

    fn dry_verdict(&self, exit: Exit) -> String {
        let sum = |of: fn(&Counts) -> u64| -> u64 {
            self.reports.iter().flatten().map(|report| of(&report.counts)).sum()
        };
        let refused = self.reports.iter().filter(|report| report.is_err()).count() as u64;
        let parts = [
            (sum(|counts| counts.failed), "entry", "would fail"),
            (sum(|counts| counts.left), "entry", "would be left as it is at the output"),
            (refused, "output", "would be refused"),
        ];
        let parts = parts.iter().filter(|(number, ..)| *number > 0);
        let parts: Vec<_> =
            parts.map(|(number, noun, what)| format!("{} {what}", count(*number, noun))).collect();
        match exit {
            Exit::Complete => "nothing was done: this was a dry run".into(),
            _ if self.is_of_nothing() => {
                let why = self.reports.iter().flatten().map(|report| ending(report).1).next();
                let text = format!("this was a dry run; {}", why.unwrap_or_default());
                warn("NOTHING WAS DONE", exit, &text)
            }
            _ if parts.is_empty() => warn("NOTHING WAS DONE", exit, "this was a dry run"),
            _ => {
                warn("NOTHING WAS DONE", exit, &format!("this was a dry run; {}", parts.join(", ")))
            }
        }
    }
}

fn missing(report: &Report) -> u64 {
    report.counts.failed + report.counts.left
}

/// How the copy to an output ended that is not complete, as a title and a sentence.
fn ending(report: &Report) -> (&'static str, String) {
    let missing = missing(report);
    let differ = match missing {
        1 => "1 entry is not at the output as in the source".to_owned(),
        missing => format!("{missing} entries are not at the output as in the source"),
    };
    let again = "finished files are recorded; the same command continues, and copies again what was not \
                 on the disk yet";
    match &report.ending {
        Ending::Complete => ("done", "everything is at the output".into()),
        Ending::Incomplete if missing == 0 && report.counts.not_departed > 0 => {
            let text =
                "everything is at the output, but not all that has left the source was moved away";
            ("NOT COMPLETE", text.into())
        }
        Ending::Incomplete if missing == 0 && report.counts.closed > 0 => {
            let text = "everything is at the output, but not every directory is open to those who may enter its \
                        counterpart";
            ("NOT COMPLETE", text.into())
        }
        Ending::Incomplete if missing == 0 && report.counts.unlisted > 0 => {
            let text =
                "everything is at the output, but not in all of the lists beside the manifest";
            ("NOT COMPLETE", text.into())
        }
        Ending::Incomplete if missing == 0 => {
            let text = "everything is at the output, but not all of it was held against the expected manifest";
            ("NOT COMPLETE", text.into())
        }
        Ending::Incomplete => ("NOT COMPLETE", differ),
        Ending::Nothing(error) => ("NOTHING COPIED", error.reason()),
        Ending::Unproven => {
            ("NOT PROVEN", format!("the disk does not hold what was written to it; {differ}"))
        }
        Ending::Rotten if report.counts.rotten == 0 && report.counts.lost > 0 => {
            let lost = count(report.counts.lost, "file");
            ("NOT COMPLETE", format!("{lost} that is listed: not in the source"))
        }
        Ending::Rotten if report.counts.rotten == 0 => (
            "ROTTEN",
            format!(
                "not what was recorded of them is in {} at the output",
                count(report.counts.decayed, "file")
            ),
        ),
        Ending::Rotten => (
            "ROTTEN",
            format!("files of the source are not as expected and were not copied; {differ}"),
        ),
        Ending::Stopped(error) => ("STOPPED EARLY", error.to_string()),
        Ending::Interrupted(TIME_IS_UP) => (TIME_OVER, again.into()),
        Ending::Interrupted(_) => (INTERRUPTED, again.into()),
    }
}
