//! A check by `dircopy verify`, `dirverify`, `dircopy heal` or `dircopy protect`, from its arguments to its exit code.

use std::sync::{Arc, Mutex, atomic::AtomicBool, atomic::AtomicU64, atomic::Ordering::Relaxed};
use std::{ffi::OsString, fs::File, io::BufWriter, io::Write, path::Path, path::PathBuf};

use crate::cli::record::files::{close_if_another, open_ours_to_append};
use crate::cli::record::task::{Content, RecordOptions, RunResult, Task};
use crate::error::Deed;
use crate::{
    cli::args::unattended::RecordArgs, cli::args::values::VerbosityArgs,
    cli::args::verify::HealArgs, cli::args::verify::ProtectArgs, cli::args::verify::VerifyArgs,
    cli::exit::Exit, cli::record::entry::RecordEntry, cli::session::Session, cli::session::Setup,
    cli::show::Detail, cli::show::copy_messages::Gathered, cli::show::copy_messages::LineKind,
    cli::show::rows::typed, cli::show::rows::warn, cli::show::verify_messages::VerifyMessages,
    cli::show::verify_messages::summary, cli::show::verify_messages::verdict, cli::span::Asking,
    cli::words, copy::GenerationSet, copy::generations::newest::Untaken,
    copy::generations::newest::latest, copy::generations::set::path_of, error::Error,
    error::Result, event::Observer, event::Progress, event::Stop, heal::ProtectJob,
    manifest::read::escape, span::FoundInIndex, span::OpenSpan, span::SpanCheck,
    span::is_empty_disk, state::DatedName, state::LATEST, state::UNFINISHED, sys, sys::Dir,
    sys::Uninterrupted, verify::DirProof, verify::Finding, verify::FindingObserver,
    verify::MergeJob, verify::Rival, verify::Target, verify::Verdict, verify::VerifyJob,
    verify::VerifyReport,
};

/// The setup of a check, whether it makes files whole or not.
struct Checking<'a> {
    /// The program's name.
    name: &'static str,
    dirs: &'a [PathBuf],
    verbosity: &'a VerbosityArgs,
    records: &'a RecordArgs,
    convert: bool,
    /// The list of files that failed, and whether paths in it end with NUL.
    list: Option<&'a Path>,
    null: bool,
    /// True if files are read, and not only results of shards.
    reads: bool,
    to_come: Option<&'a mut ToCome>,
}

/// The disks of a span that are not here yet: each is checked when it comes, by itself.
struct ToCome {
    args: VerifyArgs,
    disks: Vec<PathBuf>,
    /// By what those are known that were checked.
    checked: Vec<String>,
}

impl ToCome {
    /// Asks for the next one at a terminal, and prepares the check of those that came.
    fn ask(&mut self, asking: &mut Asking<'_>) -> Option<Round> {
        let wanted = self.disks.first()?.clone();
        let mut found = Vec::new();
        let look = || {
            found = self.disks.iter().filter(|disk| !words::is_absent(disk)).cloned().collect();
            !found.is_empty()
        };
        let why = "it is not checked yet";
        asking.ask(&wanted, why, look).then(|| Round::of(&self.args, found, &self.checked))
    }
}

/// What is checked at a time.
struct Round {
    job: VerifyJob,
    untaken: Vec<Finding>,
    span: Result<Option<OpenSpan>>,
    /// True if each file of disks that are not here is named.
    names: bool,
    /// What was given and is nothing but empty.
    is_of_nothing: bool,
}

