//! The committer: the one thread in which outcomes come together. It makes finished files durable in
//! groups, gives them their names, and records them in the manifest.
//!
//! The order is what the promises rest on: content durable, then the final name, then the name
//! durable, then the manifest line. Nothing is counted as copied that has not come to its end.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::copy::carry_over::carry_over;
use crate::copy::group::{Group, Waiting};
use crate::copy::hard_link::{self, First, HardLinks, Link};
use crate::copy::health::is_in_place;
use crate::copy::ledger::{Ledger, Published, copy_of};
use crate::copy::symlink::{self, Linked};
use crate::error::{Error, Result};
use crate::event::{Done, Event};
use crate::hash::Digest;
use crate::lane::clock::Timer;
use crate::lane::context::{Context, Durability};
use crate::lane::outcome::{Fate, Message, Outcome};
use crate::lane::part;
use crate::manifest::write::ManifestFile;
use crate::sys;
use crate::sys::stat::Stat;
use crate::tree::node::{Entry, OutputDir, SourceDir};
use crate::tree::walk::Found;

/// The committer of a run.
pub struct Committer<'a> {
    pub ledger: Ledger<'a>,
    context: &'a Context<'a>,
    root: Arc<OutputDir>,
    manifest: Option<ManifestFile>,
    group: Group,
    /// The files with several names, where these are kept.
    links: Option<HardLinks>,
    /// Directories with names that no sync of the whole file system covers, since the last commit.
    unsynced: Vec<Arc<OutputDir>>,
    /// Why a sync failed: what was being written then may be lost, whatever later syncs say.
    doubt: Option<io::Error>,
}

impl<'a> Committer<'a> {
    /// A committer for the output whose root is `root`; hard links are kept if `links`.
    pub fn new(
        ledger: Ledger<'a>,
        context: &'a Context<'a>,
        root: Arc<OutputDir>,
        manifest: Option<ManifestFile>,
        links: bool,
    ) -> Self {
        let group = Group::new(sys::open_file_limit());
        let links = links.then(HardLinks::default);
        Self { ledger, context, root, manifest, group, links, unsynced: Vec::new(), doubt: None }
    }

