//! The transfer of one file: policy, copy methods, small files.

pub mod baseline;
mod existing;
pub mod kernel;
pub mod labels;
pub mod outcome;
pub mod prepare;
pub mod rot_check;
pub mod share;
pub mod small;
mod small_file;
pub mod verifier;

pub use baseline::UnmetFiles;
pub use existing::BothFiles;
pub use labels::{Labels, LateCopy};
pub use outcome::{
    Action, CommitterMessage, KeptRow, Outcome, PendingPublish, TransferResult, WrittenPart,
};
pub use rot_check::LinkedCopy;
pub use share::{OtherTree, RecordedTree};
pub use verifier::{CheckedCopy, ReadBackVerdict, ReadBackVerifier, SecondReading};

use std::{ffi::OsStr, path::PathBuf, sync::Arc, sync::OnceLock};

use crate::{
    chain::StatesFile, error::Error, error::Result, fanout::Slot, hash::Algorithm,
    hash::Algorithms, hash::ChainHasher, hash::Digest, hash::Digests, hash::Hasher, io::Control,
    io::FileDigest, io::FurtherDigests, io::Options, io::ReadBack, io::WatchedFile, part::Transfer,
    part::content::CopyTarget, state::Knowledge, sys, sys::Attributes, sys::Medium,
    transfer::baseline::Baseline, transfer::kernel::CopyMethods, transfer::kernel::FileSystemPair,
    transfer::share::RenamedFiles, tree::ChangedFiles, tree::SourceDir, tree::walk::MADE_UP,
};

// The state that every thread of a run has at hand: the options, shared knowledge, and controls.

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
    /// A file of the source that was read, with its directory and its name, to tell a bad file from a bad source.
    pub read: Option<&'a FirstRead>,
}

/// The first file that a run read.
pub type FirstRead = OnceLock<(Arc<SourceDir>, Arc<OsStr>)>;

impl<'a> Shared<'a> {
    /// The state of a transfer that stands alone: nothing is known from before, and its bytes are read for it alone.
    pub fn alone(methods: &'a CopyMethods) -> Self {
        let (known, baseline, slot, states) = (None, None, None, None);
        let (further, renamed, changed, read) = (None, None, None, None);
        Self { known, baseline, methods, slot, states, further, renamed, changed, read }
    }
}

impl Context<'_> {
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

// A file of the source, opened to be copied or read for its digest alone.

/// A file that is open to be copied.
pub struct OpenSource<'a> {
    /// The file, read at the run's rate.
    pub file: WatchedFile<'a>,
    pub attributes: Attributes,
    /// The facts about its file system and the output's.
    pub systems: Arc<FileSystemPair>,
}

/// Opens a file, which is at `path`, to be copied. What cannot be read of its attributes is told in
/// `warnings`.
pub fn open<'a>(
    context: &'a Context<'a>,
    transfer: &Transfer,
    path: &'a dyn Fn() -> PathBuf,
    warnings: &mut Vec<Error>,
) -> Result<OpenSource<'a>> {
    let mut file = open_file(context, transfer, path)?;
    let attributes = file.attributes(warnings)?;
    let stat = &transfer.entry().stat;
    let systems = context.shared.methods.between(file.file(), stat, &transfer.target.output);
    file.trust_size(systems.has_exact_sizes);
    Ok(OpenSource { file, attributes, systems })
}

fn open_file<'a>(
    context: &'a Context<'a>,
    transfer: &Transfer,
    path: &'a dyn Fn() -> PathBuf,
) -> Result<WatchedFile<'a>> {
    let (dir, entry) = (&transfer.source.handle, transfer.entry());
    let follow = context.options.follow;
    let file = WatchedFile::open(dir, &entry.name, follow, &entry.stat, path)?;
    if follow && sys::is_synthetic(file.file()) && !sys::is_synthetic(dir) {
        return Err(Error::finding("copy", path(), MADE_UP));
    }
    Ok(file.at_rate(context.control.rate, context.control.stop))
}

/// The digest of a file; `None` if the run is to stop, or without an algorithm.
pub fn hash(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
) -> Result<Option<Digest>> {
    let algorithms = context.algorithms();
    let Some(all) = hash_by(context, transfer, algorithms, read_back)? else { return Ok(None) };
    context.put_all(transfer.target.rel_path().as_bytes(), &all);
    Ok(all.of(context.options.asked.algorithm))
}

/// The same by any algorithms.
pub fn hash_by(
    context: &Context<'_>,
    transfer: &Transfer,
    algorithms: Algorithms,
    read_back: &mut ReadBack,
) -> Result<Option<Digests>> {
    let read = read_source(context, transfer, algorithms, read_back, false)?;
    Ok(read.and_then(|(_, all)| all))
}

/// Reads a file once more, from its device rather than from memory where that can be had; its digest by the algorithm
/// that the run proves with. `None` if the run is to stop.
pub fn hash_again(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
) -> Result<Option<FileDigest>> {
    let algorithms = Algorithms::default().with(context.options.asked.algorithm);
    let read = read_source(context, transfer, algorithms, read_back, true)?;
    let digest = |all: Digests| all.of(context.options.asked.algorithm);
    Ok(read.map(|(read, all)| FileDigest { digest: all.and_then(digest), ..read }))
}

fn read_source(
    context: &Context<'_>,
    transfer: &Transfer,
    algorithms: Algorithms,
    read_back: &mut ReadBack,
    is_from_device: bool,
) -> Result<Option<(FileDigest, Option<Digests>)>> {
    let path = || transfer.source_path();
    let file = open_file(context, transfer, &path)?;
    let medium = match is_from_device {
        true => Medium::of(file.file(), file.before()),
        false => Ok(Medium::any(file.file())),
    };
    let stop = context.control.stop;
    let pace = |read| file.moved(read);
    let read = medium
        .and_then(|it| read_back.hash_paced(it, algorithms, || stop.is_urgent(), pace))
        .map_err(|error| file.error("read", error))?;
    if let Some((read, _)) = &read {
        file.check(read.bytes)?;
    }
    Ok(read)
}
