//! What is listed of a file besides the digest that proves.
//!
//! The thread that comes to a file's end puts its further digests here, under its path; the committer takes them when
//! it lists the file, and forgets them when the file comes to nothing. So there are never more than files on their
//! way.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::hash::{Algorithm, Algorithms, Digest, Digests, Hasher};
use crate::io::options::Options;
use crate::manifest::lists::{Content, ListKind};
use crate::path::Shown;

/// The further digests of the files that are on their way.
#[derive(Debug)]
pub struct FurtherDigests {
    /// What is computed beside what proves.
    algorithms: Algorithms,
    lists: Vec<ListKind>,
    waiting: Mutex<HashMap<Box<[u8]>, WaitingDigests>>,
}

/// Of a file that is not listed yet.
#[derive(Debug)]
struct WaitingDigests {
    proof: Digest,
    further: Option<Digests>,
}

impl FurtherDigests {
    /// None yet, of these algorithms beside the one that proves, for these lists.
    pub fn new(algorithms: Algorithms, lists: Vec<ListKind>) -> Self {
        Self { algorithms, lists, waiting: Mutex::default() }
    }

    /// Those of a run with these options, which holds the source against digests by the algorithms `expected` too;
    /// and the options with these. Large files are gone on with only where all of them can be.
    pub fn of_run(options: Options, expected: Algorithms, lists: Vec<ListKind>) -> (Self, Options) {
        let further = options.further.and(expected).without(options.algorithm);
        let journaling = options.journaling.filter(|_| further.can_go_on());
        (Self::new(further, lists), Options { further, journaling, ..options })
    }

    /// Whether anything is computed or listed besides.
    pub fn is_any(&self) -> bool {
        !self.algorithms.is_empty() || !self.lists.is_empty()
    }

    /// Appends to each of `texts` what that list says of the file at `path`; returns what is to be told of lists that
    /// cannot have it.
    pub fn list(
        &self,
        texts: &mut Vec<Vec<u8>>,
        content: Option<&Content>,
        path: &[u8],
    ) -> Option<String> {
        texts.resize_with(self.lists.len(), Vec::new);
        let lacks = |(list, text): (&ListKind, &mut Vec<u8>)| {
            let has = content.is_some_and(|content| list.write(text, content, path));
            (!has).then(|| format!(".{}", list.suffix()))
        };
        let lacking: Vec<String> = self.lists.iter().zip(texts).filter_map(lacks).collect();
        let why = match content {
            Some(_) => "its name cannot be written there",
            None => "its further digests are not known",
        };
        (!lacking.is_empty()).then(|| {
            let (name, lists) = (Shown::bytes(path), lacking.join(", "));
            format!("{name} is not in the list {lists}: {why}; the manifest has it")
        })
    }

    /// What is computed beside what proves; there may be none, where only forms of lists are asked for.
    pub fn algorithms(&self) -> Algorithms {
        self.algorithms
    }

    /// Starts them over one file.
    pub fn start(&self) -> Hasher {
        self.algorithms.start()
    }

    /// The file at `path` has these digests.
    pub fn put(&self, path: &[u8], proof: Digest, further: Hasher) {
        let further = further.finish_all(self.algorithms);
        self.waiting().insert(path.into(), WaitingDigests { proof, further });
    }

    /// The same of a file whose digests are at hand, the one that proves first.
    pub fn put_all(&self, path: &[u8], digests: Digests) {
        let (proof, further) = (digests.proof, digests.only(self.algorithms));
        self.waiting().insert(path.into(), WaitingDigests { proof, further });
    }

    /// The same of an untouched file, of which an earlier run recorded these; false if one is missing.
    pub fn put_recorded(&self, path: &[u8], proof: Digest, further: Vec<Digest>) -> bool {
        let all = Digests::new(proof, further).only(self.algorithms.with(proof.algorithm()));
        let Some(all) = all else { return false };
        self.put_all(path, all.proven_by(proof.algorithm()));
        true
    }

    /// The digest by `algorithm` of the file at `path`, if it waits with this proof.
    pub fn waiting_digest(
        &self,
        path: &[u8],
        proof: Digest,
        algorithm: Algorithm,
    ) -> Option<Digest> {
        let waiting = self.waiting();
        waiting.get(path).filter(|found| found.proof == proof)?.further.as_ref()?.of(algorithm)
    }

    /// What is to be listed of the file at `path`, which is of so many bytes, has this digest, and was read by this run
    /// if `is_read`; nothing if its further digests are not known.
    pub fn take(&self, path: &[u8], size: u64, proof: Digest, is_read: bool) -> Option<Content> {
        if self.algorithms.is_empty() {
            return Some(Content { size, digests: proof.into(), is_read });
        }
        let found = self.waiting().remove(path).filter(|found| found.proof == proof)?;
        let further = found.further?.iter().copied().collect();
        Some(Content { size, digests: Digests::new(proof, further), is_read })
    }

    /// The file at `path` is not listed by this run, or was.
    pub fn forget(&self, path: &[u8]) {
        if !self.algorithms.is_empty() {
            self.waiting().remove(path);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, WaitingDigests>> {
        // One that panicked over it left a whole map.
        self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
