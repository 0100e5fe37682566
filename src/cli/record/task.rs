//! The task and the end of a run, as reports, metrics and logs have them.

use std::{ffi::OsStr, ffi::OsString, num::NonZero, path::Path, path::PathBuf};

use jiff::Timestamp;

use crate::{
    cli::args::job_file::JobFile, cli::exit::Exit, cli::record::Records,
    cli::record::entry::RecordEntry, cli::record::files::Destination,
    cli::record::files::RecordKind, cli::record::files::ReportDestination,
    cli::record::files::is_directory, cli::record::files::signature_of, cli::record::log::Log,
    cli::record::report::Closing, cli::record::report::UNWRITTEN, cli::record::sign::Signer,
    cli::report::is_page, cli::session::OnEnd, cli::show::Detail, cli::words::is_on_named_disk,
    copy::CopyJob, copy::Ending, copy::Report, copy::mirror::KEEPS_NONE, error::Error,
    error::Result, manifest::ManifestName, path::RelPath, path::Shown, path::directory_of,
    state::PrivateDir, state::private_dir::NAME, stream::Endpoint, stream::StreamReport, sys::Dir,
    tree::Filter, verify::CoveredJob, verify::CoveredReport, verify::VerifyJob,
    verify::VerifyReport,
};

/// The task of a run.
pub enum Task<'a> {
    /// A copy from one path to others.
    Copy {
        source: &'a Path,
        outputs: &'a [PathBuf],
        given: &'a [PathBuf],
        dry_run: bool,
    },
    Stream {
        inputs: &'a [Endpoint],
        outputs: &'a [Endpoint],
        given: &'a [PathBuf],
    },
    /// A check of these directories.
    Check(&'a [PathBuf]),
    /// Whether a source may be erased.
    Covered(&'a CoveredJob),
}

impl<'a> Task<'a> {
    /// The outputs as they were given: with placeholders, or on a disk that is named.
    pub(crate) fn given(&self) -> &'a [PathBuf] {
        match self {
            Task::Copy { given, .. } | Task::Stream { given, .. } => given,
            Task::Check(_) | Task::Covered(_) => &[],
        }
    }

    /// The question, if it is whether a source may be erased.
    pub(crate) fn covered(&self) -> Option<&'a CoveredJob> {
        match self {
            Task::Covered(job) => Some(job),
            _ => None,
        }
    }

    /// The names of what it has a progress for, as they are shown.
    pub(crate) fn names(&self) -> Vec<String> {
        let shown = |path: &Path| Shown::path(path).to_string();
        match self {
            Task::Copy { outputs, given, .. } => {
                let name = |(output, given): (&PathBuf, &PathBuf)| match is_on_named_disk(given) {
                    true => shown(given),
                    false => shown(output),
                };
                outputs.iter().zip(*given).map(name).collect()
            }
            // All outputs of a stream, and all directories of a check, have one progress.
            Task::Stream { outputs, .. } => {
                let names: Vec<_> = outputs.iter().map(|output| shown(output.path())).collect();
                vec![names.join(", ")]
            }
            Task::Covered(job) => vec![shown(&job.source)],
            Task::Check([]) => vec![".".into()],
            Task::Check(dirs) => {
                vec![dirs.iter().map(|dir| shown(dir)).collect::<Vec<_>>().join(", ")]
            }
        }
    }

    /// The task's name in reports.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Task::Copy { .. } => "copy",
            Task::Stream { .. } => "stream",
            Task::Check(_) => "verify",
            Task::Covered(_) => "covered",
        }
    }
}

