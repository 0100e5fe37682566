//! A check from beginning to end.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::Instant;

use crossbeam_channel::{Receiver, bounded, unbounded};

use crate::error::{Error, Result};
use crate::event::{Observer, Progress, Stop};
use crate::hash::Digest;
use crate::hash::multibuffer::Backend;
use crate::sys::{self, Dir};
use crate::tree::lock::Patience;
use crate::verify::ahead::{Ahead, Order};
use crate::verify::check::{Checker, From};
use crate::verify::copies::Copies;
use crate::verify::count::count;
use crate::verify::finding::{Finding, FindingListener, FindingObserver};
use crate::verify::lines::{Reader, Reads, Told};
use crate::verify::portion::{Budget, Portion};
use crate::verify::report::{Checked, VerifyReport};
use crate::verify::seen::{Key, Seen};
use crate::verify::target::{ManifestAt, Plan, Target};
use crate::verify::unlisted::{self, Known};
use crate::verify::work::Worker;

/// Workers by default where they wait for the device most of the time: small files come four times
/// as fast with eight as with one (measured, two cores). Also the most there are by default.
const MOST_WORKERS: usize = 8;

/// What the counting for the progress is stopped with.
const ENDED: usize = 1;

/// What to check, and how. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug)]
pub struct VerifyJob {
    /// The directories. Without `manifests`, each is checked against the newest finished manifest
    /// of dircopy in it; with them, against each of those.
    pub dirs: Vec<PathBuf>,
    /// Manifests of any program. Without `dirs`, their names start at the directory they are in.
    pub manifests: Vec<ManifestAt>,
    /// Where names start, if elsewhere.
    pub root: Option<PathBuf>,
    /// Also look for files below the root that are not listed.
    pub complete: bool,
    /// Where there is no file of a name, take `\` in it for `/`.
    pub convert_paths: bool,
    /// Where the bytes must come from.
    pub from: From,
    /// How several files are hashed at a time.
    pub backend: Backend,
    /// Check only a portion: what was not verified for the longest time, which is kept in a file beside the
    /// manifest (`docs/manifest.md`). Needs one directory and a manifest that is a regular file, and goes
    /// neither with `complete` nor with `convert_paths`.
    pub budget: Option<Budget>,
    /// With `budget`: if another run is at work on the directory, wait until it ends instead of refusing.
    pub wait: bool,
    /// Workers, if not as many as suit the device and the processor.
    pub jobs: Option<usize>,
    /// In which order files are read, if not as suits the device.
    pub order: Option<Order>,
}

