//! What follows when the fate of a file is known: its further names, and its directory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::copy::commit::committer::Committer;
use crate::hash::Digest;
use crate::part::transfer::CopyTarget;
use crate::sys::stat::{Inode, Stat};
use crate::tree::dirs::OutputDir;

impl Committer<'_> {
    /// As what a file stands that was kept as `stands`, if it has further names to come: these are not for another that
    /// took its place.
    pub(crate) fn look_again(&self, target: &CopyTarget, stands: &Stat) -> Option<Inode> {
        let CopyTarget { output, entry, .. } = target;
        let is_linked = self.links.is_some() && entry.stat.links > 1;
        let now = output.handle.as_ref().filter(|_| is_linked)?.inode(&entry.name).ok()?;
        let before = Inode { stat: *stands, birth: None };
        // FUSE, which does not tell when files were made, may show change times as the kernel had them.
        let is_as_left = match now.birth {
            Some(_) => stands.ctime == now.stat.ctime,
            None => stands.mtime == now.stat.mtime,
        };
        (output.volume.is_same(&before.known(), &now) && is_as_left).then_some(now)
    }

    /// What became of a file is known, and as what it stands at the output if it does: its further names can be made,
    /// and its directory may be complete.
    pub(crate) fn done(
        &mut self,
        target: &CopyTarget,
        digest: Option<Digest>,
        stands: Option<&Inode>,
    ) {
        self.done_as(target, digest, stands, false);
    }

    pub(crate) fn done_as(
        &mut self,
        target: &CopyTarget,
        digest: Option<Digest>,
        stands: Option<&Inode>,
        is_left: bool,
    ) {
        let CopyTarget { output, entry, .. } = target;
        self.context.control.progress.entries.fetch_add(1, Relaxed);
        if let Some(further) = self.context.further() {
            further.forget(target.rel_path().as_bytes());
        }
        if let Some(slot) = self.context.shared.slot {
            slot.finish(output, entry);
        }
        self.settle_names(output, entry, digest, stands, is_left, target.labelled);
        self.arrived(output);
    }

    pub(crate) fn arrived(&mut self, output: &Arc<OutputDir>) {
        if output.arrived() && !output.rel.is_root() {
            self.finish_directory(output);
        }
    }
}