/// The end of a run.
pub enum RunResult<'a> {
    Refused(&'a Error),
    /// A call did not come back after the run was asked to stop.
    Stuck(&'a Error),
    /// A copy: its report for each output, or why that was refused.
    Copied(&'a [Result<Report>]),
    Streamed(&'a StreamReport),
    Checked(&'a VerifyReport),
    Covered(&'a CoveredReport),
}

/// The end of a run, with the messages and records that could not be written.
pub(crate) struct Finished<'r> {
    pub(crate) ran: &'r RunResult<'r>,
    /// The exit code of the run if everything that it says and records was written.
    pub(crate) exit_before: Exit,
    pub(crate) all_written: bool,
}

impl Finished<'_> {
    /// The exit code of the program.
    pub(crate) fn exit(&self) -> Exit {
        if self.all_written { self.exit_before } else { self.exit_before.unwritten() }
    }
}

impl<'a> RunResult<'a> {
    /// The report of a check.
    pub(crate) fn check(&self) -> Option<&'a VerifyReport> {
        match self {
            RunResult::Checked(report) => Some(report),
            _ => None,
        }
    }

    /// Whether a source may be erased, if all was looked at.
    pub(crate) fn covered(&self) -> Option<&'a CoveredReport> {
        match self {
            RunResult::Covered(report) if report.interrupted.is_none() => Some(report),
            _ => None,
        }
    }

    /// The report of a stream.
    pub(crate) fn stream(&self) -> Option<&'a StreamReport> {
        match self {
            RunResult::Streamed(report) => Some(report),
            _ => None,
        }
    }

    /// Why it was refused, or stopped early.
    pub(crate) fn error(&self) -> Option<RecordEntry<'static>> {
        match self {
            RunResult::Refused(error) => Some(RecordEntry::error("refused", error)),
            RunResult::Stuck(error) => Some(RecordEntry::error("stopped", error)),
            // Of several each has its own.
            RunResult::Copied([ran]) => error(ran),
            _ => None,
        }
    }
}

/// Why an output was refused, or given up early.
pub(crate) fn error(ran: &Result<Report>) -> Option<RecordEntry<'static>> {
    match ran {
        Err(error) => Some(RecordEntry::error("refused", error)),
        Ok(Report { ending: Ending::Nothing(error), .. }) => {
            Some(RecordEntry::error("failed", error))
        }
        Ok(report) => report.ending.given_up().map(|error| RecordEntry::error("stopped", error)),
    }
}

// Which files a run records itself in, and what keeps them from being written: a record replaces the file
// that is there, or adds to it, so its path may be none that the run reads or writes, nor that of a listed file.

/// The records that a run makes, and their places.
#[derive(Default)]
pub struct RecordOptions<'a> {
    pub report: Option<&'a Path>,
    /// A page of it, where it is none itself.
    pub page: Option<&'a Path>,
    /// One more, which is refused.
    pub report_too_many: Option<&'a Path>,
    /// The key that signs the report.
    pub sign: Option<&'a Path>,
    /// Number of reports that stay, if the report goes into a directory.
    pub keep_reports: Option<NonZero<usize>>,
    pub metrics: Option<&'a Path>,
    /// The catalogue that the copies are added to.
    pub catalog: Option<&'a Path>,
    /// True if standard error gets JSON.
    pub json_on_stderr: bool,
    /// The log, and whether it is JSON.
    pub log: Option<(&'a Path, bool)>,
    /// The detail of messages in the log.
    pub detail: Option<Detail>,
    /// The list of failed files of a check.
    pub list: Option<&'a Path>,
    /// The command to run after the end.
    pub on_end: Option<&'a OnEnd>,
    /// The program's name, for messages.
    pub name: &'static str,
    /// Limit for reading the source, which a report names where it was the limit; bytes in a second.
    pub limit_rate: Option<u64>,
    /// The job file that was used.
    pub file: Option<&'a JobFile>,
    /// The directories that no record may be put into.
    pub content: Content,
}

/// The files of the trees that a run is about.
#[derive(Default)]
pub struct Content {
    /// The filter for entries of the source.
    filter: Filter,
    /// A check with the lists that stand at the outputs, or that are checked against.
    lists: Option<VerifyJob>,
    /// True if everything leaves the outputs that is not in the source.
    keeps_none: bool,
}