impl VerifyJob {
    /// A job with the defaults of the command line.
    pub fn new(dirs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            dirs: dirs.into_iter().map(Into::into).collect(),
            manifests: Vec::new(),
            root: None,
            complete: false,
            convert_paths: false,
            backend: Backend::best(),
            from: From::default(),
            budget: None,
            wait: false,
            jobs: None,
            order: None,
        }
    }

    /// Runs the check. The stop of `observer` must not serve another run.
    ///
    /// # Errors
    /// The job makes no sense, or another run is at work on what is to be checked in portions. Everything
    /// that goes wrong later is told to `observer` and counted in the report.
    pub fn run(&self, observer: &FindingObserver<'_>) -> Result<VerifyReport> {
        let Observer { progress, stop, listen } = observer;
        let started = Instant::now();
        let plans = self.plans()?;
        let _alone = self.lock(&plans, listen, stop)?;
        let portion = self.budget.map(Portion::new);
        let portion = portion.as_ref();
        let key = Key::default();
        let mut desk = Desk {
            listen,
            key: &key,
            counts: Checked::default(),
            portion,
            last: None,
            answered: 0,
            converted: Seen::default(),
            copies: (plans.len() > 1).then(|| Copies::new(plans.len())),
        };
        let reads = self.run_threads(&plans, &mut desk, progress, stop);
        let nowhere = Arc::new(Target::none());
        if let (Some(portion), Some(target)) = (portion, desk.last.take())
            && let Err(error) = portion.save(&target)
        {
            desk.tell(&target, Finding::Broken(error));
        }
        if let Some(mut reads) = reads {
            desk.answered += portion.map_or(0, Portion::left);
            if reads.given != desk.answered && !stop.is_requested() {
                let (given, answered) = (reads.given, desk.answered);
                let finding = format!(
                    "{given} lines were given out, {answered} are accounted for; \
                     this is a defect of dircopy"
                );
                desk.tell(&nowhere, Finding::Broken(Error::finding("account for", ".", finding)));
            }
            let all_answered = reads.given == desk.answered && !stop.is_requested();
            if let Some(copies) = desk.copies.take().filter(|_| all_answered) {
                let tell = |finding| desk.tell(&nowhere, finding);
                copies.compare(std::mem::take(&mut reads.again), self.convert_paths, stop, tell);
            }
            for listed in &reads.listed {
                let converted = std::mem::take(&mut desk.converted);
                let known = Known { key: &key, manifests: &reads.manifests, converted: &converted };
                unlisted::search(listed, &known, stop, |finding| {
                    desk.tell(&listed.target, finding)
                });
                desk.converted = converted;
            }
        }
        Ok(VerifyReport {
            counts: desk.counts,
            covered: portion.and_then(Portion::covered),
            interrupted: stop.requested(),
            elapsed: started.elapsed(),
        })
    }

    /// Keeps other runs away from what is checked in portions: a copy that replaces files meanwhile would
    /// make them differ from the manifest that was read, and another check would forget what this one
    /// verified.
    fn lock(
        &self,
        plans: &[Plan],
        listen: &FindingListener<'_>,
        stop: &Stop,
    ) -> Result<Option<Dir>> {
        let (Some(_), [plan]) = (self.budget, plans) else { return Ok(None) };
        let root = plan.names_start_at();
        // One that cannot be opened is told of when its manifest is.
        let Ok(dir) = Dir::open(&root) else { return Ok(None) };
        let tell = |text: &str| listen(&Target::none(), &Finding::Waiting(text.to_owned()));
        let deed = "check in portions";
        Patience { wait: self.wait, deed, tell: &tell, stop }.lock(&dir, &root)?;
        Ok(Some(dir))
    }

    /// Each manifest with each root.
    fn plans(&self) -> Result<Vec<Plan>> {
        let root = &self.root;
        let dirs: Vec<Option<PathBuf>> = match (&self.dirs[..], self.manifests.is_empty()) {
            ([], true) => vec![Some(".".into())],
            ([], false) => vec![None],
            (dirs, _) => dirs.iter().cloned().map(Some).collect(),
        };
        let stdin = self.manifests.iter().filter(|m| **m == ManifestAt::StandardInput).count();
        if stdin * dirs.len() > 1 {
            let finding = "it can be read once only: give it once, and one directory";
            return Err(Error::finding("check against", "standard input", finding));
        }
        if self.budget.is_some() && (dirs.len() > 1 || self.manifests.len() > 1 || stdin > 0) {
            let finding =
                "one directory and one manifest that is a file can be checked so, each run";
            return Err(Error::finding("check in portions", "several of them", finding));
        }
        if self.budget.is_some() && (self.complete || self.convert_paths) {
            let finding = "a portion is neither complete nor of other names than those listed";
            return Err(Error::finding("check in portions", ".", finding));
        }
        let plan = |manifest: Option<ManifestAt>, dir: &Option<PathBuf>| Plan {
            manifest,
            dir: dir.clone(),
            root: root.clone(),
        };
        if self.manifests.is_empty() {
            return Ok(dirs.iter().map(|dir| plan(None, dir)).collect());
        }
        let of_all = |dir| self.manifests.iter().map(move |m| plan(Some(m.clone()), dir));
        Ok(dirs.iter().flat_map(of_all).collect())
    }

    /// How many workers there are, and in which order they read.
    fn workers(&self, plans: &[Plan]) -> (usize, Order) {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let turns = |plan: &Plan| {
            Dir::open(&plan.names_start_at()).is_ok_and(|root| sys::is_on_turning_disk(&root))
        };
        let (workers, order) = match self.from {
            From::Cache => (cores().min(MOST_WORKERS), Order::LargeFirst),
            From::Medium if plans.iter().any(turns) => (1, Order::AsOnDisk),
            From::Medium => (MOST_WORKERS, Order::LargeFirst),
        };
        (self.jobs.unwrap_or(workers).max(1), self.order.unwrap_or(order))
    }

    fn run_threads(
        &self,
        plans: &[Plan],
        desk: &mut Desk<'_>,
        progress: &Progress,
        stop: &Stop,
    ) -> Option<Reads> {
        let (workers, order) = self.workers(plans);
        let (tasks, for_workers) = bounded(2 * workers);
        let (told, inbox) = bounded(2 * workers);
        let (sending, tokens) = unbounded();
        let ahead = Arc::new(Mutex::new(Ahead::new(order)));
        let counting = Stop::default();
        let nowhere = Arc::new(Target::none());
        let broken = |desk: &mut Desk<'_>, error| desk.tell(&nowhere, Finding::Broken(error));
        scope(|scope| {
            let mut threads: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
            let mut reader = None;
            let mut start_all = || {
                for number in 0..workers {
                    let checker = Checker::new(self.from, self.convert_paths, progress, stop);
                    let checker = checker.with(self.backend);
                    let worker = Worker {
                        checker,
                        order,
                        large_together: self.from == From::Cache,
                        workers,
                        portion: desk.portion,
                        ahead: Arc::clone(&ahead),
                        progress,
                        stop,
                        tokens: tokens.clone(),
                        told: told.clone(),
                    };
                    let (for_workers, sending) = (for_workers.clone(), sending.clone());
                    let thread = Builder::new().name(format!("check-{number}"));
                    threads.push(
                        thread.spawn_scoped(scope, move || worker.work(&for_workers, sending))?,
                    );
                }
                let (key, complete, again) = (desk.key, self.complete, desk.copies.is_some());
                let (tasks, told) = (tasks.clone(), told.clone());
                let portion = desk.portion;
                let read = Reader { key, complete, again, portion, stop, tasks, told };
                let thread = Builder::new().name("lines".into());
                reader = Some(thread.spawn_scoped(scope, move || read.work(plans))?);
                if progress.watched.load(Relaxed) && desk.portion.is_none() {
                    let thread = Builder::new().name("count".into());
                    thread.spawn_scoped(scope, || count(plans, progress, &counting))?;
                }
                Ok(())
            };
            if let Err(error) = start_all() {
                broken(desk, Error::io("start the threads for", ".", error));
            }
            drop((tasks, told, for_workers, sending, tokens, ahead));
            desk.take_all(&inbox);
            drop(inbox);
            counting.request(ENDED);
            for thread in threads {
                if thread.join().is_err() {
                    let finding = "a thread died; this is a defect of dircopy";
                    broken(desk, Error::finding("finish the check of", ".", finding));
                }
            }
            match reader.map(ScopedJoinHandle::join) {
                Some(Ok(reads)) => Some(reads),
                Some(Err(_)) => {
                    let finding = "the thread that reads them died; this is a defect of dircopy";
                    broken(desk, Error::finding("read the manifests of", ".", finding));
                    None
                }
                None => None,
            }
        })
    }
}

