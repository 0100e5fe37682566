//! Making finished files durable, publishing, counting and recording them.

pub mod accounting;
mod carry_over;
mod expected;
pub mod finish;
pub mod group;
mod health;
mod put_off;

use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::{cell::OnceCell, io, time::Duration, time::Instant};

use crossbeam_channel::{Receiver, select};

use crate::{
    copy::Link, copy::commit::accounting::Accounting, copy::commit::accounting::copy_of,
    copy::commit::finish::SyncState, copy::commit::group::Answer, copy::commit::group::Group,
    copy::commit::group::ReadBackQueue, copy::commit::put_off::PutOffFiles,
    copy::hard_link::HardLinks, copy::record::PendingRows, copy::record::Recording,
    copy::record::row_of, error::Error, event::Done, event::Stop, event::Timer, hash::Digest,
    io::Durability, manifest::ManifestFile, parity::ParityAhead, part, part::Transfer,
    part::content::CopyTarget, part::content::Method, staged::refuse_moved, state::Row, sys,
    sys::stat::Inode, transfer::CheckedCopy, transfer::CommitterMessage, transfer::Context,
    transfer::Labels, transfer::Outcome, transfer::PendingPublish, transfer::ReadBackVerdict,
    transfer::SecondReading, transfer::TransferResult, transfer::WrittenPart, transfer::labels,
    tree::OutputDir, tree::WalkItem,
};

// The committer: the one thread in which outcomes come together. It makes finished files durable in
// groups, gives them their names, and records them in the manifest.
//
// The order is what the promises rest on: content durable, then the final name, then the name
// durable, then the manifest line. Nothing is counted as copied that has not come to its end.

/// Time between two looks at the stop signal, while something waits.
const LOOK: Duration = Duration::from_millis(200);

/// The events that the committer waits for.
enum CommitterWake {
    Message(CommitterMessage),
    Answer(Answer),
    /// Something waited long enough.
    Due,
    /// Every sender is gone.
    End,
}

/// The committer of a run.
pub struct Committer<'a> {
    pub accounting: Accounting<'a>,
    pub(crate) context: &'a Context<'a>,
    pub(crate) manifest: Option<ManifestFile>,
    /// Rows that wait for the clock.
    pub(crate) rows: PendingRows,
    /// The writing for later runs beside the manifest.
    pub recording: Option<Recording<'a>>,
    group: Group,
    /// Copies that are being read back.
    verifying: ReadBackQueue,
    /// Files that are rescued when all others are done.
    put_off: PutOffFiles,
    /// The files with several names, where these are kept.
    pub(crate) links: Option<HardLinks>,
    pub(crate) syncs: SyncState,
    /// Directories that get their label when what has left the source is out of them.
    pub(crate) late_dirs: Vec<Arc<OutputDir>>,
    /// True if nobody else may enter the root while the run is on.
    is_root_closed: OnceCell<bool>,
    /// True if entries that have left the source are to leave the output.
    pub is_mirror: bool,
    /// The maker of parity, if that is made beside the copy.
    pub ahead: Option<ParityAhead>,
    /// On its work or on its wait.
    timer: Timer<'a>,
}

impl<'a> Committer<'a> {
    /// A committer that keeps hard links if `links`. Files wait in `group`, and are read back through
    /// `verifying` if that has threads.
    pub fn new(
        accounting: Accounting<'a>,
        context: &'a Context<'a>,
        manifest: Option<ManifestFile>,
        links: bool,
        group: Group,
        verifying: ReadBackQueue,
    ) -> Self {
        let (links, syncs) =
            (links.then(|| HardLinks::new(context.options.follow)), SyncState::default());
        let timer = Timer::start(&context.control.timings.commit.waited);
        let (rows, recording) = (PendingRows::default(), None);
        let put_off = PutOffFiles::new(group.most_dirs());
        Self {
            accounting,
            context,
            manifest,
            rows,
            recording,
            group,
            verifying,
            put_off,
            links,
            syncs,
            late_dirs: Vec::new(),
            is_root_closed: OnceCell::new(),
            is_mirror: false,
            ahead: None,
            timer,
        }
    }