impl RecordOptions<'_> {
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let log = self.log.map(|(path, _)| path);
        let paths = [self.report, self.page, self.metrics, log, self.list, self.catalog];
        paths.into_iter().flatten()
    }

    /// Obstacles to writing these files, as far as they can be known before; nothing is made.
    pub fn problems(&self, task: &Task<'_>) -> Vec<Error> {
        let report = self.report_destination(task, Timestamp::now()).map(drop);
        let metrics = self.metrics_destination(task).map(drop);
        let page = self.page_destination(task).map(drop);
        let log = self.log.map_or(Ok(()), |(path, _)| Log::look(path));
        let conflict = self.paths().try_for_each(|path| self.refuse_conflict(path, task));
        let signer = self.refuse_unsigned();
        let signer =
            signer.and_then(|()| self.sign.map_or(Ok(()), |key| Signer::new(key).map(drop)));
        let on_end = self.on_end.map_or(Ok(()), |command| command.check());
        let all = [conflict, report, page, metrics, log, signer, on_end];
        all.into_iter().filter_map(Result::err).collect()
    }

    /// Where the signature of the report goes, if it is known before.
    pub(crate) fn signature(&self) -> Option<PathBuf> {
        self.report.filter(|path| self.sign.is_some() && !is_directory(path)).map(signature_of)
    }

    /// Refuses a key without anything to sign, and a file of another kind where the signature goes.
    pub(crate) fn refuse_unsigned(&self) -> Result<()> {
        let Some(key) = self.sign else { return Ok(()) };
        if self.report.is_none_or(is_page) {
            let finding =
                "it signs the receipt for programs: give --report a file or directory for JSON";
            return Err(Error::finding("sign with", key, finding));
        }
        let place = |path: PathBuf| Destination::new(RecordKind::Signature, &path, &|_| false);
        self.signature().map_or(Ok(()), |path| place(path).map(drop))
    }

    pub(crate) fn report_destination(
        &self,
        task: &Task<'_>,
        started: Timestamp,
    ) -> Result<Option<ReportDestination>> {
        let kind = match task {
            Task::Copy { dry_run: true, .. } => "dry-run",
            task => task.kind(),
        };
        let is_data = |path: &Path| self.content.refuse(path, task).is_err();
        let place = |path| ReportDestination::new(path, kind, started, self.keep_reports, &is_data);
        self.report.map(place).transpose()
    }

    pub(crate) fn page_destination(&self, task: &Task<'_>) -> Result<Option<Destination>> {
        if let Some(path) = self.report_too_many {
            let finding = "a run has one report for programs and one page (.html)";
            return Err(Error::finding("write a further report", path, finding));
        }
        let is_data = |path: &Path| self.content.refuse(path, task).is_err();
        self.page.map(|path| Destination::new(RecordKind::Page, path, &is_data)).transpose()
    }

    pub(crate) fn metrics_destination(&self, task: &Task<'_>) -> Result<Option<Destination>> {
        let is_data = |path: &Path| self.content.refuse(path, task).is_err();
        self.metrics.map(|path| Destination::new(RecordKind::Metrics, path, &is_data)).transpose()
    }
}

impl RecordOptions<'_> {
    /// Refuses `path`, one of these, if it is also the path of something else in the run.
    pub(crate) fn refuse_conflict(&self, path: &Path, task: &Task<'_>) -> Result<()> {
        let own = full(path);
        if path == Path::new("-") {
            let finding =
                "a record is a file, and never standard output; ./- is a file of this name";
            return Err(Error::finding("write to", path, finding));
        }
        if is_device(&own) {
            return Ok(());
        }
        if self.paths().filter(|other| full(other) == own).count() > 1 {
            let finding =
                "the report, the metrics, the log and the list each need a file of their own";
            return Err(Error::finding("write twice to", path, finding));
        }
        if own.file_name().and_then(ManifestName::of_any).is_some() {
            return Err(Error::finding("write to", path, "it has the name of a manifest"));
        }
        if own.ancestors().any(|above| is_private(above, task)) {
            let finding =
                "it is in a private directory of runs, in which they alone write; put it elsewhere";
            return Err(Error::finding("write to", path, finding));
        }
        match task.files().into_iter().find(|(taken, _)| *taken == own && !is_directory(path)) {
            Some((_, what)) => Err(Error::finding("write to", path, what)),
            None => self.content.refuse(path, task),
        }
    }
}

