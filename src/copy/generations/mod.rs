//! An output with generations: a tree for each night, complete by itself, that shares what did not change with the one
//! before.
//!
//! A run works on a tree with an unfinished name (`run`, `unfinished`). It begins as a snapshot of the last one, from
//! which goes what the source has no more (`prune`), or what can be shared is put into it first (`seed`). Only a
//! complete tree gets the name of a generation (`set`); old ones go through the trash (`keep`).

pub mod newest;
pub mod prune;
mod seed;
pub mod set;

use std::{num::NonZero, path::Path, path::PathBuf, sync::Arc, time::Duration, time::Instant};

use jiff::Timestamp;

use crate::{
    copy::CopyJob, copy::Ending, copy::GenerationSet, copy::KeepRule, copy::LostNames,
    copy::MostDepartures, copy::Prepared, copy::Report, copy::Reservations,
    copy::before::check::Opened, copy::before::check::make_output,
    copy::before::check::open_output, copy::before::space::RecordedFiles,
    copy::before::space::SpaceAnswer, copy::before::space::SpaceLook,
    copy::generations::newest::lead_to, copy::generations::prune::Pruning,
    copy::generations::prune::remove_found, copy::generations::seed::Seeded,
    copy::generations::seed::Seeding, copy::generations::set::Beginning,
    copy::generations::set::HeldGenerations, copy::generations::set::TreePlace,
    copy::generations::set::UnfinishedTree, copy::generations::set::cannot_make,
    copy::generations::set::open_private, copy::generations::set::path_of,
    copy::generations::set::shared_by_links, copy::mirror::Mirror,
    copy::mirror::departures::TreeRecord, copy::mirror::look::DepartureLook,
    copy::mirror::look::LookResult, copy::run::earlier::EarlierRecords, error::Deed, error::Error,
    error::Result, event::Event, event::EventObserver, event::Progress, event::Stop, io::Renamed,
    part::content::Method, state::BegunTree, state::CountedRun, state::DatedName,
    state::GenerationNote, state::Knowledge, state::LATEST, state::Missing,
    state::NewestGeneration, state::Note, state::PrivateDir, state::UNFINISHED, sys::Attributes,
    sys::Dir, sys::PartOwner, tree::HeldTree, tree::Patience, tree::Policy,
};

// A run that makes a generation: a tree with an unfinished name is filled, and gets its name when it is complete and
// durable.

/// A run that makes a generation.
pub struct GenerationRun<'a> {
    pub job: &'a CopyJob,
    pub generations: &'a Generations,
    pub observer: &'a EventObserver<'a>,
}

/// The directory of all generations, while a run has it.
struct GenerationRoot {
    dir: Dir,
    /// It holds the lock.
    private: PrivateDir,
    set: GenerationSet,
    /// The newest generation.
    last: Option<HeldTree>,
}

