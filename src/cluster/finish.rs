//! The end of a plan, which alone may say that all is done: it holds what was planned against what was recorded, file
//! by file, makes links, gives directories their attributes, and leaves one ordinary manifest.

use std::{
    collections::BTreeSet, ffi::OsStr, mem, path::Path, path::PathBuf, thread::sleep,
    time::Duration,
};

use jiff::Timestamp;

use crate::cluster::plan_dir::{DONE, FAILED, LOST_MANIFEST, PlanEnding, Seal, recorded};
use crate::cluster::record_check::{DEED, LineBlocks, OTHER_LISTS, RecordCheck};
use crate::{
    chain::StatesFile, chain::side_file::MOST_RECORDS, chain::side_file::SideFile,
    cluster::PlanDir, cluster::PlanEnd, cluster::attempt, cluster::done, cluster::done::DOUBTFUL,
    cluster::done::SourceSearch, cluster::finish_tree::FinishTree, cluster::pack::FINISH,
    cluster::pack::LINKS, copy::Prepared, error::Deed, error::Error, error::Result, event::Event,
    event::EventObserver, hash::Sha256, io::Reflink, io::read_back::is_proven,
    manifest::ManifestFile, manifest::ManifestName, manifest::Readers, manifest::readers::ours,
    staged::refuse_moved, state::FinishedManifest, state::Missing, state::Note, state::PrivateDir,
    state::Unlisted, state::record::name_later, state::record::tell_output, sys::Dir,
    tree::Patience,
};

/// Time between two looks whether shards are still at work.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A worker that does not take its next shard in this time is done.
const BETWEEN_SHARDS: Duration = Duration::from_secs(2);

/// The end of a plan.
#[derive(Clone, Debug)]
pub struct FinishJob {
    pub plan: PlanDir,
    /// Wait for shards that are at work, instead of refusing.
    pub wait: bool,
    /// An attempt that was silent for so long is dead.
    pub dead: Duration,
}

/// The report of the end of a plan.
#[derive(Debug, Default)]
pub struct FinishReport {
    pub seal: Seal,
    /// Shards that are not done, or whose record is not right.
    pub unfinished: u64,
    /// Entries that are not at the output.
    pub missing: u64,
    pub manifest: Option<PathBuf>,
    /// An earlier run finished it.
    pub before: bool,
    pub broken: Option<Error>,
    pub interrupted: Option<usize>,
}

impl FinishJob {
    /// Finishes the plan.
    ///
    /// # Errors
    /// It was refused, and nothing was touched.
    pub fn run(&self, observer: &EventObserver<'_>) -> Result<FinishReport> {
        let plan = &self.plan;
        let Some(seal) = plan.seal()? else {
            attempt::refuse_abandoned(plan, self.dead)?;
            let finding = "it is not complete: `dircopy plan` is at work on it, or was cut short";
            return Err(Error::finding(DEED, &plan.path, finding));
        };
        let mut report = FinishReport { seal: seal.clone(), ..FinishReport::default() };
        // What failed is tried again; what could not be planned is in no list.
        let end = plan.finished()?.filter(|end| end.missing <= seal.failed);
        if let Some(lost) = end.as_ref().and_then(|end| end.lost_manifest(&plan.plan)) {
            let finding = format!("the plan was finished, and this manifest {LOST_MANIFEST}");
            return Err(Error::finding("find the manifest", lost, finding));
        }
        if let Some(PlanEnd { missing, manifest, .. }) = end {
            self.refuse_rotated()?;
            return Ok(FinishReport { missing, manifest, before: true, ..report });
        }
        if self.wait {
            self.wait_for_shards(&seal, observer)?;
        }
        report.unfinished = self.name_unfinished(&seal, observer)?;
        if report.unfinished > 0 {
            return Ok(report);
        }
        self.check_end_lists(&seal)?;
        let before = plan.ending()?;
        let prepared = self.prepare(observer)?;
        let mut tree = FinishTree::new(plan, &prepared, observer);
        if let Some(before) = &before {
            tree.is_again = true;
            let stays = remove_manifest(before, &prepared);
            stays.iter().for_each(|error| (observer.listen)(&Event::Warning(error)));
        }
        let is_cut_short =
            |report: &FinishReport| report.broken.is_some() || report.interrupted.is_some();
        match self.finish(&prepared, tree, &seal, &mut report, observer) {
            Err(error) => report.broken = Some(error),
            Ok(()) if is_cut_short(&report) || report.unfinished > 0 => {}
            Ok(()) => {
                let (missing, manifest) = (report.missing, report.manifest.clone());
                plan.write_finished(&PlanEnd::new(&plan.plan, missing, manifest))?;
                plan.forget_ending()?;
            }
        }
        Ok(report)
    }

