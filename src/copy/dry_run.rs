//! A dry run: the walk and the decisions of a real one, and nothing made.

use std::{
    cell::OnceCell, ffi::OsStr, ops::ControlFlow, sync::Arc, sync::atomic::Ordering::Relaxed,
};

use crate::{
    copy::CopyJob, copy::Counts, copy::LinkOutcome, copy::Plan, copy::Prepared, copy::links,
    copy::record::near, error::Deed, error::Error, error::Result, event::Done, event::Event,
    event::EventObserver, event::Stop, hash::Algorithm, io::CopyOptions, manifest::ListKind,
    manifest::NextLine, state::Belief, state::Knowledge, state::Missing, state::PrivateDir,
    sys::stat::Kind, sys::stat::Stat, transfer::BothFiles, transfer::LateCopy,
    transfer::baseline::Baseline, transfer::prepare::belief, transfer::prepare::compare_times,
    transfer::rot_check, tree::Batch, tree::Decision, tree::DestinationStat, tree::OutputDir,
    tree::Policy, tree::SourceDir, tree::SourceEntry, tree::SourceStat, tree::Walk,
    tree::WalkEvent, tree::WalkItem, tree::overwrite, tree::overwrite::leave_out,
    tree::overwrite::refuse_large, volume::TOO_LONG_TO_REPLACE, volume::times::TimeMatch,
};

/// The state of a dry run.
pub struct DryRun<'a> {
    pub options: &'a CopyOptions,
    pub follow: bool,
    /// The comparison of contents, where times do not decide.
    pub content: &'a DryContent<'a>,
    /// The lists that the run would write beside its manifest.
    pub lists: &'a [ListKind],
    /// What the source would be held against.
    pub expected: Option<&'a Baseline>,
    pub observer: &'a EventObserver<'a>,
    pub stop: &'a Stop,
}

