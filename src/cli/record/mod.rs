//! Records of a run for programs: events as JSON lines, a report, and figures for Prometheus.
//!
//! The formats are promised: `docs/report.schema.json` and `docs/guide/scheduled.md` say what is in them.

pub mod covered;
pub mod entry;
pub mod files;
pub mod log;
mod metrics;
pub mod proof;
pub mod report;
pub mod sign;
pub mod task;

use std::{
    ffi::OsString, path::Path, path::PathBuf, sync::Mutex, sync::OnceLock, sync::PoisonError,
    time::Instant,
};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    cli::exit::Exit, cli::record::covered::CoveredSection, cli::record::entry::RecordEntry,
    cli::record::files::Destination, cli::record::files::ReportDestination,
    cli::record::files::WRITE, cli::record::files::is_directory, cli::record::log::JsonName,
    cli::record::log::Log, cli::record::log::stamp, cli::record::metrics::MetricsFile,
    cli::record::metrics::MetricsRow, cli::record::metrics::checked, cli::record::metrics::copied,
    cli::record::metrics::covered, cli::record::metrics::passed, cli::record::proof::Proof,
    cli::record::report::CacheSection, cli::record::report::CopySection,
    cli::record::report::JobSection, cli::record::report::ManifestSection,
    cli::record::report::OutputSection, cli::record::report::ReportJson,
    cli::record::report::ScrubSection, cli::record::report::ShardSection,
    cli::record::report::StreamOutputSection, cli::record::report::StreamSection,
    cli::record::report::WorkSection, cli::record::report::methods,
    cli::record::report::outcome_name, cli::record::report::read_back, cli::record::sign::Signer,
    cli::record::task::Finished, cli::record::task::RecordOptions, cli::record::task::RunResult,
    cli::record::task::Task, cli::record::task::error, cli::report::is_page, cli::report::page_of,
    cli::report::page_of_file, cli::report::receipt::SampleContext, cli::report::receipt::Spool,
    cli::report::receipt::ThreadCounts, cli::report::receipt::VolumeSection, cli::session::OnEnd,
    cli::show::Detail, cli::show::ScreenLine, cli::show::copy_messages::message,
    cli::words::is_plain, copy::Report, error::Deed, error::Error, error::Result, event::Event,
    event::SampleSeries, hash::Algorithm, hash::Digest, hash::hex, path::Shown, path::directory_of,
    state::ReceiptSequence, state::plugs::Replugged, stream::Endpoint, sys, verify::Finding,
    verify::Target, verify::Verdict,
};

// Everything that a run records for programs, from its start to its end.

/// The files that a run records itself in.
pub struct Records<'a> {
    pub(crate) task: Task<'a>,
    command: Vec<OsString>,
    started: (Timestamp, Instant),
    pub(crate) report: Option<(ReportDestination, Mutex<Spool>)>,
    metrics: Option<Destination>,
    /// The metrics of the run before this one.
    metrics_before: OnceLock<Vec<u8>>,
    pub(crate) log: Option<Log>,
    detail: Detail,
    pub(crate) name: &'static str,
    pub(crate) on_end: Option<OnEnd>,
    pub(crate) json_on_stderr: bool,
    pub(crate) file: Option<JobSection>,
    /// The course of the run over time, if it has a report.
    samples: Option<SampleSeries>,
    /// Limit for reading the source; bytes in a second.
    limit_rate: Option<u64>,
    /// Where the JSON is while a page is made of it, if the report is to be one.
    page_beside: Option<PathBuf>,
    /// The page that is made of the report once that is written.
    page: Option<Destination>,
    /// The key that signs the report, …
    signer: Option<Signer>,
    /// … and the signature, once it is there.
    pub(crate) signed: OnceLock<PathBuf>,
    /// Why the report is in no sequence although its output has one.
    pub(crate) unnumbered: OnceLock<Error>,
}

#[derive(Serialize)]
struct StartedLine<'a> {
    event: &'static str,
    program_version: &'static str,
    command: &'a [String],
}

