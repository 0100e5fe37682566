//! The last line of a copy: the verdict over every output, in words that agree with the exit code.

use std::{collections::BTreeSet, path::Path};

use crate::{
    cli::exit::Exit, cli::exit::TIME_IS_UP, cli::show::copy_summary::CopySummary,
    cli::show::rows::contents, cli::show::rows::warn, copy::Counts, copy::Ending, copy::Lost,
    copy::Report, copy::before::check::lacks_disk, error::Result, path::Shown, path::count,
    span::one_of_several, state::DatedName, sys::Dir,
};

const INTERRUPTED: &str = "INTERRUPTED";

const TIME_OVER: &str = "TIME IS UP";

impl CopySummary<'_> {
    /// The last line: the verdict over every output, refused ones included, of a run that ends with `exit`. `amiss`
    /// says what was at its end, if nothing else.
    pub fn verdict(&self, exit: Exit, amiss: &str) -> String {
        if self.args.dry_run {
            return self.dry_verdict(exit);
        }
        let is_complete = |report: &&Result<Report>| {
            matches!(report, Ok(Report { ending: Ending::Complete, .. }))
        };
        let complete = self.reports.iter().filter(is_complete).count();
        let has_none = self.reports.iter().flatten().all(|report| report.counts.seen == 0);
        match self.reports {
            _ if exit == Exit::NextDisk => {
                let (next, endings) = (self.next.unwrap_or_default(), self.endings());
                let between = if endings.is_empty() { "" } else { "; " };
                warn("NEXT DISK", exit, &format!("{next}{between}{endings}"))
            }
            _ if complete == self.reports.len()
                && exit == Exit::Complete
                && has_none
                && self.is_any_absent =>
            {
                "done: nothing of the source is for the disks that are here; those that are not were not looked at".into()
            }
            _ if complete == self.reports.len() && exit == Exit::Complete && has_none => {
                "done: no file was copied, as none was found in the source".into()
            }
            _ if complete == self.reports.len() && exit == Exit::Complete => {
                format!("done: {}", self.done())
            }
            _ if complete == self.reports.len() && self.of_parity() != Exit::Complete => {
                let title = match exit {
                    Exit::Interrupted(_) => INTERRUPTED,
                    Exit::TimeIsUp => TIME_OVER,
                    _ => "NOT COMPLETE",
                };
                let place = self.place();
                let text = match self.of_parity() {
                    Exit::Untrue => format!(
                        "everything seemed to be at {place}, but what is named above is not as it is listed, and has no \
                         parity; the same command again copies anew what the source still has"
                    ),
                    _ => format!("everything is at {place}, but not all of it has parity"),
                };
                warn(title, exit, &text)
            }
            _ if complete == self.reports.len() => {
                let text = format!("everything is at {}, but {amiss}", self.place());
                warn("NOT COMPLETE", exit, &text)
            }
            [Ok(report), rest @ ..] if rest.is_empty() || self.is_of_nothing() => {
                let output = self.outputs.first().map_or(Path::new(""), |output| output);
                let called = self.called.first().map_or("", |called| called);
                let Ended { title, text, .. } = self.ended(report, output, called);
                warn(title, exit, &format!("{text}{}", self.no_generation()))
            }
            reports => {
                // A disk that was never here, and keeps nothing back, is none of them.
                let idle = reports.iter().zip(self.away).filter(|(it, away)| **away && is_complete(it));
                let idle = idle.count();
                let (complete, number) = (complete - idle, reports.len() - idle);
                let text = format!("{}{}", self.endings(), self.no_generation());
                let with_number = || format!("{complete} of {number} outputs complete: {text}");
                match exit {
                    Exit::Interrupted(_) => warn(INTERRUPTED, exit, &with_number()),
                    Exit::TimeIsUp => warn(TIME_OVER, exit, &with_number()),
                    _ => warn(&format!("{complete} OF {number} OUTPUTS COMPLETE"), exit, &text),
                }
            }
        }
    }

    /// That a run which came to its end made no generation somewhere, and what helps.
    pub fn no_generation(&self) -> &'static str {
        // The tree of one that was not made is called otherwise.
        let is_made = |report: &Report| {
            let dir = report.manifest.as_deref().and_then(|it| it.parent()?.file_name()?.to_str());
            dir.and_then(DatedName::parse).is_some()
        };
        let made_none = |report: &Report| {
            let ending = &report.ending;
            matches!(ending, Ending::Incomplete | Ending::Rotten | Ending::Unproven)
                && !is_made(report)
        };
        let is_one = self.args.mirror.generations && !self.args.dry_run;
        match is_one && self.reports.iter().flatten().any(made_none) {
            true => {
                "; no generation was made: mend what is named, or leave it out with --exclude, and run the same command \
                 again"
            }
            false => "",
        }
    }

    /// What to do when a disk is there again. Of several outputs the others know that one is absent; the option looks
    /// at outputs alone.
    fn again(&self, report: &Report, is_output: bool) -> &'static str {
        let root = Dir::open(Path::new("/")).and_then(|root| root.stat_self());
        let is_of_system = root.is_ok_and(|root| root.id.dev == report.output_device);
        match !is_output || self.requires_mounts || self.outputs.len() > 1 || is_of_system {
            true => "run the same command",
            false => {
                "run the same command with --require-mount, which does nothing without the disk"
            }
        }
    }

    /// What is at the outputs, which are all complete, and the proof of it.
    fn done(&self) -> String {
        let parts = |report: &Report| {
            let Counts { bytes, unchanged_bytes, .. } = report.counts;
            let (files, links) = (report.counts.files(), report.counts.links());
            let bytes = bytes.saturating_add(unchanged_bytes);
            [files, links, report.counts.all_specials(), bytes]
        };
        let each = self.reports.iter().flatten().map(parts);
        let all: BTreeSet<[u64; 4]> = match self.args.span {
            true => BTreeSet::from([each.fold([0_u64; 4], |sum: [u64; 4], part| {
                std::array::from_fn(|at| sum[at].saturating_add(part[at]))
            })]),
            false => each.collect(),
        };
        let what = match all.first() {
            Some([files, links, specials, bytes]) if all.len() == 1 => {
                contents(*files, *links, *specials, *bytes)
            }
            // The source was changed while it was copied.
            _ => "everything".to_owned(),
        };
        format!(
            "{what} at {}{}{}{}{}{}",
            self.place(),
            self.proof_of_all(),
            self.places(),
            self.unlike_listed(),
            self.copied_anew(),
            self.lacks_disks()
        )
    }

    /// The remark that what was brought back is only a part of what was copied.
    fn lacks_disks(&self) -> String {
        let state = self.args.unattended.state.as_deref();
        let disk = self.restored.and_then(|tree| one_of_several(tree, state));
        let told = |of| format!("; it was {of}: restore each of them to the same DST");
        disk.map(told).unwrap_or_default()
    }

    fn place(&self) -> String {
        match self.outputs.len() {
            _ if self.is_any_absent => {
                format!(
                    "{}, each on one, and the index on the last disk says what is on which",
                    self.disks_used()
                )
            }
            _ if self.args.span => {
                format!(
                    "{}, each on one, and the index on every disk says which",
                    self.disks_used()
                )
            }
            1 => "the output".into(),
            2 => "both outputs".into(),
            number => format!("all {number} outputs"),
        }
    }

    /// How many disks of a span have anything.
    fn disks_used(&self) -> String {
        let is_used = |report: &&Report| report.counts.seen > 0;
        let used = self.reports.iter().flatten().filter(is_used).count();
        format!("{used} of {}", count(self.outputs.len() as u64, "disk"))
    }

    /// How far all files were read back, if all were.
    fn proof_of_all(&self) -> String {
        let is_read = |Counts { from_device, from_cache, linked, .. }: &Counts, files| {
            from_device + from_cache > 0 && from_device + from_cache + linked >= files
        };
        let counts = || self.reports.iter().flatten().map(|report| &report.counts);
        if !counts().all(|counts| is_read(counts, counts.files())) {
            return String::new();
        }
        match (counts().map(|counts| counts.from_cache).sum::<u64>(), self.devices()) {
            (0, 2) => ", read back from both disks".into(),
            (0, 1) => ", read back from the disk".into(),
            (0, number) => format!(", read back from all {number} disks"),
            (cached, _) => {
                format!(", read back, {} only through a cache", count(cached, "file"))
            }
        }
    }

    /// The remark that not all is as the manifest of `--expect` lists it, which counts as done on purpose.
    fn unlike_listed(&self) -> String {
        let Some(Ok(report)) = self.reports.first() else { return String::new() };
        match (report.counts.edited, report.counts.gone) {
            (0, 0) => String::new(),
            (edited, 0) => format!("; {} edited since the list", count(edited, "file")),
            (0, gone) => format!("; {} of the list gone", count(gone, "file")),
            (edited, gone) => {
                format!("; {} edited since the list, {gone} gone", count(edited, "file"))
            }
        }
    }

    /// The remark that what was at an output had another content than its size and time say, and what to do.
    fn copied_anew(&self) -> String {
        let anew = |(called, report): (&String, &Result<Report>)| match report {
            Ok(Report { counts: Counts { anew: files @ 1.., .. }, .. }) => format!(
                "; {} at {} had another content under the same size and time, or could not be read, and {} copied anew: unless edited so, check that disk",
                count(*files, "file"),
                called,
                if *files == 1 { "was" } else { "were" }
            ),
            _ => String::new(),
        };
        self.called.iter().zip(self.reports).map(anew).collect()
    }

    /// Number of devices that the outputs are on.
    fn devices(&self) -> usize {
        let devices = self.reports.iter().flatten().map(|report| report.output_device);
        devices.collect::<BTreeSet<_>>().len()
    }

    /// The remark that outputs are on one device, if they are: one loss takes all that is on it.
    fn places(&self) -> String {
        match (self.devices(), self.outputs.len()) {
            _ if self.args.span => String::new(),
            (devices, outputs) if devices >= outputs => String::new(),
            (1, _) if self.outputs.iter().all(|output| lacks_disk(output)) => {
                "; all on the system's own disk, as none is mounted there".into()
            }
            (1, _) => "; all on one device".into(),
            (devices, _) => format!("; on {devices} devices: {devices} places"),
        }
    }

    /// The ends of the outputs that are not complete, those that ended alike together.
    fn endings(&self) -> String {
        let mut endings: Vec<(Ended, Vec<String>)> = Vec::new();
        for ((output, name), report) in self.outputs.iter().zip(self.called).zip(self.reports) {
            let name = name.clone();
            let this = match report {
                Ok(Report { ending: Ending::Complete, .. }) => continue,
                Ok(report) => self.ended(report, output, &name),
                Err(_) => Ended {
                    text: format!("nothing was copied to {name}"),
                    names_output: true,
                    title: "",
                },
            };
            // One that is named is told by itself.
            let is_alike = |other: &Ended| other.text == this.text && !this.names_output;
            match endings.iter_mut().find(|(other, _)| is_alike(other)) {
                Some((_, names)) => names.push(name),
                None => endings.push((this, vec![name])),
            }
        }
        let number = self.outputs.len();
        let text = |(Ended { text, names_output, .. }, names): &(Ended, Vec<String>)| match names {
            names if *names_output || names.len() == number => text.clone(),
            names => format!("{}: {text}", names.join(", ")),
        };
        endings.iter().map(text).collect::<Vec<_>>().join("; ")
    }

    /// Number of entries that there were to do, if that is known of one of the outputs: it is the same for all. A run
    /// that came to its end found all.
    pub fn total(&self) -> Option<u64> {
        let ended = |it: &&Report| matches!(it.ending, Ending::Complete | Ending::Incomplete);
        let reports = || self.reports.iter().flatten();
        let found = reports().filter(ended).map(|report| report.counts.seen).max();
        reports().find_map(|report| report.total).or(found)
    }

    fn ended(&self, report: &Report, output: &Path, called: &str) -> Ended {
        let (title, text) = ending(report, self.args.expect_all);
        let Some(lost) = report.lost(output) else {
            return Ended { title, text, names_output: false };
        };
        let others = report.counts.links() + report.counts.all_specials();
        let there = report.counts.files() + others;
        let noun = if others == 0 { "file" } else { "entry" };
        let is_output = matches!(lost, Lost::Disk(path, _) if path.starts_with(output));
        let doubt = match is_output && there > 0 {
            true => " written, which may not all be on it",
            false => "",
        };
        // Each disk of a span has files of its own to do.
        let total = if self.args.span { report.total } else { self.total() };
        let there = match total {
            Some(total) => format!("{there} of {}{doubt}", count(total, noun)),
            // Not all were found yet.
            None => format!("{}{doubt}", count(there, noun)),
        };
        match lost {
            Lost::Disk(path, how) => Ended {
                title,
                text: format!(
                    "the disk of {} is {how}: {there}; connect it and {}",
                    if is_output { called.to_owned() } else { Shown::path(path).to_string() },
                    self.again(report, is_output)
                ),
                names_output: is_output,
            },
            Lost::Room => Ended {
                title,
                text: match self.args.span {
                    true => format!(
                        "{called} is full: {there} are done; run the same command, which puts new files on another disk; \
                         those that changed want room there"
                    ),
                    false => format!(
                        "{called} is full: {there} are done; make room and run the same command"
                    ),
                },
                names_output: true,
            },
        }
    }

    /// True if the source has nothing to copy, to whatever output.
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
            (sum(|counts| counts.lost), "listed file", "not in the source"),
            (sum(|counts| counts.unusable_lines), "line", "of the list of no use"),
            (sum(|counts| counts.unlisted), "list", "would not be written"),
            (refused, "output", "would be refused"),
        ];
        let parts = parts.iter().filter(|(number, ..)| *number > 0);
        let parts: Vec<_> =
            parts.map(|(number, noun, what)| format!("{} {what}", count(*number, noun))).collect();
        match exit {
            Exit::Complete if self.args.span => {
                let next = self.next.map(|next| format!("; {next}")).unwrap_or_default();
                format!(
                    "nothing was done: this was a dry run; it takes {}{next}",
                    self.disks_used()
                )
            }
            Exit::Complete => "nothing was done: this was a dry run".into(),
            _ if self.is_of_nothing() => {
                let why =
                    self.reports.iter().flatten().map(|report| ending(report, false).1).next();
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

/// The end of an incomplete copy to an output, as a title and a sentence.
struct Ended {
    title: &'static str,
    text: String,
    /// True if the text is of one output by name.
    names_output: bool,
}

/// What is said of listed files that the source does not have.
fn lost_files(lost: u64) -> String {
    let is = if lost == 1 { "is" } else { "are" };
    format!("{} {is} not in the source", count(lost, "listed file"))
}

fn missing(report: &Report) -> u64 {
    report.counts.failed + report.counts.left
}

/// What of a source is not as its list came, and whatever else is missing.
fn not_as_listed(counts: &Counts, missing: u64) -> String {
    let Counts { rotten, lost, .. } = *counts;
    let (files, listed) = (count(rotten, "file"), count(lost, "listed file"));
    let parts = [
        (rotten, format!("{files} not copied, as the list has another content")),
        (lost, format!("{listed} missing")),
        (missing.saturating_sub(rotten), format!("in all {} not copied", count(missing, "entry"))),
    ];
    let parts = parts.into_iter().filter_map(|(number, text)| (number > 0).then_some(text));
    parts.collect::<Vec<_>>().join(", ")
}

/// The end of an incomplete copy to an output, as a title and a sentence. What is held against a list `as_it_is`, as a
/// delivery, may have come so: nothing says that it was good once.
fn ending(report: &Report, as_it_is: bool) -> (&'static str, String) {
    let missing = missing(report);
    let differ = match missing {
        1 => "1 entry is not at the output as in the source".to_owned(),
        missing => format!("{missing} entries are not at the output as in the source"),
    };
    let Counts { suspended, .. } = report.counts;
    let again = match report.counts.files() + report.counts.links() + suspended {
        0 => "no file was finished; run the same command again",
        _ => {
            "finished files are recorded; the same command continues, and copies again what was not on the disk yet"
        }
    };
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
        Ending::Unproven if report.counts.damaged > 0 => {
            ("NOT PROVEN", format!("the disk does not hold what was written to it; {differ}"))
        }
        Ending::Unproven => {
            let files = count(report.counts.unconfirmed, "file");
            let text =
                format!("{files} of the source could not be read twice with the same result");
            ("NOT PROVEN", text)
        }
        Ending::Rotten if as_it_is && report.counts.rotten + report.counts.lost > 0 => {
            ("NOT AS LISTED", not_as_listed(&report.counts, missing))
        }
        Ending::Rotten if report.counts.rotten == 0 && report.counts.lost > 0 => {
            ("NOT COMPLETE", lost_files(report.counts.lost))
        }
        Ending::Rotten if report.counts.rotten == 0 => (
            "ROTTEN",
            format!(
                "not what was recorded of them is in {} at the output",
                count(report.counts.decayed, "file")
            ),
        ),
        Ending::Rotten => {
            let Counts { rotten, lost, .. } = report.counts;
            let (is, was) = if rotten == 1 { ("is", "was") } else { ("are", "were") };
            let files = count(rotten, "file");
            let mut text =
                format!("{files} of the source {is} not as expected and {was} not copied");
            if lost > 0 {
                text += &format!("; {}", lost_files(lost));
            }
            if missing > rotten {
                text += &format!("; in all {differ}");
            }
            ("ROTTEN", text)
        }
        Ending::Miscomputed(error) => ("NOT PROVEN", error.to_string()),
        Ending::Stopped(error) => ("STOPPED EARLY", error.to_string()),
        Ending::Interrupted(TIME_IS_UP) => (TIME_OVER, again.into()),
        Ending::Interrupted(_) => (INTERRUPTED, again.into()),
    }
}