/// Where findings are counted and told.
struct Desk<'a> {
    listen: &'a FindingListener<'a>,
    key: &'a Key,
    counts: Checked,
    /// What is to be checked, if not all, and the target of it.
    portion: Option<&'a Portion>,
    last: Option<Arc<Target>>,
    /// Lines that workers answered.
    answered: u64,
    /// Names that were found by another spelling.
    converted: Seen,
    /// The directories as copies of each other, if there are several.
    copies: Option<Copies>,
}

impl Desk<'_> {
    fn take_all(&mut self, inbox: &Receiver<Told>) {
        for (target, findings) in inbox {
            if let Some(portion) = self.portion {
                for finding in &findings {
                    portion.hear(finding);
                }
                if let Err(error) = portion.save_now_and_then(&target) {
                    self.tell(&target, Finding::Broken(error));
                }
                self.last = Some(Arc::clone(&target));
            }
            for finding in findings {
                self.answered += u64::from(matches!(finding, Finding::File { .. }));
                if let Finding::Converted { to, line, .. } = &finding {
                    self.converted.note(self.key.of(to), *line, &Digest([0; 32]));
                }
                self.tell(&target, finding);
            }
        }
    }

    fn tell(&mut self, target: &Target, finding: Finding) {
        self.counts.add(&finding);
        if let Some(copies) = &mut self.copies {
            copies.note(target, &finding);
        }
        (self.listen)(target, &finding);
    }
}
