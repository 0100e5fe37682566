//! Making a plan: one walk, which makes the directories at the output and lists everything else.

use std::{
    fs::File, hash::BuildHasher, hash::Hasher, hash::RandomState, ops::ControlFlow, path::Path,
    path::PathBuf, sync::Arc, sync::atomic::Ordering::Relaxed,
};

use crate::{
    cluster::PlanDir, cluster::ShardSize, cluster::attempt::Beat, cluster::attempt::PLANNER_DEAD,
    cluster::finish::newest_at_output, cluster::pack::DirLabel, cluster::pack::EndEntry,
    cluster::pack::FINISH, cluster::pack::FurtherName, cluster::pack::LINKS,
    cluster::pack::LinkedKind, cluster::pack::LinkedNames, cluster::pack::Packer,
    cluster::pack::walk_ahead, cluster::plan_dir::FrozenPlan, cluster::plan_dir::RootLabel,
    cluster::plan_dir::Seal, copy::CopyJob, copy::OutputRun, copy::Prepared, copy::Reservations,
    copy::before::open_source, error::Deed, error::Error, error::Result, event::Event,
    event::EventObserver, manifest::SummedWriter, staged::StagedFile, staged::write_whole,
    state::Unlisted, sys, sys::Dir, transfer::FirstRead, tree::OutputDir, tree::Patience,
    tree::SortedRecords, tree::Sorter, tree::SourceEntry, tree::WalkEvent, tree::WalkItem,
};

/// A plan to be made.
#[derive(Clone, Debug)]
pub struct PlanJob {
    /// What is to be copied, where to, and how.
    pub job: CopyJob,
    /// Its directory, which is made.
    pub path: PathBuf,
    pub size: ShardSize,
}

/// What a plan came to.
#[derive(Debug)]
pub struct PlanReport {
    pub seal: Seal,
    /// Why it could not be completed, if so.
    pub broken: Option<Error>,
    /// The code that it was asked to stop with, if it was.
    pub interrupted: Option<usize>,
}

/// Number of entries that could not be planned of which the plan keeps why.
const MOST_UNPLANNED: usize = 100;

/// A plan while it is made.
struct Planner<'a> {
    observer: &'a EventObserver<'a>,
    packer: Packer<'a>,
    /// The list of links and directories, and its file.
    ends: SummedWriter<File>,
    staged: StagedFile,
    /// Only where hard links are kept.
    linked: Option<LinkedNames>,
    seal: Seal,
    /// Names must be made durable directory by directory.
    at_once: bool,
    root: Arc<OutputDir>,
}

impl PlanJob {
    /// Makes the plan.
    ///
    /// # Errors
    /// It was refused: nothing was planned.
    pub fn run(&self, observer: &EventObserver<'_>) -> Result<PlanReport> {
        let job = &self.job;
        let stop = &observer.stop.of_one();
        if let Some(why) = sys::why_none_is_closed() {
            return Err(Error::finding("make the plan", &self.path, why));
        }
        job.check_options()?;
        job.refuse_in_source("make the plan", &self.path)?;
        let (source, file) = open_source(&job.source)?;
        job.finds_nothing(&source, file.is_some())?.map_or(Ok(()), Err)?;
        let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
        let patience = Patience { wait: job.wait, deed: "plan a copy to", tell: &tell, stop };
        let (slot, reservations, read) = (None, &Reservations::default(), &FirstRead::default());
        let run = OutputRun { job, observer, slot, reservations, read, beside: None };
        let too_large = if job.options.check_space { run.check_space(patience)? } else { None };
        job.refuse_other_layout()?;
        let prepared = job.prepare(false, patience)?;
        let plan = self.directory(&prepared)?;
        let beat = Beat::begin(&plan.dir).deed("write the plan", &plan.path)?;
        if let Some(private) = &prepared.private {
            // Shards may begin while the walk goes on; only a run that wants to be alone is kept out.
            for dir in private.locked() {
                let shared = dir.lock_shared();
                shared.deed_at("lock", || private.path())?;
            }
            Unlisted { plan: Some(plan.plan.plan) }.note(private, job.options.sync)?;
        }
        for warning in prepared.warnings.iter().chain(&too_large) {
            (observer.listen)(&Event::Warning(warning));
        }
        let mut walk = run.walk(&prepared, false, None);
        // No record is read that would tell whose a directory is.
        walk.spares_others = false;
        let stat_workers = job.workers_for(&prepared, false, 1).stat_workers();
        let root = Arc::clone(&prepared.output);
        let mut planner = self.planner(observer, &plan, root)?;
        let (mut broken, mut interrupted, mut seal) = (None, None, Seal::default());
        let Prepared { source, output, .. } = prepared;
        // To the seal: making durable what the walk made, and sorting, may take long too.
        let made = beat.during(&plan.path, PLANNER_DEAD, || {
            let walked = walk_ahead(&walk, source, output, stat_workers, |found| {
                match planner.take(found) {
                    Err(error) => {
                        broken = Some(error);
                        ControlFlow::Break(())
                    }
                    Ok(()) if stop.is_requested() => ControlFlow::Break(()),
                    Ok(()) => ControlFlow::Continue(()),
                }
            });
            interrupted = stop.requested();
            seal = planner.seal.clone();
            walked?;
            if broken.is_none() && interrupted.is_none() {
                seal = planner.finish(&plan)?;
            }
            Ok(())
        });
        broken = broken.or(made.err());
        Ok(PlanReport { seal, broken, interrupted })
    }