impl Content {
    /// The content of copies, which have one source.
    pub fn of_copies(jobs: &[CopyJob]) -> Self {
        let Some(first) = jobs.first() else { return Self::default() };
        let outputs = VerifyJob::new(jobs.iter().map(|job| &job.output));
        let lists = Some(VerifyJob { state: first.state.clone(), ..outputs });
        let keeps_none = jobs.iter().any(|job| job.mirror.as_ref().is_some_and(|it| it.all));
        Self { filter: first.options.selection.filter.clone(), lists, keeps_none }
    }

    /// The content of a check.
    pub fn of_check(job: &VerifyJob) -> Self {
        Self { filter: Filter::default(), lists: Some(job.clone()), keeps_none: false }
    }

    /// Refuses the path of a record that is in the source, has the name of a file of it at an output, or is listed.
    fn refuse(&self, path: &Path, task: &Task<'_>) -> Result<()> {
        let is_dir = is_directory(path);
        // Any name does for that of a report in a directory.
        let own = if is_dir { full(path).join("report") } else { full(path) };
        let refuse = |finding: &'static str| Err(Error::finding("write to", path, finding));
        if let &Task::Copy { source, outputs, .. } = task {
            let takes_part = |below: &RelPath| !self.filter.leaves_out(below);
            if below(&own, source).is_some_and(|below| takes_part(&below)) {
                return refuse(
                    "it is inside the source, which a copy does not change; put it elsewhere, or leave it out with --exclude",
                );
            }
            let is_in_source = |below: &RelPath| {
                let name = source.file_name().map(|name| name.as_encoded_bytes());
                let is_there = below.full_path(source).symlink_metadata().is_ok();
                takes_part(below) && (is_there || name == Some(below.as_bytes()))
            };
            let mut outputs = outputs.iter().filter_map(|output| below(&own, output)).peekable();
            if self.keeps_none && outputs.peek().is_some_and(takes_part) {
                return refuse(KEEPS_NONE);
            }
            if !is_dir && outputs.any(|below| is_in_source(&below)) {
                return refuse("a file of the source is copied to this name; give another one");
            }
        }
        if let Some(job) = task.covered()
            && below(&own, &job.source).is_some()
        {
            return refuse("it is inside what is to be erased");
        }
        match &self.lists {
            Some(lists) if !is_dir && lists.lists(&own) => {
                refuse("a manifest lists the file of this name; give another one")
            }
            _ => Ok(()),
        }
    }
}

/// True if a directory is private to runs: that of an output, or one that a run made somewhere.
fn is_private(path: &Path, task: &Task<'_>) -> bool {
    let is_output = |above: &Path| match task {
        Task::Copy { outputs, .. } => outputs.iter().any(|output| full(output) == above),
        Task::Check(dirs) => dirs.iter().any(|dir| full(dir) == above),
        Task::Covered(job) => job.paths().any(|place| full(place) == above),
        Task::Stream { .. } => false,
    };
    let has_name = path.file_name().is_some_and(|name| name == NAME);
    has_name && path.parent().is_some_and(is_output)
        || Dir::open(path)
            .is_ok_and(|dir| dir.stat_self().is_ok_and(|there| PrivateDir::is_one(&dir, &there)))
}

/// The place of the canonical path `file` below the directory `root`, if it is below.
fn below(file: &Path, root: &Path) -> Option<RelPath> {
    let below = file.strip_prefix(full(root)).ok()?;
    Some(RelPath::of(below)).filter(|below| !below.is_root())
}

