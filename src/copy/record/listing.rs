//! The committer's work on the two lists of a run: the manifest for everyone, and the private record for later
//! runs of this user.

use std::ffi::OsStr;

use crate::copy::commit::accounting::Published;
use crate::copy::commit::committer::Committer;
use crate::copy::record::recording::Recording;
use crate::state::private_dir::PrivateDir;
use crate::tree::dirs::OutputDir;

impl<'a> Committer<'a> {
    /// From now on what is listed is also recorded in `private`, for later runs of this user; made durable
    /// if `durable`.
    pub fn record_in(&mut self, private: Option<&'a PrivateDir>, durable: bool) {
        let Some(private) = private.filter(|_| self.manifest.is_some()) else { return };
        self.recording = Some(Recording::new(private, self.context.shared.known, durable));
    }

    /// The lines of what is published and durable go into the manifest.
    pub(crate) fn record(&mut self) {
        let Published { lines, mut rows, lists, .. } =
            std::mem::take(&mut self.accounting.published);
        let Some(manifest) = &mut self.manifest else { return };
        let appended = manifest.append(&lines).and_then(|()| manifest.append_to_lists(&lists));
        if let Err(error) = appended {
            return self.accounting.give_up(error);
        }
        rows = std::mem::take(&mut self.rows).and(rows);
        let append = |recording: &mut Recording<'_>| recording.append(&mut rows, manifest);
        if let Some(warning) = self.recording.as_mut().and_then(append) {
            self.accounting.warn(&warning);
        }
        self.rows = rows;
    }

    /// What waits is written, before the manifest gets its name or is left.
    pub(crate) fn record_last(&mut self) {
        let (Some(recording), Some(manifest)) = (&mut self.recording, &self.manifest) else {
            return;
        };
        let cut_short = self.accounting.is_broken() || self.context.control.stop.is_requested();
        if let Some(warning) = recording.append_last(&mut self.rows, manifest, cut_short) {
            self.accounting.warn(&warning);
        }
    }

    /// The file stays as it is: an earlier line for it is carried over, if it still holds.
    pub(crate) fn reopen(&self, output: &OutputDir, name: &OsStr) {
        if let Some(known) = self.context.shared.known {
            known.reopen(output.rel.join(name).as_bytes());
        }
    }
}
