//! The report: one JSON file that says what a run did and how it ended.

use std::{
    collections::BTreeMap, fs::File, io, io::BufWriter, io::Seek, io::Write, num::NonZero,
    path::Path,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    cli::exit::Exit, cli::record::Records, cli::record::covered::CoveredSection,
    cli::record::entry::RecordEntry, cli::record::log, cli::record::log::JsonName,
    cli::record::log::Log, cli::record::log::stamp, cli::record::proof::Proof,
    cli::record::task::Finished, cli::record::task::RunResult, cli::record::task::error,
    cli::report::receipt::ClippedText, cli::report::receipt::Spool,
    cli::report::receipt::VolumeSection, cli::show::Console, cli::show::rows::Rows, copy::Counts,
    copy::Report, copy::Stages, error::Error, event::Stop, hash::Algorithm, hash::Hashed,
    io::HashedFrom, parity::ParityReport, part::Tally, part::content::Method, path::Shown,
    state::ReceiptPlace, state::ReceiptSequence, stream::OutputOutcome, sys::Uninterrupted,
    verify::Checked, verify::Coverage, verify::ShardCoverage,
};

/// The version of the format; it counts up when a report changes in a way that may break a reader.
/// Fields, kinds of entries and endings may be added without.
pub const VERSION: u32 = 2;

/// A report but for its entries.
#[derive(Default, Serialize)]
pub struct ReportJson<'a> {
    pub format: &'static str,
    pub version: u32,
    pub kind: &'static str,
    pub program: &'static str,
    pub program_version: &'static str,
    /// The program's arguments, its name first.
    pub command: Vec<String>,
    /// The same in hexadecimal digits, if one of them is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_bytes: Option<Vec<String>>,
    /// The job file that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<&'a JobSection>,
    pub working_directory: Option<JsonName>,
    pub host: String,
    /// When it started and ended.
    pub started: String,
    pub ended: String,
    pub elapsed_seconds: f64,
    pub exit_code: u8,
    pub ending: &'static str,
    /// Number of the newest reports that stay beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_reports: Option<NonZero<usize>>,
    /// Why it was refused, or stopped early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RecordEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub copy: Option<CopySection<'a>>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub stream: Option<StreamSection>,
    /// Of `covered`: what is to be erased.
    #[serde(skip_serializing_if = "Option::is_none", rename = "source")]
    pub to_erase: Option<JsonName>,
    /// The directories of a check, or the places of `covered`, as they were given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<JsonName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked: Option<&'a Checked>,
    /// What was made of parity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parity: Option<ParityReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replugged: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardSection>,
    /// Missing when the run was refused, or interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered: Option<CoveredSection>,
    /// Entries that are not in the report because they could not be kept.
    pub entries_left_out: u64,
}

#[derive(Serialize)]
pub struct JobSection {
    #[serde(flatten)]
    pub path: JsonName,
    /// The arguments it stood for, those that the command line took the place of left out.
    pub arguments: Vec<String>,
}

impl JobSection {
    /// The file's path, for the eye.
    pub fn shown(&self) -> String {
        self.path.shown().to_string()
    }
}

/// The section about a scrub.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScrubSection {
    pub listed: u64,
    pub verified_now: u64,
    pub not_verified: u64,
    /// Null while there are files that were not verified.
    pub oldest_verification: Option<ClippedText>,
    /// Files that were found good since a time that was asked for, and not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

impl ScrubSection {
    /// The section for the coverage of a scrub.
    pub fn of(covered: &Coverage) -> Self {
        let Coverage { listed, now, never, oldest, left_out } = *covered;
        let time = |seconds| Timestamp::from_second(i64::try_from(seconds).ok()?).ok();
        let oldest_verification = oldest.and_then(time).map(stamp).map(ClippedText);
        let left_out = left_out.map(|(files, _)| files);
        Self { listed, verified_now: now, not_verified: never, oldest_verification, left_out }
    }
}

/// The section about one shard of a check, or about all of them.
#[derive(Serialize)]
pub struct ShardSection {
    /// Null if the results of all were merged.
    index: Option<u32>,
    of: u32,
    lines: u64,
    began: Option<String>,
    ended: Option<String>,
}

impl ShardSection {
    /// The section for the coverage of shards.
    pub fn of(covered: &ShardCoverage) -> Self {
        let ShardCoverage { index, of, lines, began, ended } = *covered;
        let time = |seconds| Timestamp::from_second(seconds).ok().map(stamp);
        Self { index, of, lines, began: time(began), ended: time(ended) }
    }
}

