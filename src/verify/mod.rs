//! Checking a tree against its manifest.
//!
//! One thread reads the manifests and hands out their lines in batches. Workers look at the files, and
//! then open and hash them. The thread that runs the job tells the findings. Memory is bounded by the
//! queues and the look-ahead queue, but for 16 bytes and some slack for each line, by which a name that is
//! listed twice is noticed.

mod bag;
mod budget;
mod choice;
mod covered;
mod doubts;
mod expand;
mod finding;
mod history;
mod late;
mod lines;
mod list_diff;
mod nearby;
mod own_lists;
mod parity;
mod rival;
mod scrub;
mod several;
mod shards;
mod shared;
mod target;
mod unlisted;
mod work;

pub use budget::Budget;
pub use choice::{DirProof, OwnManifests, has_own_manifest};
pub use covered::{
    AtLeast, CoveredJob, CoveredReport, Found, FoundAt, PROOFS, PlaceAsked, PlaceReport, Proof,
    Standing,
};
pub(crate) use covered::{Recorded, Tree, is_enough, refuse_index, time_of_list};
pub(crate) use doubts::FoundBad;
pub(crate) use expand::{Bag, Expanded, expand};
pub(crate) use finding::Findings;
pub use finding::{
    BagVerdict, Checked, Comparison, Finding, FindingListener, FindingObserver, Mend, TreeVerdict,
    Verdict, VerifyReport, Witness,
};
pub use history::PartOf;
pub use lines::{
    manifest_lines::ManifestLine, manifest_lines::ManifestLines, manifest_lines::Meaning,
    seen::NameHasher, seen::SeenNames, shards::CheckShard,
};
pub use list_diff::{DiffJob, DiffReport, Difference, kept_by_runs};
pub(crate) use nearby::near;
pub use nearby::output_near;
pub use rival::Rival;
pub use scrub::Coverage;
pub use shards::{ShardCoverage, ShardOfCheck, merge::MergeJob};
pub use target::{ManifestAt, Target, TargetSpec};
pub(crate) use unlisted::lists_by_name;
pub use work::{ReadFrom, threads::ReadOrder};

use std::{path::Path, path::PathBuf, sync::Arc, time::Instant};

use crate::{
    error::Error, error::Result, event::Observer, event::Progress, event::Stop, hash::Backend,
    hash::Sha256, hash::hasher::refuse_miscomputing, io::LinkReads, io::link_check::Helpers,
    manifest::archive::mhl::is_chain, staged::refuse_moved, state::Missing, state::PrivateDir,
    state::plugs::Replugged, sys, sys::Dir, tree::Patience, verify::bag::BagNames,
    verify::finding::count, verify::late::LateReading, verify::lines::LinesRead,
    verify::lines::seen::ListedRoot, verify::lines::shards::LinesWanted, verify::scrub::Scrub,
    verify::several::CheckedTrees, verify::shards::ShardNotes, verify::shards::ShardRun,
    verify::shards::only_as_a_whole, verify::shared::SharedReads, verify::unlisted::ListedNames,
    verify::work::Checker, verify::work::linked::LinkChecker, verify::work::linked::MadeStates,
    verify::work::threads::Collector, verify::work::threads::Threads,
    verify::work::worker::Division,
};

// A check from beginning to end.

/// Workers by default where they wait for the device most of the time: small files come four times
/// as fast with eight as with one (measured, two cores). Also the most there are by default.
const MOST_WORKERS: usize = 8;

/// A check: the targets, and the way they are checked. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug, Default)]
pub struct VerifyJob {
    /// The directories. Without `manifests`, each is checked against the manifest of dircopy in it that
    /// this user's last run finished, or else the finished one with the latest name; with them, against
    /// each of those.
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
    pub from: ReadFrom,
    /// The way to hash several files at a time.
    pub backend: Backend,
    /// Scrub: check only the files that were not verified for the longest time. When each file was verified is kept
    /// in a file beside the manifest (`docs/manifest.md`). Needs one directory and a manifest that is a regular file,
    /// and goes neither with `complete` nor with `convert_paths`.
    pub budget: Option<Budget>,
    /// With `budget`: if another run is at work on the directory, wait until it ends instead of refusing.
    pub wait: bool,
    /// Where the private directories of checked directories are kept; in these themselves without.
    pub state: Option<PathBuf>,
    /// Workers, if not as many as suit the device and the processor.
    pub jobs: Option<usize>,
    /// Beside each manifest, make states of the large files that have none and prove good.
    pub write_states: bool,
    /// In which order files are read, if not as suits the device.
    pub order: Option<ReadOrder>,
    /// Check only this shard, and leave a result of it. Needs one directory, one manifest that is a regular file, and
    /// none of `complete`, `convert_paths`, `budget` and `write_states`.
    pub shard: Option<ShardOfCheck>,
}