impl Round {
    /// The check of these directories. Disks of the span were `checked` before.
    fn of(args: &VerifyArgs, dirs: Vec<PathBuf>, checked: &[String]) -> Self {
        let mut args = VerifyArgs { dirs, ..args.clone() };
        let located = words::locate_all([&mut args.dirs], "check");
        let (mut job, mut untaken) = each_generation(args.job());
        let span = args.span_check().map(|span| SpanCheck { before: checked.to_vec(), ..span });
        let span = located.and_then(|()| span.as_ref().map(SpanCheck::open).transpose());
        // The look at the index tells of those of a span. What is there and not listed is found all the same.
        let mut is_empty = |dir: &mut PathBuf| match &span {
            Ok(Some(span)) => !args.complete && span.has_no_file(dir),
            _ => is_empty_disk(dir, args.state.as_deref()) == Some(true),
        };
        let nothing: Vec<PathBuf> = job.dirs.extract_if(.., &mut is_empty).collect();
        untaken.extend(nothing.iter().filter(|_| !args.span).map(|dir| {
            let finding = "it is a disk of a span that has no file yet: dircopy verify --span checks it with the others";
            Finding::Unusable(Error::finding("check", dir, finding))
        }));
        let names = matches!(args.verbosity.detail(), Detail::Verbose);
        let is_of_nothing = !nothing.is_empty() && job.dirs.is_empty();
        Self { job, untaken, span, names, is_of_nothing }
    }

    /// Checks it; by what the disks are known that are here.
    fn run(
        self,
        merge: Option<&MergeJob>,
        observer: &FindingObserver<'_>,
    ) -> Result<(VerifyReport, Vec<String>)> {
        let span = self.span?;
        let mut report = match merge {
            Some(merge) => merge.run(observer),
            None if self.is_of_nothing => Ok(VerifyReport::default()),
            None => self.job.run(observer),
        }?;
        let mut tell = |finding: &Finding| {
            report.counts.add(finding);
            (observer.listen)(&Target::none(), finding);
        };
        self.untaken.iter().filter(|_| merge.is_none()).for_each(&mut tell);
        if let Some(span) = span.as_ref().filter(|_| !observer.stop.is_requested()) {
            span.look(|found| of_index(found, self.names).iter().for_each(&mut tell))?;
        }
        Ok((report, span.iter().flat_map(OpenSpan::names).cloned().collect()))
    }
}

/// Runs the check, as the program of this name.
pub fn verify(name: &'static str, args: &VerifyArgs, command: &[OsString]) -> Exit {
    let mut args = args.clone();
    // Without any disk there is nothing to check.
    let is_any_here = args.dirs.iter().any(|dir| !words::is_absent(dir));
    let is_to_come = |dir: &mut PathBuf| args.span && is_any_here && words::is_absent(dir);
    let disks: Vec<PathBuf> = args.dirs.extract_if(.., is_to_come).collect();
    let mut to_come = ToCome { args: args.clone(), disks, checked: Vec::new() };
    // What cannot be located is told by the run.
    let _ = words::locate_all([&mut args.dirs], "check");
    let (round, merge) = (Round::of(&args, args.dirs.clone(), &[]), args.merge_job());
    if let Ok(Some(span)) = &round.span {
        to_come.disks.retain(|disk| !span.is_unused(disk));
    }
    let checking = Checking {
        name,
        convert: args.convert_paths,
        list: args.list_failed.as_deref(),
        null: args.null,
        reads: args.shards.merge.is_none(),
        to_come: Some(&mut to_come),
        ..Checking::of(&args.dirs, &args.verbosity, &args.records)
    };
    let job = round.job.clone();
    checking.run(command, &job, |observer| round.run(merge.as_ref(), observer))
}

/// What the look at the index of a span found, as a finding; files of disks that are not here where their `names` are
/// to be told.
fn of_index(found: FoundInIndex, names: bool) -> Option<Finding> {
    match found {
        FoundInIndex::Amiss(error) => Some(Finding::Unusable(error)),
        FoundInIndex::Notice(error) => Some(Finding::Notice(error)),
        FoundInIndex::Elsewhere(error) => names.then_some(Finding::Notice(error)),
    }
}