/// The section about a copy.
#[derive(Serialize)]
pub struct CopySection<'a> {
    pub dry_run: bool,
    pub source: JsonName,
    /// Missing when the run was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_volume: Option<VolumeSection>,
    pub outputs: Vec<OutputSection<'a>>,
    /// The work of the run; each of several outputs has its own.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub work: Option<WorkSection<'a>>,
}

/// The numbers of threads, and where the time went.
#[derive(Serialize)]
pub struct WorkSection<'a> {
    /// Number of workers.
    workers: usize,
    /// Number of threads that read copies back.
    verifiers: usize,
    stages: &'a Stages,
}

impl<'a> WorkSection<'a> {
    /// The section of a run.
    pub fn of(report: &'a Report) -> Self {
        let Report { workers, verifiers, stages, .. } = report;
        Self { workers: *workers, verifiers: *verifiers, stages }
    }
}

/// The section about an output.
#[derive(Serialize)]
pub struct OutputSection<'a> {
    #[serde(flatten)]
    pub name: JsonName,
    /// The path as it was given, if it is another for another day or disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// Of one of several outputs: the end of the run to it, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<&'static str>,
    /// … and why it was refused, or stopped early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RecordEntry<'a>>,
    /// Missing when the run was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<&'a Counts>,
    /// True if the run continued from the records of one that was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<bool>,
    /// Duration of the run that the figures are held against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_seconds: Option<f64>,
    /// Missing when the run was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeSection>,
    /// Missing when the run was refused, and of one that only told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The place of the receipt among those of the output; missing where nothing is kept there, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<ReceiptPlace>,
    /// … and why it has none although it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_error: Option<String>,
    /// The copy methods, with the number of files and bytes that each moved.
    pub methods: BTreeMap<&'static str, Tally>,
    /// The part that stayed in memory; missing when the run was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSection>,
    /// Missing when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ManifestSection>,
    /// The lists beside the manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<JsonName>,
    /// Missing when none was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_list: Option<JsonName>,
    /// What was made of its parity; missing where none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parity: Option<ParityReport>,
    /// The work for one of several outputs.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub work: Option<WorkSection<'a>>,
}

/// The part of large files that came into memory by the run and stayed there.
#[derive(Serialize)]
pub struct CacheSection {
    source_bytes: u64,
    source_of_bytes: u64,
    output_bytes: u64,
    output_of_bytes: u64,
}

impl CacheSection {
    /// … of this run.
    pub fn of(report: &Report) -> Self {
        Self {
            source_bytes: report.source_stayed.bytes,
            source_of_bytes: report.source_stayed.of,
            output_bytes: report.output_stayed.bytes,
            output_of_bytes: report.output_stayed.of,
        }
    }
}

/// The section about a stream.
#[derive(Serialize)]
pub struct StreamSection {
    pub inputs: Vec<JsonName>,
    pub outputs: Vec<StreamOutputSection>,
    /// Missing when the run was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The digest of all of them, if everything was read and hashed so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The same by every algorithm that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digests: Option<BTreeMap<&'static str, String>>,
}

/// The section about an output of a stream.
#[derive(Serialize)]
pub struct StreamOutputSection {
    #[serde(flatten)]
    pub name: JsonName,
    /// The path as it was given, if it is another file every day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// Missing when the run was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// Only of a file that was read back: whether from the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_back: Option<&'static str>,
}

/// The outcome of an output of a stream, in a word.
pub fn outcome_name(outcome: &OutputOutcome) -> &'static str {
    match outcome {
        OutputOutcome::Stands { replaced: false, .. } => "copied",
        OutputOutcome::Stands { .. } => "replaced",
        OutputOutcome::Passed => "passed",
        OutputOutcome::Closed => "closed",
        OutputOutcome::Stopped(_) => "given-up",
        OutputOutcome::Left(_) => "left",
        OutputOutcome::Failed(_) => "failed",
        OutputOutcome::Unproven(_) => "damaged",
    }
}

/// Where the file of an output was read back from, if it was.
pub fn read_back(outcome: &OutputOutcome) -> Option<&'static str> {
    let OutputOutcome::Stands { proof: Some(proof), .. } = outcome else { return None };
    Some(match proof {
        HashedFrom::Device => "device",
        HashedFrom::Cache => "cache",
    })
}

/// The methods of a run by their names in the report.
pub fn methods(report: &Report) -> BTreeMap<&'static str, Tally> {
    let name = |method| match method {
        Method::Clone => "clone",
        Method::Renamed => "renamed",
        Method::Range => "copy_file_range",
        Method::Send => "sendfile",
        Method::ReadWrite => "read_write",
    };
    report.methods.iter().map(|(method, tally)| (name(*method), *tally)).collect()
}

/// The manifest that a run left.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ManifestSection {
    path: ClippedText,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<ClippedText>,
    /// True if the file has its final name, which it gets only when the run came to its end.
    pub finished: bool,
    /// Its own digest; missing when it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<ClippedText>,
}

