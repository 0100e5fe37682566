//! What is listed of a file besides the digest that proves.
//!
//! The thread that comes to a file's end puts its further digests here, under its path; the committer takes them when it
//! lists the file, and forgets them when the file comes to nothing. So there are never more than files on their way.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::hash::{Algorithm, Algorithms, Digest, Digests, Hasher};
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

    /// The lists that they go to.
    pub fn lists(&self) -> &[ListKind] {
        &self.lists
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
            format!("{name} is not in the list {lists}: {why}; the manifest .sha256sum has it")
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

    /// What is to be listed of the file at `path`, which is of so many bytes and has this digest; nothing if its
    /// further ones are not known.
    pub fn take(&self, path: &[u8], size: u64, proof: Digest) -> Option<Content> {
        if self.algorithms.is_empty() {
            return Some(Content { size, digests: proof.into() });
        }
        let found = self.waiting().remove(path).filter(|found| found.proof == proof)?;
        let further = found.further?.iter().copied().collect();
        Some(Content { size, digests: Digests::new(proof, further) })
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

/// Nothing but SHA-256 can prove as yet.
pub fn refused(algorithms: Algorithms) -> Option<&'static str> {
    let proves = algorithms.is_empty() || algorithms.proof() == Algorithm::Sha256;
    (!proves).then_some("SHA-256 is what a run proves with; add it, as in --hash sha256,md5")
}
