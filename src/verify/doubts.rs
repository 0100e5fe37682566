//! The files that a check found to be something else than listed: the next copy is not to believe of them what its
//! record says, whatever their times. Where the private record that has them can be written, a record of its own puts
//! them in doubt, as that of a copy does that was killed after it had found them.

use std::{
    collections::HashMap, collections::HashSet, ffi::OsString, io, path::Path, path::PathBuf,
};

use crate::{
    error::Cause, error::Error, event::Stop, manifest::NextLine, path::RelPath, state::KeptPayload,
    state::Knowledge, state::LATEST, state::Missing, state::PrivateDir, state::RecordFile, sys,
    sys::Dir, sys::Lock, sys::stat::Identity, sys::stat::Stat, tree::LastDir, tree::Patience,
    verify::Finding, verify::ReadFrom, verify::Target, verify::Verdict, verify::scrub::Verified,
    verify::scrub::key, verify::scrub::record_name,
};

/// Number of files of a check that are kept in mind. A disk on which more are bad is not one to copy to.
const MOST: usize = 1 << 16;

/// Why nothing is noted.
pub const AT_WORK: &str = "another run is at work there";

/// The bad files of a check, by the directory that their names start at.
#[derive(Debug, Default)]
pub struct FoundBad {
    roots: HashMap<Identity, BadOfRoot>,
    number: usize,
}

/// Those of one directory.
#[derive(Debug, Default)]
struct BadOfRoot {
    path: PathBuf,
    files: HashSet<RelPath>,
    /// The hashes of their lines, all of them at 8 bytes each, by the files in which scrubs keep what was verified.
    lines: HashMap<[OsString; 2], Vec<u64>>,
}

impl FoundBad {
    /// Keeps in mind what is found to be bad, or cannot be read from its device.
    pub fn note(&mut self, target: &Target, finding: &Finding) {
        let Finding::File { path, listed, verdict, .. } = finding else { return };
        let is_bad = match verdict {
            Verdict::Differs(..) | Verdict::OtherSize { .. } => true,
            Verdict::Unreadable(error) => {
                matches!(error.cause(), Cause::Io(cause) if sys::is_device_error(cause))
            }
            _ => false,
        };
        // What is missing, or no file, is found by a scrub that leaves lines out, too.
        if !is_bad {
            return;
        }
        let root = || BadOfRoot { path: target.root.clone(), ..BadOfRoot::default() };
        let bad = self.roots.entry(target.root_id).or_insert_with(root);
        // A list may have one name many times.
        let is_new = self.number < MOST && bad.files.insert(path.clone());
        self.number += usize::from(is_new);
        let names = [ReadFrom::Medium, ReadFrom::Cache].map(|from| record_name(target, from));
        bad.lines.entry(names).or_default().push(key(path, listed));
    }

    /// Puts them in doubt in the private records that have them, which lie below `elsewhere` if that is given; those of
    /// what is checked may be locked by this run. A run that is at work there, or a record that cannot be written,
    /// leaves it as it is, which is returned.
    pub fn put_in_doubt(
        &self,
        elsewhere: Option<&Path>,
        is_locked: bool,
        stop: &Stop,
    ) -> Vec<Error> {
        let note = |(id, bad): (&Identity, &BadOfRoot)| {
            let noted = doubt(*id, bad, elsewhere, is_locked, stop);
            let error = Error::io("note what is bad for later copies to", &bad.path, noted.err()?);
            Some(error.with_note("; the next one does not know it: run that with --verify"))
        };
        self.roots.iter().filter_map(note).collect()
    }
}

/// Number of directories above the checked one that are asked for the record of a run that made it.
const MOST_ABOVE: usize = 64;

/// A check may be of what is below an output, of the payload of a bag, or of a generation that shares files with the
/// newest: there the record has the file by another name, and is of the very inode.
fn doubt(
    id: Identity,
    bad: &BadOfRoot,
    elsewhere: Option<&Path>,
    is_locked: bool,
    stop: &Stop,
) -> io::Result<()> {
    let (root, path) = (Dir::open(&bad.path)?, bad.path.canonicalize()?);
    if root.identity()? != id {
        return Ok(());
    }
    let mut last = LastDir::default();
    let mut look = |path| Some((path, last.stat(&root, path, false).ok()?));
    let (lines, files) = (&bad.lines, bad.files.iter().filter_map(&mut look).collect::<Vec<_>>());
    for (level, above) in path.ancestors().take(MOST_ABOVE).enumerate() {
        let below = RelPath::of(path.strip_prefix(above).unwrap_or(Path::new("")));
        for place in [above.to_owned(), above.join(LATEST)] {
            let Ok(dir) = Dir::open(&place) else { continue };
            let is_checked = dir.identity().is_ok_and(|at| at == id);
            if is_checked != (level == 0) {
                continue;
            }
            let private = PrivateDir::open(&dir, &place, elsewhere, Missing::Leave);
            let Ok(Some(private)) = private else { continue };
            let patience = Patience { wait: false, deed: "note in", tell: &|_| (), stop };
            let is_held = is_checked && is_locked
                || matches!(patience.lock(&private, &place), Ok(Lock::Held));
            for (names, bad) in lines.iter().filter(|_| is_checked) {
                names.iter().try_for_each(|it| Verified::take_back(&private, it, bad, is_held))?;
            }
            let levels = level + 1;
            let bad = DoubtedFiles { bad: &files, below: &below, levels, is_checked, is_held };
            bad.put_in(&private, &dir, &place)?;
            if let Some(KeptPayload { dir, path, private }) = private.payload(&dir, &place) {
                let bad = DoubtedFiles { is_checked: false, ..bad };
                bad.put_in(&private, &dir, &path)?;
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct DoubtedFiles<'a> {
    /// By their names in the checked directory.
    bad: &'a [(&'a RelPath, Stat)],
    /// That directory, as seen from the one of the record.
    below: &'a RelPath,
    /// The record's names may begin so many levels further down.
    levels: usize,
    /// True if the record is of the checked directory.
    is_checked: bool,
    /// True if no other run is at work there.
    is_held: bool,
}

impl DoubtedFiles<'_> {
    fn put_in(self, private: &PrivateDir, root: &Dir, path: &Path) -> io::Result<()> {
        let (known, _) = Knowledge::load(Some(private), root, path, &|_| false, &|| false);
        for (path, there) in self.bad {
            let full = [self.below.as_bytes(), b"/", path.as_bytes()].concat();
            let full = full.strip_prefix(b"/").unwrap_or(&full);
            let inner = memchr::memchr_iter(b'/', full).take(self.levels).map(|at| at + 1);
            for name in std::iter::once(0).chain(inner).map(|at| &full[at..]) {
                let trace = || known.recorded_trace(name, &mut NextLine::default());
                if self.is_checked && name.len() == full.len()
                    || trace().is_some_and(|trace| trace.ino == there.id.ino)
                {
                    known.refute(name, there);
                }
            }
        }
        let (rows, number) = known.take_refuted();
        if number == 0 {
            return Ok(());
        }
        if !self.is_held {
            return Err(io::Error::other(AT_WORK));
        }
        let mut record = RecordFile::create(private, known.next_number())?;
        record.append(&rows, number)?;
        record.persist()?;
        private.dir().persist()
    }
}