impl VerifyJob {
    /// A job with the defaults of the command line.
    pub fn new(dirs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let dirs = dirs.into_iter().map(Into::into).collect();
        Self { dirs, ..Self::default() }
    }

    /// Runs the check. The stop of `observer` must not serve another run.
    ///
    /// # Errors
    /// The job makes no sense, or another run is at work on what is to be scrubbed. Everything that goes
    /// wrong later is told to `observer` and counted in the report.
    pub fn run(&self, observer: &FindingObserver<'_>) -> Result<VerifyReport> {
        self.run_with_parity(expand(self.specs()?), observer)
    }

    /// Runs the check of what was asked for, where archives are the lists that they have. The private directories of
    /// what is checked may be `held` already.
    ///
    /// # Errors
    /// Fails as [`run`](Self::run) does.
    pub(crate) fn run_on(
        &self,
        expanded: Expanded,
        held: bool,
        observer: &FindingObserver<'_>,
    ) -> Result<VerifyReport> {
        let Observer { progress, stop, listen } = observer;
        self.try_hashing()?;
        let started = Instant::now();
        let Expanded { specs, bags, findings } = expanded;
        if self.budget.is_some() && (specs.len() != 1 || !bags.is_empty()) {
            return Err(only_as_a_whole("scrub", &specs, &bags));
        }
        let shard = self.shard.as_ref().map(|it| ShardRun::begin(it, &specs, &bags)).transpose()?;
        let lock = self.lock(&specs, listen, stop)?;
        let scrub = self.budget.map(|budget| Scrub::new(budget, self.from, self.state.clone()));
        let mut collector = Collector::new(listen, scrub.as_ref(), specs.len());
        if self.root.is_none() {
            collector.trees = CheckedTrees::new(&self.dirs);
        }
        collector.shard = shard.as_ref().map(|_| ShardNotes::default());
        for Findings { target, found } in findings {
            found.into_iter().for_each(|finding| collector.tell(&target, finding));
        }
        let (division, helpers) = (self.division(&specs), Helpers::of_processors());
        let reads = match self.from {
            ReadFrom::Cache => LinkReads::SideBySide,
            ReadFrom::Medium => {
                LinkReads::ByLinks { in_order: division.order == ReadOrder::AsOnDisk }
            }
        };
        let (helpers, backend) = (&helpers, self.backend);
        let states = self.write_states.then(MadeStates::default);
        let checker = || {
            let mut checker =
                Checker::new(self.from, self.convert_paths, progress, stop).with(backend);
            checker.links = Some(LinkChecker { helpers, reads, backend, progress });
            checker.states = states.as_ref();
            checker
        };
        // These are about each file by itself.
        let is_each = self.budget.is_some() || self.shard.is_some() || self.write_states;
        let shared = (!is_each).then(SharedReads::default);
        collector.late = self.late_reading(&specs);
        let threads = Threads {
            proves: collector.late.is_some(),
            specs: &specs,
            division,
            checker: &checker,
            complete: self.complete,
            scrub: scrub.as_ref(),
            shared: shared.as_ref(),
            wanted: self.wanted(),
            progress,
            stop,
        };
        let read = threads.run(&mut collector);
        collector.save_scrub();
        if let Some(states) = states {
            collector.finish_states(states, stop);
        }
        let manifest = read.as_ref().and_then(|read| read.manifest_sum);
        if !stop.is_requested() {
            collector.tell_look_alike();
        }
        if let Some(read) = read {
            self.finish(read, &bags, &mut collector, stop);
        }
        let replugged = self.leave_notes(&mut collector, held || lock.is_some(), stop);
        let shard = shard.and_then(|shard| leave_result(&shard, manifest, &mut collector, stop));
        if !stop.is_requested() {
            collector.tell_bags(&bags);
            collector.tell_trees();
        }
        Ok(VerifyReport {
            replugged,
            parity: None,
            counts: collector.counts,
            covered: scrub.as_ref().and_then(Scrub::coverage),
            unnoted: scrub.as_ref().is_some_and(Scrub::is_lost),
            shard,
            interrupted: stop.requested(),
            elapsed: started.elapsed(),
        })
    }