impl ManifestSection {
    /// The manifest at `path`.
    pub fn of(path: &Path) -> Self {
        let finished = path.extension().is_none_or(|extension| extension != "part");
        let sha256 = digest(path).ok().flatten().map(ClippedText);
        let JsonName { path, path_bytes } = JsonName::path(path);
        Self { path, path_bytes, finished, sha256 }
    }

    /// Its name.
    pub fn name(&self) -> JsonName {
        JsonName { path: self.path.clone(), path_bytes: self.path_bytes.clone() }
    }
}

fn digest(path: &Path) -> io::Result<Option<String>> {
    let mut file = Hashed::new(Uninterrupted(File::open(path)?), Algorithm::Sha256);
    io::copy(&mut file, &mut BufWriter::with_capacity(256 << 10, io::sink()))?;
    Ok(file.digest().map(|digest| digest.to_string()))
}

impl ReportJson<'_> {
    /// Writes the report with these samples, each the JSON of one, and the entries in `spool`; its SHA-256.
    pub fn write(
        &mut self,
        samples: &[String],
        spool: &mut Spool,
        to: &mut File,
    ) -> io::Result<String> {
        self.entries_left_out = spool.left_out();
        let head = serde_json::to_string_pretty(&self)?;
        let mut to = BufWriter::new(Hashed::new(Uninterrupted(to), Algorithm::Sha256));
        // Samples and entries are the last members of the object, and each has a line.
        to.write_all(log::harmless(head.trim_end_matches(['\n', '}'])).as_bytes())?;
        if !samples.is_empty() {
            write!(to, ",\n  \"samples\": [\n    {}\n  ]", samples.join(",\n    "))?;
        }
        to.write_all(b",\n  \"entries\": [")?;
        spool.copy_to(&mut to)?;
        to.write_all(b"\n  ]\n}\n")?;
        to.flush()?;
        let digest = to.get_ref().digest();
        Ok(digest.map(|digest| digest.to_string()).unwrap_or_default())
    }

    /// Why it is in no sequence of an output that has one.
    pub fn why_unnumbered(&self) -> Option<String> {
        let mut outputs = self.copy.iter().flat_map(|copy| &copy.outputs);
        outputs.find_map(|section| section.sequence_error.clone())
    }

    /// Writes it into its places in the sequences of outputs, as far as they can be noted; its SHA-256.
    pub fn write_in_place(
        &mut self,
        samples: &[String],
        spool: &mut Spool,
        to: &mut File,
        sequences: &mut [Option<ReceiptSequence>],
    ) -> io::Result<String> {
        loop {
            let digest = self.write(samples, spool, to)?;
            let outputs = self.copy.as_mut().map(|copy| copy.outputs.iter_mut());
            let mut is_noted = true;
            for (section, sequence) in outputs.into_iter().flatten().zip(sequences.iter_mut()) {
                let announced = sequence.as_ref().map_or(Ok(()), |it| it.announce(&digest));
                if let Err(error) = announced {
                    (section.sequence, *sequence, is_noted) = (None, None, false);
                    section.sequence_error = Some(error.to_string());
                }
            }
            if is_noted {
                return Ok(digest);
            }
            to.rewind()?;
            to.set_len(0)?;
        }
    }
}

// The end of a run: its report, its metrics, its log, its last line and its exit code agree.

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

/// The trouble that is told where something could not be written.
pub const UNWRITTEN: &str = "not every message or record could be written";

/// … and where only the command failed.
const NOT_TOLD: &str = "the command of --on-end failed";

/// The words for the end of a run.
pub struct Closing<'c> {
    /// The last line for this exit code, and for what was amiss at the end if the run itself was complete.
    pub verdict: &'c dyn Fn(Exit, &str) -> String,
    /// True if it is shown on the screen.
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
        if let Some(error) = self.unnumbered.get() {
            self.warn_late(error, console);
        }
        self.rotate(end.exit(), console);
        if let (Some(signature), true) = (self.signed.get(), closing.is_shown) {
            let mut rows = Rows::default();
            rows.row("signed", Shown::path(signature));
            console.out_rows(rows);
        }
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
            console.out_sentence(&(closing.verdict)(end.exit(), amiss));
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
        let (removed, failed) = destination.rotate(exit);
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
        failed.iter().for_each(|error| self.warn_late(error, console));
    }

    /// Tells a warning for which the report is too late, on the screen and in the log.
    fn warn_late(&self, error: &Error, console: &Console) {
        console.error("warning", "warning: ", error);
        if let Some(log) = &self.log {
            let text = format!("{}: warning: {error}", self.name);
            log.write(&text, &RecordEntry::error("warning", error));
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