    /// Works until every sender is gone, then commits what is left.
    pub fn work(&mut self, inbox: &Receiver<Message>) {
        let clock = &self.context.clocks.commit;
        loop {
            let message = {
                let _waiting = Timer::start(&clock.waited);
                let now = Instant::now();
                let due =
                    [self.group.due(), self.ledger.published.due()].into_iter().flatten().min();
                let due = due.map_or(Duration::MAX, |due| due.duration_since(now));
                inbox.recv_timeout(due)
            };
            let _busy = Timer::start(&clock.busy);
            match message {
                Ok(Message::Outcomes(outcomes)) => {
                    outcomes.into_iter().for_each(|outcome| self.settle(outcome));
                }
                Ok(Message::Walked(found)) => self.walked(found),
                Err(RecvTimeoutError::Timeout) => self.commit(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.group.is_full() || self.ledger.published.is_much() {
                self.commit();
            }
        }
        let _busy = Timer::start(&clock.busy);
        // Once for the content and the names of the last group, once more for its lines.
        self.commit();
        self.commit();
    }

    /// The walk and every lane came to their end: carries over the lines of files that are no
    /// longer in the source, and publishes the manifest. Returns its path.
    pub fn finish(&mut self) -> Option<PathBuf> {
        self.check_place();
        let cut_short = self.is_cut_short();
        if let (Some(carry), Some(root), Some(manifest), false) =
            (self.context.carry, &self.root.handle, &mut self.manifest, cut_short)
        {
            match carry_over(carry, root, manifest) {
                Ok(carried) => self.ledger.counts.carried = carried,
                Err(error) => self.ledger.give_up(error),
            }
        }
        let durable = self.context.durability != Durability::Off;
        let synced = self.sync_root();
        let manifest = self.manifest.take();
        let unfinished = manifest.as_ref().map(ManifestFile::path);
        let published = synced.and_then(|()| match manifest {
            // Left as it is: a run that did not end must not look as if it had.
            Some(manifest) if self.is_cut_short() => {
                if durable { manifest.persist() } else { Ok(()) }.map(|()| None)
            }
            Some(manifest) => manifest.publish(durable).map(Some),
            None => Ok(None),
        });
        let manifest = match published {
            Ok(Some(path)) => {
                self.remove_superseded();
                Some(path)
            }
            Ok(None) => unfinished,
            Err(error) => {
                self.ledger.give_up(error);
                unfinished
            }
        };
        // Only now: the root may be to be read-only, and publishing changes its time.
        let root = Arc::clone(&self.root);
        self.finish_directory(&root);
        if durable
            && root.finish.is_some()
            && let Err(error) = root.persist()
        {
            self.ledger.give_up(Error::io("make durable", root.path(), error));
        }
        manifest
    }

    fn check_place(&mut self) {
        if !is_in_place(&self.root) {
            let gone = "it was unmounted, moved or replaced meanwhile";
            self.ledger.give_up(Error::finding("go on writing to", self.root.path(), gone));
        }
    }

    fn is_cut_short(&self) -> bool {
        self.ledger.is_broken() || self.context.stop.is_requested()
    }

    /// What runs that were cut short have recorded is in the manifest now.
    fn remove_superseded(&mut self) {
        let (Some(carry), Some(root)) = (self.context.carry, &self.root.handle) else { return };
        for name in carry.unfinished() {
            let name = name.to_string();
            if let Err(error) = root.remove(name.as_ref()) {
                let path = self.root.path_of(name.as_ref());
                self.ledger.warn(&Error::io("remove the unfinished manifest", path, error));
            }
        }
    }

    /// Everything that was done since the last sync, directories' times among it, made durable.
    fn sync_root(&self) -> Result<()> {
        match (self.context.durability, &self.root.handle) {
            (Durability::Grouped { at_once: true }, Some(root)) => root
                .persist_all()
                .map_err(|error| Error::io("make durable", self.root.path(), error)),
            _ => Ok(()),
        }
    }

    fn walked(&mut self, found: Found) {
        match found {
            Found::Files(run) => {
                // The walk's thread gives these to the lanes.
                for entry in &run.files {
                    let path = run.source.path_of(&entry.name);
                    self.ledger.failed(&Error::finding("copy", path, "it was given to no lane"));
                }
            }
            Found::HardLink(_, output, entry) => self.further_name(Link { output, entry }),
            Found::Symlink(source, output, entry) => self.symlink(&source, &output, &entry),
            Found::Special(source, listed, kind) => {
                self.ledger.counts.skipped += 1;
                self.ledger.tell(&source.rel, &listed.name, |path| Event::Skipped(path, kind));
            }
            Found::Swept(output, name) => {
                self.ledger.tell(&output.rel, &name, |path| Event::Swept(path));
            }
            Found::Failed(error) => self.ledger.failed(&error),
            Found::Warning(warning) => self.ledger.warn(&warning),
            Found::Done(output) => self.arrived(&output),
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        let Outcome { output, entry, fate, warnings } = outcome;
        warnings.iter().for_each(|warning| self.ledger.warn(warning));
        match fate {
            Fate::Written { part, digest, replaces } => match &self.doubt {
                None => self.group.push(Waiting { output, entry, part, digest, replaces }),
                Some(error) => {
                    let path = output.path_of(&entry.name);
                    let failed = Error::io("make durable", path, copy_of(error));
                    let failed = part::discard(&output, &part, failed);
                    self.failed(&output, &entry, &failed);
                }
            },
            Fate::Published { digest, replaced } => {
                self.copied(&output, &entry, digest, replaced);
            }
            Fate::Kept { digest } => {
                let counts = &mut self.ledger.counts;
                counts.kept_bytes = counts.kept_bytes.saturating_add(entry.stat.size);
                self.context.progress.bytes.fetch_add(entry.stat.size, Relaxed);
                self.stands(&output, &entry.name, digest, Done::Kept);
                self.done(&output, &entry, digest, true);
            }
            Fate::Left(why) => {
                self.ledger.left(&output, &entry.name, why);
                self.done(&output, &entry, None, false);
            }
            Fate::Failed(error) => self.failed(&output, &entry, &error),
            Fate::Abandoned => {
                output.leave_open();
                self.done(&output, &entry, None, false);
            }
        }
    }

    /// Makes the gathered group durable and publishes it, and records the one before.
    fn commit(&mut self) {
        let files = self.group.take();
        if files.is_empty() && self.ledger.published.is_empty() {
            return;
        }
        self.check_place();
        if let Durability::Grouped { at_once: true } = self.context.durability
            && let Some(root) = &self.root.handle
            && let Err(error) = root.persist_all()
        {
            return self.sync_failed(files, &error);
        }
        // Names in these are durable only when their directories are.
        if let Err(error) = self.sync_directories() {
            return self.sync_failed(files, &error);
        }
        self.record();
        for Waiting { output, entry, part, digest, replaces } in files {
            match part::publish(&output, &part, &entry.name, replaces) {
                Ok(()) => self.copied(&output, &entry, digest, replaces),
                Err(error) => {
                    let error = part::discard(&output, &part, error);
                    self.failed(&output, &entry, &error);
                }
            }
        }
        if let Err(error) = self.sync_directories() {
            return self.sync_failed(Vec::new(), &error);
        }
        // Where names are made durable directory by directory, the lines need not wait.
        if self.context.durability == (Durability::Grouped { at_once: false }) {
            self.record();
            if let Some(Err(error)) = self.manifest.as_ref().map(ManifestFile::persist) {
                self.ledger.give_up(error);
            }
        }
    }

    /// Makes the names in directories durable that no sync of the whole file system covers.
    fn sync_directories(&mut self) -> io::Result<()> {
        std::mem::take(&mut self.unsynced).iter().try_for_each(|dir| dir.persist())
    }

    /// The sync of a group failed: nobody knows what of it is on the device, so all of it failed,
    /// and what was published before it is not recorded. An error like this is not tried again: the
    /// kernel reports it once and then says that all is well. What is being written at this moment
    /// may be lost too, so the run ends here.
    fn sync_failed(&mut self, files: Vec<Waiting>, error: &io::Error) {
        for Waiting { output, entry, part, .. } in files {
            let failed = Error::io("make durable", output.path_of(&entry.name), copy_of(error));
            let failed = part::discard(&output, &part, failed);
            self.failed(&output, &entry, &failed);
        }
        self.ledger.published_in_vain(error);
        self.ledger.give_up(Error::io("make durable", self.root.path(), copy_of(error)));
        self.doubt = Some(copy_of(error));
    }

    /// The lines of what is published and durable go into the manifest.
    fn record(&mut self) {
        let Published { lines, .. } = std::mem::take(&mut self.ledger.published);
        if let Some(manifest) = &mut self.manifest
            && !lines.is_empty()
            && let Err(error) = manifest.append(&lines)
        {
            self.ledger.give_up(error);
        }
    }

    fn is_synced_with_root(&self, dir: &OutputDir) -> bool {
        match self.context.durability {
            Durability::Off => true,
            Durability::Grouped { at_once } => at_once && dir.with_root,
        }
    }

    /// A file was copied and stands complete under its final name.
    fn copied(
        &mut self,
        output: &Arc<OutputDir>,
        entry: &Entry,
        digest: Option<Digest>,
        replaced: bool,
    ) {
        let counts = &mut self.ledger.counts;
        counts.bytes = counts.bytes.saturating_add(entry.stat.size);
        let done = if replaced { Done::Replaced } else { Done::Copied };
        self.stands(output, &entry.name, digest, done);
        self.done(output, entry, digest, true);
    }

    /// An entry stands complete under its final name, which the next commit makes durable.
    fn stands(
        &mut self,
        output: &Arc<OutputDir>,
        name: &OsStr,
        digest: Option<Digest>,
        done: Done,
    ) {
        if !self.is_synced_with_root(output)
            && self.unsynced.last().is_none_or(|last| !Arc::ptr_eq(last, output))
        {
            self.unsynced.push(Arc::clone(output));
        }
        self.ledger.stands(output, name, digest, done);
    }

    fn failed(&mut self, output: &Arc<OutputDir>, entry: &Entry, error: &Error) {
        output.leave_open();
        self.ledger.failed(error);
        self.done(output, entry, None, false);
    }

    /// A file's fate is known: its further names can be made, and its directory may be complete.
    fn done(
        &mut self,
        output: &Arc<OutputDir>,
        entry: &Entry,
        digest: Option<Digest>,
        there: bool,
    ) {
        self.context.progress.entries.fetch_add(1, Relaxed);
        if let Some(links) = self.links.as_mut().filter(|_| entry.stat.links > 1) {
            let (dir, name) = (output.rel.clone(), entry.name.clone());
            let first = First { dir, name, stat: entry.stat, digest, there };
            for (link, first) in links.settle(entry, first) {
                self.link(&link, &first);
            }
        }
        self.arrived(output);
    }

    fn arrived(&mut self, output: &Arc<OutputDir>) {
        if output.arrived() && !output.rel.is_root() {
            self.finish_directory(output);
        }
    }

    /// Everything in a directory is done: it gets its attributes.
    fn finish_directory(&mut self, output: &Arc<OutputDir>) {
        let Some(handle) = &output.handle else { return };
        if let Some((stat, attributes)) = &output.finish {
            // A later run must be able to add what is missing.
            let mode = if output.is_left_open() { stat.mode | 0o300 } else { stat.mode };
            let stat = &Stat { mode, ..*stat };
            let warn = |deed, error| self.ledger.warn(&Error::io(deed, output.path(), error));
            if output.fresh {
                attributes.apply_to_new(handle, stat, output.gid, warn);
            } else if !handle.stat_self().is_ok_and(|now| attributes.are_at(&now, handle, stat)) {
                attributes.apply(handle, stat, false, warn);
            }
        }
        if !self.is_synced_with_root(output)
            && let Err(error) = output.persist()
        {
            // Links and empty directories in it have no other sync: nobody knows whether they stay.
            self.ledger.give_up(Error::io("make durable", output.path(), error));
        }
    }

    fn symlink(&mut self, source: &SourceDir, output: &Arc<OutputDir>, entry: &Entry) {
        let made = symlink::copy(source, output, entry, self.context.policy);
        if let Ok((_, Some(warning))) = &made {
            self.ledger.warn(warning);
        }
        self.linked(output, entry, made.map(|(linked, _)| linked), None, Done::Symlinked);
    }

    /// A further name of a file: it is made when the first has its final name.
    fn further_name(&mut self, link: Link) {
        let Some(links) = &mut self.links else { return };
        let ready = links.add(link);
        let many = links.are_many();
        if let Some((link, first)) = ready {
            self.link(&link, &first);
        }
        if many {
            self.commit();
        }
    }

    fn link(&mut self, link: &Link, first: &First) {
        let made = hard_link::make(&self.root, link, first, self.context.policy);
        self.linked(&link.output, &link.entry, made, first.digest, Done::Linked);
    }

    /// What became of a link of either kind.
    fn linked(
        &mut self,
        output: &Arc<OutputDir>,
        entry: &Entry,
        made: Result<Linked>,
        digest: Option<Digest>,
        done: Done,
    ) {
        match made {
            Ok(Linked::Made) => self.stands(output, &entry.name, digest, done),
            Ok(Linked::Kept) => self.stands(output, &entry.name, digest, Done::Kept),
            Ok(Linked::Left(why)) => self.ledger.left(output, &entry.name, why),
            Err(error) => self.ledger.failed(&error),
        }
        self.context.progress.entries.fetch_add(1, Relaxed);
        self.arrived(output);
    }
}
