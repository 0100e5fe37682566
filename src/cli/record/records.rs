//! All that a run leaves for programs to read, from the start of the run to its end.

use std::ffi::OsString;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use jiff::Timestamp;
use serde::Serialize;

use crate::cli::exit::Exit;
use crate::cli::record::destination::{Place, is_inside};
use crate::cli::record::json::{self, Entry, Name};
use crate::cli::record::log::{Log, stamp};
use crate::cli::record::metrics::{Figure, Figures};
use crate::cli::record::numbers::{checked, copied, expected, passed};
use crate::cli::record::report::{
    Cache, Copied, Head, Job, Manifest, Output, Portion, StreamOutput, Streamed, Work, fate_name,
    methods, read_back,
};
use crate::cli::record::rotation::{ReportPlace, WRITE, is_series};
use crate::cli::record::spool::Spool;
use crate::cli::show::console::{Detail, Said, words};
use crate::copy::report::{Ending, Report};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::path::{Shown, directory_of};
use crate::stream::{Endpoint, StreamReport};
use crate::verify::{Finding, Target, Verdict, VerifyReport};

/// Where things are to go.
#[derive(Default)]
pub struct Wanted<'a> {
    /// The report.
    pub report: Option<&'a Path>,
    /// How many reports stay, if it goes into a directory.
    pub keep_reports: Option<NonZero<usize>>,
    /// The figures.
    pub metrics: Option<&'a Path>,
    /// The log, and whether it is JSON.
    pub log: Option<(&'a Path, bool)>,
    /// How much the log tells.
    pub detail: Option<Detail>,
    /// Where a check lists what failed.
    pub list: Option<&'a Path>,
    /// What the program is called.
    pub name: &'static str,
    /// The job file that was used, and the arguments it stands for.
    pub file: Option<(&'a Path, Vec<OsString>)>,
}

impl Wanted<'_> {
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let paths = [self.report, self.metrics, self.log.map(|(path, _)| path), self.list];
        paths.into_iter().flatten()
    }

    /// Which of these files are inside the tree that is copied: writing them changes it.
    pub fn inside(&self, source: &Path) -> Vec<Error> {
        let file = |path: &Path| if is_series(path) { path.join("report") } else { path.into() };
        let inside = self.paths().filter(|path| is_inside(&file(path), source));
        let finding = "it is inside, and writing it changes the tree that is copied";
        inside.map(|path| Error::finding("keep out of the source", path, finding)).collect()
    }

    /// All that would keep these things from being written, as far as it can be known before; nothing is
    /// made.
    pub fn problems(&self, task: &Task<'_>) -> Vec<Error> {
        let report = self.report_place(task, Timestamp::now()).map(drop);
        let metrics = self.metrics_place().map(drop);
        let log = self.log.map_or(Ok(()), |(path, _)| Log::look(path));
        let clash = self.paths().try_for_each(|path| self.refuse_clash(path, task));
        [clash, report, metrics, log].into_iter().filter_map(Result::err).collect()
    }

    fn report_place(&self, task: &Task<'_>, started: Timestamp) -> Result<Option<ReportPlace>> {
        let kind = match task {
            Task::Copy { dry_run: true, .. } => "dry-run",
            task => task.kind(),
        };
        let place = |path| ReportPlace::new(path, kind, started, self.keep_reports);
        self.report.map(place).transpose()
    }

    fn metrics_place(&self) -> Result<Option<Place>> {
        self.metrics.map(|path| Place::new("write the metrics", path)).transpose()
    }
}

/// What a run is about.
pub enum Task<'a> {
    /// A copy from one path to others.
    Copy { source: &'a Path, outputs: &'a [PathBuf], dry_run: bool },
    /// A stream.
    Stream { inputs: &'a [Endpoint], outputs: &'a [Endpoint] },
    /// A check of these directories.
    Check(&'a [PathBuf]),
}

impl Task<'_> {
    /// What it is called in reports.
    fn kind(&self) -> &'static str {
        match self {
            Task::Copy { .. } => "copy",
            Task::Stream { .. } => "stream",
            Task::Check(_) => "verify",
        }
    }
}

