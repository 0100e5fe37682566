//! What every thread of a run has at hand: what was asked, what is shared, and what controls it.

use std::ffi::OsStr;
use std::sync::{Arc, OnceLock};

use crate::chain::states::StatesFile;
use crate::fanout::slot::Slot;
use crate::hash::chain::ChainHasher;
use crate::hash::{Algorithm, Algorithms, Digest, Digests, Hasher};
use crate::io::control::Control;
use crate::io::further::FurtherDigests;
use crate::io::options::Options;
use crate::part::transfer::CopyTarget;
use crate::state::knowledge::Knowledge;
use crate::transfer::baseline::Baseline;
use crate::transfer::kernel::copy_methods::CopyMethods;
use crate::transfer::renamed::tree::RenamedFiles;
use crate::tree::dirs::SourceDir;
use crate::tree::names::changed::ChangedFiles;

/// What the workers of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub options: Options,
    /// What the transfers of a run share.
    pub shared: Shared<'a>,
    /// What steers and counts them.
    pub control: Control<'a>,
}

/// What the transfers of a run know of each other, of earlier runs and of other outputs.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// What earlier runs found out about the output's files.
    pub known: Option<&'a Knowledge>,
    /// The earlier manifest that the source is held against.
    pub baseline: Option<&'a Baseline>,
    /// By which methods content can go to the output.
    pub methods: &'a CopyMethods,
    /// Where the output has its bytes from, if it shares the reading of them with others.
    pub slot: Option<Slot<'a>>,
    /// Where the chains of large files are kept, if they are.
    pub states: Option<&'a StatesFile>,
    /// What is listed besides the digest that proves, if anything is.
    pub further: Option<&'a FurtherDigests>,
    /// What can be shared under another name, if anything is to be.
    pub renamed: Option<&'a RenamedFiles<'a>>,
    /// Where files are noted that are not what a plan says, if there is one.
    pub changed: Option<&'a ChangedFiles>,
    /// A file of the source that was read, with its directory and its name, to tell a bad file from a bad source.
    pub read: Option<&'a FirstRead>,
}

/// The first file that a run read.
pub type FirstRead = OnceLock<(Arc<SourceDir>, Arc<OsStr>)>;

impl<'a> Shared<'a> {
    /// Of a transfer that stands alone: nothing is known from before, and its bytes are read for it alone.
    pub fn alone(methods: &'a CopyMethods) -> Self {
        let (known, baseline, slot, states) = (None, None, None, None);
        let (further, renamed, changed, read) = (None, None, None, None);
        Self { known, baseline, methods, slot, states, further, renamed, changed, read }
    }
}

impl Context<'_> {
    /// Starts the digest of a file that is expected to have so many bytes, and its chain if that is kept.
    pub fn start_chain(&self, size: u64) -> ChainHasher {
        let hasher = self.options.algorithm.start();
        match self.shared.states.is_some_and(|states| states.wants(size)) {
            true => ChainHasher::keeping(hasher),
            false => ChainHasher::without(hasher),
        }
    }

    /// The digest of a file that was hashed to its end; its chain is kept.
    pub fn keep_chain(&self, target: &CopyTarget, hasher: ChainHasher) -> Option<Digest> {
        let size = hasher.hasher().taken();
        let (digest, chain) = hasher.finish();
        if let (Some(states), Some(digest), Some(chain)) = (self.shared.states, &digest, chain) {
            states.put(target.rel_path().as_bytes(), size, digest, chain);
        }
        digest
    }

    /// Starts the further digests of a file; nothing where none are asked for.
    pub fn start_further(&self) -> Hasher {
        self.further().map_or_else(|| Algorithm::None.start(), FurtherDigests::start)
    }

    /// As [`keep_chain`](Self::keep_chain), for a file whose further digests are at hand.
    pub fn keep_all(
        &self,
        target: &CopyTarget,
        hasher: ChainHasher,
        further: Hasher,
    ) -> Option<Digest> {
        let digest = self.keep_chain(target, hasher);
        if let (Some(waiting), Some(digest)) = (self.further(), digest) {
            waiting.put(target.rel_path().as_bytes(), digest, further);
        }
        digest
    }

    /// The digests of the file at `path`, all that are listed among them, wait until it is listed.
    pub fn put_all(&self, path: &[u8], all: &Digests) {
        if let (Some(waiting), Some(all)) = (self.further(), all.only(self.algorithms())) {
            waiting.put_all(path, all.proven_by(self.options.algorithm));
        }
    }

    /// The digest by `algorithm` of the file at `path`, which was read and has this `proof`.
    pub fn digest_by(&self, path: &[u8], proof: Digest, algorithm: Algorithm) -> Option<Digest> {
        match proof.algorithm() == algorithm {
            true => Some(proof),
            false => self.further()?.waiting_digest(path, proof, algorithm),
        }
    }

    /// Takes what was recorded of the untouched file at `path` besides its digest. False if not all that is listed was
    /// recorded: then the file is to be read.
    pub fn take_recorded(&self, path: &[u8], proof: Digest, further: Vec<Digest>) -> bool {
        self.further().is_none_or(|asked| asked.put_recorded(path, proof, further))
    }

    /// All that is computed over a file.
    pub fn algorithms(&self) -> Algorithms {
        let further = self.further().map(FurtherDigests::algorithms).unwrap_or_default();
        further.with(self.options.algorithm)
    }

    /// What further digests there are to compute over files.
    pub fn further(&self) -> Option<&FurtherDigests> {
        self.shared.further.filter(|further| !further.algorithms().is_empty())
    }

    /// A file is not copied: other outputs need not wait for this one to take it.
    pub fn pass(&self, target: &CopyTarget) {
        if let Some(slot) = self.shared.slot {
            slot.skip(&target.output, &target.entry);
        }
    }
}