impl<'a> Records<'a> {
    /// Opens every file of `options`, so that one that cannot be written is known before anything is done. For
    /// such an error the run is to be refused, and the files that could be opened record that.
    pub fn open(
        options: &RecordOptions<'_>,
        task: Task<'a>,
        command: &[OsString],
    ) -> (Self, Result<()>) {
        let started = (Timestamp::now(), Instant::now());
        let check = |path| options.refuse_conflict(path, &task);
        let report = options.report.map_or(Ok(None), |path| {
            check(path)?;
            let place = options.report_destination(&task, started.0)?;
            let dir = if is_directory(path) { path } else { directory_of(path) };
            let spool = Spool::new(dir).deed(WRITE, path)?;
            Ok(place.map(|place| (place, Mutex::new(spool))))
        });
        let metrics =
            options.metrics.map_or(Ok(()), check).and_then(|()| options.metrics_destination(&task));
        let page =
            options.page.map_or(Ok(()), check).and_then(|()| options.page_destination(&task));
        let log = options.log.map(|(path, json)| check(path).and_then(|()| Log::open(path, json)));
        let signature = options.signature();
        let signer = signature.as_deref().map_or(Ok(()), check).and_then(|()| {
            options.refuse_unsigned()?;
            options.sign.map(Signer::new).transpose()
        });
        let mut opened = [options.list, options.catalog].into_iter().flatten().try_for_each(check);
        let on_end = options.on_end.map(|command| command.look().map(|()| command.clone()));
        let records = Self {
            report: or_refuse(report, &mut opened),
            metrics: or_refuse(metrics, &mut opened),
            metrics_before: OnceLock::new(),
            page: or_refuse(page, &mut opened),
            signer: or_refuse(signer, &mut opened),
            signed: OnceLock::new(),
            unnumbered: OnceLock::new(),
            log: or_refuse(log.transpose(), &mut opened),
            limit_rate: options.limit_rate,
            page_beside: options
                .report
                .filter(|path| is_page(path))
                .map(|path| directory_of(path).into()),
            samples: options.report.map(|_| SampleSeries::new()),
            task,
            command: command.to_vec(),
            started,
            detail: options.detail.unwrap_or(Detail::Normal),
            name: options.name,
            on_end: or_refuse(on_end.transpose(), &mut opened),
            json_on_stderr: options.json_on_stderr,
            file: options.file.map(|file| JobSection {
                path: JsonName::path(&file.path),
                arguments: as_text(&file.words()),
            }),
        };
        if let Some(log) = &records.log {
            let command = as_text(&records.command);
            let line = command.join(" ");
            let text = format!("{}: started: {}", records.name, Shown::bytes(line.as_bytes()));
            let program_version = env!("CARGO_PKG_VERSION");
            log.write(&text, &StartedLine { event: "started", program_version, command: &command });
        }
        (records, opened)
    }

    /// Takes samples of the run, if it has a report.
    pub fn samples(&self) -> Option<&SampleSeries> {
        self.samples.as_ref()
    }

    /// Notes an entry for the report.
    pub fn note(&self, entry: &RecordEntry<'_>) {
        if let Some((_, spool)) = &self.report
            && let Ok(mut spool) = spool.lock()
        {
            spool.add(&log::line(entry));
        }
    }

    /// Notes a warning about the run.
    pub fn warn(&self, error: &Error) {
        let entry = RecordEntry::error("warning", error);
        self.entry(&format!("{}: warning: {error}", self.name), &entry);
    }

    /// Notes an entry, and in the log the line that is said about it.
    pub fn entry(&self, line: &str, entry: &RecordEntry<'_>) {
        self.note(entry);
        if let Some(log) = &self.log {
            log.write(line, entry);
        }
    }

    /// Notes a finding of a check, and the line that was said about it, if there was one.
    pub fn finding(&self, target: &Target, finding: &Finding, line: Option<&ScreenLine>) {
        if line.is_none() && matches!(finding, Finding::File { verdict: Verdict::Good(_), .. }) {
            return;
        }
        let (entry, amiss) = RecordEntry::found(target, finding);
        if amiss {
            self.note(&entry);
        }
        if let (Some(log), Some(line)) = (&self.log, line) {
            log.write(line.text(), &entry);
        }
    }