/// How a run ended.
pub enum Ran<'a> {
    /// It was refused.
    Refused(&'a Error),
    /// A copy: its report for each output, or why that was refused.
    Copied(&'a [Result<Report>]),
    /// A stream.
    Streamed(&'a StreamReport),
    /// A check.
    Checked(&'a VerifyReport),
}

/// How a run ended in all.
pub(crate) struct End<'r> {
    pub(crate) ran: &'r Ran<'r>,
    /// How it ended otherwise.
    pub(crate) otherwise: Exit,
    /// Whether everything that was to be said and written was.
    pub(crate) said_all: bool,
}

impl End<'_> {
    /// What the program exits with.
    pub(crate) fn exit(&self) -> Exit {
        if self.said_all { self.otherwise } else { self.otherwise.unsaid() }
    }
}

impl Ran<'_> {
    /// Why it was refused, or stopped early.
    pub(crate) fn error(&self) -> Option<Entry<'static>> {
        match self {
            Ran::Refused(error) => Some(Entry::error("refused", error)),
            // Of several each has its own.
            Ran::Copied([ran]) => error(ran),
            _ => None,
        }
    }
}

/// Why an output was refused, or given up early.
pub(crate) fn error(ran: &Result<Report>) -> Option<Entry<'static>> {
    match ran {
        Err(error) => Some(Entry::error("refused", error)),
        Ok(Report { ending: Ending::Stopped(error), .. }) => Some(Entry::error("stopped", error)),
        Ok(_) => None,
    }
}

/// What a run leaves.
pub struct Records<'a> {
    task: Task<'a>,
    command: Vec<OsString>,
    started: (Timestamp, Instant),
    pub(crate) report: Option<(ReportPlace, Mutex<Spool>)>,
    metrics: Option<Place>,
    pub(crate) log: Option<Log>,
    detail: Detail,
    pub(crate) name: &'static str,
    file: Option<Job>,
}

#[derive(Serialize)]
struct Started<'a> {
    event: &'static str,
    program_version: &'static str,
    command: &'a [String],
}

impl<'a> Records<'a> {
    /// Opens what is wanted, so that what cannot be written is known before anything is done: then the
    /// run is to be refused for the error, and what could be opened can say so.
    pub fn open(wanted: &Wanted<'_>, task: Task<'a>, command: &[OsString]) -> (Self, Result<()>) {
        let started = (Timestamp::now(), Instant::now());
        let apart = |path| wanted.refuse_clash(path, &task);
        let report = wanted.report.map_or(Ok(None), |path| {
            apart(path)?;
            let place = wanted.report_place(&task, started.0)?;
            let dir = if is_series(path) { path } else { directory_of(path) };
            let spool = Spool::new(dir).map_err(|error| Error::io(WRITE, path, error))?;
            Ok(place.map(|place| (place, Mutex::new(spool))))
        });
        let metrics = wanted.metrics.map_or(Ok(()), apart).and_then(|()| wanted.metrics_place());
        let log = wanted.log.map(|(path, json)| apart(path).and_then(|()| Log::open(path, json)));
        let mut opened = wanted.list.map_or(Ok(()), apart);
        let records = Self {
            report: or_wrong(report, &mut opened),
            metrics: or_wrong(metrics, &mut opened),
            log: or_wrong(log.transpose(), &mut opened),
            task,
            command: command.to_vec(),
            started,
            detail: wanted.detail.unwrap_or(Detail::Normal),
            name: wanted.name,
            file: wanted
                .file
                .as_ref()
                .map(|(path, words)| Job { path: Name::path(path), arguments: as_text(words) }),
        };
        if let Some(log) = &records.log {
            let command = as_text(&records.command);
            let line = command.join(" ");
            let text = format!("{}: started: {}", records.name, Shown::bytes(line.as_bytes()));
            let program_version = env!("CARGO_PKG_VERSION");
            log.say(&text, &Started { event: "started", program_version, command: &command });
        }
        (records, opened)
    }

    /// Notes an entry for the report.
    pub fn note(&self, entry: &Entry<'_>) {
        if let Some((_, spool)) = &self.report
            && let Ok(mut spool) = spool.lock()
        {
            spool.add(&json::line(entry));
        }
    }

