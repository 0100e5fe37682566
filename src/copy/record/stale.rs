//! Lists among the files that an earlier run left: which these are, and whether they still say what is there.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::copy::commit::committer::Committer;
use crate::copy::record::beside::is_made_here;
use crate::error::Error;
use crate::hash::Algorithms;
use crate::manifest::ManifestName;
use crate::manifest::lists::Form;
use crate::sys::{Dir, DirListing, ListedEntry};

/// The manifest beside which the newest list has this ending.
pub fn newest_with(root: &Dir, suffix: &str) -> io::Result<Option<ManifestName>> {
    let list = |entry: &ListedEntry| {
        let name = ManifestName::of_list(&entry.name).filter(ManifestName::is_finished)?;
        (*entry.name == *name.list(suffix)).then_some(name)
    };
    DirListing::of(root)?.try_fold(None, |newest, entry| Ok(list(&entry?).max(newest)))
}

impl Committer<'_> {
    /// Tells of lists among the files that an earlier run wrote, and that this one, with its finished `manifest`,
    /// neither wrote anew nor left true: by them a check condemns files that are good.
    pub(crate) fn tell_stale_lists(&mut self, manifest: &Path) {
        let counts = &self.accounting.counts;
        let copied = counts.copied + counts.replaced + counts.linked;
        let (Some(known), true) = (self.context.shared.known, copied > 0) else { return };
        let root = Arc::clone(self.root());
        let (Some(handle), Some(name)) = (&root.handle, manifest.file_name()) else { return };
        for form in [Form::Dirs, Form::Sides] {
            let suffix = form.suffix(Algorithms::default());
            // What cannot be looked for is not told.
            let Ok(Some(newest)) = newest_with(handle, suffix) else { continue };
            let list = newest.list(suffix);
            let is_of_run = ManifestName::parse(name).is_some_and(|it| it.list(suffix) == list);
            // One that came with the source is of that.
            let is_copied = known.has_heard_of(list.as_bytes());
            let is_ours = handle.stat(list.as_ref(), false).is_ok_and(|stat| is_made_here(&stat));
            if is_of_run || is_copied || !is_ours {
                continue;
            }
            let finding = format!(
                "this run copied files, and was not told to write them anew: run it again with --format {suffix}, or \
                 remove them and {list}, which lists them"
            );
            let path = root.path_of("".as_ref());
            self.accounting.warn(&Error::finding(
                "vouch for the lists among the files of",
                path,
                finding,
            ));
        }
    }
}