    /// The root of the output.
    pub(crate) fn root(&self) -> &Arc<OutputDir> {
        self.accounting.root()
    }

    /// Works until every sender is gone, then commits what is left.
    pub fn work(&mut self, inbox: &Receiver<CommitterMessage>) {
        let clock = &self.context.control.timings.commit;
        loop {
            self.timer.switch(&clock.waited);
            let came = self.next(inbox);
            self.timer.switch(&clock.busy);
            match came {
                CommitterWake::Message(message) => {
                    self.record_refuted();
                    self.received(message);
                }
                CommitterWake::Answer(answer) => self.answered(answer),
                CommitterWake::Due => self.commit(),
                CommitterWake::End => break,
            }
            if self.group.is_full() || self.accounting.published.is_much() {
                self.commit();
            }
            if self.accounting.standing.is_much() {
                self.record_standing();
            }
        }
        self.rescue();
        // Once for the content and the names of the last group, once more for its lines.
        self.commit();
        self.verifying.close();
        self.take_answers_while(ReadBackQueue::is_busy);
        self.commit();
        self.timer.switch(&clock.waited);
    }

    fn received(&mut self, message: CommitterMessage) {
        match message {
            CommitterMessage::Results(results) => {
                results.into_iter().for_each(|result| self.settle(result));
            }
            CommitterMessage::Warning(warning) => self.accounting.warn(&warning),
            CommitterMessage::Walked(found) => self.walked(found),
        }
    }

    /// Waits for what comes next.
    fn next(&self, inbox: &Receiver<CommitterMessage>) -> CommitterWake {
        let due = [self.group.due(), self.accounting.due()].into_iter().flatten().min();
        let left = |due: Instant| due.saturating_duration_since(Instant::now());
        loop {
            let wait = due.map_or(Duration::MAX, |due| left(due).min(LOOK));
            select! {
                recv(inbox) -> message => {
                    return message.map_or(CommitterWake::End, CommitterWake::Message);
                }
                recv(self.verifying.answers()) -> answer => {
                    return CommitterWake::Answer(answer.unwrap_or(Answer::Died));
                }
                default(wait) => {}
            }
            // A thread that hangs in a call must not keep what is complete from its record; and a group holds
            // directories open, for which others may wait.
            let is_wanted = self.context.control.stop.is_at_once() || sys::descriptors_are_wanted();
            if is_wanted || due.is_some_and(|due| left(due).is_zero()) {
                return CommitterWake::Due;
            }
        }
    }

    /// Deals with copies that come back from being read while this holds.
    pub(crate) fn take_answers_while(&mut self, condition: fn(&ReadBackQueue) -> bool) {
        let clock = &self.context.control.timings.commit;
        while condition(&self.verifying) {
            self.timer.switch(&clock.waited);
            let answer = self.verifying.answers().recv();
            self.timer.switch(&clock.busy);
            self.answered(answer.unwrap_or(Answer::Died));
        }
    }

    fn answered(&mut self, answer: Answer) {
        let Answer::ReadBack(answer) = answer else {
            // Whatever it had in hand is lost; nothing is waited for any more.
            self.verifying.lost();
            let died = "the thread that reads it back died; this is a defect of dircopy";
            let error = Error::finding("prove the copy at", self.root().path(), died);
            return self.accounting.give_up(error);
        };
        let CheckedCopy { file, verdict, warnings } = *answer;
        self.verifying.returned(&file);
        warnings.iter().for_each(|warning| self.accounting.warn(warning));
        match verdict {
            ReadBackVerdict::Good(proof, second) => {
                self.accounting.counts.verified(proof, file.target.entry.stat.size);
                match second {
                    SecondReading::NotAsked => {}
                    SecondReading::Agrees(from) => self.accounting.counts.read_twice(from),
                    SecondReading::Failed(error) => self.accounting.unconfirmed(&error),
                }
                self.publish(file);
            }
            ReadBackVerdict::Unlike(error) => {
                self.failed(&file.target, &error);
                self.accounting.counts.unconfirmed += 1;
            }
            ReadBackVerdict::Bad(error) => {
                self.failed(&file.target, &error);
                // A disk that is gone does not say what it holds.
                let is_unknown = error.kind().is_some() && self.accounting.is_broken();
                self.accounting.counts.damaged += u64::from(!is_unknown);
            }
            ReadBackVerdict::Failed(error) => self.failed(&file.target, &error),
            ReadBackVerdict::Abandoned => self.abandoned(&file.target),
        }
    }

