//! A copy over the disks of a span, from round to round: those that are here are copied to, and then the next one is
//! asked for, or, where nobody can answer, the run ends and says which one and what to type.

use std::{
    ffi::OsString, io, io::BufRead, io::IsTerminal, path::Path, path::PathBuf, sync::Arc,
    thread::Builder, time::Duration,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use crate::{
    cli::args::copy::CopyArgs, cli::catalog::add_copied, cli::copy::CopyEnd,
    cli::copy::note_parity, cli::copy::protect, cli::session::Session, cli::show::Reporter,
    cli::show::rows::typed, cli::words::OutputName, cli::words::is_on_named_disk, copy::CopyJob,
    copy::Ending, copy::OutputJob, copy::Report, error::Error, error::Result, event::Progress,
    event::Stop, path::Shown, span::NextDisk, span::SpanDisk, span::Spanned, span::span_over,
};

/// The interval of looks at whether the run is to end while an answer is waited for.
const OFTEN: Duration = Duration::from_millis(100);

/// A copy over the disks of a span.
pub struct SpanCopy<'a> {
    pub args: &'a CopyArgs,
    pub session: &'a Session<'a>,
    pub reporters: &'a [Reporter<'a>],
    /// Hears what is of no single disk.
    pub of_all: &'a Reporter<'a>,
    /// The disks as they were given.
    pub given: &'a [PathBuf],
    pub command: &'a [OsString],
}

impl CopyEnd {
    /// It was stopped with this code before the disk that is wanted had its turn: that is no end where files wait.
    fn stop_before(&mut self, wanted: &NextDisk, code: usize) {
        if let Some(Ok(report)) = self.reports.get_mut(wanted.output)
            && matches!(report.ending, Ending::Complete | Ending::Incomplete)
        {
            report.ending = Ending::Interrupted(code);
        }
    }
}

/// A disk in a round.
struct Place {
    job: CopyJob,
    is_named: bool,
    is_here: bool,
}