    /// Makes the plan's directory.
    fn directory(&self, prepared: &Prepared) -> Result<PlanDir> {
        let Self { job, path, .. } = self;
        if prepared.file.is_some() {
            let finding = "it is a file; a plan is for directories";
            return Err(Error::finding("plan a copy of", &job.source, finding));
        }
        let whole = |path: &Path| {
            let whole = std::path::absolute(path).deed("find", path)?;
            match whole.to_str() {
                Some(_) => Ok(whole),
                None => Err(Error::finding("plan with", path, "its path is not UTF-8")),
            }
        };
        let source = prepared.source.handle.stat_self().deed("look at", &job.source)?;
        let plan = FrozenPlan {
            format: PlanDir::format(),
            plan: RandomState::new().build_hasher().finish() as u32,
            version: env!("CARGO_PKG_VERSION").into(),
            name: None,
            source: whole(&job.source)?,
            output: whole(&job.output)?,
            source_inode: prepared.source_id.ino,
            source_label: RootLabel::of(&source),
            output_inode: prepared.output_id.map_or(0, |id| id.ino),
            newest: newest_at_output(prepared)?.map(|name| name.to_string()),
            state: job.state.as_deref().map(whole).transpose()?,
            options: job.options.clone(),
        };
        PlanDir::create(path, plan)
    }

    fn planner<'a>(
        &self,
        observer: &'a EventObserver<'a>,
        plan: &'a PlanDir,
        root: Arc<OutputDir>,
    ) -> Result<Planner<'a>> {
        let fail = |error| Error::io("write the plan", &plan.path, error);
        let list = plan.end_list(FINISH);
        let staged = StagedFile::of(&plan.dir, &list.name, false, &|_| false).map_err(fail)?;
        let file = staged.file().and_then(File::try_clone).map_err(fail)?;
        Ok(Planner {
            observer,
            packer: Packer::new(plan, self.size),
            staged,
            ends: SummedWriter::new(file, list.end, &list.header).map_err(fail)?,
            linked: self.job.options.selection.hard_links.then(LinkedNames::new),
            seal: Seal { plan: plan.plan.plan, ..Seal::default() },
            at_once: root.handle.as_ref().is_some_and(Dir::can_persist_all),
            root,
        })
    }
}