    pub(crate) fn check_place(&mut self) {
        let root = self.root().handle.as_ref();
        if let Some(Err(moved)) = root.map(|root| refuse_moved(root, &self.root().path())) {
            self.accounting.give_up(moved);
        }
        self.accounting.check_source();
    }

    pub(crate) fn is_cut_short(&self) -> bool {
        self.accounting.is_broken() || self.context.control.stop.is_requested()
    }

    /// True if so many entries are all that were met, and nothing was made or changed.
    pub(crate) fn has_kept_all(&self, found: u64) -> bool {
        let control = &self.context.control;
        let is_all = self.accounting.counts.unchanged == found;
        is_all && !control.gate.was_asked() && !control.stop.is_requested()
    }

    fn walked(&mut self, found: WalkItem) {
        match found {
            WalkItem::HardLink(output, entry) => self.further_name(Link { output, entry }),
            WalkItem::Symlink(source, output, entry) => self.symlink(&source, &output, &entry),
            WalkItem::Mounted(dir) => self.accounting.mounts.add(dir.rel.path(), &dir.handle),
            WalkItem::Failed(error) => self.accounting.failed(&error),
            WalkItem::Left(..) => {
                self.accounting.counts.left += 1;
                found.tell(self.accounting.listen());
            }
            WalkItem::Warning(warning) => self.accounting.warn(&warning),
            WalkItem::Looked(output) | WalkItem::Done(output) => self.arrived(&output),
            WalkItem::Special(..) | WalkItem::OtherVolume(_) => {
                self.accounting.counts.skipped += 1;
                found.tell(self.accounting.listen());
            }
            WalkItem::LeftoverRemoved(..) | WalkItem::Limits(..) => {
                found.tell(self.accounting.listen());
            }
        }
    }

    fn settle(&mut self, result: TransferResult) {
        let labelled = result.is_labelled();
        let TransferResult { transfer, outcome, warnings, resumed } = result;
        let Some(outcome) = self.put_off(&transfer, outcome) else {
            return warnings.iter().for_each(|warning| self.accounting.warn(warning));
        };
        let Transfer { source, mut target } = transfer;
        target.labelled = labelled;
        let CopyTarget { output, entry, .. } = &target;
        self.context.control.progress.handled.fetch_add(1, Relaxed);
        self.lists(&entry.stat);
        warnings.iter().for_each(|warning| self.accounting.warn(warning));
        if matches!(outcome, Outcome::Written(_) | Outcome::Published { .. }) {
            self.accounting.was_read();
            if resumed > 0 {
                self.accounting.resumed(output, &entry.name, resumed);
            }
        }
        match outcome {
            Outcome::Written(written) => {
                let source = self.context.options.asked.verify.then_some(source);
                let file = PendingPublish { source, target, written };
                match self.syncs.failure() {
                    None => self.group.push(file),
                    Some(error) => self.not_durable(&file, &error),
                }
            }
            Outcome::Published { digest, method, stands } => {
                self.copied(&target, digest, method, stands);
            }
            Outcome::Kept { stands, row, proof, labels } => {
                let digest = row.map(|row| row.row().digest);
                let counts = &mut self.accounting.counts;
                if let Some(proof) = proof {
                    counts.verified(proof, entry.stat.size);
                }
                self.context.control.progress.skip(entry.stat.size);
                self.will_be_synced(output);
                if let Some(digest) = &digest {
                    self.carry_chain(output, &entry.name, entry.stat.size, digest);
                }
                self.accounting.kept(output, entry, row, &labels, proof.is_some());
                self.context.pass(&target);
                self.forget_rescue(&target);
                let stands = self.look_again(&target, &stands);
                let is_left = matches!(labels, Labels::Differ);
                self.done_as(&target, digest, stands.as_ref(), is_left);
            }
            Outcome::Rotten { error, stands, origin } => {
                self.rotten(&target, &error, stands, origin);
            }
            Outcome::Left(why) => {
                self.accounting.left(output, &entry.name, why);
                self.reopen(output, &entry.name);
                self.context.pass(&target);
                self.done(&target, None, None);
            }
            Outcome::Failed(error) => self.failed(&target, &error),
            Outcome::Miscomputed(error) => {
                self.failed(&target, &error);
                self.accounting.miscomputed(&error);
            }
            Outcome::PutOff { .. } | Outcome::Abandoned => self.abandoned(&target),
            Outcome::Suspended(bytes) => {
                self.accounting.suspended(output, &entry.name, bytes);
                self.abandoned(&target);
            }
        }
    }