impl SpanCopy<'_> {
    /// Copies to the disks that are here, and to those that come when they are asked for. Those whose place is
    /// `unknown` may come later if they are `absent`.
    ///
    /// # Errors
    /// The first round was refused.
    pub fn run(
        &self,
        jobs: &[CopyJob],
        unknown: Vec<Option<Error>>,
        absent: &[bool],
    ) -> Result<CopyEnd> {
        let mut places = Vec::new();
        for (((job, given), unknown), is_absent) in
            jobs.iter().zip(self.given).zip(unknown).zip(absent)
        {
            let (is_named, is_here) = (is_on_named_disk(given), unknown.is_none());
            match unknown.filter(|_| !is_absent) {
                Some(error) => return Err(error),
                None => places.push(Place { job: job.clone(), is_named, is_here }),
            }
        }
        let is_any_absent = places.iter().any(|place| !place.is_here);
        let mut end = CopyEnd { is_any_absent, ..CopyEnd::default() };
        let (mut answers, stop) = (Answers::default(), &self.session.stop);
        let mut next = self.round(&places, &mut end)?;
        while let Some(wanted) = next {
            let is_over = self.args.dry_run || stop.is_requested();
            if is_over || !answers.can_be_had() || !self.ask(&wanted, &mut places, &mut answers) {
                match stop.requested() {
                    Some(code) => end.stop_before(&wanted, code),
                    None => end.next = Some(self.words(&wanted)),
                }
                break;
            }
            next = match self.round(&places, &mut end) {
                Ok(next) => next,
                // A wrong disk was put in, and nothing was touched.
                Err(refused) => {
                    self.session.console.refused(&refused);
                    Some(wanted)
                }
            };
        }
        for (report, failed) in end.reports.iter_mut().zip(&end.kept_away) {
            report.iter_mut().for_each(|report| report.fail(*failed));
        }
        Ok(end)
    }

    /// Copies to the disks that are here. The one that is wanted next.
    fn round(&self, places: &[Place], end: &mut CopyEnd) -> Result<Option<NextDisk>> {
        let progress: Vec<Arc<Progress>> = places.iter().map(|_| Arc::default()).collect();
        let stop = &self.session.stop;
        let observers = self.reporters.iter().zip(&progress);
        let observers: Vec<_> = observers
            .map(|(reporter, progress)| reporter.observer(Arc::clone(progress), stop.clone()))
            .collect();
        let names: Vec<Option<String>> = places
            .iter()
            .zip(self.given)
            .map(|(place, given)| place.is_named.then(|| given.to_string_lossy().into_owned()))
            .collect();
        let disks = places.iter().zip(&observers).zip(&names);
        let disks: Vec<SpanDisk<'_>> = disks
            .map(|((Place { job, is_here, .. }, observer), name)| SpanDisk {
                output: OutputJob { job, observer },
                name: name.as_deref(),
                is_here: *is_here,
            })
            .collect();
        let order = self.args.span_order;
        let spanned = self.session.run(&progress, None, || span_over(&disks, order))?;
        let Spanned { mut reports, kept_away, next } = spanned;
        end.kept_away = kept_away;
        let protected = protect(self.args, here(places, &reports), self.session);
        note_parity(&protected, &mut reports);
        end.protected.extend(protected);
        let catalog = self.args.catalog.as_deref();
        end.catalog = add_copied(catalog, here(places, &reports), self.of_all, stop, end.catalog);
        // A disk that was taken out since has what it got in its own round.
        let mut before = std::mem::take(&mut end.reports).into_iter();
        for (place, report) in places.iter().zip(reports) {
            let earlier = before.next().filter(|_| !place.is_here || is_idle(&report));
            end.reports.push(earlier.unwrap_or(report));
        }
        Ok(next)
    }

    /// Asks for a disk until one comes that was not here; false if none is to come.
    fn ask(&self, wanted: &NextDisk, places: &mut [Place], answers: &mut Answers) -> bool {
        let (console, source) = (&self.session.console, self.args.input.first());
        let name = Shown::path(&self.given[wanted.output]);
        let here: Vec<bool> = places.iter().map(|place| place.is_here).collect();
        loop {
            console.clear_bar();
            console.err(&format!(
                "next disk, please: {name} ({}); Enter when it is there, q to stop",
                wanted.why
            ));
            if !answers.next(&self.session.stop) {
                return false;
            }
            for (place, given) in places.iter_mut().zip(self.given).filter(|it| it.0.is_named) {
                let Ok(found) = OutputName::resolve(given, source.map(PathBuf::as_path)) else {
                    continue;
                };
                place.is_here = found.unknown.is_none();
                match found.unknown.filter(|_| !found.is_absent) {
                    Some(error) => console.refused(&error),
                    None => place.job.output = found.path,
                }
            }
            if places.iter().zip(&here).any(|(place, was)| place.is_here && !was) {
                return true;
            }
            console.err(&format!("dircopy: no disk is here that was not before; {name} is wanted"));
        }
    }

    /// Which disk is wanted, and what to type.
    fn words(&self, wanted: &NextDisk) -> String {
        let command: Vec<String> = self.command.iter().map(|word| typed(Path::new(word))).collect();
        format!(
            "next disk, please: {} ({}); then type: {}",
            Shown::path(&self.given[wanted.output]),
            wanted.why,
            command.join(" ")
        )
    }
}

/// What became of the disks that are here.
fn here<'r>(
    places: &'r [Place],
    reports: &'r [Result<Report>],
) -> impl Iterator<Item = (&'r CopyJob, &'r Result<Report>)> {
    let ran = places.iter().zip(reports).filter(|(place, _)| place.is_here);
    ran.map(|(place, report)| (&place.job, report))
}

/// True if a disk was complete before.
fn is_idle(report: &Result<Report>) -> bool {
    matches!(report, Ok(Report { ending: Ending::Complete, counts, .. }) if counts.copied + counts.replaced == 0)
}

/// What is typed at the terminal, line by line: reading it cannot be ended, so a thread of its own does that.
#[derive(Default)]
struct Answers(Option<Receiver<String>>);

impl Answers {
    /// True if somebody sees the question and can answer it.
    fn can_be_had(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Waits for Enter; false if it is to stop.
    fn next(&mut self, stop: &Stop) -> bool {
        let lines = self.0.get_or_insert_with(|| {
            let (sender, lines) = bounded(1);
            let read = move || {
                for line in io::stdin().lock().lines().map_while(io::Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            };
            // Without a thread no line comes, and the run ends as without a terminal.
            let _ = Builder::new().name("answers".into()).spawn(read);
            lines
        });
        loop {
            match lines.recv_timeout(OFTEN) {
                Ok(line) => return !line.trim().eq_ignore_ascii_case("q"),
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) if stop.is_requested() => return false,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