/// The same check, with all generations in place of a directory that has generations and no manifest. A directory that
/// only has the name of one is checked too, and named.
fn each_generation(job: VerifyJob) -> (VerifyJob, Vec<Finding>) {
    let mut untaken = Vec::new();
    if !job.manifests.is_empty() || job.root.is_some() {
        return (job, untaken);
    }
    let here = [PathBuf::from(".")];
    let given = if job.dirs.is_empty() { &here[..] } else { &job.dirs };
    let mut dirs = Vec::with_capacity(given.len());
    for dir in given {
        untaken.extend(Untaken::at(dir).map(untaken_as_one));
        let read = |root: Dir| {
            let mut set = GenerationSet::read(&root, dir).ok()?;
            set.look_at_newest(&root, dir);
            let is_others = set.is_of_another_user(&root);
            Some((set, latest(&root), is_others))
        };
        let (mut set, latest, is_others) = Dir::open(dir).ok().and_then(read).unwrap_or_default();
        let is_recorded = || DirProof::of(dir, job.state.as_deref()) == DirProof::Recorded;
        let is_untold = !set.unread.is_empty() || set.unrecorded.is_some();
        if is_untold && !is_recorded() {
            untaken.extend(set.unread.drain(..).map(|(_, error)| Finding::Broken(error)));
            let told = if set.lost_record { Finding::Unusable } else { Finding::Warning };
            untaken.extend(set.unrecorded.take().map(told));
        }
        let lost = set.lost.take();
        let lost = lost.filter(|(name, _)| latest != Some(*name) || set.complete.contains(name));
        let is_lost = lost.is_some();
        untaken.extend(lost.map(|(_, error)| Finding::Unusable(error)));
        let has_none =
            set.complete.is_empty() && set.misnamed.is_empty() && set.misplaced.is_empty();
        if (has_none && !is_others) || is_recorded() {
            // Where no generation was finished the tree of one has the manifest of its run.
            let unfinished = set.unfinished.last().filter(|_| has_none);
            let tree = unfinished.map(|name| dir.join(format!("{name}{UNFINISHED}")));
            untaken.extend(tree.as_deref().map(unfinished_one));
            dirs.push(tree.unwrap_or_else(|| dir.clone()));
            continue;
        }
        // One that is not there, or is no run's, leads nowhere.
        let led = latest.filter(|_| !is_lost);
        let led = led.and_then(|to| set.latest_untaken(&dir.join(LATEST), Some(to)));
        untaken.extend(led.map(untaken_as_one));
        let named = set.named(dir);
        untaken.extend(set.misplaced.drain(..).map(|(_, error)| Finding::Unusable(error)));
        let mut tell = |name: DatedName| {
            let is_latest = latest == Some(name);
            untaken.push(untaken_as_one(Untaken::without_record(&path_of(dir, name), is_latest)));
        };
        latest.filter(|name| !named.contains(name)).into_iter().for_each(&mut tell);
        for name in named {
            // Of each the check says that its record is another user's.
            if !is_others && set.foreign.contains(&name) {
                tell(name);
            }
            dirs.push(path_of(dir, name));
        }
    }
    (VerifyJob { dirs, ..job }, untaken)
}

/// The notice of a tree that is checked although its run did not make a generation of it.
fn unfinished_one(path: &Path) -> Finding {
    let finding = "its run did not complete it, and there is no generation; what it has is checked";
    Finding::Notice(Error::finding("take for a generation", path, finding))
}

/// The finding about a directory that only has the name of a generation.
fn untaken_as_one(Untaken { error, is_bad }: Untaken) -> Finding {
    match is_bad {
        true => Finding::Unusable(error),
        false => Finding::Notice(error),
    }
}

/// Refuses a directory that only has the name of a generation, as `restore` does: what is written by its list would be
/// of a list that no run of this user's finished there.
fn refuse_untaken(dirs: &[PathBuf], deed: &'static str) -> Result<()> {
    let untaken = dirs.iter().find_map(|dir| Untaken::at(dir));
    untaken.map_or(Ok(()), |it| Err(it.error.of_deed(deed)))
}

/// Runs `dircopy heal`.
pub fn heal(args: &HealArgs, command: &[OsString]) -> Exit {
    let mut args = args.clone();
    let located = words::locate_all([&mut args.trees, &mut args.from_tree], "heal");
    let dirs = &args.trees;
    let (checking, job) = (Checking::of(dirs, &args.verbosity, &args.records), args.job());
    checking.run(command, &job.check, |observer| {
        located?;
        if job.check.manifests.is_empty() {
            let note = "; a list that was kept elsewhere makes it whole (--manifest LIST)";
            refuse_untaken(dirs, "heal").map_err(|error| error.with_note(note))?;
        }
        Ok((job.run(observer)?, Vec::new()))
    })
}

