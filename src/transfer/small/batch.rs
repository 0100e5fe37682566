//! Small files that are read one after the other, hashed together in vector registers, and then written
//! one after the other.
//!
//! Nothing else differs from copying each by itself: every file is opened, watched, checked and written
//! with the calls it would take alone, what goes wrong with one is that one's, and what becomes of them
//! is told in their order. Their contents wait side by side in one block, which bounds a batch by bytes
//! as its backend does by files. A source is closed once it was read, so a batch holds no descriptors.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Result};
use crate::event::timing::{Timer, Timings};
use crate::hash::multibuffer::{Backend, streams};
use crate::hash::{Algorithm, Digest};
use crate::io::block::Block;
use crate::io::options::Reflink;
use crate::part::part_file::Part;
use crate::part::transfer::Transfer;
use crate::sys::{Attributes, CachePolicy};
use crate::transfer::context::Context;
use crate::transfer::finish::complete;
use crate::transfer::outcome::{Outcome, TransferResult};
use crate::transfer::rot_check;
use crate::transfer::source::{self, OpenSource};

/// The most that a batch holds; bytes. Sixteen files of 100 KB fit, and all of it fits into the second-level
/// cache of a current core.
///
/// 5,000 files of 100 KB, tmpfs, two cores, processor seconds: 0.65 with batches of files up to 16 KiB, 0.60 with
/// these.
const MOST_BYTES: usize = 2 << 20;

/// So large is the block that small files are copied through, in bytes, where files of up to `block_size` are
/// hashed by `backend`. Memory that is never filled is never taken.
pub fn room(block_size: usize, backend: Backend) -> usize {
    // A byte more than each has: see `SmallBatch::take`.
    let all = block_size.saturating_add(1).saturating_mul(backend.lanes());
    if backend.lanes() < 2 { block_size } else { all.min(MOST_BYTES).max(block_size) }
}

/// Files whose contents are in a block and are still to be hashed and written.
pub struct SmallBatch<'a> {
    context: &'a Context<'a>,
    timings: &'a Timings,
    /// The most files at a time; 1 where they are copied one by one.
    most: usize,
    loaded: Vec<LoadedFile>,
}

/// A file that was read.
struct LoadedFile {
    /// Which of the results is this file's.
    at: usize,
    attributes: Attributes,
    /// How the pages of the copy are spared.
    sparing: CachePolicy,
    /// Where in the block its content is.
    content: Range<usize>,
}

/// What came of reading a file for a batch.
pub enum Admission {
    /// It was read, and waits.
    Waits,
    /// It is to be copied by itself: it is no file for a batch, or has more content than it tells.
    Alone,
    /// It changed while it was read.
    Changed(Error),
}

impl<'a> SmallBatch<'a> {
    /// An empty one. Shared and reflinked files, and those that are not hashed by SHA-256 alone, are
    /// copied one at a time.
    pub fn new(context: &'a Context<'a>, timings: &'a Timings) -> Self {
        let options = &context.options;
        let one_by_one = options.algorithm != Algorithm::Sha256
            || context.further().is_some()
            || context.shared.slot.is_some()
            || options.reflink == Reflink::Always;
        let most = if one_by_one { 1 } else { options.backend.lanes() };
        Self { context, timings, most, loaded: Vec::new() }
    }

    /// Reads a file behind the others in `block`; `at` is which of the results will be its.
    pub fn take(
        &mut self,
        transfer: &Transfer,
        at: usize,
        block: &mut Block,
        warnings: &mut Vec<Error>,
    ) -> Result<Admission> {
        let size = transfer.entry().stat.size;
        // A byte more than there should be: only reading tells that there is no more.
        let room = size.saturating_add(1);
        let keeps_chain = self.context.shared.states.is_some_and(|states| states.wants(size));
        if self.most < 2 || keeps_chain || size > self.context.options.block_size as u64 {
            return Ok(Admission::Alone);
        }
        if self.loaded.is_empty() {
            block.clear();
        }
        let start = block.len();
        let Some(room) = block.room().get_mut(..room as usize) else {
            return Ok(Admission::Alone);
        };
        let _busy = Timer::start(&self.timings.read.busy);
        let told = warnings.len();
        let path = || transfer.source_path();
        let opened = source::open(self.context, transfer, &path, warnings)?;
        let OpenSource { mut file, attributes, systems } = opened;
        file.spare_cache(systems.source, &self.context.control.resident.source);
        let mut total = 0;
        while !file.is_all(total as u64) {
            match file.read(&mut room[total..])? {
                0 => break,
                read => total += read,
            }
        }
        if total as u64 > size {
            warnings.truncate(told);
            return Ok(Admission::Alone);
        }
        match file.check(total as u64) {
            Err(error) if file.has_changed() => return Ok(Admission::Changed(error)),
            checked => checked?,
        }
        block.fill(total);
        let (sparing, content) = (systems.output, start..start + total);
        self.loaded.push(LoadedFile { at, attributes, sparing, content });
        Ok(Admission::Waits)
    }

    /// Whether no more can be taken before these are completed.
    pub fn is_full(&self) -> bool {
        self.loaded.len() >= self.most
    }

    /// Whether a file fits behind the others in `block`; any does before the first.
    pub fn has_room(&self, transfer: &Transfer, block: &mut Block) -> bool {
        self.loaded.is_empty() || block.room().len() as u64 > transfer.entry().stat.size
    }

    /// Hashes the files that wait in `block` and writes them; what becomes of each goes into its result,
    /// which is left as it is for those that are not written because the run stops.
    pub fn complete(&mut self, results: &mut [TransferResult], block: &Block) {
        let Self { context, timings, .. } = *self;
        let control = &context.control;
        if self.loaded.is_empty() || control.stop.is_urgent() {
            self.loaded.clear();
            return;
        }
        let mut timer = Timer::start(&timings.hash.busy);
        let content = |loaded: &LoadedFile| block.get(loaded.content.clone()).unwrap_or_default();
        let contents: Vec<&[u8]> = self.loaded.iter().map(content).collect();
        let bytes: usize = contents.iter().map(|content| content.len()).sum();
        control.progress.bytes.fetch_add(bytes as u64, Relaxed);
        let digests = streams::digests(context.options.backend, &contents);
        timer.switch(&timings.write.busy);
        for ((loaded, content), digest) in self.loaded.iter().zip(contents).zip(digests) {
            if control.stop.is_urgent() {
                break;
            }
            if let Some(result) = results.get_mut(loaded.at) {
                let written = write(context, loaded, content, digest.into(), result);
                result.outcome = written.unwrap_or_else(Outcome::Failed);
            }
        }
        self.loaded.clear();
    }
}

/// Makes the copy of one file, the result of which is at hand.
fn write(
    context: &Context<'_>,
    loaded: &LoadedFile,
    content: &[u8],
    digest: Digest,
    result: &mut TransferResult,
) -> Result<Outcome> {
    let (transfer, digest) = (&result.transfer, Some(digest));
    if let Some(outcome) = rot_check::check(context, transfer, digest) {
        return Ok(outcome);
    }
    let mut part = Part::create(&context.options, &transfer.target)?;
    part.spare(loaded.sparing);
    part.keep_holes(&context.options, &transfer.entry().stat);
    match part.write(content) {
        Ok(()) => {
            let warnings = &mut result.warnings;
            Ok(complete(context, transfer, part, &loaded.attributes, digest, warnings))
        }
        Err(error) => Err(part.discard(error)),
    }
}
