//! Walking the source once more when a plan is finished: what came or changed since, and what left, is named.
//!
//! The source is held against the output, not against the plan, so a file that changed before its shard came to it,
//! and was copied as it was then, is no difference. What left is found by the lists of the plan. Nothing is copied: a
//! second plan onto the same output carries the rest.

use std::{
    cell::Cell, io::ErrorKind, ops::ControlFlow, path::PathBuf, sync::atomic::Ordering::Relaxed,
};

use crate::{
    cluster::PlanDir, cluster::pack::EndEntry, cluster::pack::FINISH, cluster::pack::FurtherName,
    cluster::pack::LINKS, cluster::plan_dir::PlanFile, cluster::plan_dir::RootLabel,
    cluster::plan_dir::Seal, copy::LinkOutcome, copy::OutputRun, copy::Plan, copy::Prepared,
    copy::Reservations, copy::links, error::Deed, error::Error, error::Result, event::Event,
    event::EventObserver, hash::Algorithm, io::Reflink, path::RelPath, sys::Attributes, sys::Dir,
    sys::stat::Stat, sys::stat::Time, transfer::BothFiles, transfer::FirstRead, tree::Decision,
    tree::DestinationStat, tree::LastDir, tree::OutputDir, tree::PathRecord, tree::Patience,
    tree::PlannedStat, tree::Policy, tree::SourceDir, tree::SourceEntry, tree::SourceStat,
    tree::WalkEvent, tree::WalkItem, tree::dirs::open_source_below, tree::overwrite::decide,
    volume::times::TimeMatch,
};

const DEED: &str = "find at the output as it is in the source";

/// A walk of the source after the end of a plan.
#[derive(Clone, Debug)]
pub struct RewalkJob {
    pub plan: PlanDir,
    pub seal: Seal,
}

/// The result of the walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewalked {
    /// Entries of the source that are not at the output.
    pub new: u64,
    /// Those that differ there.
    pub changed: u64,
    /// Entries of the plan that are at the output, and no longer in the source.
    pub left: u64,
    /// Those of which it is not known.
    pub failed: u64,
    pub interrupted: Option<usize>,
}

/// The walk while it goes on.
struct Rewalk<'a> {
    observer: &'a EventObserver<'a>,
    follow: bool,
    /// When the plan was begun.
    begun: Time,
    found: Rewalked,
}