/// Runs `dircopy protect`.
pub fn protect(args: &ProtectArgs, command: &[OsString]) -> Exit {
    let mut args = args.clone();
    let located = words::located(&args.dir, "protect").map(|dir| args.dir = dir);
    let dirs = std::slice::from_ref(&args.dir);
    let (checking, job) = (Checking::of(dirs, &args.verbosity, &args.records), args.job());
    checking.run(command, &job.check, |observer| {
        located?;
        refuse_untaken(dirs, "protect")?;
        Ok((job.run(observer)?, Vec::new()))
    })
}

/// Gives trees that were copied parity, as the last step of the copy (`--parity`), and tells what is found of each.
pub fn protect_copied(
    jobs: &[ProtectJob],
    session: &Session<'_>,
    detail: Detail,
) -> Vec<Result<VerifyReport>> {
    let messages = VerifyMessages { name: "dircopy", detail, convert: false };
    let reporter = VerifyReporter::new(messages, session, None);
    let listen = |target: &Target, finding: &Finding| reporter.finding(target, finding);
    let progress: Vec<Arc<Progress>> = jobs.iter().map(|_| Arc::default()).collect();
    let protect = |(job, progress): (&ProtectJob, &Arc<Progress>)| {
        let (progress, stop) = (Arc::clone(progress), session.stop.clone());
        job.run(&Observer { progress, stop, listen: &listen })
    };
    let ran = session.run(&progress, None, || jobs.iter().zip(&progress).map(protect).collect());
    session.console.rest(&reporter.gathered, None);
    reporter.tell_rest();
    ran
}

impl<'a> Checking<'a> {
    /// That of `dircopy` over these directories.
    fn of(dirs: &'a [PathBuf], verbosity: &'a VerbosityArgs, records: &'a RecordArgs) -> Self {
        let (name, list, to_come) = ("dircopy", None, None);
        Self {
            name,
            dirs,
            verbosity,
            records,
            list,
            to_come,
            convert: false,
            null: false,
            reads: true,
        }
    }

