//! Files that a run found to be something else than recorded, and named: no list has them any more, so a check does not
//! look at them. What they were is on record, so they are mended as if they were listed.

use crate::{
    error::Error, error::Result, event::Stop, heal::bad::BadFiles, heal::bad::Tree, io::ReadBack,
    path::RelPath, state::Row, state::Trace, sys::Medium, tree::LastDir, verify::Checked,
    verify::Finding, verify::FindingListener, verify::Verdict,
};

/// Notes those of these trees that have their size and time still: another one is an edit, and a missing one was
/// removed.
pub fn note_dropped(
    trees: &[Tree],
    bad: &mut BadFiles,
    counts: &mut Checked,
    stop: &Stop,
    listen: &FindingListener<'_>,
) {
    for (number, tree) in trees.iter().enumerate().filter(|(_, tree)| tree.private().is_some()) {
        let Some(target) = tree.targets.first() else { continue };
        let mut files = Files { tree, last: LastDir::default(), read_back: ReadBack::new() };
        let noted = tree.each_dropped(stop, |path, row| {
            let found = if bad.has(path, number) { None } else { files.verdict(path, row, stop) };
            if let Some((verdict, bytes)) = found {
                let (path, listed) = (path.clone(), row.digest);
                let (line, shared, proven) = (0, 0, None);
                let finding = Finding::File { line, path, listed, verdict, bytes, shared, proven };
                counts.add(&finding);
                listen(target, &finding);
                bad.note(target, number, &finding);
            }
            Ok(())
        });
        noted.err().into_iter().for_each(|error| listen(target, &Finding::Warning(error)));
    }
}

/// The files of a tree, read one after the other.
struct Files<'t> {
    tree: &'t Tree,
    last: LastDir,
    read_back: ReadBack,
}

impl Files<'_> {
    /// What is wrong with the file of this row, and how much of it was read; `None` if nothing is, or if it is no
    /// longer the file that was left so, or the run is to stop.
    fn verdict(&mut self, path: &RelPath, row: &Row, stop: &Stop) -> Option<(Verdict, u64)> {
        let there = self.last.stat(&self.tree.dir, path, false).ok()?;
        if row.trace == Trace::UNKNOWN || !row.trace.looks_like(&there) {
            return None;
        }
        let fail = |deed| {
            let full = path.full_path(&self.tree.root);
            move |error| Error::io(deed, full, error)
        };
        let mut read = || -> Result<_> {
            let (file, stat) = self.last.open_file(&self.tree.dir, path).map_err(fail("open"))?;
            let medium = Medium::of(&file, &stat).unwrap_or_else(|_| Medium::any(&file));
            let (by, is_to_stop) = (row.digest.algorithm(), || stop.is_requested());
            self.read_back.hash(medium, by, is_to_stop, |_| ()).map_err(fail("read"))
        };
        match read() {
            Ok(hashed) => hashed.filter(|it| it.digest != Some(row.digest)).map(|hashed| {
                (Verdict::Differs(hashed.hashed_from, hashed.digest, None), hashed.bytes)
            }),
            Err(error) => Some((Verdict::Unreadable(error), 0)),
        }
    }
}