    /// Makes the gathered group durable and publishes it, or has it read back first, and records what was
    /// published before.
    pub(crate) fn commit(&mut self) {
        self.record_standing();
        let files = self.group.take();
        if files.is_empty() && self.accounting.published.is_empty() {
            return;
        }
        // What is published meanwhile is made durable with this group.
        self.take_answers_while(ReadBackQueue::is_full);
        self.check_place();
        let root = Arc::clone(self.root());
        let at_once = self.context.options.durability == (Durability::Grouped { at_once: true });
        if let Err(error) = self.syncs.persist(root.handle.as_ref().filter(|_| at_once)) {
            return self.sync_failed(files, &error);
        }
        self.record();
        for file in files {
            match self.context.options.asked.verify {
                true => self.read_back(file),
                false => self.publish(file),
            }
        }
        // Names are durable only when their directories are.
        if let Err(error) = self.syncs.persist(None) {
            return self.sync_failed(Vec::new(), &error);
        }
        // Where names are made durable directory by directory, the lines need not wait.
        if self.context.options.durability == (Durability::Grouped { at_once: false }) {
            self.record();
            if let Some(Err(error)) = self.manifest.as_ref().map(ManifestFile::persist) {
                self.accounting.give_up(error);
            }
        }
    }

    fn read_back(&mut self, file: PendingPublish) {
        if let Err(file) = self.verifying.give(file) {
            let no_thread = "there is no thread to read it back";
            let error = Error::finding("prove", file.target.path(), no_thread);
            let error = file.discard(error);
            self.failed(&file.target, &error);
        }
    }

    /// Gives a durable copy its final name.
    fn publish(&mut self, file: PendingPublish) {
        if let Some(error) = self.syncs.failure() {
            return self.not_durable(&file, &error);
        }
        let CopyTarget { output, entry, replaces, .. } = &file.target;
        let WrittenPart { part, made, digest, method } = &file.written;
        match part::publish(output, part, made, &entry.name, *replaces) {
            Ok(stands) => {
                let stays = part::forget_journal(output, part);
                stays.iter().for_each(|warning| self.accounting.warn(warning));
                self.copied(&file.target, *digest, *method, Some(stands));
            }
            Err(error) => {
                let error = file.discard(error);
                self.failed(&file.target, &error);
            }
        }
    }