    /// Runs the check; what `run` returns beside its report is by what disks are known that were checked.
    fn run(
        self,
        command: &[OsString],
        check: &VerifyJob,
        run: impl FnOnce(&FindingObserver<'_>) -> Result<(VerifyReport, Vec<String>)>,
    ) -> Exit {
        let Self { name, dirs, list, mut to_come, .. } = self;
        let detail = self.verbosity.detail();
        let opened = Session::open(Setup {
            options: RecordOptions {
                list,
                content: Content::of_check(check),
                ..self.records.options(name, detail)
            },
            view: self.verbosity.view(),
            aside: false,
            task: Task::Check(dirs),
            command,
        });
        let session = match opened {
            Ok(session) => session,
            Err(exit) => return exit,
        };
        let create = |path| FailedList::create(path, self.null, check);
        let failed = match list.map(create).transpose() {
            Ok(failed) => failed,
            Err(refused) => return session.end_refused(&refused),
        };
        let messages = VerifyMessages { name, detail, convert: self.convert };
        let reporter = VerifyReporter::new(messages, &session, failed);
        let mut ran = reporter.follow(check, self.reads, run);
        let mut asking = Asking::at(&session);
        while let (Ok((report, checked)), Some(to_come)) = (&mut ran, &mut to_come)
            && report.interrupted.is_none()
        {
            to_come.checked.append(checked);
            let Some(next) = to_come.ask(&mut asking) else { break };
            let job = next.job.clone();
            match reporter.follow(&job, true, |observer| next.run(None, observer)) {
                Ok((later, names)) => {
                    report.join(later);
                    checked.extend(names);
                    to_come.disks.retain(|disk| words::is_absent(disk));
                }
                // It is asked for again.
                Err(refused) => session.console.refused(&refused),
            }
        }
        reporter.tell_rest();
        let report = match &ran {
            Ok((report, _)) => report,
            Err(refused) => return session.end_refused(refused),
        };
        let is_of_part = reporter.is_of_part.load(Relaxed);
        let list_written = reporter.close_list();
        let says = detail != Detail::Quiet;
        if says {
            session.console.out_rows(summary(report, check));
        }
        let exit = Exit::of_check(report, list_written && session.console.all_written());
        let left = to_come.as_ref().map_or(&[][..], |to_come| &to_come.disks);
        let exit = match (exit, left) {
            (Exit::Complete, [_, ..]) => Exit::NextDisk,
            (exit, _) => exit,
        };
        let is_quiet = !says && exit != Exit::NextDisk;
        session.end(&RunResult::Checked(report), exit, is_quiet, |exit, amiss| {
            if exit == Exit::NextDisk {
                return next_disk(left, exit);
            }
            let verdict = verdict(report, check, exit, amiss);
            match is_of_part && exit == Exit::Complete {
                true => format!("{verdict}, but the last copy was not complete"),
                false => verdict,
            }
        })
    }
}

/// The last line where disks are to come.
fn next_disk(to_come: &[PathBuf], exit: Exit) -> String {
    let names: Vec<String> = to_come.iter().map(|disk| typed(disk)).collect();
    let text = format!(
        "what is here is good; not here: {}; each may be checked by itself: dircopy verify --span {}",
        names.join(", "),
        names.first().map_or("", |name| name)
    );
    warn("NEXT DISK", exit, &text)
}

/// Number of useless lines of lists that are named; the others are counted. A list may be anyone's, and its lines
/// shorter than what is said of each.
const MOST_NAMED: u64 = 100;

/// Hands the findings to the screen, the records and the list of failed files.
struct VerifyReporter<'a> {
    messages: VerifyMessages,
    session: &'a Session<'a>,
    failed: Option<FailedList>,
    gathered: Gathered,
    /// Lines that are of no use so far.
    unusable: AtomicU64,
    /// True if a copy that is checked was not complete.
    is_of_part: AtomicBool,
}

impl<'a> VerifyReporter<'a> {
    fn new(messages: VerifyMessages, session: &'a Session<'a>, failed: Option<FailedList>) -> Self {
        let (gathered, unusable, is_of_part) = Default::default();
        Self { messages, session, failed, gathered, unusable, is_of_part }
    }

    /// Runs a check, whose files are read if it `reads`, shows how far it is and tells what it finds.
    fn follow<R>(
        &self,
        check: &VerifyJob,
        reads: bool,
        run: impl FnOnce(&FindingObserver<'_>) -> R,
    ) -> R {
        let listen = |target: &Target, finding: &Finding| self.finding(target, finding);
        let stop = self.session.stop.clone();
        let count = |progress: &Progress, stop: &Stop| {
            if reads {
                check.count(progress, stop);
            }
        };
        let run = |progress| run(&Observer { progress, stop, listen: &listen });
        let ran = self.session.run_one(Some(&count), run);
        self.session.console.rest(&self.gathered, None);
        ran
    }

    /// True if a finding is told; one of too many alike is not.
    fn is_told(&self, finding: &Finding) -> bool {
        let is_of_line = matches!(finding, Finding::Malformed { .. } | Finding::Refused { .. });
        !is_of_line || self.unusable.fetch_add(1, Relaxed) < MOST_NAMED
    }

    /// Says how many lines were not named.
    fn tell_rest(&self) {
        let more = self.unusable.load(Relaxed).saturating_sub(MOST_NAMED);
        if more > 0 {
            let finding = format!("{more} more are not named, only counted");
            let error = Error::finding("use every line of", "the list", finding);
            self.session.console.error("warning", "warning: ", &error);
            self.session.records.warn(&error);
        }
    }

    /// True if all of the list was written.
    fn close_list(self) -> bool {
        let written = self.failed.is_none_or(FailedList::close);
        if !written {
            let text = format!("{}: cannot write the list of failed files", self.messages.name);
            self.session.console.err(&text);
        }
        written
    }

    fn finding(&self, target: &Target, finding: &Finding) {
        if !self.is_told(finding) {
            return;
        }
        if matches!(finding, Finding::Rival(Rival::NotAll(_))) {
            self.is_of_part.store(true, Relaxed);
        }
        let line = self.messages.of(target, finding);
        self.session.records.finding(target, finding, line.as_ref());
        let (console, kind) = (&self.session.console, LineKind::of_finding(finding));
        if let Some(line) = &console.unless_gathered(line, kind, &self.gathered) {
            console.entry(line, || RecordEntry::found(target, finding).0);
        }
        let failed = match finding {
            // A refused name is no path of a file.
            Finding::File { verdict: Verdict::Good(_) | Verdict::Refused(_), .. } => None,
            Finding::File { path, .. } => Some(path),
            _ => None,
        };
        if let (Some(list), Some(path)) = (&self.failed, failed) {
            list.add(&target.path_of(path), || RecordEntry::found(target, finding).0);
        }
    }
}

/// The form of a list of files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListForm {
    /// A path on each line.
    Lines,
    /// Paths that end with NUL.
    Null,
    /// The report's entry of each, on a line.
    Json,
}

