//! A dry run: the walk and the decisions of a real one, and nothing made.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use crate::copy::before::prepare::Prepared;
use crate::copy::dry_content::DryContent;
use crate::copy::report::Counts;
use crate::copy::special::symlink::{self, LinkOutcome, Plan};
use crate::error::Error;
use crate::event::{Done, Event, EventObserver, Stop};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::{Batch, SourceEntry, WalkEvent, WalkItem};
use crate::tree::overwrite::{Decision, Policy, SourceStat, leave_large, refuse_large};
use crate::tree::walk::Walk;
use crate::volume::output_volume::TOO_LONG_TO_REPLACE;

/// What a dry run works with.
pub struct DryRun<'a> {
    pub policy: Policy,
    pub max_size: Option<u64>,
    pub follow: bool,
    /// What decides where times do not tell.
    pub content: &'a DryContent<'a>,
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
                match symlink::plan(&source, &output, &entry, self.policy) {
                    Ok(Plan::Make { .. }) => match symlink::foretell(&source, &output, &entry) {
                        Ok(()) => {
                            counts.symlinks += 1;
                            self.tell(&output, &entry, Done::Symlinked);
                        }
                        Err(error) => self.failed(&error, counts),
                    },
                    Ok(Plan::Settled(LinkOutcome::Left(why))) => {
                        self.left(&output, &entry, why, counts)
                    }
                    Ok(Plan::Settled(_)) => {
                        counts.unchanged += 1;
                        self.tell(&output, &entry, Done::Kept);
                    }
                    Err(error) => self.failed(&error, counts),
                }
            }
            WalkItem::Special(source, listed, kind) => {
                counts.skipped += 1;
                let path = source.rel.join(&listed.name);
                (self.observer.listen)(&Event::Skipped(path.as_bytes(), kind));
            }
            WalkItem::OtherVolume(source) => {
                counts.skipped += 1;
                (self.observer.listen)(&Event::OtherVolume(source.rel.path().as_bytes()));
            }
            WalkItem::Failed(error) => {
                counts.seen += 1;
                self.failed(&error, counts);
            }
            WalkItem::Limits(output, limits) => {
                (self.observer.listen)(&Event::Limits(&output.path(), &limits));
            }
            WalkItem::Warning(warning) => {
                counts.warnings += 1;
                (self.observer.listen)(&Event::Warning(&warning));
            }
            WalkItem::Looked(_)
            | WalkItem::Done(_)
            | WalkItem::Mounted(_)
            | WalkItem::LeftoverRemoved(..) => {}
        }
    }

    fn files(&self, run: Batch, counts: &mut Counts) {
        for entry in &run.files {
            counts.seen += 1;
            self.observer.progress.entries.fetch_add(1, Relaxed);
            self.observer.progress.bytes.fetch_add(entry.stat.size, Relaxed);
            match self.decide(&run.source, &run.output, entry) {
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

    fn decide(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        entry: &SourceEntry,
    ) -> Result<Decision, Error> {
        let stat = SourceStat(&entry.stat);
        if let Some(why) = leave_large(self.max_size, stat) {
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
                .map_err(|error| Error::io("open", source.path_of(&entry.name), error))?;
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
