//! Checking a tree a part at a time: each scrub reads the files that were not verified for the longest
//! time, until its budget is spent.
//!
//! Files that were bad come first, then those that were never looked at, then the others by the time of
//! the run that verified them. There is one pass over the manifest for each of these. A bad file is among
//! the first of the next scrub until it is repaired.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::path::RelPath;
use crate::state::private_dir::{Missing, PrivateDir};
use crate::verify::finding::{Finding, Verdict};
use crate::verify::scrub::budget::{Allowance, Budget};
use crate::verify::scrub::verified::{Coverage, Pass, Verified};
use crate::verify::target::Target;

/// What was verified is written this often: it is what a kill can lose.
const SAVE: Duration = Duration::from_secs(60);

/// A scrub on its way; all threads of the check share it.
#[derive(Debug)]
pub struct Scrub {
    allowance: Mutex<Allowance>,
    skipped: AtomicU64,
    /// Where private directories are kept, if not in the checked directory.
    elsewhere: Option<PathBuf>,
    record: Mutex<ScrubRecord>,
}

/// What was verified, and where that is kept.
#[derive(Debug, Default)]
struct ScrubRecord {
    verified: Verified,
    /// Not before the manifest was read.
    place: Option<(PrivateDir, OsString)>,
    saved: Option<Instant>,
}

impl Scrub {
    /// A scrub that begins now; its record is kept below `elsewhere`, if that is given.
    pub fn new(budget: Budget, elsewhere: Option<PathBuf>) -> Self {
        Self {
            allowance: Mutex::new(Allowance::new(budget)),
            skipped: AtomicU64::new(0),
            elsewhere,
            record: Mutex::default(),
        }
    }

    /// From now on the lines of this pass are given out; all those before are begun, or skipped.
    pub fn begin(&self, pass: Pass) {
        match pass {
            Pass::Bad => self.allowance().begin_bad(),
            Pass::New | Pass::Good(_) => self.allowance().begin_others(),
        }
    }

    fn allowance(&self) -> MutexGuard<'_, Allowance> {
        // Nothing in there can panic half-way.
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self) -> MutexGuard<'_, ScrubRecord> {
        // Nothing in there can panic half-way.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no more files are to be begun.
    pub fn is_over(&self) -> bool {
        self.allowance().is_spent()
    }

    /// Whether a worker that is free may begin a file.
    pub fn may_begin(&self) -> bool {
        self.allowance().may_begin()
    }

    /// Whether a file of so many bytes may be begun. If not, none may from now on.
    pub fn takes(&self, size: u64) -> bool {
        self.allowance().takes(size)
    }

    /// When a file that is begun now is given up, if it is not read by then.
    pub fn gives_up_at(&self) -> Option<Instant> {
        self.allowance().gives_up_at()
    }

    /// A line that was given out is skipped: another scrub reads its file.
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    /// How many lines were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Relaxed)
    }

    /// Reads what was verified of the lines that were listed, and writes it back, so that a directory that
    /// cannot be written to is known before anything is read. A record that is of no use is returned as an
    /// error inside, and is as good as none.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn recall(&self, target: &Target) -> Result<Option<Error>> {
        let name = record_name(target);
        let (root, elsewhere) = (target.handle()?, self.elsewhere.as_deref());
        let private = PrivateDir::open(root, &target.root, elsewhere, Missing::MakeForRecords)?;
        let none = || Error::finding("make the private directory in", &target.root, "it is gone");
        let private = private.ok_or_else(none)?;
        let path = private.path().join(&name);
        let mut useless = None;
        {
            let mut record = self.record();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            record.verified.begin(u32::try_from(now.as_secs()).unwrap_or(0).max(1));
            match private.dir().open_file(&name, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => {
                    let mark = private.mark();
                    if let Err(error) = opened.and_then(|file| record.verified.recall(file, mark)) {
                        let error = Error::io("read what was verified from", &path, error);
                        useless = Some(error.with_note("; all of it counts as never verified"));
                    }
                }
            }
            record.place = Some((private, name));
        }
        self.save()?;
        Ok(useless)
    }

    /// The manifest has this line.
    pub fn list(&self, path: &RelPath, digest: &Digest) {
        self.record().verified.list(path, digest);
    }

    /// The passes over the manifest, in their order.
    pub fn passes(&self) -> BTreeSet<Pass> {
        self.record().verified.passes()
    }

    /// Whether the line belongs to the pass, and is to be given out now.
    pub fn give(&self, path: &RelPath, digest: &Digest, pass: Pass) -> bool {
        self.record().verified.give(path, digest, pass)
    }

    /// Notes a finding: a good file was verified now, any other was not.
    pub fn note(&self, finding: &Finding) {
        if let Finding::File { path, listed, verdict, .. } = finding {
            let good = matches!(verdict, Verdict::Good(_));
            self.record().verified.note(path, listed, good);
        }
    }

    /// Writes what was verified, if it was not written in the last minute.
    pub fn save_now_and_then(&self) -> Result<()> {
        if self.record().saved.is_some_and(|saved| saved.elapsed() < SAVE) {
            return Ok(());
        }
        self.save()
    }

    /// Writes what was verified; does nothing before the manifest was read.
    ///
    /// # Errors
    /// It cannot be written; the earlier record still stands.
    pub fn save(&self) -> Result<()> {
        let mut record = self.record();
        let ScrubRecord { verified, place: Some((private, name)), saved } = &mut *record else {
            return Ok(());
        };
        // Also if it fails: a failure is told once a minute, not for each file.
        *saved = Some(Instant::now());
        private.write(name, true, |file| verified.write(file, private.mark())).map_err(|error| {
            Error::io("write what was verified to", private.path().join(name), error)
        })
    }

    /// What the scrub came to; `None` if the manifest could not be read to its end.
    pub fn coverage(&self) -> Option<Coverage> {
        let record = self.record();
        record.place.as_ref().map(|_| record.verified.coverage())
    }
}

