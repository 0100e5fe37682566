//! The state that every thread of a run has at hand: the options, shared knowledge, and controls.

use std::{ffi::OsStr, sync::Arc, sync::OnceLock};

use crate::{
    chain::StatesFile, fanout::Slot, hash::Algorithm, hash::Algorithms, hash::ChainHasher,
    hash::Digest, hash::Digests, hash::Hasher, io::Control, io::FilesInUse, io::FurtherDigests,
    io::Options, part::content::CopyTarget, state::Knowledge, state::Rescues, sys::stat::Stat,
    transfer::baseline::Baseline, transfer::kernel::CopyMethods, transfer::share::RenamedFiles,
    tree::ChangedFiles, tree::SourceDir,
};

/// The common state of a run's workers.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub options: Options<'a>,
    /// The knowledge that the transfers of a run share.
    pub shared: Shared<'a>,
    /// The steering and counting of transfers.
    pub control: Control<'a>,
}

/// The knowledge that the transfers of a run share: of each other, of earlier runs and of other outputs.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// The records of earlier runs about the output's files.
    pub known: Option<&'a Knowledge>,
    /// The earlier manifest that the source is held against.
    pub baseline: Option<&'a Baseline>,
    /// The methods by which content can go to the output.
    pub methods: &'a CopyMethods,
    /// Where the output has its bytes from, if it shares the reading of them with others.
    pub slot: Option<Slot<'a>>,
    /// Where the chains of large files are kept, if they are.
    pub states: Option<&'a StatesFile>,
    /// The lists besides the digest that proves, if there are any.
    pub further: Option<&'a FurtherDigests>,
    /// The files that can be shared under another name, if any are to be.
    pub renamed: Option<&'a RenamedFiles<'a>>,
    /// Where files are noted that are not what a plan says, if there is one.
    pub changed: Option<&'a ChangedFiles>,
    /// What earlier runs read of files that could not be read as a whole, if this run may know.
    pub rescues: Option<&'a Rescues<'a>>,
    /// The files of the source that could be written to when they were read.
    pub in_use: Option<&'a FilesInUse>,
    /// A file of the source that was read, with its directory and its name, to tell a bad file from a bad source.
    pub read: Option<&'a FirstRead>,
}

/// The first file that a run read.
pub type FirstRead = OnceLock<(Arc<SourceDir>, Arc<OsStr>)>;

impl<'a> Shared<'a> {
    /// The state of a transfer that stands alone: nothing is known from before, and its bytes are read for it alone.
    pub fn alone(methods: &'a CopyMethods) -> Self {
        let (known, baseline, slot, states) = (None, None, None, None);
        let (further, renamed, changed, rescues) = (None, None, None, None);
        let (in_use, read) = (None, None);
        Self {
            known,
            baseline,
            methods,
            slot,
            states,
            further,
            renamed,
            changed,
            rescues,
            in_use,
            read,
        }
    }
}

impl Context<'_> {
    /// True if a file of the source, which was read, may have been changed since without another time: in the same step
    /// of its file system's clock, or because somebody could write to it.
    pub fn is_in_doubt(&self, source: &Stat) -> bool {
        let began = self.options.began;
        source.ctime.may_be_of(began) || self.shared.in_use.is_some_and(|it| it.has(source, began))
    }

    /// True if [all attributes](crate::sys::Attributes::read_all) go over.
    pub fn wants_all(&self) -> bool {
        self.options.asked.selection.windows_metadata
    }

    /// Starts the digest of a file that is expected to have so many bytes, and its chain if that is kept.
    pub fn start_chain(&self, size: u64) -> ChainHasher {
        let hasher = self.options.asked.algorithm.start();
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

    /// The same as [`keep_chain`](Self::keep_chain), for a file whose further digests are at hand.
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
            waiting.put_all(path, all.proven_by(self.options.asked.algorithm));
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
        further.with(self.options.asked.algorithm)
    }

    /// The further digests to compute over files.
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