impl Task<'_> {
    /// The files that it reads and writes, each with its part in the run.
    fn files(&self) -> Vec<(PathBuf, &'static str)> {
        let (source, output) = ("it is what is to be copied", "it is an output");
        match self {
            Task::Copy { source: path, .. } => vec![(full(path), source)],
            Task::Stream { inputs, outputs, .. } => {
                let ends = inputs.iter().map(|named| (named, source));
                let ends = ends.chain(outputs.iter().map(|named| (named, output)));
                let files = ends.filter(|(named, _)| **named != Endpoint::Standard);
                files.map(|(named, what)| (full(named.path()), what)).collect()
            }
            Task::Covered(job) => job.paths().map(|path| (full(path), "it is a place")).collect(),
            Task::Check(_) => Vec::new(),
        }
    }
}

/// The canonical path, also of a file that is not there yet.
fn full(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let dir = directory_of(path).canonicalize().unwrap_or_default();
        dir.join(path.file_name().unwrap_or_default())
    })
}

/// True for a device, where several writers do no harm.
fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| !it.is_file() && !it.is_dir())
}

// The environment of the command of `--on-end`. The variables are promised: `docs/guide/scheduled.md` lists them.

impl Records<'_> {
    /// Runs the command that is to be run when a run has ended, if there is one.
    pub(crate) fn tell(&self, end: &Finished<'_>, closing: &Closing<'_>) -> Result<()> {
        let Some(command) = &self.on_end else { return Ok(()) };
        let exit = end.exit();
        let (source, outputs) = self.ends();
        let report = self.report.as_ref().map(|(destination, _)| destination.path());
        let manifest = match end.ran {
            RunResult::Copied(ran) => {
                ran.iter().flatten().find_map(|report| report.manifest.clone())
            }
            RunResult::Streamed(report) => report.list().map(Path::to_path_buf),
            _ => None,
        };
        let path = |path: Option<PathBuf>| path.unwrap_or_default().into_os_string();
        // What names a disk that is not there is no path.
        let is_as_given = |path: &Path| path == Path::new("-") || is_on_named_disk(path);
        let full = |path: &Path| match is_as_given(path) {
            true => path.to_path_buf(),
            false => std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
        };
        let outputs: Vec<OsString> =
            outputs.into_iter().map(|output| full(output).into_os_string()).collect();
        let variables = vec![
            ("DIRCOPY_KIND", self.task.kind().into()),
            ("DIRCOPY_EXIT_CODE", exit.code().to_string().into()),
            ("DIRCOPY_ENDING", exit.name().into()),
            ("DIRCOPY_VERDICT", (closing.verdict)(exit, UNWRITTEN).into()),
            ("DIRCOPY_REPORT", path(report.as_deref().map(full))),
            ("DIRCOPY_MANIFEST", path(manifest.as_deref().map(full))),
            ("DIRCOPY_SOURCE", path(source.map(full))),
            ("DIRCOPY_OUTPUT", outputs.first().cloned().unwrap_or_default()),
            ("DIRCOPY_OUTPUTS", outputs.join(OsStr::new("\n"))),
            (
                "DIRCOPY_JOB",
                self.file.as_ref().map_or_else(OsString::new, |file| file.shown().into()),
            ),
        ];
        command.run(variables, closing.stop, self.json_on_stderr)
    }

    /// The source, of a stream the first input, and the outputs; of a check the directories.
    fn ends(&self) -> (Option<&Path>, Vec<&Path>) {
        match &self.task {
            Task::Copy { source, outputs, .. } => {
                (Some(source), outputs.iter().map(PathBuf::as_path).collect())
            }
            Task::Stream { inputs, outputs, .. } => {
                (inputs.first().map(Endpoint::path), outputs.iter().map(Endpoint::path).collect())
            }
            Task::Check(dirs) => (None, dirs.iter().map(PathBuf::as_path).collect()),
            Task::Covered(job) => (Some(&job.source), job.paths().collect()),
        }
    }
}