    /// The sync of a group failed: nobody knows which of its files are on the device, so all failed, and files
    /// published before are not recorded. An error like this is not tried again: the kernel reports it once and then
    /// says that all is well. What is being written at this moment may be lost too, so the run ends here.
    fn sync_failed(&mut self, files: Vec<PendingPublish>, error: &io::Error) {
        self.context.control.stop.request(Stop::IN_VAIN);
        files.iter().for_each(|file| self.not_durable(file, error));
        self.accounting.published_in_vain(error);
        self.accounting.give_up(Error::io("make durable", self.root().path(), copy_of(error)));
        self.syncs.fail(error);
    }

    fn not_durable(&mut self, file: &PendingPublish, error: &io::Error) {
        let failed = Error::io("make durable", file.target.path(), copy_of(error));
        let failed = file.discard(failed);
        self.failed(&file.target, &failed);
    }

    pub(crate) fn is_synced_with_root(&self, dir: &OutputDir) -> bool {
        match self.context.options.durability {
            Durability::Off => true,
            Durability::Grouped { at_once } => at_once && dir.volume.with_root,
        }
    }

    /// A file was copied and stands so, complete, under its final name.
    fn copied(
        &mut self,
        target: &CopyTarget,
        digest: Option<Digest>,
        method: Method,
        stands: Option<Inode>,
    ) {
        let CopyTarget { output, entry, replaces, labelled } = target;
        self.accounting.count_bytes(method, entry.stat.size);
        let done = if *replaces { Done::Replaced } else { Done::Copied };
        let recorded = digest.filter(|_| self.recording.is_some());
        let origin = self.origin_of(|| output.rel.join(&entry.name));
        let row = recorded.zip(stands).and_then(|(digest, it)| {
            let row = row_of(output, entry, &it.stat, digest, origin)?;
            let is_kept =
                || output.handle.as_ref().is_some_and(|dir| dir.keeps(&entry.name, &it.stat));
            let sure = row.sure && self.is_untouched(output, is_kept);
            let seen = output.seen_at(&entry.stat, self.context.is_in_doubt(&entry.stat));
            let seen = if *labelled { seen } else { seen.never_labelled() };
            Some(Row { labelled: *labelled, sure, seen, ..row })
        });
        if row.is_some_and(|row| row.late) && output.loses_time(entry.stat.mtime) {
            self.accounting.warn(&labels::lost(target));
        }
        self.will_be_synced(output);
        self.forget_rescue(target);
        self.accounting.stands(output, entry, digest, row, done);
        // Its further names would change what parity notes of it.
        let is_alone = self.links.is_none() || entry.stat.links == 1;
        if let (Some(ahead), Some(digest), true) = (&mut self.ahead, digest, is_alone) {
            ahead.take(output.rel.join(&entry.name), digest, entry.stat.size);
        }
        self.done(target, digest, stands.as_ref());
    }

    /// False if another user could have written to a file of this run's in `output` since it was given its label, which
    /// keeps all others from that if it `is_kept`: the rename after that hides it. The directories that this run made
    /// are closed until all is in them, and nobody gets into those of a root that is.
    pub(crate) fn is_untouched(&self, output: &OutputDir, is_kept: impl FnOnce() -> bool) -> bool {
        let is_closed =
            || self.root().handle.as_ref().is_some_and(|root| root.is_private().unwrap_or(false));
        output.fresh
            || !output.volume.tried.traits.permissions
            || is_kept()
            || *self.is_root_closed.get_or_init(is_closed)
    }

    /// The next commit makes the names in this directory durable.
    pub(crate) fn will_be_synced(&mut self, output: &Arc<OutputDir>) {
        if !self.is_synced_with_root(output) {
            self.syncs.add(output);
        }
    }

    fn abandoned(&mut self, target: &CopyTarget) {
        target.output.leave_open();
        self.done(target, None, None);
    }

    fn failed(&mut self, target: &CopyTarget, error: &Error) {
        target.output.leave_open();
        self.accounting.failed(error);
        let open = labels::close_to_others(self.context, target);
        open.iter().for_each(|warning| self.accounting.warn(warning));
        self.reopen(&target.output, &target.entry.name);
        self.done(target, None, None);
    }
}