impl RewalkJob {
    /// Walks, and names what is not as it is at the output.
    ///
    /// # Errors
    /// Source, output or plan cannot be read.
    pub fn run(&self, observer: &EventObserver<'_>) -> Result<Rewalked> {
        let frozen = &self.plan.plan;
        let mut job = frozen.job();
        job.dry_run = true;
        // Nothing is cloned any more.
        job.options.reflink = Reflink::Auto;
        let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
        let stop = &observer.stop.of_one();
        let patience = Patience { wait: false, deed: "walk once more", tell: &tell, stop };
        let (slot, reservations, read) = (None, &Reservations::default(), &FirstRead::default());
        let run = OutputRun { job: &job, observer, slot, reservations, read, beside: None };
        let prepared = job.prepare(true, patience)?;
        let walk = run.walk(&prepared, true, None);
        let Prepared { source, output, .. } = prepared;
        let follow = self.plan.plan.options.selection.follow_links;
        let begun = self.plan.begun()?;
        let mut rewalk = Rewalk { observer, follow, begun, found: Rewalked::default() };
        let labels_root = self.name_departed(&source, &output, &mut rewalk)?;
        self.look_at_root(&source, &output, labels_root, &mut rewalk)?;
        let _ = walk.run(source, output, |event| {
            rewalk.take(event);
            if stop.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        rewalk.found.interrupted = stop.requested();
        Ok(rewalk.found)
    }

    /// Looks whether the source's root has another label than it had when it was planned, or than the output's has,
    /// which the plan gave it if it `labels_root`.
    fn look_at_root(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        labels_root: bool,
        rewalk: &mut Rewalk<'_>,
    ) -> Result<()> {
        let look = |dir: &Dir, path: PathBuf| dir.stat_self().deed("look at", path);
        let stat = look(&source.handle, source.path())?;
        let mut is_labelled = RootLabel::of(&stat) == self.plan.plan.source_label;
        if let Some(handle) = output.handle.as_ref().filter(|_| labels_root) {
            is_labelled &= is_labelled_at(output, &look(handle, output.path())?, &stat);
        }
        if !is_labelled {
            rewalk.relabelled(output.path());
        }
        Ok(())
    }

    /// Names what the plan lists, the output has, and the source no longer has. Whether it lists a label for the root.
    fn name_departed(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        rewalk: &mut Rewalk<'_>,
    ) -> Result<bool> {
        let follow = self.plan.plan.options.selection.follow_links;
        let mut last: Option<(RelPath, Option<Dir>)> = None;
        let mut output_dir = LastDir::default();
        let mut look = |path: RelPath, rewalk: &mut Rewalk<'_>| {
            let Some((above, name)) = path.split() else { return };
            let known = last.take().filter(|(dir, _)| *dir == above);
            let (_, dir) = last.insert(known.unwrap_or_else(|| {
                let opened = open_source_below(&source.handle, &above, follow);
                (above, opened.ok())
            }));
            let is_there = dir.as_ref().is_some_and(|dir| {
                let stat = crate::sys::name_from_bytes(name).and_then(|name| dir.stat(name, false));
                // What cannot be looked at fails in the walk.
                !stat.is_err_and(|error| error.kind() == ErrorKind::NotFound)
            });
            let Some(root) = output.handle.as_ref().filter(|_| !is_there) else { return };
            if output_dir.stat(root, &path, false).is_ok() {
                rewalk.found.left += 1;
                let finding = "it has left the source since, and stays at the output";
                let path = output.path_below(&path);
                rewalk.tell(Error::finding("find in the source", path, finding));
            }
        };
        for shard in 0..self.seal.shards {
            self.each(&self.plan.list(shard), rewalk, &mut look, |record| {
                let PathRecord { words, path } = PathRecord::of(record);
                PlannedStat::parse(words)?;
                RelPath::parse(path).ok()
            })?;
        }
        self.each(&self.plan.end_list(LINKS), rewalk, &mut look, |record| {
            Some(FurtherName::parse(record)?.path)
        })?;
        let ends = self.plan.end_list(FINISH);
        let labels_root = Cell::new(false);
        self.each(&ends, rewalk, &mut look, |record| match EndEntry::parse(record)? {
            EndEntry::Dir { path, .. } => {
                labels_root.set(labels_root.get() || path.is_root());
                Some(path)
            }
            EndEntry::Symlink(path, _) | EndEntry::FurtherSymlink(path, _) => Some(path),
        })?;
        Ok(labels_root.get())
    }

    /// Looks for each path of a list.
    fn each(
        &self,
        list: &PlanFile<'_>,
        rewalk: &mut Rewalk<'_>,
        look: &mut impl FnMut(RelPath, &mut Rewalk<'_>),
        path: impl Fn(&[u8]) -> Option<RelPath>,
    ) -> Result<()> {
        let mut reader = list.read()?;
        while let Some(record) = reader.next_record()? {
            let Some(path) = path(record) else {
                return Err(reader.torn("a name in it leads out of the tree, or is none"));
            };
            look(path, rewalk);
            if rewalk.observer.stop.is_requested() {
                break;
            }
        }
        Ok(())
    }
}

/// True if the entry that is `there` has the permissions and the owner of `source`, as far as its file system holds
/// them.
fn is_labelled_at(output: &OutputDir, there: &Stat, source: &Stat) -> bool {
    let traits = &output.volume.tried.traits;
    let holds = output.volume.with_root && traits.permissions && traits.owners;
    !holds || Attributes::are_labelled(there, source)
}

impl Rewalk<'_> {
    fn take(&mut self, event: WalkEvent) {
        match event {
            WalkEvent::Files(batch) => {
                for entry in &batch.files {
                    self.file(&batch.source, &batch.output, entry);
                }
            }
            WalkEvent::Item(WalkItem::HardLink(output, entry)) => {
                let judged = output.look(&entry.name).map(|there| match there {
                    None => Decision::Create,
                    Some(there) => {
                        let time = entry.stat.mtime;
                        let same_time = output.holds_time_as(time, there.mtime);
                        match there.kind == entry.stat.kind && same_time {
                            true => Decision::Keep,
                            false => Decision::Replace,
                        }
                    }
                });
                self.judged(&output, &entry, judged);
            }
            WalkEvent::Item(WalkItem::Symlink(source, output, entry)) => {
                let planned = links::plan(&source, &output, &entry, Policy::Never);
                let judged = planned.map(|plan| match plan {
                    Plan::Make { replaces: false } => Decision::Create,
                    Plan::Settled(LinkOutcome::Kept) => Decision::Keep,
                    _ => Decision::Replace,
                });
                self.judged(&output, &entry, judged);
            }
            WalkEvent::Item(WalkItem::Done(output)) if output.handle.is_none() => {
                self.found.new += 1;
                let finding = "the directory is new since the plan";
                self.tell(Error::finding(DEED, output.path(), finding));
            }
            WalkEvent::Item(WalkItem::Done(output)) => self.directory(&output),
            WalkEvent::Item(WalkItem::Failed(error)) => {
                self.found.failed += 1;
                self.tell(error);
            }
            WalkEvent::Item(WalkItem::Warning(warning)) => {
                (self.observer.listen)(&Event::Warning(&warning));
            }
            WalkEvent::Item(_) => {}
        }
    }

    fn file(&mut self, source: &SourceDir, output: &OutputDir, entry: &SourceEntry) {
        let mut is_labelled = true;
        let judged = output.look(&entry.name).map(|there| {
            let there = there.map(|there| source.as_stated(&entry.stat, &there));
            is_labelled = there.is_none_or(|there| is_labelled_at(output, &there, &entry.stat));
            let Some(stat) = &there else { return Ok(Decision::Create) };
            let compared = output.compare_times(entry.stat.mtime, stat.mtime, None);
            let same_time = compared != TimeMatch::Other;
            let destination = DestinationStat { stat, same_time };
            let decision = decide(Policy::Never, SourceStat(&entry.stat), Some(destination));
            // A program may have set its time back. The copy's change time moves with each further name of it.
            let changed = entry.stat.ctime;
            let is_older =
                changed < self.begun && (changed < stat.ctime || !output.has_change_times());
            if decision != Decision::Keep || compared == TimeMatch::Same && is_older {
                return Ok(decision);
            }
            let both = BothFiles { source, output, entry, there: stat };
            let both =
                both.hash(Algorithm::default(), self.follow, &self.observer.stop.of_one())?;
            Ok(match both.is_none_or(|both| both.source == both.copy) {
                true => Decision::Keep,
                false => Decision::Replace,
            })
        });
        let judged = judged.and_then(|judged| judged);
        match judged {
            Ok(Decision::Keep) if !is_labelled => {
                self.observer.progress.entries.fetch_add(1, Relaxed);
                self.relabelled(output.path_of(&entry.name));
            }
            judged => self.judged(output, entry, judged),
        }
    }

    /// The permissions and the owner of a directory, whose times change with what is in it.
    fn directory(&mut self, output: &OutputDir) {
        let (Some(handle), Some((stat, _))) = (&output.handle, &output.finish) else { return };
        if handle.stat_self().is_ok_and(|there| !is_labelled_at(output, &there, stat)) {
            self.relabelled(output.path());
        }
    }

    fn relabelled(&mut self, path: PathBuf) {
        self.found.changed += 1;
        let finding =
            "its permissions or its owner changed since it was copied, there or in the source";
        self.tell(Error::finding(DEED, path, finding));
    }

    /// Counts an entry, and names it unless it is as it is at the output.
    fn judged(&mut self, output: &OutputDir, entry: &SourceEntry, judged: Result<Decision>) {
        self.observer.progress.entries.fetch_add(1, Relaxed);
        let path = output.path_of(&entry.name);
        match judged {
            Ok(Decision::Keep) => {}
            Ok(Decision::Create) => {
                self.found.new += 1;
                let finding = "it is new since the plan, or was removed at the output";
                self.tell(Error::finding(DEED, path, finding));
            }
            Ok(_) => {
                self.found.changed += 1;
                let finding = "it changed since it was copied, there or in the source";
                self.tell(Error::finding(DEED, path, finding));
            }
            Err(error) => {
                self.found.failed += 1;
                self.tell(error);
            }
        }
    }

    fn tell(&self, error: Error) {
        (self.observer.listen)(&Event::Failed(&error));
    }
}
