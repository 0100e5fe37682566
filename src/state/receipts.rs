//! The sequence of an output's receipts: each names the one before it, so that gaps and changes show.
//!
//! A receipt is known by the SHA-256 of its exact bytes. The private directory keeps that of the last one, with its
//! number, and how many runs have ended at the output, because a run without `--report` leaves no receipt. The digest
//! is noted before the receipt gets its name, and once more behind that. A run that is killed in between leaves a
//! digest of which nobody knows whether there is such a receipt: the next one names both.

use std::{
    fs::File, fs::TryLockError, io, path::Path, path::PathBuf, thread::sleep, time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    error::Deed, error::Error, error::Result, hash::hex, state::Mark, state::Missing, state::Note,
    state::PrivateDir, state::plugs::Replugged, sys::Dir, sys::stat::Identity,
};

/// The file that a run has locked while it places its receipt: it has given up the lock of the output by then.
const LOCK: &str = "receipts.lock";

/// A receipt is placed in milliseconds; after so many looks another run has it for no good reason.
const LOOKS: u32 = 500;
const BETWEEN: Duration = Duration::from_millis(20);

/// The place of a receipt among those of an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptPlace {
    /// By what the output is known in all of its receipts.
    pub output: String,
    pub number: u64,
    /// The number of the run, among those that ended at the output.
    pub run: u64,
    /// The SHA-256 of the receipt before; `None` of the first.
    pub before: Option<String>,
    /// Those of later ones, whose runs were killed before they were known to be in their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub perhaps: Vec<String>,
}

/// What is known of the receipts so far: `receipts` in the private directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LastReceipt {
    /// Number of runs that ended at the output.
    runs: u64,
    /// The place of the last receipt, and its digest.
    place: Option<ReceiptPlace>,
    digest: Option<String>,
    /// The digests of later ones that were about to get their names.
    begun: Vec<String>,
}

impl Note for LastReceipt {
    const FILE: &str = "receipts";
    const HEAD: &str = "dircopy receipts 1";
}

/// A run that ended at an output, and has a number there.
#[derive(Clone, Debug)]
pub struct CountedRun {
    run: u64,
    path: PathBuf,
    elsewhere: Option<PathBuf>,
    root: Identity,
    mark: Mark,
    /// The listed files that checks read back after the device was away, as far as that was asked.
    pub replugged: Option<Replugged>,
}

impl CountedRun {
    /// Counts a run at the output whose root is `root`, at `path`; private directories are `elsewhere`, if that is
    /// given. A number that cannot be kept is none, which goes to `warn`, and the receipt is in no sequence then.
    pub fn count(
        private: &PrivateDir,
        root: &Dir,
        path: &Path,
        elsewhere: Option<&Path>,
        warn: impl FnOnce(&Error),
    ) -> Option<Self> {
        let next = || {
            let _held = hold(private)?;
            let note = || {
                let mut last = LastReceipt::read_told(private)?.unwrap_or_default();
                last.runs += 1;
                last.write(private, false)?;
                Ok((last.runs, root.identity()?))
            };
            note().deed("write the private note of receipts in", private.path())
        };
        let (run, root) = next().inspect_err(warn).ok()?;
        let (path, elsewhere) = (path.to_path_buf(), elsewhere.map(Path::to_path_buf));
        let (mark, replugged) = (private.mark().clone(), None);
        Some(Self { run, path, elsewhere, root, mark, replugged })
    }

    /// The sequence that the receipt of this run goes into; of one that is written again the same place.
    ///
    /// # Errors
    /// The output is not what it was, or what is known of its receipts cannot be read.
    pub fn sequence(&self) -> Result<ReceiptSequence> {
        const DEED: &str = "find the last receipt of";
        let root = Dir::open(&self.path).deed(DEED, &self.path)?;
        let elsewhere = self.elsewhere.as_deref();
        let private = PrivateDir::open(&root, &self.path, elsewhere, Missing::Leave)?;
        let is_same = root.identity().deed(DEED, &self.path)? == self.root;
        let private = private.filter(|private| is_same && *private.mark() == self.mark);
        let gone = || io::Error::other("the directory there is not that of the run");
        let private = private.ok_or_else(gone).deed(DEED, &self.path)?;
        let held = hold(&private)?;
        ReceiptSequence::of(private, held, self.run).deed(DEED, &self.path)
    }
}

/// The sequence of an output, held until a receipt has its place in it.
#[derive(Debug)]
pub struct ReceiptSequence {
    private: PrivateDir,
    last: LastReceipt,
    place: ReceiptPlace,
    /// The locked file.
    _held: Option<File>,
}

impl ReceiptSequence {
    fn of(private: PrivateDir, held: Option<File>, run: u64) -> io::Result<Self> {
        let last = LastReceipt::read_told(&private)?.unwrap_or_default();
        let output = private.secret(true)?.of_receipts();
        let number = last.place.as_ref().map_or(0, |place| place.number);
        let own = last.place.clone().filter(|place| place.run == run);
        let place = own.unwrap_or_else(|| ReceiptPlace {
            output: hex::text(&output.0[..16]),
            number: number + 1 + last.begun.len() as u64,
            run,
            before: last.digest.clone(),
            perhaps: last.begun.clone(),
        });
        Ok(Self { private, last, place, _held: held })
    }