    /// Reads the lists of links and directories through: nothing of one that is not as it was planned is made.
    fn check_end_lists(&self, seal: &Seal) -> Result<()> {
        let plan = &self.plan;
        for (name, planned) in [(FINISH, &seal.finish_sum), (LINKS, &seal.links_sum)] {
            let list = plan.end_list(name);
            if list.read()?.check()?.sum.to_string() != *planned {
                return Err(Error::finding(DEED, list.path(), OTHER_LISTS));
            }
        }
        Ok(())
    }

    /// Waits as long as shards that are not done are at work. A worker takes the next one as soon as it is done.
    fn wait_for_shards(&self, seal: &Seal, observer: &EventObserver<'_>) -> Result<()> {
        let (mut idle, mut is_told) = (Duration::ZERO, false);
        while !observer.stop.is_requested() && idle <= BETWEEN_SHARDS {
            let recorded = recorded(&self.plan)?;
            let are_done = (0..seal.shards).all(|shard| recorded.contains(&shard));
            if are_done && attempt::beyond_records(&self.plan, self.dead)?.is_empty() {
                break;
            }
            let is_at_work =
                attempt::running(&self.plan, self.dead)?.iter().any(|(_, alive)| *alive);
            idle = if is_at_work { Duration::ZERO } else { idle + LOOK_AGAIN };
            if is_at_work && !mem::replace(&mut is_told, true) {
                (observer.listen)(&Event::Waiting("shards are at work"));
            }
            sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Tells which shards are not done; how many.
    fn name_unfinished(&self, seal: &Seal, observer: &EventObserver<'_>) -> Result<u64> {
        let plan = &self.plan;
        let running = attempt::running(plan, self.dead)?;
        let beyond = attempt::beyond_records(plan, self.dead)?;
        let outlived: BTreeSet<u32> = beyond.iter().filter(|it| it.1).map(|it| it.0).collect();
        outlived.iter().try_for_each(|shard| done::put_aside(plan, *shard, DOUBTFUL))?;
        let recorded = recorded(plan)?;
        let is_open =
            |shard: &u32| !recorded.contains(shard) || beyond.iter().any(|it| it.0 == *shard);
        let missing: Vec<u32> = (0..seal.shards).filter(is_open).collect();
        if missing.is_empty() {
            return Ok(0);
        }
        let is_missing = |shard| matches!(plan.list(shard).stat().if_there(), Ok(None));
        let failed = attempt::shards_in(plan, FAILED)?;
        let cut_short = attempt::cut_short(plan)?;
        for shard in &missing {
            let is = |alive| running.contains(&(*shard, alive));
            let state = match () {
                () if is_missing(*shard) => "its list is missing; make a new plan",
                () if is(true) => "it is being run",
                () if outlived.contains(shard) => {
                    "another attempt died at it after it was recorded; run it again"
                }
                () if failed.contains(shard) => {
                    "files of it failed, or were left by the plan's policy: mend what it named, and run it again"
                }
                () if is(false) || cut_short.contains(shard) => {
                    "its last attempt was cut short; run it again"
                }
                () => "it was not run, or its record was lost; run it",
            };
            let finding = format!("shard {shard} is not done: {state}");
            let error = Error::finding(DEED, &plan.path, finding);
            (observer.listen)(&Event::Failed(&error));
        }
        self.put_back(&missing, observer);
        Ok(missing.len() as u64)
    }

    /// Lets `shard --claim` take these shards, too.
    fn put_back(&self, shards: &[u32], observer: &EventObserver<'_>) {
        if let Err(error) = attempt::put_back(&self.plan, shards) {
            (observer.listen)(&Event::Warning(&error));
        }
    }

    /// Opens both sides, and keeps every other run out.
    fn prepare(&self, observer: &EventObserver<'_>) -> Result<Prepared> {
        let plan = &self.plan.plan;
        let mut job = plan.job();
        // Nothing is cloned any more.
        job.options.reflink = Reflink::Auto;
        let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
        let stop = &observer.stop;
        let patience = Patience { wait: self.wait, deed: DEED, tell: &tell, stop };
        // What a dry look finds must be what the plan was made with; only then anything is made.
        let found = job.prepare(true, patience)?;
        let source = found.source.handle.stat_self().deed("look at", &plan.source)?;
        plan.check_source_label(DEED, &source)?;
        self.refuse_later_runs(&found)?;
        self.plan.write_ending(None)?;
        job.prepare(false, patience)
    }

    /// The note of what came to the output and is not listed.
    fn noted(&self, output: &Dir) -> Option<Unlisted> {
        let plan = &self.plan.plan;
        let state = plan.state.as_deref();
        let private = PrivateDir::open(output, &plan.output, state, Missing::Leave).ok().flatten();
        private.and_then(|private| Unlisted::read(&private))
    }

    /// Refuses a plan that was finished before, where another one of its output is under way and others may write above
    /// it: they can have given it the name of that one.
    fn refuse_rotated(&self) -> Result<()> {
        let PlanDir { path, dir, plan, .. } = &self.plan;
        if dir.is_place_kept().deed("look at", path)? {
            return Ok(());
        }
        let other = self.noted(&plan.open_output()?.0).and_then(|noted| noted.plan);
        if other.is_none_or(|other| other == plan.plan) {
            return Ok(());
        }
        let finding = "it was finished, and another plan of its output was made since and is not; others may write above \
                       it, who can exchange the two: name the one that is meant, and keep finished ones elsewhere";
        Err(Error::finding(DEED, path, finding))
    }

    /// Refuses an output to which a run of another kind, or of another plan, has come since this plan was made: what it
    /// lists of a file may be newer than what is recorded here, and the newest manifest is believed.
    fn refuse_later_runs(&self, found: &Prepared) -> Result<()> {
        let (plan, output) = (&self.plan.plan, &self.plan.plan.output);
        let noted = found.output.handle.as_ref().and_then(|root| self.noted(root));
        if noted.is_some_and(|noted| noted.plan != Some(plan.plan)) {
            let finding = "a run that makes no list, or one of another plan, was here since, and may have left newer files: \
                           bring the output up to date with dircopy --overwrite-policy update, or make a new plan";
            return Err(Error::finding("finish the plan in", output, finding));
        }
        let Some(newest) = newest_at_output(found)? else { return Ok(()) };
        let name = newest.to_string();
        let of_end = |end: PlanEnd| Some(end.manifest?.file_name()?.to_string_lossy().into_owned());
        let own = [
            self.plan.plan.newest.clone(),
            self.plan.ending()?.and_then(|ending| ending.manifest),
            self.plan.finished()?.and_then(of_end),
        ];
        // An end may have been killed after its manifest had its name.
        let named = |own: &String| ManifestName::parse(own.as_ref()).map(ManifestName::finished);
        if own.iter().flatten().any(|own| named(own) == Some(newest.finished())) {
            return Ok(());
        }
        let path = found.output.path_of(name.as_ref());
        let finding = "it was not there when the plan was made, so that another run may have left newer files: bring the \
                       output up to date with dircopy --overwrite-policy update, or make a new plan; if no run of yours \
                       left it, move it away";
        Err(Error::finding("finish the plan beside", path, finding))
    }

    fn finish(
        &self,
        prepared: &Prepared,
        mut tree: FinishTree<'_>,
        seal: &Seal,
        report: &mut FinishReport,
        observer: &EventObserver<'_>,
    ) -> Result<()> {
        let sync = self.plan.plan.options.sync;
        tree.make_links()?;
        tree.persist(sync)?;
        let name = ManifestName::new(Timestamp::now());
        let note = |name: ManifestName| self.plan.write_ending(Some(name.unfinished().to_string()));
        note(name)?;
        let mut manifest = self.begin_manifest(prepared, name)?;
        // Something else had that name.
        if manifest.name() != name
            && let Err(error) = note(manifest.name())
        {
            return Err(manifest.discard(error));
        }
        match self.fill(&mut manifest, &mut tree, seal, report, observer) {
            Ok(true) => {}
            Ok(false) => return manifest.withdraw(),
            Err(error) => return Err(manifest.discard(error)),
        }
        if let Err(error) = self.write_states(prepared, seal, manifest.name(), observer) {
            let output = &self.plan.plan.output;
            let error = Error::io("write the states of large files to", output, error);
            let error = error.with_note("; checks of these take longer");
            (observer.listen)(&Event::Warning(&error));
        }
        let digest = manifest.digest();
        let published = manifest.publish(sync)?;
        if let Err(error) = record_newest(prepared, &published, digest, sync) {
            (observer.listen)(&Event::Warning(&error));
        }
        report.manifest = Some(published);
        tree.finish_root(sync)?;
        let root = prepared.output.handle.as_ref();
        root.map_or(Ok(()), |root| refuse_moved(root, &prepared.output.path()))
    }

    /// Writes everything to the manifest, and gives directories their attributes. False if the manifest is not to
    /// appear: what was planned is not all recorded, or the run is to stop.
    fn fill(
        &self,
        manifest: &mut ManifestFile,
        tree: &mut FinishTree<'_>,
        seal: &Seal,
        report: &mut FinishReport,
        observer: &EventObserver<'_>,
    ) -> Result<bool> {
        let plan = &self.plan.plan.options;
        let mut records = RecordCheck {
            plan: &self.plan,
            observer,
            unmade: &tree.unmade,
            lines: LineBlocks::default(),
            search: SourceSearch::new(&self.plan)?,
            gone: 0,
            wrong: Vec::new(),
        };
        let whole = records.write_all(seal, manifest)?;
        let (gone, wrong) = (records.gone, records.wrong);
        let missing = |tree: &FinishTree<'_>| gone + tree.unmade.len() as u64 + seal.failed;
        report.missing = missing(tree);
        report.interrupted = observer.stop.requested();
        if !whole || report.interrupted.is_some() {
            let least = usize::from(report.interrupted.is_none());
            report.unfinished = wrong.len().max(least) as u64;
            self.put_back(&wrong, observer);
            return Ok(false);
        }
        let is_clean = !tree.is_again && attempt::running(&self.plan, self.dead)?.is_empty();
        tree.finish_directories(is_clean)?;
        report.missing = missing(tree);
        tree.persist(plan.sync)?;
        // Who may read each file is not in the plan.
        manifest.readers = Readers::Owner;
        let is_proven = !plan.verify || is_proven(manifest, &|| observer.stop.is_requested())?;
        if !is_proven {
            report.interrupted = observer.stop.requested();
        }
        Ok(is_proven)
    }

    /// Writes the side file of the manifest `name`: what the shards left, one after the other.
    fn write_states(
        &self,
        prepared: &Prepared,
        seal: &Seal,
        name: ManifestName,
        observer: &EventObserver<'_>,
    ) -> std::io::Result<()> {
        let Some(root) = &prepared.output.handle else { return Ok(()) };
        let (states, is_to_stop) = (StatesFile::default(), || observer.stop.is_requested());
        states.begin(root.try_clone()?, name.unfinished().states().into(), Vec::new());
        let done = self.plan.below(DONE)?;
        for shard in 0..seal.shards {
            let name = self.plan.states(shard).name;
            // One that cannot be read is as good as none.
            if let Ok(Some(side)) = SideFile::open_in(&done, &name, MOST_RECORDS, &is_to_stop) {
                states.carry_rest(&side);
            }
        }
        let name = name.finished().states();
        // As closed as the manifest.
        let mode = |group| Readers::Owner.mode(group);
        states.publish(name.as_ref(), self.plan.plan.options.sync, false, mode)
    }

    fn begin_manifest(&self, prepared: &Prepared, name: ManifestName) -> Result<ManifestFile> {
        let path = &self.plan.plan.output;
        let fail = |error| Error::io("open", path, error);
        let root = prepared.output.handle.as_ref().map(Dir::try_clone);
        let root = root.unwrap_or_else(|| Dir::open(path)).map_err(fail)?;
        let is_in_source = |name: &OsStr| prepared.source.handle.stat(name, false).is_ok();
        let newest = newest_at_output(prepared)?;
        let lists = self.plan.plan.job().lists();
        let path = path.as_path().into();
        ManifestFile::create(root, path, name, newest, is_in_source, &lists)
    }
}

/// The newest manifest of ours at the output, finished or not, that did not come from the source.
pub fn newest_at_output(prepared: &Prepared) -> Result<Option<ManifestName>> {
    let Some(root) = &prepared.output.handle else { return Ok(None) };
    let is_in_source = |name: &OsStr| prepared.source.handle.stat(name, false).is_ok();
    let names = ours(root, is_in_source, None);
    let names = names.deed_at("look for manifests in", || prepared.output.path())?;
    Ok(names.first().copied())
}

/// Removes the unfinished manifest of an end that was killed, and what is beside it; why it stays, if it does.
fn remove_manifest(before: &PlanEnding, prepared: &Prepared) -> Option<Error> {
    let (root, source) = (prepared.output.handle.as_ref()?, &prepared.source.handle);
    let name = ManifestName::parse(before.manifest.as_deref()?.as_ref())?;
    let file = name.to_string();
    // One of the source's, or of a run that is at work.
    if name.is_finished()
        || root.stat(file.as_ref(), false).is_err()
        || source.stat(file.as_ref(), false).is_ok()
        || root.is_claimed(file.as_ref())
    {
        return None;
    }
    for beside in [name.states(), name.finished().states()].into_iter().chain(name.lists()) {
        if source.stat(beside.as_ref(), false).is_err() {
            // Most have none.
            let _ = root.remove(beside.as_ref());
        }
    }
    let removed = root.remove_abandoned(file.as_ref());
    let path = || prepared.output.path_of(file.as_ref());
    removed.deed_at("remove the unfinished manifest", path).err()
}

/// Shards leave no rows in the private record; it is told which manifest is the newest, so that checks go by that one.
fn record_newest(
    prepared: &Prepared,
    manifest: &Path,
    digest: Option<Sha256>,
    durable: bool,
) -> Result<()> {
    let (Some(private), Some(digest)) = (&prepared.private, digest) else { return Ok(()) };
    let fail = |error| Error::io("write the private record in", private.path(), error);
    let name = manifest.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let manifest = FinishedManifest { name, digest };
    name_later(private, &manifest, durable).map_err(fail)?;
    Unlisted::forget(private).map_err(fail)?;
    tell_output(private, &manifest, durable).map_err(fail)
}
