//! The committer's work on links of both kinds, which pass no worker.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::copy::commit::committer::Committer;
use crate::copy::commit::read_back_queue::ReadBackQueue;
use crate::copy::record::recording::row_of;
use crate::copy::special::hard_link::{self, First, Link};
use crate::copy::special::symlink::{self, LinkOutcome};
use crate::error::Result;
use crate::event::Done;
use crate::hash::Digest;
use crate::state::row::{Origin, Row, Trace};
use crate::sys::stat::{Inode, Time};
use crate::transfer::context::Context;
use crate::transfer::rot_check::{self, LinkedCopy};
use crate::transfer::unproven;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::volume::times::TimeMatch;

impl Committer<'_> {
    /// Makes the further names that waited for the first, whose fate is known.
    pub(crate) fn settle_names(
        &mut self,
        output: &OutputDir,
        entry: &SourceEntry,
        digest: Option<Digest>,
        stands: Option<&Inode>,
        is_left: bool,
        labelled: bool,
    ) {
        if let Some(links) = self.links.as_mut().filter(|_| entry.stat.links > 1) {
            let (dir, name) = (output.rel.path(), entry.name.clone());
            let digests = digest.map(|digest| self.accounting.listed_with(digest));
            let (stat, stands) = (entry.stat, stands.map(Inode::known));
            let first = First { dir, name, stat, is_left, digests, stands, labelled };
            for (link, first) in links.settle(entry, first) {
                self.link(&link, &first);
            }
        }
    }

    /// Copies a symbolic link.
    pub(crate) fn symlink(
        &mut self,
        source: &SourceDir,
        output: &Arc<OutputDir>,
        entry: &SourceEntry,
    ) {
        let Context { options, control, .. } = self.context;
        let made = unproven::link(self.context, Some(source), output, entry)
            .and_then(|()| symlink::copy(source, output, entry, options.policy, control.gate));
        if let Ok((_, Some(warning))) = &made {
            self.accounting.warn(warning);
        }
        let there = matches!(made, Ok((LinkOutcome::Made | LinkOutcome::Kept, _)));
        let has_names = self.links.is_some() && entry.stat.links > 1;
        let dir = output.handle.as_ref().filter(|_| there && has_names);
        let stands = dir.and_then(|dir| dir.inode(&entry.name).ok());
        self.settle_names(output, entry, None, stands.as_ref(), false, true);
        self.linked(output, entry, made.map(|(linked, _)| linked), None, Done::Symlinked);
    }

    /// A further name of a file: it is made when the first has its final name.
    pub(crate) fn further_name(&mut self, link: Link) {
        let Some(links) = &mut self.links else { return };
        let ready = links.add(link);
        let many = links.are_many();
        if let Some((link, first)) = ready {
            self.link(&link, &first);
        }
        if many {
            self.commit();
            self.take_answers_while(ReadBackQueue::is_busy);
        }
    }

    /// Makes a further name of a file whose first name's fate is known.
    pub(crate) fn link(&mut self, link: &Link, first: &First) {
        // Whatever becomes of it, an earlier line for it is settled by this run.
        if let Some(known) = self.context.shared.known {
            known.settle(link.output.rel.join(&link.entry.name).as_bytes());
        }
        let Link { output, entry } = link;
        let digests = first.digests.as_ref();
        let expected = match self.context.shared.baseline {
            Some(expected) => {
                let is_to_stop = || self.context.control.stop.is_urgent();
                let hash = |algorithm| first.hash(self.root(), algorithm, &is_to_stop);
                let first = &LinkedCopy { digests, hash: &hash };
                rot_check::check_further_name(expected, output, entry, first)
            }
            None => Ok(None),
        };
        if let Ok(Some(error)) | Err(error) = &expected {
            match expected {
                Ok(_) => self.accounting.rotten(error),
                Err(_) => self.accounting.failed(error),
            }
            return self.link_done(output);
        }
        let Context { options, control, .. } = self.context;
        let made = unproven::link(self.context, None, output, entry)
            .and_then(|()| hard_link::make(self.root(), link, first, options.policy, control.gate));
        if matches!(made, Ok((LinkOutcome::Made, _))) {
            self.record_again(first);
        }
        let path = output.rel.join(&entry.name);
        if let (Some(further), Some(digests)) = (self.context.further(), digests) {
            further.put_all(path.as_bytes(), digests.clone());
        }
        let row = match (&made, digests) {
            (Ok((_, Some(stands))), Some(digests)) => {
                row_of(output, entry, &stands.stat, digests.proof, Origin::Source)
            }
            _ => None,
        };
        let listed = digests.map(|digests| (digests.proof, row));
        self.linked(output, entry, made.map(|(made, _)| made), listed, Done::Linked);
        if let Some(further) = self.context.further() {
            further.forget(path.as_bytes());
        }
    }

    /// A file got a further name, which changed its change time.
    fn record_again(&mut self, first: &First) {
        let (Some(root), Some(digests)) = (&self.root().handle, &first.digests) else { return };
        let now = root.open_below(&first.dir).and_then(|dir| dir.inode(&first.name));
        let (root, time) = (self.root(), first.stat.mtime);
        let is_it =
            |now: &Inode| first.stands.is_some_and(|stands| root.volume.is_same(&stands, now));
        let Some(Inode { stat, .. }) = now.ok().filter(is_it) else { return };
        let late = root.compare_times(time, stat.mtime, None) == TimeMatch::Other;
        let given = root.time_to_record(time, stat.mtime).filter(|_| !late);
        let path = first.dir.join(&first.name);
        let (origin, trace) = (self.origin_of(path.as_bytes()), Trace::of(&stat));
        let row = Row {
            digest: digests.proof,
            origin,
            trace,
            given,
            sure: !late,
            late,
            labelled: first.labelled,
        };
        if let Some(known) = self.context.shared.known {
            known.supersede(path.as_bytes());
        }
        let further = digests.further.as_deref().unwrap_or_default();
        self.accounting.published.rows.push(&row, further, path.as_bytes(), true);
    }

    fn is_past(&self, time: Time) -> bool {
        self.context.shared.known.is_some_and(|known| known.is_past(time))
    }

    /// What became of a link of either kind.
    fn linked(
        &mut self,
        output: &Arc<OutputDir>,
        entry: &SourceEntry,
        made: Result<LinkOutcome>,
        listed: Option<(Digest, Option<Row>)>,
        done: Done,
    ) {
        let (digest, row) = (listed.map(|(digest, _)| digest), listed.and_then(|(_, row)| row));
        match made {
            Ok(LinkOutcome::Made) => {
                self.will_be_synced(output);
                self.accounting.stands(output, entry, digest, row, done);
            }
            Ok(LinkOutcome::Kept) => {
                self.will_be_synced(output);
                let is_past = |row: &Row| self.is_past(row.trace.ctime);
                let row = row.map(|row| Row { sure: row.sure && is_past(&row), ..row });
                self.accounting.stands(output, entry, digest, row, Done::Kept);
            }
            Ok(LinkOutcome::Abandoned) => {}
            Ok(LinkOutcome::Left(why)) => {
                self.reopen(output, &entry.name);
                self.accounting.left(output, &entry.name, why);
            }
            Err(error) => {
                self.reopen(output, &entry.name);
                self.accounting.failed(&error);
            }
        }
        self.link_done(output);
    }

    fn link_done(&mut self, output: &Arc<OutputDir>) {
        let progress = self.context.control.progress;
        progress.handled.fetch_add(1, Relaxed);
        progress.entries.fetch_add(1, Relaxed);
        self.arrived(output);
    }
}
