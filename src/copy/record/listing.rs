//! The committer's work on the two lists of a run: the manifest for everyone, and the private record for later
//! runs of this user.

use std::{ffi::OsStr, sync::Arc};

use crate::{
    copy::commit::Committer, copy::commit::accounting::Accounting, copy::record::Published,
    copy::record::Recording, copy::record::near::NearLists, error::Cause, error::Error,
    hash::Digest, hash::Digests, io::CopyOptions, io::Durability, io::Options, state::PrivateDir,
    sys, sys::stat::Stat, tree::OutputDir, tree::Policy,
};

impl<'a> Committer<'a> {
    /// From now on what is listed is also recorded in `private`, for later runs of this user; made durable
    /// if `durable`.
    pub fn record_in(&mut self, private: Option<&'a PrivateDir>, durable: bool) {
        let root = Arc::clone(self.root());
        let private = private.filter(|_| self.manifest.is_some());
        if let (Some(private), Some(root)) = (private, &root.handle) {
            self.recording =
                Some(Recording::new(private, root, self.context.shared.known, durable));
        }
    }

    /// The private record gets its file now.
    pub fn begin_record(&mut self) {
        let failed = self.recording.as_mut().and_then(Recording::begin);
        self.not_recorded(failed);
    }

    /// The private record cannot be written. What it would have said the next run reads. But a generation is one only
    /// with its record: without it the tree stays unfinished, and so does one of a run that was cut short. So does a
    /// bag.
    pub(crate) fn not_recorded(&mut self, failed: Option<Error>) {
        let Some(error) = failed else { return };
        let Options { pruned, is_payload, .. } = self.context.options;
        if !(pruned || is_payload) || self.is_cut_short() {
            let error = error.with_note("; the next run reads what it would have said");
            return self.accounting.warn(&error);
        }
        let remedy = match error.cause() {
            Cause::Io(cause) if sys::is_disk_full(cause) => "make room, and run again",
            _ => "run again",
        };
        let note = match is_payload {
            true => format!("; without it the directory is no bag: {remedy}"),
            false => {
                format!("; without it the tree is no generation, and stays unfinished: {remedy}")
            }
        };
        self.accounting.give_up(error.with_note(note));
    }

    /// The manifest lists this, or what is in it.
    pub(crate) fn lists(&mut self, stat: &Stat) {
        self.manifest.iter_mut().for_each(|manifest| manifest.readers.note(stat));
    }

    /// What was found to be something else than recorded is in doubt from now on, also for later runs. Before it is
    /// told: a run that is killed then must not leave a record by which the next one lists it again.
    pub(crate) fn record_refuted(&mut self) {
        let Some(known) = self.context.shared.known else { return };
        let (rows, number) = known.take_refuted();
        let failed = self.recording.as_mut().and_then(|it| it.doubt(&rows, number));
        self.not_recorded(failed);
    }

    /// The lines of what is published and durable go into the manifest.
    pub(crate) fn record(&mut self) {
        let published = std::mem::take(&mut self.accounting.published);
        // What this machine computed is listed no more once it is known to compute wrongly.
        if self.accounting.counts.miscomputed > 0 {
            return;
        }
        self.put_on_record(published);
        // The sync that came before was one of all that was there.
        let durability = self.context.options.durability;
        self.accounting.is_earlier_durable = durability == Durability::Grouped { at_once: true };
    }

    /// Records also the lines of files that were durable before the run.
    pub(crate) fn record_standing(&mut self) {
        if !self.accounting.standing.is_empty() {
            self.check_place();
            let standing = std::mem::take(&mut self.accounting.standing);
            self.put_on_record(standing);
        }
    }

    fn put_on_record(&mut self, published: Published) {
        let Published { lines, mut rows, lists, .. } = published;
        let Some(manifest) = &mut self.manifest else { return };
        let appended = manifest.append(&lines).and_then(|()| manifest.append_to_lists(&lists));
        if let Err(error) = appended {
            return self.accounting.give_up(error);
        }
        rows = std::mem::take(&mut self.rows).and(rows);
        let append = |recording: &mut Recording<'_>| recording.append(&mut rows, manifest);
        let failed = self.recording.as_mut().and_then(append);
        self.rows = rows;
        self.not_recorded(failed);
    }

    /// Writes the waiting lines, before the manifest gets its name or is left.
    pub(crate) fn record_last(&mut self) {
        let (Some(recording), Some(manifest)) = (&mut self.recording, &mut self.manifest) else {
            return;
        };
        let cut_short = self.accounting.is_broken() || self.context.control.stop.is_requested();
        let failed = recording.append_last(&mut self.rows, manifest, cut_short);
        self.not_recorded(failed);
    }

    /// The file stays as it is: an earlier line for it is carried over, if it still holds.
    pub(crate) fn reopen(&self, output: &OutputDir, name: &OsStr) {
        if let Some(known) = self.context.shared.known {
            known.reopen(output.rel.join(name).as_bytes());
        }
    }

    /// All lines are there: writes the lists among the files.
    pub(crate) fn arrange_lists(&mut self, durable: bool) {
        if self.is_cut_short() {
            return;
        }
        let (context, output) = (self.context, Arc::clone(self.root()));
        let Options { asked: &CopyOptions { policy, .. }, durability, .. } = context.options;
        let (Some(manifest), accounting) = (&mut self.manifest, &mut self.accounting) else {
            return;
        };
        let is_to_stop = || context.control.stop.is_requested();
        let mut near = NearLists {
            output: &output,
            durability,
            replaces: matches!(policy, Policy::Update | Policy::Always),
            is_to_stop: &is_to_stop,
            tell: &mut |error| accounting.not_listed(&error),
        };
        let arranged = manifest.rewrite(
            durable,
            output.volume.parts,
            &|kind| kind.form().is_near(),
            &mut |kind, text, out| near.write(kind, text, out),
        );
        if let Err(error) = arranged {
            self.accounting.give_up(error);
        }
    }
}

impl Accounting<'_> {
    /// The digests of the file that was listed last and has this digest: further names of it have the same.
    pub fn listed_with(&self, digest: Digest) -> Digests {
        let listed = self.listed.as_ref().filter(|listed| listed.proof == digest);
        listed.cloned().unwrap_or_else(|| digest.into())
    }

    /// A list among the files is not what it should be.
    pub fn not_listed(&mut self, error: &Error) {
        self.counts.unlisted += 1;
        self.warn(error);
    }

    /// Tells which lists lack a file that the manifest has.
    pub fn tell_lacking(&mut self, lacking: Option<String>) {
        if let Some(finding) = lacking {
            let path = self.root().path_of(OsStr::new(""));
            self.not_listed(&Error::finding("list everywhere what was copied to", path, finding));
        }
    }
}
