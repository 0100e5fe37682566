//! Disks of a span that come one after the other: those that are here are copied to, or checked, and then the next one
//! is asked for, or, where nobody can answer, the run ends and says which one and what to type.

use std::{
    ffi::OsString, io, io::BufRead, io::IsTerminal, path::Path, path::PathBuf, sync::Arc,
    thread::Builder, time::Duration,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use crate::{
    cli::args::copy::CopyArgs, cli::catalog::add_copied, cli::copy::CopyEnd,
    cli::copy::note_parity, cli::copy::protect, cli::session::Session, cli::show::Reporter,
    cli::show::rows::quoted, cli::words::OutputName, cli::words::is_on_named_disk, copy::CopyJob,
    copy::Ending, copy::OutputJob, copy::Report, error::Error, error::Result, event::Event,
    event::Observer, event::Progress, event::Stop, path::Shown, span::NextDisk, span::SpanDisk,
    span::Spanned, span::look_at_disks, span::span_over,
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

/// Looks at the disks that are here, of jobs that pass all other looks, and makes nothing.
///
/// # Errors
/// Why a copy over them would be refused.
pub fn look_at_span(jobs: &[CopyJob], given: &[PathBuf], unknown: &[Option<Error>]) -> Result<()> {
    let dry = |job: &CopyJob| CopyJob { dry_run: true, ..job.clone() };
    let (jobs, observer) =
        (jobs.iter().map(dry).collect::<Vec<_>>(), Observer::new(|_: &Event<'_>| ()));
    let disks = jobs.iter().zip(given).zip(unknown).map(|((job, given), unknown)| SpanDisk {
        output: OutputJob { job, observer: &observer },
        name: given.to_str().filter(|_| is_on_named_disk(given)),
        is_here: unknown.is_none(),
    });
    look_at_disks(&disks.collect::<Vec<_>>())
}

/// A disk from round to round.
struct Place<'a> {
    given: &'a Path,
    job: CopyJob,
    /// By what it was given, if it is found by that wherever it is.
    name: Option<String>,
    is_here: bool,
    /// Entries that failed there in its own round, and are for later ones to see to.
    lacking: u64,
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
        let each = jobs.iter().zip(self.given).zip(unknown).zip(absent);
        for (((job, given), unknown), is_absent) in each {
            let name = is_on_named_disk(given).then(|| given.to_string_lossy().into_owned());
            let (given, job, is_here) = (given.as_path(), job.clone(), unknown.is_none());
            match unknown.filter(|_| !is_absent) {
                Some(error) => return Err(error),
                None => places.push(Place { given, job, name, is_here, lacking: 0 }),
            }
        }
        let is_any_absent = places.iter().any(|place| !place.is_here);
        let away = vec![true; places.len()];
        let mut end = CopyEnd { is_any_absent, away, ..CopyEnd::default() };
        let (mut asking, stop) = (Asking::at(self.session), &self.session.stop);
        let mut next = self.round(&mut places, &mut end)?;
        while let Some(wanted) = next {
            let name = self.given[wanted.output].as_path();
            let look = || self.look(&mut places);
            if self.args.dry_run || !asking.ask(name, &wanted.why, look) {
                match stop.requested() {
                    Some(code) => end.stop_before(&wanted, code),
                    None => end.next = Some(self.words(&wanted)),
                }
                break;
            }
            next = match self.round(&mut places, &mut end) {
                Ok(next) => next,
                // A wrong disk was put in, and nothing was touched.
                Err(refused) => {
                    self.session.console.refused(&refused);
                    Some(wanted)
                }
            };
        }
        Ok(end)
    }

    /// Copies to the disks that are here. The one that is wanted next.
    fn round(&self, places: &mut [Place<'_>], end: &mut CopyEnd) -> Result<Option<NextDisk>> {
        end.away.iter_mut().zip(&*places).for_each(|(away, place)| *away &= !place.is_here);
        let progress: Vec<Arc<Progress>> = places.iter().map(|_| Arc::default()).collect();
        let stop = &self.session.stop;
        let observers = self.reporters.iter().zip(&progress);
        let observers: Vec<_> = observers
            .map(|(reporter, progress)| reporter.observer(Arc::clone(progress), stop.clone()))
            .collect();
        let disks = places.iter().zip(&observers);
        let disks: Vec<SpanDisk<'_>> = disks
            .map(|(Place { job, name, is_here, .. }, observer)| SpanDisk {
                output: OutputJob { job, observer },
                name: name.as_deref(),
                is_here: *is_here,
            })
            .collect();
        let order = self.args.span_order;
        let spanned = self.session.run(&progress, None, || span_over(&disks, order))?;
        let Spanned { mut reports, lacking, next } = spanned;
        let protected = protect(self.args, here(places, &reports), self.session);
        note_parity(&protected, &mut reports);
        end.protected.extend(protected);
        let catalog = self.args.catalog.as_deref();
        end.catalog = add_copied(catalog, here(places, &reports), self.of_all, stop, end.catalog);
        let mut before = std::mem::take(&mut end.reports).into_iter();
        for ((place, later), lacking) in places.iter_mut().zip(reports).zip(lacking) {
            let is_idle = !place.is_here || is_idle(&later);
            let own = before.next().and_then(Result::ok).filter(|_| is_idle);
            end.reports.push(match (own, later) {
                // It has what it got in its own round. What failed then was looked at once more, there or elsewhere.
                (Some(mut own), Ok(later)) => {
                    let settled = if place.is_here { u64::MAX } else { place.lacking };
                    own.settle(settled, later.counts.failed);
                    Ok(own)
                }
                (_, later) => later,
            });
            place.lacking = lacking;
        }
        Ok(next)
    }

    /// Looks where the disks are now that are given by a name; true if one is here that was not before.
    fn look(&self, places: &mut [Place<'_>]) -> bool {
        let (console, source) = (&self.session.console, self.args.input.first());
        let mut is_any_new = false;
        for place in places.iter_mut().filter(|place| place.name.is_some()) {
            let Ok(found) = OutputName::resolve(place.given, source.map(PathBuf::as_path)) else {
                continue;
            };
            let was_here = std::mem::replace(&mut place.is_here, found.unknown.is_none());
            is_any_new |= place.is_here && !was_here;
            match found.unknown.filter(|_| !found.is_absent) {
                Some(error) => console.refused(&error),
                None => place.job.output = found.path,
            }
        }
        is_any_new
    }

    /// Which disk is wanted, and what to type.
    fn words(&self, wanted: &NextDisk) -> String {
        let command: Vec<String> =
            self.command.iter().map(|word| quoted(Path::new(word))).collect();
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
    places: &'r [Place<'_>],
    reports: &'r [Result<Report>],
) -> impl Iterator<Item = (&'r CopyJob, &'r Result<Report>)> {
    let ran = places.iter().zip(reports).filter(|(place, _)| place.is_here);
    ran.map(|(place, report)| (&place.job, report))
}

/// True if a disk was complete before.
fn is_idle(report: &Result<Report>) -> bool {
    matches!(report, Ok(Report { ending: Ending::Complete, counts, .. }) if counts.copied + counts.replaced == 0)
}

/// Asks at the terminal for disks. What is typed comes line by line: reading it cannot be ended, so a thread of its own
/// does that.
pub struct Asking<'a> {
    session: &'a Session<'a>,
    lines: Option<Receiver<String>>,
}

impl<'a> Asking<'a> {
    pub fn at(session: &'a Session<'a>) -> Self {
        Self { session, lines: None }
    }

    /// Asks for the disk of this name until `look` says that one came; false if none is to come, or nobody sees the
    /// question and can answer it.
    pub fn ask(&mut self, name: &Path, why: &str, mut look: impl FnMut() -> bool) -> bool {
        let (console, name) = (&self.session.console, Shown::path(name));
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return false;
        }
        loop {
            if self.session.stop.is_requested() {
                return false;
            }
            console.clear_bar();
            console.err(&format!(
                "next disk, please: {name} ({why}); Enter when it is there, q to stop"
            ));
            if !self.next(&self.session.stop) {
                return false;
            }
            if look() {
                return true;
            }
            console.err(&format!("dircopy: no disk is here that was not before; {name} is wanted"));
        }
    }

    /// Waits for Enter; false if it is to stop.
    fn next(&mut self, stop: &Stop) -> bool {
        let lines = self.lines.get_or_insert_with(|| {
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
