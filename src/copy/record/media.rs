//! The Media Hash List of a run, which comes when all else is recorded.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::copy::commit::committer::Committer;
use crate::copy::media::one_history::HistoryRoot;
use crate::copy::media::seal::{MediaFinding, MediaSeal};

impl Committer<'_> {
    /// Writes the Media Hash List by what the run `kept` of its files; returns where it is. It lists what `manifest`
    /// lists, and is as closed.
    pub(crate) fn write_media(
        &mut self,
        seal: MediaSeal<'_>,
        kept: File,
        manifest: &Path,
    ) -> Option<PathBuf> {
        let root = Arc::clone(self.root());
        let at = HistoryRoot { dir: root.handle.as_ref()?, path: &root.root };
        let listed = at.dir.stat(manifest.file_name()?, false);
        let seal = MediaSeal { mode: listed.map_or(seal.mode, |stat| stat.mode & 0o666), ..seal };
        let accounting = &mut self.accounting;
        let tell = &mut |told: MediaFinding| {
            accounting.counts.decayed += u64::from(told.is_failed);
            accounting.warn(&told.error);
        };
        seal.run(at, kept, tell).unwrap_or_else(|error| {
            self.accounting.give_up(error);
            None
        })
    }
}