    pub(crate) fn write_report(&self, finished: &Finished<'_>) -> Result<()> {
        let Some((place, spool)) = &self.report else { return Ok(()) };
        let (ran, exit, check) = (finished.ran, finished.exit(), finished.ran.check());
        let bytes = self.command.iter().map(|word| word.as_encoded_bytes());
        let is_text = bytes.clone().all(|word| std::str::from_utf8(word).is_ok());
        let mut head = ReportJson {
            format: "dircopy-report",
            version: report::VERSION,
            program: env!("CARGO_PKG_NAME"),
            program_version: env!("CARGO_PKG_VERSION"),
            working_directory: std::env::current_dir().ok().map(|dir| JsonName::path(&dir)),
            host: sys::host_name(),
            kind: self.task.kind(),
            command: as_text(&self.command),
            job: self.file.as_ref(),
            command_bytes: (!is_text).then(|| bytes.map(hex::text).collect()),
            started: stamp(self.started.0),
            ended: stamp(Timestamp::now()),
            elapsed_seconds: self.started.1.elapsed().as_secs_f64(),
            exit_code: exit.code(),
            ending: exit.name(),
            keep_reports: place.kept(),
            error: ran.error(),
            copy: self.copied(finished),
            stream: self.streamed(ran),
            to_erase: self.task.covered().map(|job| JsonName::path(&job.source)),
            directories: match &self.task {
                Task::Check(dirs) => dirs.iter().map(|dir| JsonName::path(dir)).collect(),
                Task::Covered(job) => job.paths().map(JsonName::path).collect(),
                _ => Vec::new(),
            },
            covered: ran
                .covered()
                .zip(self.task.covered())
                .map(|(report, job)| CoveredSection::of(report, job.copies)),
            checked: check.map(|report| &report.counts),
            parity: check.and_then(|report| report.parity),
            replugged: check.and_then(|report| report.replugged.as_ref()).map(Replugged::words),
            scrub: check.and_then(|report| report.covered.as_ref()).map(ScrubSection::of),
            shard: check.and_then(|report| report.shard.as_ref()).map(ShardSection::of),
            ..ReportJson::default()
        };
        let samples = self.sample_lines(ran);
        let mut spool = spool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = &self.page_beside {
            return place.write(|file| {
                let json = tempfile::tempfile_in(dir)?;
                let page = page_of(json, |json| head.write(&samples, &mut spool, json).map(drop))?;
                sys::write_all(file, page.as_bytes())
            });
        }
        let (mut sequences, mut digest) = (self.sequences(&mut head, ran), String::new());
        place.write(|file| {
            digest = head.write_in_place(&samples, &mut spool, file, &mut sequences)?;
            Ok(())
        })?;
        sequences.into_iter().flatten().for_each(|sequence| sequence.confirm(&digest));
        if let Some(why) = head.why_unnumbered() {
            let _ = self.unnumbered.set(Error::finding("number the receipt", place.path(), why));
        }
        if let Some(signer) = &self.signer {
            let signature = signer.sign(&place.path())?;
            let _ = self.signed.set(signature);
        }
        let Some(page) = &self.page else { return Ok(()) };
        let text = page_of_file(&place.path())?;
        page.write(|file| sys::write_all(file, text.as_bytes()))
    }

    /// The sequence of each output that this receipt goes into, which its section names.
    fn sequences(
        &self,
        head: &mut ReportJson<'_>,
        ran: &RunResult<'_>,
    ) -> Vec<Option<ReceiptSequence>> {
        let sections = head.copy.iter_mut().flat_map(|copy| &mut copy.outputs);
        let sequence =
            |(section, (_, ran)): (&mut OutputSection<'_>, (_, Option<&Result<Report>>))| {
                let counted = ran?.as_ref().ok()?.counted.as_ref()?;
                match counted.sequence() {
                    Ok(sequence) => {
                        section.sequence = Some(sequence.place().clone());
                        Some(sequence)
                    }
                    Err(error) => {
                        section.sequence_error = Some(error.to_string());
                        None
                    }
                }
            };
        sections.zip(self.outputs(ran)).map(sequence).collect()
    }

    /// The samples of the run, each as the JSON of one; none of a run that was refused.
    fn sample_lines(&self, ran: &RunResult<'_>) -> Vec<String> {
        let threads = |(_, ran): (&Path, Option<&Result<Report>>)| {
            let Report { workers, verifiers, .. } = *ran?.as_ref().ok()?;
            Some(ThreadCounts { workers, verifiers })
        };
        let (samples, is_refused) = (self.samples.as_ref(), matches!(ran, RunResult::Refused(_)));
        let Some(samples) = samples.filter(|_| !is_refused) else { return Vec::new() };
        let threads = self.outputs(ran).map(threads).collect();
        SampleContext { threads, limit_rate: self.limit_rate }.lines(&samples.all())
    }

