//! Small files that a lane reads one after the other, hashes together in vector registers, and then
//! writes one after the other.
//!
//! Nothing else differs from copying each by itself: every file is opened, watched, judged and written
//! with the calls it would take alone, what goes wrong with one is that one's, and what becomes of them
//! is told in their order. Their contents wait side by side in the block that one file would go through,
//! so a handful takes no memory but for a few lines about each. A source is closed once it was read, so
//! it holds no descriptors either.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Result};
use crate::hash::{Algorithm, Digest, multibuffer::streams};
use crate::io::block::Block;
use crate::io::options::Reflink;
use crate::io::timing::{Timer, Timings};
use crate::part::part_file::Part;
use crate::sys::{Attributes, CachePolicy};
use crate::transfer::baseline;
use crate::transfer::context::Context;
use crate::transfer::outcome::{Fate, Outcome};
use crate::transfer::small::{open, write};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;

/// Files of one run whose contents are in a block and are still to be hashed and written.
pub struct Handful<'a> {
    context: &'a Context<'a>,
    clocks: &'a Timings,
    source: &'a SourceDir,
    output: &'a Arc<OutputDir>,
    /// The most files at a time; 1 where they are copied one by one.
    most: usize,
    /// The most bytes of each: so many of such files fit into the block.
    largest: u64,
    loaded: Vec<Loaded>,
}

/// A file that was read.
struct Loaded {
    /// Which outcome of the run is this file's.
    at: usize,
    replaces: bool,
    attributes: Attributes,
    /// How the pages of the copy are spared.
    sparing: CachePolicy,
    /// Where in the block its content is.
    content: Range<usize>,
}

/// What came of reading a file for a handful.
pub enum Taken {
    /// It was read, and waits.
    Waits,
    /// It is to be copied by itself: it is no file for a handful, or has more content than it tells.
    Alone,
    /// It changed while it was read.
    Changed(Error),
}

impl<'a> Handful<'a> {
    /// An empty one. One file at a time is left to others, and so are files that nobody hashes, that are
    /// to be cloned, and that outputs share.
    pub fn new(
        (context, clocks): (&'a Context<'a>, &'a Timings),
        (source, output): (&'a SourceDir, &'a Arc<OutputDir>),
    ) -> Self {
        let apart = context.options.algorithm == Algorithm::None
            || context.shared.slot.is_some()
            || context.options.reflink == Reflink::Always;
        let most = if apart { 1 } else { context.options.backend.lanes() };
        let largest = (context.options.block_size / most) as u64;
        Self { context, clocks, source, output, most, largest, loaded: Vec::new() }
    }

    /// Reads a file behind the others in `block`; `at` is which of the run's outcomes will be its.
    pub fn take(
        &mut self,
        (entry, replaces): (&SourceEntry, bool),
        at: usize,
        block: &mut Block,
        warnings: &mut Vec<Error>,
    ) -> Result<Taken> {
        // A byte more than there should be: only reading tells that there is no more.
        let room = entry.stat.size.saturating_add(1);
        if self.most < 2 || room > self.largest {
            return Ok(Taken::Alone);
        }
        if self.loaded.is_empty() {
            block.clear();
        }
        let start = block.len();
        let Some(room) = block.room().get_mut(..room as usize) else { return Ok(Taken::Alone) };
        let _busy = Timer::start(&self.clocks.read.busy);
        let told = warnings.len();
        let path = || self.source.path_of(&entry.name);
        let opened = open(self.context, (self.source, self.output), entry, &path, warnings)?;
        let (mut file, attributes, pair) = opened;
        file.spare_cache(pair.source, &self.context.control.resident.source);
        let mut total = 0;
        while !file.is_all(total as u64) {
            match file.read(&mut room[total..])? {
                0 => break,
                read => total += read,
            }
        }
        if total as u64 > entry.stat.size {
            warnings.truncate(told);
            return Ok(Taken::Alone);
        }
        match file.check(total as u64) {
            Err(error) if file.has_changed() => return Ok(Taken::Changed(error)),
            checked => checked?,
        }
        block.fill(total);
        let (sparing, content) = (pair.output, start..start + total);
        self.loaded.push(Loaded { at, replaces, attributes, sparing, content });
        Ok(Taken::Waits)
    }

    /// Whether no more can be taken before these are completed.
    pub fn is_full(&self) -> bool {
        self.loaded.len() >= self.most
    }

    /// Hashes the files that wait in `block` and writes them; what becomes of each goes into its outcome
    /// among `outcomes`, which is left as it is for those that are not written because the run stops.
    pub fn complete(&mut self, outcomes: &mut [Outcome], block: &Block) {
        let Self { context, clocks, .. } = *self;
        if self.loaded.is_empty() || context.control.stop.is_urgent() {
            self.loaded.clear();
            return;
        }
        let mut timer = Timer::start(&clocks.hash.busy);
        let content = |loaded: &Loaded| block.get(loaded.content.clone()).unwrap_or_default();
        let contents: Vec<&[u8]> = self.loaded.iter().map(content).collect();
        let bytes: usize = contents.iter().map(|content| content.len()).sum();
        context.control.progress.bytes.fetch_add(bytes as u64, Relaxed);
        let digests = streams::digests(context.options.backend, &contents);
        timer.switch(&clocks.write.busy);
        for ((loaded, content), digest) in self.loaded.iter().zip(contents).zip(digests) {
            if context.control.stop.is_urgent() {
                break;
            }
            if let Some(Outcome { entry, fate, warnings, .. }) = outcomes.get_mut(loaded.at) {
                *fate = self
                    .write(loaded, entry, (content, digest), warnings)
                    .unwrap_or_else(Fate::Failed);
            }
        }
        self.loaded.clear();
    }

    /// Makes the copy of one of them.
    fn write(
        &self,
        loaded: &Loaded,
        entry: &SourceEntry,
        (content, digest): (&[u8], Digest),
        warnings: &mut Vec<Error>,
    ) -> Result<Fate> {
        let Self { context, source, output, .. } = *self;
        let Loaded { replaces, attributes, sparing, .. } = loaded;
        let digest = Some(digest);
        if let Some(fate) = baseline::objection(context, (source, output), entry, digest, None) {
            return Ok(fate);
        }
        let mut part = Part::create(&context.options, output, entry, *replaces)?;
        part.spare(*sparing);
        match write(context, entry, &mut part, content) {
            Ok(()) => {
                let Context { options, control, .. } = context;
                let completed =
                    part.finish(options, control, entry, attributes, *replaces, warnings);
                Ok(Fate::of_part(completed, digest, *replaces))
            }
            Err(error) => Err(part.discard(error)),
        }
    }
}