    /// Leaves to later runs what was found; the files that are replugged by now.
    fn leave_notes(
        &self,
        collector: &mut Collector<'_>,
        is_locked: bool,
        stop: &Stop,
    ) -> Option<Replugged> {
        // Nothing is counted once there is a record of what is in doubt.
        let replugged = collector.tell_late();
        // Another machine keeps the records of what it checks a shard of.
        if self.shard.is_none() {
            let left = collector.bad.put_in_doubt(self.state.as_deref(), is_locked, stop);
            let nowhere = Arc::new(Target::none());
            left.into_iter().for_each(|error| collector.tell(&nowhere, Finding::Warning(error)));
        }
        replugged
    }

    /// What is read after a device was away, of the own manifest of one output. Otherwise no file is looked at for it.
    fn late_reading(&self, specs: &[TargetSpec]) -> Option<LateReading> {
        let is_own = self.manifests.is_empty() && self.root.is_none() && self.shard.is_none();
        let [TargetSpec { dir: Some(dir), .. }] = specs else { return None };
        let late = LateReading::new(self.state.clone());
        (is_own && self.from == ReadFrom::Medium && late.may_begin(dir)).then_some(late)
    }

    /// Refuses a machine that does not give the known answers.
    pub(crate) fn try_hashing(&self) -> Result<()> {
        let here = Path::new(".");
        refuse_miscomputing(self.backend, self.dirs.first().map_or(here, PathBuf::as_path))
    }

    /// Adds up what there is to check into the totals of `progress`, for a run that was not watched from its start. It
    /// goes on until `stop` says so, and counts nothing for a scrub, which ends when its budget does.
    pub fn count(&self, progress: &Progress, stop: &Stop) {
        if self.budget.is_none()
            && let Ok(specs) = self.specs()
        {
            count(&expand(specs).specs, self.wanted(), progress, stop);
        }
    }

    /// The lines that are to be checked, if not all.
    fn wanted(&self) -> Option<LinesWanted> {
        self.shard.as_ref().map(|shard| LinesWanted::Of(shard.shard))
    }

    /// The checks that need all lines: that each was answered, which replica has the good file, which
    /// files are not listed, and that each directory is still at its path.
    fn finish(&self, read: LinesRead, bags: &[Bag], collector: &mut Collector<'_>, stop: &Stop) {
        let LinesRead { given, listed, roots, manifests, reread, .. } = read;
        let answered = collector.answered();
        let nowhere = Arc::new(Target::none());
        if given != answered && !stop.is_requested() {
            let finding = format!(
                "{given} lines were given out, {answered} are accounted for; \
                 this is a defect of dircopy"
            );
            let error = Error::finding("account for", ".", finding);
            collector.tell(&nowhere, Finding::Broken(error));
        }
        let all_answered = given == answered && !stop.is_requested();
        if let Some(replicas) = collector.replicas.take().filter(|_| all_answered) {
            let tell = |finding| collector.tell(&nowhere, finding);
            replicas.compare(reread, self.convert_paths, stop, tell);
        }
        let converted = std::mem::take(&mut collector.converted);
        let key = collector.key.clone();
        let has_history =
            |root: &&ListedRoot| matches!(root.target.part, PartOf::Generation { .. });
        let histories = listed.iter().filter(has_history).map(|root| root.target.root_id);
        let histories = &histories.collect::<Vec<_>>();
        let (manifests, converted) = (&manifests, &converted);
        let names = ListedNames { key: &key, manifests, converted, histories };
        for bag in bags {
            let no_list = || ListedRoot::empty(&bag.target);
            let found = listed.iter().find(|listed| listed.is_of(bag));
            let (none, key) = (no_list(), &key);
            let names = BagNames { key, listed: found.unwrap_or(&none), converted };
            bag::search(bag, &names, stop, |target, finding| collector.tell(target, finding));
        }
        let is_bag = |root: &&ListedRoot| bags.iter().any(|bag| root.is_of(bag));
        // What lies in the directory of a history is searched with all that the history is of.
        let is_chained = |root: &&ListedRoot| {
            let manifest = root.target.manifest.as_os_str();
            !histories.is_empty() && is_chain(manifest.as_encoded_bytes())
        };
        for root in listed.iter().filter(|root| !is_bag(root) && !is_chained(root)) {
            unlisted::search(root, &names, stop, |finding| collector.tell(&root.target, finding));
        }
        roots.iter().for_each(|root| tell_moved(root, collector));
    }