/// The name of the file in the private directory that keeps what was verified.
fn record_name(target: &Target) -> OsString {
    let name = target.manifest.file_name().filter(|_| target.ours.is_none());
    let mut name = name.map_or_else(|| OsString::from("dircopy"), OsString::from);
    name.push(".verified");
    name
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::io::read_back::HashedFrom;
    use crate::sys::Dir;

    #[test]
    fn what_was_verified_is_written_once_in_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let scrub = Scrub::new(Budget::default(), None);
        let digest = Digest::sha256([7; 32]);
        let paths = [&b"a"[..], b"b", b"c"].map(|name| RelPath::parse(name).unwrap());
        for path in &paths {
            scrub.list(path, &digest);
        }
        let root = Dir::open(dir.path()).unwrap();
        let private = PrivateDir::open(&root, dir.path(), None, Missing::Make).unwrap().unwrap();
        let (mark, kept) = (private.mark().clone(), private.path().to_path_buf());
        let place = (private, "record".into());
        scrub.record().verified.begin(5);
        scrub.record().place = Some(place);
        let verify = |path: &RelPath, verdict| {
            let path = path.clone();
            scrub.note(&Finding::File {
                line: 1,
                path,
                listed: digest,
                verdict,
                bytes: 1,
                shared: 0,
            });
            scrub.save_now_and_then().unwrap();
        };
        let written = || {
            let mut verified = Verified::default();
            paths.iter().for_each(|path| verified.list(path, &digest));
            verified.recall(File::open(kept.join("record")).unwrap(), &mark).unwrap();
            paths.each_ref().map(|path| verified.time_of(path, &digest).unwrap())
        };
        let [a, b, c] = &paths;
        verify(a, Verdict::Good(HashedFrom::Device));
        assert_eq!(written(), [5, 0, 0]);
        verify(b, Verdict::Good(HashedFrom::Device));
        assert_eq!(written(), [5, 0, 0]);
        scrub.record().saved = Instant::now().checked_sub(SAVE);
        verify(c, Verdict::Differs(HashedFrom::Device, None));
        assert_eq!(written(), [5, 5, 0]);
        assert_eq!(kept.read_dir().unwrap().count(), 1);
    }
}