impl DryRun<'_> {
    /// Tells what would become of every entry, as if it had.
    pub fn run(&self, prepared: Prepared, walk: &Walk<'_>) -> Counts {
        let mut counts = Counts::default();
        let Prepared { source, output, file, .. } = prepared;
        if let Some(entry) = file {
            self.files(Batch { source, output, files: vec![entry] }, &mut counts);
        } else {
            let _ = walk.run(source, output, |found| {
                match found {
                    WalkEvent::Files(batch) => self.files(batch, &mut counts),
                    WalkEvent::Item(item) => self.item(item, &mut counts),
                }
                match self.stop.is_requested() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        }
        counts
    }

    fn item(&self, found: WalkItem, counts: &mut Counts) {
        match found {
            WalkItem::HardLink(output, entry) => {
                counts.seen += 1;
                counts.linked += 1;
                self.tell(&output, &entry, Done::Linked);
            }
            WalkItem::Symlink(source, output, entry) => {
                counts.seen += 1;
                match links::plan(&source, &output, &entry, self.options.policy) {
                    Ok(Plan::Make { .. }) => match links::foretell(&source, &output, &entry) {
                        Ok(()) => {
                            let (counted, done) = match entry.stat.kind {
                                Kind::Symlink => (&mut counts.symlinks, Done::Symlinked),
                                _ => (&mut counts.specials, Done::Special),
                            };
                            *counted += 1;
                            self.tell(&output, &entry, done);
                        }
                        Err(error) => self.failed(&error, counts),
                    },
                    Ok(Plan::Settled(LinkOutcome::Left(why))) => {
                        self.left(&output, &entry, why, counts)
                    }
                    Ok(Plan::Settled(_)) => {
                        counts.unchanged += 1;
                        match entry.stat.kind {
                            Kind::Symlink => counts.unchanged_links += 1,
                            _ => counts.unchanged_specials += 1,
                        }
                        self.tell(&output, &entry, Done::Kept);
                    }
                    Err(error) => self.failed(&error, counts),
                }
            }
            WalkItem::Failed(error) => {
                counts.seen += 1;
                self.failed(&error, counts);
            }
            WalkItem::Left(..) => {
                (counts.seen, counts.left) = (counts.seen + 1, counts.left + 1);
                found.tell(&self.observer.listen);
            }
            other => {
                let is_skipped = matches!(other, WalkItem::Special(..) | WalkItem::OtherVolume(_));
                counts.skipped += u64::from(is_skipped);
                counts.warnings += u64::from(matches!(other, WalkItem::Warning(_)));
                other.tell(&self.observer.listen);
            }
        }
    }

    fn files(&self, run: Batch, counts: &mut Counts) {
        for entry in &run.files {
            counts.seen += 1;
            self.observer.progress.entries.fetch_add(1, Relaxed);
            self.observer.progress.bytes.fetch_add(entry.stat.size, Relaxed);
            let expected = self.expected;
            let rotten = expected.map(|it| rot_check::foretell(it, &run.source, entry));
            match rotten.transpose() {
                Ok(rotten) => {
                    if let Some(rotten) = rotten.flatten() {
                        (counts.failed, counts.rotten) = (counts.failed + 1, counts.rotten + 1);
                        (self.observer.listen)(&Event::Rotten(&rotten));
                        continue;
                    }
                }
                Err(error) => {
                    self.failed(&error, counts);
                    continue;
                }
            }
            let decided = self.decide(&run.source, &run.output, entry);
            if matches!(decided, Ok(Decision::Create | Decision::Replace | Decision::Keep)) {
                self.unlisted(&run, entry, counts);
            }
            match decided {
                Ok(Decision::Create) => {
                    (counts.copied, counts.bytes) =
                        (counts.copied + 1, counts.bytes + entry.stat.size);
                    self.tell(&run.output, entry, Done::Copied);
                }
                Ok(Decision::Replace) => {
                    (counts.replaced, counts.bytes) =
                        (counts.replaced + 1, counts.bytes + entry.stat.size);
                    self.tell(&run.output, entry, Done::Replaced);
                }
                Ok(Decision::Keep) => {
                    (counts.unchanged, counts.unchanged_bytes) =
                        (counts.unchanged + 1, counts.unchanged_bytes + entry.stat.size);
                    self.tell(&run.output, entry, Done::Kept);
                }
                Ok(Decision::Leave(why)) => self.left(&run.output, entry, why, counts),
                Ok(Decision::Refuse(why)) => {
                    let path = run.output.path_of(&entry.name);
                    self.failed(&Error::finding("copy to", path, why), counts);
                }
                Err(error) => self.failed(&error, counts),
            }
        }
    }

    /// Counts a list among the files that would not be written, because this one has its name.
    fn unlisted(&self, run: &Batch, entry: &SourceEntry, counts: &mut Counts) {
        if near::is_in_the_way(self.lists, &run.source, &entry.name) {
            (counts.unlisted, counts.warnings) = (counts.unlisted + 1, counts.warnings + 1);
            let error = Error::finding(near::DEED, run.output.path_of(&entry.name), near::TAKEN);
            (self.observer.listen)(&Event::Warning(&error));
        }
    }

    fn decide(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        entry: &SourceEntry,
    ) -> Result<Decision, Error> {
        let stat = SourceStat(&entry.stat);
        if let Some(why) = leave_out(&self.options.selection, stat) {
            return Ok(Decision::Leave(why));
        }
        let there = output.look(&entry.name)?;
        let there = there.map(|there| source.as_stated(&entry.stat, &there));
        let decision = match &there {
            Some(there) => self.content.decide(source, output, entry, there)?,
            None => Decision::Create,
        };
        if matches!(decision, Decision::Create | Decision::Replace) {
            if let Some(why) = refuse_large(output.largest_file(), stat) {
                return Ok(Decision::Refuse(why));
            }
            if decision == Decision::Replace
                && !output.volume.replaces(&entry.name, output.handle.as_ref())
            {
                return Ok(Decision::Refuse(TOO_LONG_TO_REPLACE));
            }
            // A file that cannot be opened would fail.
            source
                .handle
                .open_file(&entry.name, self.follow)
                .deed_at("open", || source.path_of(&entry.name))?;
        }
        Ok(decision)
    }

    fn left(
        &self,
        output: &OutputDir,
        entry: &SourceEntry,
        why: &'static str,
        counts: &mut Counts,
    ) {
        counts.left += 1;
        (self.observer.listen)(&Event::Left(output.rel.join(&entry.name).as_bytes(), why));
    }

    fn failed(&self, error: &Error, counts: &mut Counts) {
        counts.failed += 1;
        (self.observer.listen)(&Event::Failed(error));
    }

    fn tell(&self, output: &OutputDir, entry: &SourceEntry, done: Done) {
        (self.observer.listen)(&Event::Stands(output.rel.join(&entry.name).as_bytes(), done));
    }
}

// The comparison, in a dry run, of a file whose time does not tell whether it is the source's: as in a run its content
// decides, and nothing is set.

/// Compares files of both sides.
pub struct DryContent<'a> {
    job: &'a CopyJob,
    follow: bool,
    /// The roots of both sides.
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
    /// The records of earlier runs, read when they are first asked for.
    known: OnceCell<Option<Knowledge>>,
    stop: &'a Stop,
}