    /// Keeps other runs away from what is scrubbed: a copy that replaces files meanwhile would make them
    /// differ from the manifest that was read, and another scrub would overwrite the record of this one.
    fn lock(
        &self,
        specs: &[TargetSpec],
        listen: &FindingListener<'_>,
        stop: &Stop,
    ) -> Result<Option<PrivateDir>> {
        let (Some(_), [spec]) = (self.budget, specs) else { return Ok(None) };
        let root = spec.names_start_at();
        // One that cannot be opened is told of when its manifest is.
        let Ok(dir) = Dir::open_named(&root) else { return Ok(None) };
        let tell = |text: &str| listen(&Target::none(), &Finding::Waiting(text.to_owned()));
        let deed = "scrub";
        let private =
            PrivateDir::need(&dir, &root, self.state.as_deref(), Missing::MakeForRecords)?;
        if let Some(private) = &private {
            let patience = Patience { wait: self.wait, deed, tell: &tell, stop };
            patience.lock(private, &root)?;
        }
        Ok(private)
    }

    /// Each manifest with each root.
    ///
    /// # Errors
    /// What is asked for makes no sense, or there is no directory for the records.
    pub(crate) fn specs(&self) -> Result<Vec<TargetSpec>> {
        PrivateDir::look_for(self.state.as_deref())?;
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
        if self.write_states && stdin > 0 {
            let finding = "states are written beside a manifest: give a file";
            return Err(Error::finding("write states for", "standard input", finding));
        }
        if self.budget.is_some() && (dirs.len() > 1 || self.manifests.len() > 1 || stdin > 0) {
            let finding =
                "one directory and one manifest that is a file can be checked so, each run";
            return Err(Error::finding("scrub", "several of them", finding));
        }
        if self.budget.is_some() && (self.complete || self.convert_paths) {
            let finding = "a scrub is neither complete nor of other names than those listed";
            return Err(Error::finding("scrub", ".", finding));
        }
        let is_whole =
            self.complete || self.convert_paths || self.write_states || self.budget.is_some();
        if self.shard.is_some() && is_whole {
            let finding = "a shard is neither a scrub, nor complete, nor of other names, and writes no states";
            return Err(Error::finding("check a shard of", ".", finding));
        }
        let plan = |manifest: Option<ManifestAt>, dir: &Option<PathBuf>| TargetSpec {
            manifest,
            dir: dir.clone(),
            root: root.clone(),
            state: self.state.clone(),
            part: PartOf::Alone,
            is_written: self.write_states || self.budget.is_some(),
        };
        if self.manifests.is_empty() {
            return Ok(dirs.iter().map(|dir| plan(None, dir)).collect());
        }
        let of_all = |dir| self.manifests.iter().map(move |m| plan(Some(m.clone()), dir));
        Ok(dirs.iter().flat_map(of_all).collect())
    }

    /// The number of workers, and the order in which they read.
    fn division(&self, specs: &[TargetSpec]) -> Division {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let turns = |spec: &TargetSpec| {
            Dir::open(&spec.names_start_at()).is_ok_and(|root| sys::is_on_turning_disk(&root))
        };
        let (workers, order) = match self.from {
            ReadFrom::Cache => (cores().min(MOST_WORKERS), ReadOrder::LargeFirst),
            ReadFrom::Medium if specs.iter().any(turns) => (1, ReadOrder::AsOnDisk),
            ReadFrom::Medium => (MOST_WORKERS, ReadOrder::LargeFirst),
        };
        Division {
            order: self.order.unwrap_or(order),
            large_together: self.from == ReadFrom::Cache,
            workers: self.jobs.unwrap_or(workers).max(1),
        }
    }
}

/// Tells of a directory that is not at its path any more: what was found is of another one than is there now.
fn tell_moved(target: &Target, collector: &mut Collector<'_>) {
    let looked = target.handle().and_then(|root| refuse_moved(root, &target.root));
    if let Err(moved) = looked {
        collector.tell(target, Finding::Broken(moved.of_deed("check")));
    }
}

/// Leaves the result of a shard whose lines were all answered. Of any other there is none, and what is in the way is
/// told.
fn leave_result(
    shard: &ShardRun,
    manifest: Option<Sha256>,
    collector: &mut Collector<'_>,
    stop: &Stop,
) -> Option<ShardCoverage> {
    let counts = collector.counts;
    let is_answered = counts.broken + counts.unusable == 0 && !stop.is_requested();
    let (notes, manifest) = (collector.shard.take()?, manifest.filter(|_| is_answered)?);
    match shard.end(notes, manifest, &counts) {
        Ok(coverage) => Some(coverage),
        Err(error) => {
            collector.tell(&Target::none(), Finding::Broken(error));
            None
        }
    }
}