impl GenerationRun<'_> {
    /// Makes a generation.
    ///
    /// # Errors
    /// The job was refused, and no generation was touched.
    pub fn run(&self) -> Result<Report> {
        let Self { job, observer, .. } = *self;
        let stop = &observer.stop.of_one();
        let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
        let wait = job.wait && !job.dry_run;
        let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
        patience.until_free(&job.output, None)?;
        let prepared = job.prepare(true, patience)?;
        let set = match &prepared.output.handle {
            Some(root) => GenerationSet::read(root, &job.output)?,
            None => GenerationSet::default(),
        };
        set.unrecorded.iter().for_each(|error| (observer.listen)(&Event::Warning(error)));
        // Where there was a generation the look says how much would be missing from the next one.
        if set.newest().is_none()
            && let Some(nothing) = job.of_nothing(Instant::now(), stop)?
        {
            return Ok(nothing);
        }
        if job.dry_run {
            let last = match &prepared.output.handle {
                Some(root) => set.last(root, &job.output)?,
                None => None,
            };
            return match last {
                Some(last) => {
                    self.look(&last, &last.path, stop)?;
                    self.tree_job(&last).run(observer)
                }
                None => {
                    let mut job = CopyJob { generations: None, pruned: true, ..job.clone() };
                    (job.wait, job.options.policy) = (false, Policy::Update);
                    job.run(observer)
                }
            };
        }
        if set.newest().is_none() && set.unfinished.is_empty() {
            self.look_for_room(None, patience)?;
        }
        let root = self.take(patience)?;
        let now = DatedName::new(Timestamp::now());
        let place = TreePlace {
            root: &root.dir,
            path: &job.output,
            set: &root.set,
            last: root.last.as_ref(),
            private: &root.private,
            now,
        };
        let snapshot = place.snapshot()?;
        let looked = match self.look_at_last(&root, snapshot.as_ref(), stop) {
            Ok(looked) => looked,
            Err(refusal) => {
                if let Some(Err(error)) = snapshot.map(|tree| tree.discard(&root.dir, stop)) {
                    (observer.listen)(&Event::Warning(&error));
                }
                return Err(refusal);
            }
        };
        if let (None, Some(last), true) = (&snapshot, &root.last, root.set.unfinished.is_empty()) {
            self.look_for_room(Some(last), patience)?;
        }
        let tree = snapshot.map_or_else(|| place.take(), Ok)?;
        let mut report = self.fill(&root, tree, now, &prepared, looked.as_ref(), stop)?;
        let warn = observer.warn_in(&mut report.counts.warnings);
        report.counted = CountedRun::count(&root.private, &root.dir, &job.output, None, warn);
        Ok(report)
    }

    /// Refuses a generation for which there is no room before anything of it is made: what the `last` one has need not
    /// be there twice.
    fn look_for_room(&self, last: Option<&HeldTree>, patience: Patience<'_>) -> Result<()> {
        let of_first = || CopyJob { generations: None, pruned: true, ..self.job.clone() };
        let mut job = last.map_or_else(of_first, |last| self.tree_job(last));
        (job.last_generation, job.options.policy) = (last.cloned(), Policy::Update);
        let (job, reservations, progress) = (&job, &Reservations::default(), &Progress::default());
        let look = SpaceLook { job, reservations, progress, outputs: 1 };
        let looked = match look.before(patience) {
            Ok(SpaceAnswer::Later) => {
                let Prepared { source, output, .. } = job.prepare(true, patience)?;
                let earlier = EarlierRecords::default();
                let renamed = earlier.renamed(job, &source, &output, patience.stop);
                let recorded = RecordedFiles { renamed: renamed.as_ref(), known: None };
                look.run(patience, false, recorded)
            }
            looked => looked,
        };
        looked.map(drop).map_err(|refusal| {
            refusal.of_path(&self.job.output).with_note(
                "; --keep and --keep-trash let older generations go, when a run is complete",
            )
        })
    }

    /// The job of this tree. Its path leads wherever who may write to the output wants.
    fn tree_job(&self, tree: &HeldTree) -> CopyJob {
        let mut job = self.job.clone();
        (job.output, job.held) = (tree.path.clone(), Some(Arc::clone(&tree.dir)));
        (job.generations, job.wait, job.options.policy) = (None, false, Policy::Update);
        job.pruned = true;
        // A run that went on with a tree leaves the manifest of the one before.
        job.keep_manifests = NonZero::new(1);
        job
    }

    /// The entries that have left the source since the last generation, if there is one.
    fn look_at_last(
        &self,
        root: &GenerationRoot,
        snapshot: Option<&UnfinishedTree>,
        stop: &Stop,
    ) -> Result<Option<LookResult>> {
        let Some(last) = &root.last else { return Ok(None) };
        let tree = snapshot.map_or(last, |tree| &tree.tree);
        self.look(tree, &last.path, stop).map(Some)
    }

    /// The entries that have left the source since the generation `last`: those of `tree`, which is that one or a
    /// snapshot of it. Refuses a run where the source may not be what it was then.
    fn look(&self, tree: &HeldTree, last: &Path, stop: &Stop) -> Result<LookResult> {
        let mirror = &Mirror { all: true, most: self.generations.most, keep_trash: None };
        let job = &self.tree_job(tree);
        let listen = &self.observer.listen;
        let patience = Patience { wait: false, deed: "compare with", tell: &|_| (), stop };
        let prepared = &job.prepare(true, patience)?;
        let (classifier, noted_at) = (job.classifier(), last);
        let look = DepartureLook { job, mirror, prepared, classifier, noted_at, listen, stop };
        // What cannot be listed now the copy will name.
        look.run()
    }

    /// Makes the directory of all generations if it is missing, and locks it.
    fn take(&self, patience: Patience<'_>) -> Result<GenerationRoot> {
        let path = &self.job.output;
        let dir = match open_output(path)? {
            Opened::There(dir) => dir,
            // Who owns a file in the source could write to that in every generation that shares it.
            Opened::Parent(above) => make_output(&above, path, true)?,
        };
        let private = open_private(&dir, path)?;
        patience.lock(&private, path)?;
        let set = GenerationSet::read(&dir, path)?;
        for name in &set.foreign_trees {
            let tree = path.join(format!("{name}{UNFINISHED}"));
            let finding = "another user made it, or may write to it, or no run of yours began it here, so it stays: give it \
                           the name that it had, or remove it";
            let error = Error::finding("go on with the tree", tree, finding);
            (self.observer.listen)(&Event::Warning(&error));
        }
        for (_, error) in set.doubted() {
            (self.observer.listen)(&Event::Warning(error));
        }
        let last = set.last(&dir, path)?;
        Ok(GenerationRoot { dir, private, set, last })
    }

    /// Fills the unfinished tree, and makes a generation of it if it is complete.
    fn fill(
        &self,
        root: &GenerationRoot,
        tree: UnfinishedTree,
        now: DatedName,
        prepared: &Prepared,
        looked: Option<&LookResult>,
        stop: &Stop,
    ) -> Result<Report> {
        let Self { job, observer, .. } = *self;
        tree.unprotect();
        let (part, beginning) = (tree.name.clone(), tree.beginning);
        let HeldTree { dir: new, path } = &tree.tree;
        let fail = |error| cannot_make(&root.dir, &part, path, error);
        let last = root.last.as_ref();
        Attributes::default().shed_lists(new).map_err(fail)?;
        let private = PrivateDir::open(new, path, None, Missing::Make)?;
        let mut is_shared = last.is_none();
        let is_snapshot = beginning == Beginning::Snapshot;
        let is_pruned = is_snapshot && self.removes_found(new, looked, stop);
        if !is_pruned && beginning != Beginning::Empty {
            is_shared |= self.prune(new, path, private.as_ref(), prepared, stop)? > 0;
        }
        if let Some(last) = last.filter(|_| !is_snapshot) {
            let seeded = self.seed(last, new, path, prepared, stop)?;
            if let Some(notice) =
                shared_by_links(&root.dir, root.set.complete.len()).filter(|_| seeded.linked)
            {
                (observer.listen)(&Event::Limits(&job.output, &notice));
            }
            is_shared |= seeded.files > 0;
        }
        let mut job_of_tree = self.tree_job(&tree.tree);
        job_of_tree.last_generation = root.last.clone();
        // Where nothing was there yet it was looked for room before.
        job_of_tree.options.check_space &= beginning != Beginning::Empty;
        job_of_tree.prunes = is_pruned;
        if looked.is_some_and(LookResult::has_all) {
            // Where nothing has left the source, nothing was renamed there.
            job_of_tree.options.renamed = Renamed::Copy;
        }
        let mut report = match job_of_tree.run(observer) {
            Ok(report) => report,
            Err(refusal) if beginning == Beginning::LeftBehind => return Err(refusal),
            Err(refusal) => {
                let is_of_tree = refusal.path() == path;
                drop(job_of_tree);
                if let Err(error) = tree.discard(&root.dir, stop) {
                    (observer.listen)(&Event::Warning(&error));
                }
                // By then there is no tree of that name.
                return Err(if is_of_tree { refusal.of_path(&job.output) } else { refusal });
            }
        };
        let is_renamed = report.methods.iter().any(|(method, _)| *method == Method::Renamed);
        is_shared |= is_pruned && report.counts.unchanged > 0;
        if !is_shared && !is_renamed && !stop.is_requested() {
            let text = "nothing was shared with the last generation: everything was copied";
            (observer.listen)(&Event::Limits(&job.output, text));
        }
        if !matches!(report.ending, Ending::Complete) {
            return Ok(report);
        }
        let name = root.set.next_name(now);
        match self.finish(root, &part, new, name, prepared, &mut report) {
            Ok(()) => {
                let made = path_of(&job.output, name);
                let moved = |manifest: &PathBuf| {
                    manifest.strip_prefix(path).ok().map(|rest| made.join(rest))
                };
                report.manifest =
                    report.manifest.as_ref().and_then(moved).or(report.manifest.take());
                self.tidy(root, name, new, &mut report, stop);
                // Names may have been exchanged until now.
                if let Err(error) = self.is_there(root, name, new) {
                    report.ending = Ending::Stopped(error);
                }
            }
            Err(error) => report.ending = Ending::Stopped(error),
        }
        Ok(report)
    }

    /// Removes from a snapshot what the look before found; whether that is all that may be in the way of the copy.
    fn removes_found(&self, new: &Dir, looked: Option<&LookResult>, stop: &Stop) -> bool {
        let Some(LookResult::Found(found)) = looked else { return false };
        let is_all = found.postponed == 0
            && !found.may_lack_unfit
            && !self.job.options.selection.follow_links;
        is_all && remove_found(new, found, stop).is_ok()
    }

    /// Removes from a tree that is there already, at `path`, what the source does not have so any more; how many files
    /// stay.
    fn prune(
        &self,
        new: &Dir,
        path: &Path,
        private: Option<&PrivateDir>,
        prepared: &Prepared,
        stop: &Stop,
    ) -> Result<u64> {
        let is_to_stop = || stop.is_requested();
        // What cannot be read proves nothing, and the copy tells of it.
        let (known, _) = Knowledge::load(private, new, path, &|_| false, &is_to_stop);
        let known = &known.proving_with(self.job.options.algorithm);
        let (source, classifier) = (&prepared.source.handle, self.job.classifier());
        Pruning { new, path, source, known, classifier, stop }.run()
    }

    fn seed(
        &self,
        last: &HeldTree,
        new: &Dir,
        path: &Path,
        prepared: &Prepared,
        stop: &Stop,
    ) -> Result<Seeded> {
        let HeldTree { dir: last, path: last_path } = last;
        let of_last = PrivateDir::open(last, last_path, None, Missing::Leave)?;
        let is_to_stop = || stop.is_requested();
        let (known, warnings) =
            Knowledge::load(of_last.as_ref(), last, last_path, &|_| false, &is_to_stop);
        let known = known.proving_with(self.job.options.algorithm);
        for warning in &warnings {
            (self.observer.listen)(&Event::Warning(warning));
        }
        let Some(private) = PrivateDir::open(new, path, None, Missing::Make)? else {
            return Ok(Seeded::default());
        };
        let tag = private.secret(self.job.options.sync).ok().map(|secret| secret.of_parts());
        let seeding = Seeding {
            last,
            source: &prepared.source.handle,
            new,
            path,
            private: &private,
            known: &known,
            classifier: self.job.classifier(),
            stop,
            parts: PartOwner { output: tag, shard: None },
        };
        seeding.run()
    }

    /// The tree is complete and durable: it gets its name, and then the source's attributes. Until then no other user
    /// can have put anything into it.
    fn finish(
        &self,
        root: &GenerationRoot,
        part: &str,
        new: &Dir,
        name: DatedName,
        prepared: &Prepared,
        report: &mut Report,
    ) -> Result<()> {
        let path = self.job.output.join(part);
        let fail = |error| Error::io("finish the generation", &path, error);
        let counts = report.counts;
        let private = PrivateDir::open(new, &path, None, Missing::Leave)?;
        if let Some(private) = &private {
            let files = counts.copied + counts.replaced + counts.unchanged;
            let bytes = counts.bytes.saturating_add(counts.unchanged_bytes);
            // What has another name now is nothing new.
            let renamed = report.methods.iter().find(|(method, _)| *method == Method::Renamed);
            let renamed = renamed.map_or(0, |(_, tally)| tally.bytes);
            let new_bytes = counts.bytes.saturating_sub(renamed);
            let (name, made_in) =
                (Some(name), GenerationNote::mark_of_all(&root.dir).map_err(fail)?);
            let note = GenerationNote { files, bytes, new_bytes, name, made_in: Some(made_in) };
            note.write(private).map_err(fail)?;
        }
        let text = name.to_string();
        root.dir.move_entry(part.as_ref(), &root.dir, text.as_ref()).map_err(fail)?;
        root.dir.persist().map_err(fail)?;
        self.is_there(root, name, new)?;
        BegunTree::forget(&root.private).map_err(fail)?;
        let source = &prepared.source.handle;
        let stat = source.stat_self().map_err(fail)?;
        let mut warnings = Vec::new();
        let warn = |deed, error| warnings.push(Error::io(deed, &path, error));
        let attributes = Attributes::read(source).map_err(fail)?;
        attributes.shed_others(new).map_err(fail)?;
        attributes.apply(new, &stat, false, warn);
        for warning in warnings {
            report.counts.warnings += 1;
            (self.observer.listen)(&Event::Warning(&warning));
        }
        new.persist().map_err(fail)
    }

    /// That the generation `name` is what was made.
    ///
    /// # Errors
    /// It is not.
    fn is_there(&self, root: &GenerationRoot, name: DatedName, new: &Dir) -> Result<()> {
        let (path, text) = (path_of(&self.job.output, name), name.to_string());
        let fail = |error| Error::io("finish the generation", &path, error);
        let there = root.dir.stat(text.as_ref(), false).map_err(fail)?.id;
        if there == new.identity().map_err(fail)? {
            return Ok(());
        }
        let finding = "another directory has its name: someone else may write to the output, and moved what the \
                       run had made; close it to others (chmod 700)";
        Err(Error::finding("finish the generation", &path, finding))
    }

    /// Lets `latest` lead to the new generation, and moves those that are not kept into the trash. A failure of
    /// the latter is a warning: the generation is there.
    fn tidy(
        &self,
        root: &GenerationRoot,
        name: DatedName,
        new: &Dir,
        report: &mut Report,
        stop: &Stop,
    ) {
        let (mut lost, mut errors) = (LostNames::default(), Vec::new());
        let led = lead_to(&root.dir, name);
        // One of the future is to be moved away.
        if !name.is_ahead() {
            let (private, deed) =
                (&root.private, "write the private note of the newest generation in");
            let noted = NewestGeneration::of(name).write(private, true);
            errors.extend(noted.deed(deed, private.path()).err());
        }
        match led {
            Ok(leads) => {
                if !leads {
                    let finding = "no run made it, so it stays, and does not lead to the new generation; give it \
                                   another name, and the next run makes one that does";
                    errors.push(Error::finding("replace", self.job.output.join(LATEST), finding));
                }
                errors.extend(self.thin(root, name, &mut lost, report, stop).err());
            }
            // What it leads to must not go.
            Err(error) => {
                let deed = "let latest lead to the new generation in";
                report.counts.failed += 1;
                report.ending = Ending::Incomplete;
                (self.observer.listen)(&Event::Failed(&Error::io(deed, &self.job.output, error)));
            }
        }
        errors.extend(self.record_lost_names(name, new, &lost, stop).err());
        for error in errors {
            report.counts.warnings += 1;
            (self.observer.listen)(&Event::Warning(&error));
        }
    }

    /// Moves generations that are not kept into the trash, now that the one of this name is there.
    fn thin(
        &self,
        root: &GenerationRoot,
        name: DatedName,
        lost: &mut LostNames,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<()> {
        let Self { job, generations, observer } = *self;
        let mut all = root.set.complete.clone();
        all.push(name);
        // Behind a name of the future all others are a second apart.
        let keep = generations.keep.as_ref().filter(|_| !name.is_ahead());
        let surplus = keep.map(|keep| keep.surplus(&all)).unwrap_or_default();
        let (keep_trash, tell) =
            (generations.keep_trash, &mut |event: Event<'_>| (observer.listen)(&event));
        let GenerationRoot { dir, private, .. } = root;
        let held = HeldGenerations { root: dir, path: &job.output, private };
        report.trash = held.discard(&surplus, keep_trash, lost, stop, tell)?;
        if name.is_ahead() {
            let finding = "its name is of the future: a clock was wrong, or somebody made up a name that sorts last; no \
                           generation goes by --keep until those with such names are moved away";
            return Err(Error::finding("date the generation", path_of(&job.output, name), finding));
        }
        Ok(())
    }

    /// Adds newer rows to the record of the generation `name` for files that lost names with old trash, so that they
    /// are known for untouched.
    fn record_lost_names(
        &self,
        name: DatedName,
        dir: &Dir,
        lost: &LostNames,
        stop: &Stop,
    ) -> Result<()> {
        let path = &path_of(&self.job.output, name);
        match &PrivateDir::open(dir, path, None, Missing::Leave)? {
            Some(private) => {
                let proof = self.job.options.algorithm;
                lost.record(&TreeRecord { root: dir, path, private, proof }, stop)
            }
            None => Ok(()),
        }
    }
}

/// The generations of an output: options for making and keeping them.
#[derive(Clone, Debug)]
pub struct Generations {
    /// The rule for generations that stay; without it, all stay.
    pub keep: Option<KeepRule>,
    /// If more has left the source since the last one, the run is refused.
    pub most: MostDepartures,
    /// Trash that is older is removed after a complete run.
    pub keep_trash: Option<Duration>,
}