    /// Notes what a check found, and what was said about it, if anything was.
    pub fn hear(&self, target: &Target, finding: &Finding, said: Option<&Said>) {
        if said.is_none() && matches!(finding, Finding::File { verdict: Verdict::Good(_), .. }) {
            return;
        }
        let (entry, amiss) = Entry::found(target, finding);
        if amiss {
            self.note(&entry);
        }
        if let (Some(log), Some(said)) = (&self.log, said) {
            log.say(said.text(), &entry);
        }
    }

    pub(crate) fn write_report(&self, end: &End<'_>) -> Result<()> {
        let Some((place, spool)) = &self.report else { return Ok(()) };
        let (ran, exit) = (end.ran, end.exit());
        let bytes = self.command.iter().map(|word| word.as_encoded_bytes());
        let is_text = bytes.clone().all(|word| std::str::from_utf8(word).is_ok());
        let head = Head {
            kind: self.task.kind(),
            command: as_text(&self.command),
            job: self.file.as_ref(),
            command_bytes: (!is_text).then(|| bytes.map(json::hex).collect()),
            started: stamp(self.started.0),
            ended: stamp(Timestamp::now()),
            elapsed_seconds: self.started.1.elapsed().as_secs_f64(),
            exit_code: exit.code(),
            ending: exit.name(),
            error: ran.error(),
            copy: self.copied(end),
            stream: self.streamed(ran),
            checked: match ran {
                Ran::Checked(report) => Some(&report.counts),
                _ => None,
            },
            portion: match ran {
                Ran::Checked(report) => report.covered.as_ref().map(Portion::of),
                _ => None,
            },
            ..Head::default()
        };
        place.write(|file| match spool.lock() {
            Ok(mut spool) => head.write(&mut spool, file),
            Err(_) => Err(std::io::ErrorKind::Other.into()),
        })
    }

