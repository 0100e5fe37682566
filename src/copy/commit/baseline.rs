//! The committer's dealings with a source that is not what is expected of it.

use crate::copy::commit::committer::Committer;
use crate::copy::record::recording::row_of;
use crate::error::Error;
use crate::hash::Digest;
use crate::part::transfer::CopyTarget;
use crate::state::row::{Origin, Row};
use crate::sys::stat::Stat;
use crate::transfer::baseline::UnmetFiles;
use crate::tree::dirs::SourceDir;

impl Committer<'_> {
    /// What the record is to say of a content that was read from the source's file `path`.
    pub(crate) fn origin_of(&self, path: &[u8]) -> Origin {
        let is_edited = self.context.shared.baseline.is_some_and(|it| it.has_edited(path));
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
        let row = row.map(|row| Row { origin, ..row });
        self.accounting.list(output, entry, &digest, row);
        let stands = self.look_again(target, &stands);
        self.done(target, Some(digest), stands.as_ref());
    }

    /// Counts what was found as expected or edited, and tells which files are expected and are not in the
    /// source, of those that the walk did not come upon; in no source that is one file. The user may have
    /// removed them, so it is no failure, unless all is expected. A line that is of no use is one: it may be that of a
    /// file that has rotted.
    pub fn settle_expected(&mut self, source: Option<&SourceDir>) {
        let Some(expected) = self.context.shared.baseline else { return };
        let (follow, stop, accounting) =
            (self.context.options.follow, self.context.control.stop, &mut self.accounting);
        accounting.counts.as_expected = expected.as_listed();
        accounting.counts.edited = expected.edited();
        accounting.counts.unusable_lines = expected.malformed();
        let (mut left, mut settled) = (UnmetFiles::default(), Ok(()));
        if let Some(source) = source.filter(|_| !stop.is_requested()) {
            let is_to_stop = || stop.is_requested();
            let is_lost = expected.expects_all();
            let gone = |path: &_| accounting.gone(path, is_lost);
            match expected.gone(&source.handle, follow, &is_to_stop, gone) {
                Ok(found) => left = found,
                Err(error) => settled = Err(error),
            }
        }
        settled = settled.and_then(|()| expected.each_edited(|path| accounting.edited(path)));
        accounting.counts.unusable_lines += left.refused;
        accounting.counts.lost = if expected.expects_all() { left.gone } else { 0 };
        let unusable = expected.warning(accounting.counts.unusable_lines);
        let foreign =
            expected.told_foreign(left).filter(|_| settled.is_ok() && !stop.is_requested());
        if foreign.is_some() {
            accounting.counts.unusable_lines += left.gone.max(1);
        }
        let unlisted = expected.told_unlisted().filter(|_| !stop.is_requested());
        accounting.counts.unheld = unlisted.is_some().into();
        let warnings = unusable.into_iter().chain(foreign).chain(unlisted);
        let like_sha512 = expected.told_like_sha512(accounting.counts.rotten);
        let warnings = warnings.chain(expected.told_alike()).chain(like_sha512);
        warnings.for_each(|warning| accounting.warn(&warning));
        if let Err(error) = settled.and_then(|()| expected.check_unchanged()) {
            // It is not known how many.
            accounting.counts.unusable_lines = accounting.counts.unusable_lines.max(1);
            accounting.warn(&error);
        }
    }
}