impl ListForm {
    fn of(path: &Path, null: bool) -> Self {
        match path.extension() {
            _ if null => ListForm::Null,
            Some(extension) if extension == "json" || extension == "jsonl" => ListForm::Json,
            _ => ListForm::Lines,
        }
    }

    /// True if a list with this beginning is one of this form about what this check may find.
    fn begins(self, begin: &[u8], check: &VerifyJob) -> bool {
        let is_below = |root: &Path| {
            // Paths below here have no beginning of their own, and any line may be one.
            let root = if root.as_os_str() == "." { Path::new("") } else { root };
            let start = root.join("").into_os_string().into_encoded_bytes();
            let mut escaped = Vec::new();
            escape::escape(&start, &mut escaped);
            match self {
                ListForm::Null => begin.contains(&0) && begin.starts_with(&start),
                _ => !escaped.is_empty() && begin.starts_with(&escaped),
            }
        };
        match self {
            ListForm::Json => begin.starts_with(br#"{"event":""#),
            _ => check
                .specs()
                .is_ok_and(|specs| specs.iter().any(|spec| is_below(&spec.names_start_at()))),
        }
    }
}

/// The list of the files that failed, for scripts.
struct FailedList {
    file: Mutex<BufWriter<Uninterrupted<File>>>,
    form: ListForm,
    whole: AtomicBool,
}

impl FailedList {
    fn create(path: &Path, null: bool, check: &VerifyJob) -> Result<Self> {
        let form = ListForm::of(path, null);
        let is_none = "is no list of what failed in this check";
        let is_ours = |begin: &[u8]| form.begins(begin, check);
        let file = open_ours_to_append("make", path, is_none, is_ours)?;
        close_if_another(&file, path).deed("make", path)?;
        if file.metadata().is_ok_and(|it| it.is_file()) {
            file.set_len(0).deed("make", path)?;
        }
        let file = Mutex::new(BufWriter::new(Uninterrupted(file)));
        Ok(Self { file, form, whole: AtomicBool::new(true) })
    }

    fn add<'e>(&self, path: &Path, entry: impl FnOnce() -> RecordEntry<'e>) {
        let bytes = path.as_os_str().as_encoded_bytes();
        let mut line = Vec::new();
        match self.form {
            ListForm::Null => line.extend_from_slice(bytes),
            ListForm::Lines => escape::escape(bytes, &mut line),
            // Writing to memory does not fail.
            ListForm::Json => drop(serde_json::to_writer(&mut line, &entry())),
        }
        line.push(if self.form == ListForm::Null { 0 } else { b'\n' });
        let written =
            self.file.lock().is_ok_and(|mut file| sys::write_all(&mut *file, &line).is_ok());
        self.whole.fetch_and(written, Relaxed);
    }

    /// True if all of it was written.
    fn close(self) -> bool {
        let flushed = self.file.lock().is_ok_and(|mut file| file.flush().is_ok());
        flushed && self.whole.load(Relaxed)
    }
}
