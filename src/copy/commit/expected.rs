//! The committer's dealings with a source that is not what is expected of it.

use crate::{
    copy::commit::Committer, copy::record::row_of, error::Error, hash::Digest,
    part::content::CopyTarget, path::RelPath, state::Origin, state::Remembered, state::Row,
    state::Trace, sys::stat::Stat, tree::SourceDir,
};

impl Committer<'_> {
    /// The origin to be recorded for a content that was read from the source's file `path`.
    pub(crate) fn origin_of(&self, path: impl FnOnce() -> RelPath) -> Origin {
        let baseline = self.context.shared.baseline;
        let is_edited = baseline.is_some_and(|it| it.has_edited(path().as_bytes()));
        if is_edited { Origin::Edited } else { Origin::Source }
    }

    /// The source's file has rotted. What was read in its place at the output, has this digest and stood so, stays and
    /// is listed.
    pub(crate) fn rotten(
        &mut self,
        target: &CopyTarget,
        error: &Error,
        stands: Option<(Digest, Stat)>,
        origin: Origin,
    ) {
        let CopyTarget { output, entry, .. } = target;
        self.accounting.rotten(error);
        let Some((digest, stands)) = stands else {
            output.leave_open();
            self.reopen(output, &entry.name);
            return self.done(target, None, None);
        };
        self.will_be_synced(output);
        let row = row_of(output, entry, &stands, digest, Origin::There);
        // One of another size than the source's has a row too: without that no later run knew what it is to be.
        let row = row.unwrap_or_else(|| Row {
            trace: Trace::of(&stands),
            late: true,
            ..Remembered::in_the_open(digest).row_in_doubt()
        });
        self.accounting.list(output, entry, &digest, Some(Row { origin, ..row }));
        let stands = self.look_again(target, &stands);
        // Its further names are names of what was refused, and nothing of theirs gives way to it.
        self.done_as(target, Some(digest), stands.as_ref(), true);
    }

    /// Tells what is expected of the `source`, if that is a directory, and not there.
    pub fn settle_expected(&mut self, source: Option<&SourceDir>) {
        let Some(expected) = self.context.shared.baseline else { return };
        let (follow, stop) = (self.context.options.follow, self.context.control.stop);
        let listen = self.accounting.listen();
        self.accounting.counts.settle_expected(expected, source, follow, stop, listen);
    }
}