    /// The place of the receipt.
    pub fn place(&self) -> &ReceiptPlace {
        &self.place
    }

    /// A receipt with this digest is about to get its name.
    ///
    /// # Errors
    /// That cannot be noted: the receipt may not say that it is in the sequence.
    pub fn announce(&self, digest: &str) -> io::Result<()> {
        let mut last = self.last.clone();
        last.begun.push(digest.to_owned());
        last.write(&self.private, true)
    }

    /// It has its name. If that cannot be noted, the next receipt says that this one may be there.
    pub fn confirm(self, digest: &str) {
        let Self { private, last, place, .. } = &self;
        let (place, digest) = (Some(place.clone()), Some(digest.to_owned()));
        let _ =
            LastReceipt { runs: last.runs, place, digest, begun: Vec::new() }.write(private, true);
    }
}

/// What an output knows of its last receipt.
#[derive(Debug)]
pub struct KnownReceipt {
    /// By what the output is known in its receipts.
    pub output: String,
    pub number: u64,
    pub digest: Option<String>,
    /// The digests of those behind that, which may never have come to their places.
    pub begun: Vec<String>,
}

impl KnownReceipt {
    /// That of the output at `path`; `None` if no receipts of this user's runs are known there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path, elsewhere: Option<&Path>) -> Result<Option<Self>> {
        const DEED: &str = "find the last receipt of";
        let root = Dir::open(path).deed(DEED, path)?;
        let Some(private) = PrivateDir::open(&root, path, elsewhere, Missing::Leave)? else {
            return Ok(None);
        };
        let secret = private.known_secret().deed(DEED, path)?;
        let last = LastReceipt::read(&private);
        // Runs are counted that left no receipt too.
        let last = last.filter(|last| last.place.is_some() || !last.begun.is_empty());
        Ok(secret.zip(last).map(|(secret, last)| Self {
            output: hex::text(&secret.of_receipts().0[..16]),
            number: last.place.map_or(0, |place| place.number),
            digest: last.digest,
            begun: last.begun,
        }))
    }
}

/// Waits until no other run places a receipt; `None` where files cannot be locked.
///
/// # Errors
/// Another run does not end, or what is called as the lock is no file that can be locked.
fn hold(private: &PrivateDir) -> Result<Option<File>> {
    const DEED: &str = "lock";
    let (dir, path) = (private.dir(), || private.path().join(LOCK));
    for _ in 0..LOOKS {
        let opened = dir.open_private(LOCK.as_ref()).and_then(|opened| match opened {
            Some((file, _)) => Ok(Some(file)),
            None => match dir.create_new(LOCK.as_ref(), true).unless_taken()? {
                // Another run made it at this moment, if it is a file.
                None => dir.check_plain(LOCK.as_ref()).map(|()| None),
                made => Ok(made),
            },
        });
        match opened.deed_at(DEED, path)?.map(|file| file.try_lock().map(|()| file)) {
            Some(Ok(file)) => return Ok(Some(file)),
            Some(Err(TryLockError::Error(_))) => return Ok(None),
            Some(Err(TryLockError::WouldBlock)) | None => sleep(BETWEEN),
        }
    }
    let finding = "another run is placing its receipt and does not end";
    Err(Error::finding(DEED, path(), finding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn each_receipt_names_the_one_before() {
        let (root, dir, private) = scratch();
        let count = || CountedRun::count(&private, &dir, root.path(), None, |_| ()).unwrap();
        let first = count().sequence().unwrap();
        let place = first.place().clone();
        assert_eq!((place.number, place.run, &place.before), (1, 1, &None));
        first.announce("a").unwrap();
        first.confirm("a");
        // Without a receipt.
        count();
        let run = count();
        for (digest, number) in [("b", 2), ("c", 3)] {
            let killed = run.sequence().unwrap();
            assert_eq!((killed.place().number, killed.place().run), (number, 3));
            assert_eq!(killed.place().before.as_deref(), Some("a"));
            killed.announce(digest).unwrap();
        }
        let run = count();
        for digest in ["d", "e"] {
            // Written again, it has the same place.
            let sequence = run.sequence().unwrap();
            let place = sequence.place();
            assert_eq!((place.number, place.run, place.before.as_deref()), (4, 4, Some("a")));
            assert_eq!(place.perhaps, ["b", "c"]);
            sequence.announce(digest).unwrap();
            sequence.confirm(digest);
        }
        let known = KnownReceipt::of(root.path(), None).unwrap().unwrap();
        assert_eq!((known.number, known.digest.as_deref()), (4, Some("e")));
        assert!(known.begun.is_empty() && known.output == place.output);
    }

    #[test]
    fn only_one_places_a_receipt_at_a_time() {
        let (root, dir, private) = scratch();
        let run = CountedRun::count(&private, &dir, root.path(), None, |_| ()).unwrap();
        let sequence = run.sequence().unwrap();
        let file = File::open(private.path().join(LOCK)).unwrap();
        assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        drop(sequence);
        file.try_lock().unwrap();
    }

    #[test]
    fn another_directory_at_the_path_gets_nothing() {
        let (root, dir, private) = scratch();
        let run = CountedRun::count(&private, &dir, root.path(), None, |_| ()).unwrap();
        let (other, _, _other_private) = scratch();
        let run = CountedRun { path: other.path().to_path_buf(), ..run };
        assert!(run.sequence().is_err());
    }
}
