//! The files that a check found to be something else than listed: the next copy is not to believe of them what its
//! record says, whatever their times. Where the private record of the checked directory can be written, a record of its
//! own puts them in doubt, as that of a copy does that was killed after it had found them.

use std::{collections::HashMap, collections::HashSet, io, path::Path, path::PathBuf};

use crate::{
    event::Stop, path::RelPath, state::Knowledge, state::Missing, state::PrivateDir,
    state::RecordFile, sys::Dir, sys::Lock, sys::stat::Identity, tree::LastDir, tree::Patience,
    verify::Finding, verify::Target, verify::Verdict,
};

/// Number of files of a check that are kept in mind. A disk on which more are bad is not one to copy to.
const MOST: usize = 1 << 16;

/// The bad files of a check, by the directory that their names start at.
#[derive(Debug, Default)]
pub struct FoundBad {
    roots: HashMap<Identity, (PathBuf, HashSet<RelPath>)>,
    number: usize,
}

impl FoundBad {
    /// Keeps in mind what is found to be bad.
    pub fn note(&mut self, target: &Target, finding: &Finding) {
        if let Finding::File { path, verdict: Verdict::Differs(..), .. } = finding
            && self.number < MOST
        {
            let root = || (target.root.clone(), HashSet::new());
            let bad = &mut self.roots.entry(target.root_id).or_insert_with(root).1;
            // A list may have one name many times.
            self.number += usize::from(bad.insert(path.clone()));
        }
    }

    /// Puts them in doubt in the private record of each directory that has one, which lies below `elsewhere` if that is
    /// given. A run that is at work there, or a record that cannot be written, leaves it as it is: the check was asked
    /// to read, and has told what it found.
    pub fn put_in_doubt(&self, elsewhere: Option<&Path>, is_locked: bool, stop: &Stop) {
        for (id, (root, paths)) in &self.roots {
            let _ = doubt(*id, root, paths, elsewhere, is_locked, stop);
        }
    }
}

fn doubt(
    id: Identity,
    path: &Path,
    bad: &HashSet<RelPath>,
    elsewhere: Option<&Path>,
    is_locked: bool,
    stop: &Stop,
) -> io::Result<()> {
    let root = Dir::open(path)?;
    let private = PrivateDir::open(&root, path, elsewhere, Missing::Leave).ok().flatten();
    let Some(private) = private.filter(|_| root.identity().is_ok_and(|now| now == id)) else {
        return Ok(());
    };
    let patience = Patience { wait: false, deed: "note in", tell: &|_| (), stop };
    if !is_locked && !matches!(patience.lock(&private, path), Ok(Lock::Held)) {
        return Ok(());
    }
    let (known, _) = Knowledge::load(Some(&private), &root, path, &|_| false, &|| false);
    let mut last = LastDir::default();
    for path in bad {
        if let Ok(there) = last.stat(&root, path, false) {
            known.refute(path.as_bytes(), &there);
        }
    }
    let (rows, number) = known.take_refuted();
    if number == 0 {
        return Ok(());
    }
    let mut record = RecordFile::create(&private, known.next_number())?;
    record.append(&rows, number)?;
    record.persist()?;
    private.dir().persist()
}