    /// The outputs, each with its report if it has one.
    pub(crate) fn outputs<'r>(
        &self,
        ran: &RunResult<'r>,
    ) -> impl Iterator<Item = (&'a Path, Option<&'r Result<Report>>)> + use<'a, 'r> {
        let outputs: &'a [PathBuf] = match &self.task {
            Task::Copy { outputs, .. } => outputs,
            Task::Stream { .. } | Task::Check(_) | Task::Covered(_) => &[],
        };
        let ran: &'r [Result<Report>] = match ran {
            RunResult::Copied(ran) => ran,
            _ => &[],
        };
        outputs.iter().enumerate().map(move |(at, output)| (output.as_path(), ran.get(at)))
    }

    /// For each output how it was given, if its path is not the same every day.
    fn changing(&self) -> impl Iterator<Item = Option<String>> + use<'a> {
        let given = self.task.given().iter();
        given.map(|given| (!is_plain(given)).then(|| given.to_string_lossy().into_owned()))
    }

    pub(crate) fn are_several(&self) -> bool {
        matches!(&self.task, Task::Copy { outputs, .. } if outputs.len() > 1)
    }

    fn copied<'r>(&self, finished: &Finished<'r>) -> Option<CopySection<'r>> {
        let ran = finished.ran;
        let &Task::Copy { source, dry_run, .. } = &self.task else { return None };
        let several = self.are_several();
        let report = |ran: Option<&'r Result<Report>>| ran.and_then(|ran| ran.as_ref().ok());
        let output = |(path, ran, given): (&Path, Option<&'r Result<Report>>, Option<String>)| {
            let (report, own) = (report(ran), ran.filter(|_| several));
            let exit = own.map(|ran| Exit::of_one(ran, finished.all_written));
            OutputSection {
                name: JsonName::path(path),
                given,
                exit_code: exit.map(Exit::code),
                ending: exit.map(Exit::name),
                error: own.and_then(error),
                counts: report.map(|report| &report.counts),
                resumed: report.map(|report| report.resumed),
                elapsed_seconds: report.map(|report| report.elapsed.as_secs_f64()),
                volume: report.map(|report| VolumeSection::of(&report.output_volume)),
                proof: report.filter(|_| !dry_run).map(Proof::of),
                sequence: None,
                sequence_error: None,
                methods: report.map(methods).unwrap_or_default(),
                cache: report.map(CacheSection::of),
                manifest: report
                    .and_then(|report| report.manifest.as_deref())
                    .map(ManifestSection::of),
                lists: (report.iter().flat_map(|report| &report.lists))
                    .map(|list| JsonName::path(list))
                    .collect(),
                media_list: report
                    .and_then(|report| report.media_list.as_deref())
                    .map(JsonName::path),
                parity: report.and_then(|report| report.parity),
                work: report.filter(|_| several).map(WorkSection::of),
            }
        };
        let work = self.outputs(ran).next().and_then(|(_, ran)| report(ran));
        Some(CopySection {
            dry_run,
            source: JsonName::path(source),
            source_volume: work.map(|report| VolumeSection::of(&report.source_volume)),
            outputs: (self.outputs(ran).zip(self.changing()))
                .map(|((path, ran), given)| output((path, ran, given)))
                .collect(),
            work: work.filter(|_| !several).map(WorkSection::of),
        })
    }

    fn streamed(&self, ran: &RunResult<'_>) -> Option<StreamSection> {
        let &Task::Stream { inputs, outputs, .. } = &self.task else { return None };
        let report = ran.stream();
        let outcome =
            |at| report.and_then(|report| report.outputs.get(at)).map(|(_, outcome)| outcome);
        let changing: Vec<Option<String>> = self.changing().collect();
        let output = |(at, named): (usize, &Endpoint)| StreamOutputSection {
            name: JsonName::path(named.path()),
            given: changing.get(at).cloned().flatten(),
            outcome: outcome(at).map(outcome_name),
            read_back: outcome(at).and_then(read_back),
        };
        let digests = report.and_then(|report| report.digests.as_ref());
        let by_name = |digest: &Digest| (digest.algorithm().name(), digest.to_string());
        Some(StreamSection {
            inputs: inputs.iter().map(|named| JsonName::path(named.path())).collect(),
            outputs: outputs.iter().enumerate().map(output).collect(),
            bytes: report.map(|report| report.bytes),
            sha256: digests.and_then(|all| all.of(Algorithm::Sha256)).map(|it| it.to_string()),
            digests: digests.map(|all| all.iter().map(by_name).collect()),
        })
    }

    pub(crate) fn write_metrics(&self, finished: &Finished<'_>) -> Result<()> {
        let Some(place) = &self.metrics else { return Ok(()) };
        let (ran, exit) = (finished.ran, finished.exit());
        let full = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let shown = |path: &Path| Shown::path(&full(path)).to_string();
        // A label that is another one every day tells no job apart.
        let changing: Vec<Option<String>> = self.changing().collect();
        let called = |at: usize, path: &Path| {
            changing.get(at).cloned().flatten().unwrap_or_else(|| shown(path))
        };
        let row = |label, exit: Exit, figures: Option<MetricsRow>| MetricsRow {
            label,
            exit_code: exit.code(),
            ..figures.unwrap_or_default()
        };
        let (prefix, label, rows) = match &self.task {
            Task::Copy { .. } => {
                let output = |(at, (path, ran)): (usize, (&Path, Option<&Result<Report>>))| {
                    let own = ran.filter(|_| self.are_several());
                    let exit = own.map_or(exit, |ran| Exit::of_one(ran, finished.all_written));
                    let figures = ran.and_then(|ran| ran.as_ref().ok()).map(copied);
                    row(called(at, path), exit, figures)
                };
                ("dircopy", "output", self.outputs(ran).enumerate().map(output).collect())
            }
            Task::Stream { outputs, .. } => {
                let name = |(at, named): (usize, &Endpoint)| match named {
                    Endpoint::Standard => "-".to_owned(),
                    Endpoint::Path(path) => called(at, path),
                };
                let outputs: Vec<String> = outputs.iter().enumerate().map(name).collect();
                let rows = vec![row(outputs.join(" "), exit, ran.stream().map(passed))];
                ("dircopy", "output", rows)
            }
            Task::Check(dirs) => {
                let here = [PathBuf::from(".")];
                let dirs = if dirs.is_empty() { &here[..] } else { dirs };
                let dirs: Vec<String> = dirs.iter().map(|dir| shown(dir)).collect();
                let rows = vec![row(dirs.join(" "), exit, ran.check().map(checked))];
                ("dircopy_verify", "directory", rows)
            }
            Task::Covered(job) => {
                let rows = vec![row(shown(&job.source), exit, ran.covered().map(covered))];
                ("dircopy_covered", "source", rows)
            }
        };
        let seconds = |time: Timestamp| time.as_millisecond() as f64 / 1e3;
        // Without a file that was there, there is no last success to keep. What this run wrote before it was known how
        // it ended is none either.
        let before = self.metrics_before.get_or_init(|| place.read(1 << 20).unwrap_or_default());
        let metrics = MetricsFile {
            prefix,
            label,
            started: seconds(self.started.0),
            ended: seconds(Timestamp::now()),
            elapsed: self.started.1.elapsed().as_secs_f64(),
            rows,
            before,
        };
        let text = metrics.text();
        place.write(|file| sys::write_all(file, text.as_bytes()))
    }
}

/// The opened file; `refused` keeps the first error.
fn or_refuse<T>(opened: Result<Option<T>>, refused: &mut Result<()>) -> Option<T> {
    opened.unwrap_or_else(|error| {
        if refused.is_ok() {
            *refused = Err(error);
        }
        None
    })
}

/// Arguments as text; bytes that are not UTF-8 are escaped.
fn as_text(words: &[OsString]) -> Vec<String> {
    let text = |word: &OsString| match word.to_str() {
        Some(text) => text.to_owned(),
        None => Shown::path(Path::new(word)).to_string(),
    };
    words.iter().map(text).collect()
}

impl Records<'_> {
    /// An event, at `output` if there are several.
    pub fn event(&self, event: &Event<'_>, output: Option<&str>) {
        // Nearly every file has one, and only a log wants it.
        if self.log.is_none() && matches!(event, Event::Stands(..)) {
            return;
        }
        let (entry, amiss) = RecordEntry::of(event);
        let entry = entry.at(output);
        if amiss {
            self.note(&entry);
        }
        if let Some(log) = &self.log
            && let Some(line) = message(event, self.detail)
        {
            log.write(line.at(output).text(), &entry);
        }
    }
}