impl Planner<'_> {
    fn take(&mut self, found: WalkEvent) -> Result<()> {
        match found {
            WalkEvent::Files(batch) => {
                for entry in &batch.files {
                    let shard = self.packer.add(&batch.output, entry)?;
                    self.remember(&batch.output, entry, LinkedKind::First(Some(shard)))?;
                    self.count(entry.stat.size);
                }
                Ok(())
            }
            WalkEvent::Item(WalkItem::HardLink(output, entry)) => {
                self.further_name(&output, &entry)
            }
            WalkEvent::Item(WalkItem::Symlink(_, output, entry)) => {
                self.seal.symlinks += 1;
                self.remember(&output, &entry, LinkedKind::First(None))?;
                self.write(&EndEntry::Symlink(output.rel.join(&entry.name), output.ways))
            }
            WalkEvent::Item(WalkItem::Done(output)) => self.directory(&output),
            WalkEvent::Item(WalkItem::Failed(error)) => {
                self.seal.failed += 1;
                if self.seal.unplanned.len() < MOST_UNPLANNED {
                    self.seal.unplanned.push(error.to_string());
                }
                self.observer.progress.failed.fetch_add(1, Relaxed);
                (self.observer.listen)(&Event::Failed(&error));
                Ok(())
            }
            WalkEvent::Item(other) => {
                other.tell(&self.observer.listen);
                Ok(())
            }
        }
    }

    fn count(&self, bytes: u64) {
        self.observer.progress.entries.fetch_add(1, Relaxed);
        self.observer.progress.bytes.fetch_add(bytes, Relaxed);
    }

    /// Remembers a name of a file that has several.
    fn remember(
        &mut self,
        output: &OutputDir,
        entry: &SourceEntry,
        kind: LinkedKind,
    ) -> Result<()> {
        let SourceEntry { name, stat } = entry;
        let Some(linked) = self.linked.as_mut().filter(|_| stat.links > 1) else { return Ok(()) };
        let path = output.rel.join(name);
        linked.add(stat.id, kind, &path).map_err(|error| self.cannot_sort(error))
    }

    fn cannot_sort(&self, error: std::io::Error) -> Error {
        Error::io("sort the further names of files for", self.root.path(), error)
    }

    fn further_name(&mut self, output: &OutputDir, entry: &SourceEntry) -> Result<()> {
        self.seal.hard_links += 1;
        self.remember(output, entry, LinkedKind::Further)
    }

    /// The further names of files, sorted by the shards of their first; those of symbolic links are written.
    fn sort_names(&mut self) -> Result<SortedRecords> {
        let mut sorter = Sorter::new(FurtherName::order);
        if let Some(linked) = self.linked.take() {
            let mut names = linked.finish().map_err(|error| self.cannot_sort(error))?;
            while let Some((shard, first, path)) =
                names.next_name().map_err(|error| self.cannot_sort(error))?
            {
                match shard {
                    None => self.write(&EndEntry::FurtherSymlink(path, first))?,
                    Some(shard) => {
                        let added = FurtherName { shard, first, path }.add_to(&mut sorter);
                        added.map_err(|error| self.cannot_sort(error))?;
                    }
                }
            }
        }
        sorter.finish().map_err(|error| self.cannot_sort(error))
    }

    /// The walk has nothing more from a directory, nor from those below it.
    fn directory(&mut self, output: &Arc<OutputDir>) -> Result<()> {
        self.seal.directories += 1;
        if let Some((stat, _)) = &output.finish {
            let (path, label, ways) = (output.rel.path(), DirLabel::of(stat), output.ways);
            self.write(&EndEntry::Dir { path, label, fresh: output.fresh, ways })?;
        }
        if !(self.at_once && output.volume.with_root) {
            let persisted = output.persist();
            persisted.deed_at("make durable", || output.path())?;
        }
        Ok(())
    }

    fn write(&mut self, entry: &EndEntry) -> Result<()> {
        let written = entry.to_record().and_then(|record| self.ends.add(&record));
        written.deed_at("write the plan for", || self.root.path())
    }

    /// Writes what is left, and says that the plan is complete.
    fn finish(mut self, plan: &PlanDir) -> Result<Seal> {
        let fail = |error| Error::io("write the plan", &plan.path, error);
        if let Some(root) = self.root.handle.as_ref().filter(|_| self.at_once) {
            let persisted = root.persist_all();
            persisted.deed_at("make durable", || self.root.path())?;
        }
        let sorted = self.sort_names()?;
        let packed = self.packer.finish()?;
        (self.seal.shards, self.seal.files, self.seal.bytes) =
            (packed.shards, packed.files, packed.bytes);
        self.seal.shards_sum = packed.sum;
        self.seal.finish_sum = self.ends.finish(0).map_err(fail)?.sum.to_string();
        let (dir, list) = (&plan.dir, plan.end_list(LINKS));
        let closed = self.staged.close(dir, true);
        let ends = plan.end_list(FINISH).name;
        closed.and_then(|it| it.publish(dir, &ends, false)).map_err(fail)?;
        let fill = |file: &mut File| {
            let mut links = SummedWriter::new(file, list.end, &list.header)?;
            let mut reader = sorted.reader();
            while let Some(record) = reader.next_record()? {
                links.add(record)?;
            }
            self.seal.links_sum = links.finish(0)?.sum.to_string();
            Ok(())
        };
        write_whole(dir, &list.name, false, false, fill).map_err(fail)?;
        plan.write_seal(&self.seal)?;
        Ok(self.seal)
    }
}