    /// The outputs, and what came of them, if it came to that.
    pub(crate) fn outputs<'r>(
        &self,
        ran: &Ran<'r>,
    ) -> impl Iterator<Item = (&'a Path, Option<&'r Result<Report>>)> + use<'a, 'r> {
        let outputs: &'a [PathBuf] = match &self.task {
            Task::Copy { outputs, .. } => outputs,
            Task::Stream { .. } | Task::Check(_) => &[],
        };
        let ran: &'r [Result<Report>] = match ran {
            Ran::Copied(ran) => ran,
            _ => &[],
        };
        outputs.iter().enumerate().map(move |(at, output)| (output.as_path(), ran.get(at)))
    }

    pub(crate) fn are_several(&self) -> bool {
        matches!(&self.task, Task::Copy { outputs, .. } if outputs.len() > 1)
    }

    fn copied<'r>(&self, end: &End<'r>) -> Option<Copied<'r>> {
        let ran = end.ran;
        let &Task::Copy { source, dry_run, .. } = &self.task else { return None };
        let several = self.are_several();
        let report = |ran: Option<&'r Result<Report>>| ran.and_then(|ran| ran.as_ref().ok());
        let output = |(path, ran): (&Path, Option<&'r Result<Report>>)| {
            let (report, own) = (report(ran), ran.filter(|_| several));
            let exit = own.map(|ran| Exit::of_one(ran, end.said_all));
            Output {
                name: Name::path(path),
                exit_code: exit.map(Exit::code),
                ending: exit.map(Exit::name),
                error: own.and_then(error),
                counts: report.map(|report| &report.counts),
                resumed: report.map(|report| report.resumed),
                methods: report.map(methods).unwrap_or_default(),
                cache: report.map(Cache::of),
                manifest: report.and_then(|report| report.manifest.as_deref()).map(Manifest::of),
                work: report.filter(|_| several).map(Work::of),
            }
        };
        let work = self.outputs(ran).next().and_then(|(_, ran)| report(ran));
        Some(Copied {
            dry_run,
            source: Name::path(source),
            outputs: self.outputs(ran).map(output).collect(),
            work: work.filter(|_| !several).map(Work::of),
        })
    }

    fn streamed(&self, ran: &Ran<'_>) -> Option<Streamed> {
        let &Task::Stream { inputs, outputs } = &self.task else { return None };
        let report = match ran {
            Ran::Streamed(report) => Some(*report),
            _ => None,
        };
        let fate = |at| report.and_then(|report| report.outputs.get(at)).map(|(_, fate)| fate);
        let output = |(at, named): (usize, &Endpoint)| StreamOutput {
            name: Name::path(named.path()),
            fate: fate(at).map(fate_name),
            read_back: fate(at).and_then(read_back),
        };
        Some(Streamed {
            inputs: inputs.iter().map(|named| Name::path(named.path())).collect(),
            outputs: outputs.iter().enumerate().map(output).collect(),
            bytes: report.map(|report| report.bytes),
            sha256: report.and_then(|report| report.digest).map(|digest| digest.to_string()),
        })
    }

    pub(crate) fn write_metrics(&self, end: &End<'_>) -> Result<()> {
        let Some(place) = &self.metrics else { return Ok(()) };
        let (ran, exit) = (end.ran, end.exit());
        let full = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let shown = |path: &Path| Shown::path(&full(path)).to_string();
        let figure = |label, exit: Exit, (files, bytes), expected| Figure {
            label,
            exit_code: exit.code(),
            files,
            bytes,
            expected,
            covered: match ran {
                Ran::Checked(report) => report.covered,
                _ => None,
            },
        };
        let (prefix, label, figures) = match &self.task {
            Task::Copy { .. } => {
                let output = |(path, ran): (&Path, Option<&Result<Report>>)| {
                    let own = ran.filter(|_| self.are_several());
                    let exit = own.map_or(exit, |ran| Exit::of_one(ran, end.said_all));
                    let expected = ran.map(expected).unwrap_or_default();
                    figure(shown(path), exit, ran.map(copied).unwrap_or_default(), expected)
                };
                ("dircopy", "output", self.outputs(ran).map(output).collect())
            }
            Task::Stream { outputs, .. } => {
                let name = |named: &Endpoint| match named {
                    Endpoint::Standard => "-".to_owned(),
                    Endpoint::Path(path) => shown(path),
                };
                let outputs: Vec<String> = outputs.iter().map(name).collect();
                let figures = vec![figure(outputs.join(" "), exit, passed(ran), Vec::new())];
                ("dircopy", "output", figures)
            }
            Task::Check(dirs) => {
                let here = [PathBuf::from(".")];
                let dirs = if dirs.is_empty() { &here[..] } else { dirs };
                let dirs: Vec<String> = dirs.iter().map(|dir| shown(dir)).collect();
                let figures = vec![figure(dirs.join(" "), exit, checked(ran), Vec::new())];
                ("dircopy_verify", "directory", figures)
            }
        };
        let seconds = |time: Timestamp| time.as_millisecond() as f64 / 1e3;
        // Without a file that was there, there is no last success to keep.
        let before = place.read(1 << 20).unwrap_or_default();
        let figures = Figures {
            prefix,
            label,
            started: seconds(self.started.0),
            ended: seconds(Timestamp::now()),
            elapsed: self.started.1.elapsed().as_secs_f64(),
            figures,
            before: &before,
        };
        let text = figures.text();
        place.write(|file| file.write_all(text.as_bytes()))
    }
}

/// What was opened; if it could not be, that is what is wrong, unless something else is already.
fn or_wrong<T>(opened: Result<Option<T>>, wrong: &mut Result<()>) -> Option<T> {
    opened.unwrap_or_else(|error| {
        if wrong.is_ok() {
            *wrong = Err(error);
        }
        None
    })
}

/// Arguments for the eye; what is not UTF-8 is escaped.
fn as_text(words: &[OsString]) -> Vec<String> {
    let text = |word: &OsString| match word.to_str() {
        Some(text) => text.to_owned(),
        None => Shown::path(Path::new(word)).to_string(),
    };
    words.iter().map(text).collect()
}

impl Records<'_> {
    /// An event, and at which output, if there are several.
    pub fn event(&self, event: &Event<'_>, at: Option<&str>) {
        // Of nearly every file: nothing is amiss, and nobody wants to read it.
        if self.log.is_none() && matches!(event, Event::Stands(..)) {
            return;
        }
        let (entry, amiss) = Entry::of(event);
        let entry = entry.at(at);
        if amiss {
            self.note(&entry);
        }
        if let Some(log) = &self.log
            && let Some(said) = words(event, self.detail)
        {
            log.say(said.at(at).text(), &entry);
        }
    }
}