impl<'a> DryContent<'a> {
    /// For a job that follows links or not, between these roots.
    pub fn new(
        job: &'a CopyJob,
        follow: bool,
        source: &Arc<SourceDir>,
        output: &Arc<OutputDir>,
        stop: &'a Stop,
    ) -> Self {
        let (source, output) = (Arc::clone(source), Arc::clone(output));
        Self { job, follow, source, output, known: OnceCell::new(), stop }
    }

    /// The decision on a file, which is `there` at the output.
    ///
    /// # Errors
    /// Content decides, and one side cannot be read or changes meanwhile.
    pub fn decide(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        entry: &SourceEntry,
        there: &Stat,
    ) -> Result<Decision> {
        let (policy, algorithm, stat) =
            (self.job.options.policy, self.job.options.algorithm, SourceStat(&entry.stat));
        let decide_if = |same_time| {
            let destination = DestinationStat { stat: there, same_time };
            overwrite::decide(policy, stat, Some(destination))
        };
        let mut time = output.compare_times(entry.stat.mtime, there.mtime, None);
        let guessed = decide_if(time != TimeMatch::Other);
        let is_clear = match guessed {
            Decision::Keep => time == TimeMatch::Same,
            Decision::Leave(_) => algorithm == Algorithm::None || there.size != entry.stat.size,
            _ => true,
        };
        if is_clear {
            return Ok(guessed);
        }
        let belief = self.belief(output, entry, there);
        time = compare_times(algorithm, output, stat, there, belief);
        let decision = decide_if(time != TimeMatch::Other);
        let (is_late, otherwise) = match decision {
            Decision::Keep if time == TimeMatch::Unclear => (false, decide_if(false)),
            Decision::Leave(_) => match LateCopy::of(policy, output, &entry.stat, there, belief) {
                Some(late) => (late.is_late, decision),
                None => return Ok(decision),
            },
            _ => return Ok(decision),
        };
        let both = BothFiles { source, output, entry, there };
        let Some(both) = both.hash(algorithm, self.follow, self.stop)? else { return Ok(decision) };
        let is_recorded = match belief {
            Belief::Doubtful(remembered) => remembered.digests().any(|it| it == both.source),
            _ => false,
        };
        let is_damaged = (is_late || decision == Decision::Keep) && is_recorded;
        Ok(match both.source == both.copy {
            true => Decision::Keep,
            false if is_damaged && policy != Policy::Never => Decision::Replace,
            false => otherwise,
        })
    }

    /// The belief of earlier runs about the file that is there.
    fn belief(&self, output: &OutputDir, entry: &SourceEntry, there: &Stat) -> Belief {
        let (path, stat) = (output.rel.join(&entry.name), SourceStat(&entry.stat));
        self.known().map_or(Belief::Nothing, |known| {
            belief(known, output, path.as_bytes(), stat, there, &mut NextLine::default())
        })
    }

    /// What earlier runs know of the output, if it is there.
    pub fn known(&self) -> Option<&Knowledge> {
        self.known.get_or_init(|| self.load()).as_ref()
    }

    /// Loads the records; those that cannot be read count for nothing.
    fn load(&self) -> Option<Knowledge> {
        let (root, path) = (self.output.handle.as_ref()?, &self.job.output);
        let elsewhere = self.job.state.as_deref();
        let private = PrivateDir::open(root, path, elsewhere, Missing::Leave).ok().flatten();
        let is_in_source = |name: &OsStr| self.source.handle.stat(name, false).is_ok();
        let is_to_stop = || self.stop.is_requested();
        Some(Knowledge::load(private.as_ref(), root, path, &is_in_source, &is_to_stop).0)
    }
}
