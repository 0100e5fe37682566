//! One small file, read, hashed and written by one thread through one block.

use std::{path::PathBuf, sync::Arc, sync::atomic::Ordering::Relaxed};

use crate::{
    error::Error, error::Result, event::Timer, event::Timings, fanout::OwnOrigin,
    fanout::Subscription, hash::Algorithm, hash::Digest, io::Block, io::WatchedFile, part::Part,
    part::Transfer, sys::CachePolicy, transfer, transfer::Context, transfer::OpenSource,
    transfer::Outcome, transfer::finish, transfer::kernel::FileSystemPair,
    transfer::kernel::clone_to_hash, transfer::kernel::fill_by_kernel,
};

/// Why a file could not be copied.
pub struct Failure {
    pub error: Error,
    /// True if it changed while it was read: then a second try may go well.
    pub is_changed: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, is_changed: false }
    }
}

/// Copies a file through the block `scratch`. Its content may come from the reading that outputs share if it
/// `is_shared`; its time is counted in `timings`.
pub fn copy_small(
    context: &Context<'_>,
    timings: &Timings,
    transfer: &Transfer,
    is_shared: bool,
    scratch: &mut Block,
    warnings: &mut Vec<Error>,
) -> Result<Outcome, Failure> {
    let slot = context.shared.slot.filter(|_| is_shared);
    let subscription = slot.and_then(|slot| slot.subscribe(&transfer.source, transfer.entry()));
    let mut timer = Timer::start(&timings.read.busy);
    let path = || transfer.source_path();
    let opened = transfer::open(context, transfer, &path, warnings)?;
    let OpenSource { mut file, attributes, systems } = opened;
    if subscription.is_none() || context.options.asked.algorithm == Algorithm::None {
        file.spare_cache(systems.source, &context.control.resident.source);
    }
    timer.switch(&timings.write.busy);
    // Then nothing is written before all of it was read, and is as it was listed.
    let is_read_first = context.options.asked.algorithm != Algorithm::None
        && transfer.entry().stat.size <= context.options.block_size as u64
        && !context.shared.methods.wants_clone(&systems, true, false);
    let part = match is_read_first {
        true => Part::create_labelled(&context.options, &transfer.target, &attributes)?,
        false => Part::create(&context.options, &transfer.target)?,
    };
    let mut copying =
        Copying { context, timings, transfer, file, part, systems, scratch, timer, total: 0 };
    let filled = match context.options.asked.algorithm {
        Algorithm::None => copying.fill_by_kernel(subscription.as_ref(), warnings),
        _ => copying.fill_and_hash(subscription.as_ref()),
    };
    let Copying { file, part, total, .. } = copying;
    match filled {
        Ok(FillResult::Whole(digest)) => {
            Ok(finish(context, transfer, part, &attributes, digest, warnings))
        }
        Ok(FillResult::Stopped) => {
            part.abandon(warnings);
            Ok(Outcome::Abandoned)
        }
        Err(error) => {
            let is_changed = file.has_changed();
            if is_changed {
                context.control.progress.bytes.fetch_sub(total, Relaxed);
            }
            Err(Failure { error: part.discard(error), is_changed })
        }
    }
}

/// The result of filling a file.
enum FillResult {
    /// To its end, with this digest.
    Whole(Option<Digest>),
    /// Not to its end, because the run stops.
    Stopped,
}

/// A file between its source and its part file.
struct Copying<'a> {
    context: &'a Context<'a>,
    timings: &'a Timings,
    transfer: &'a Transfer,
    file: WatchedFile<'a>,
    part: Part,
    systems: Arc<FileSystemPair>,
    scratch: &'a mut Block,
    /// On writing between any two of the steps below.
    timer: Timer<'a>,
    /// Bytes that were counted as done.
    total: u64,
}

impl Copying<'_> {
    /// Lets the kernel fill the part file, unless it is to stop.
    fn fill_by_kernel(
        &mut self,
        subscription: Option<&Subscription<'_>>,
        warnings: &mut Vec<Error>,
    ) -> Result<FillResult> {
        let Self { context, transfer, .. } = *self;
        let own = own_origin(context, transfer, &self.file, self.systems.source);
        let (pair, part) = (&self.systems, &mut self.part);
        let whole =
            fill_by_kernel(context, pair, &own, subscription, part, self.scratch, warnings)?;
        Ok(if whole { FillResult::Whole(None) } else { FillResult::Stopped })
    }

    /// Fills the part file and hashes what it is filled with, unless it is to stop.
    fn fill_and_hash(&mut self, subscription: Option<&Subscription<'_>>) -> Result<FillResult> {
        let Self { context, transfer, .. } = *self;
        // A path is put together only for a message: there is none of it for most files.
        let path = || transfer.target.path();
        let path: &dyn Fn() -> PathBuf = &path;
        let cloned = clone_to_hash(context, &self.systems, &self.file, &mut self.part, path)?;
        self.part.keep_holes(&context.options, &transfer.entry().stat);
        if cloned.is_none()
            && let Some(subscription) = subscription
        {
            if let Some(filled) = self.fill_shared(subscription)? {
                return Ok(filled);
            }
            subscription.count_alone();
            self.file.spare_cache(self.systems.source, &context.control.resident.source);
            let sought = self.file.seek(0);
            sought.map_err(|error| self.file.error("find the start of", error))?;
        }
        self.fill(cloned.as_ref())
    }

    /// Fills the part file with what outputs share. `None` if this output has to read it by itself.
    fn fill_shared(&mut self, subscription: &Subscription<'_>) -> Result<Option<FillResult>> {
        let Self { context, timings, transfer, .. } = *self;
        let (options, control) = (&context.options, &context.control);
        let size = transfer.entry().stat.size;
        // More is no small file: it does not fit into one chunk.
        if size > options.block_size as u64 {
            return Ok(None);
        }
        self.timer.switch(&timings.read.busy);
        // It is read at once, so its pages are too few to be looked after.
        let own = own_origin(context, transfer, &self.file, CachePolicy::None);
        let mut hasher = context.start_chain(size);
        let mut further = context.start_further();
        let Some(chunk) = subscription.next(&own, 0, size) else {
            return Ok(control.stop.is_urgent().then_some(FillResult::Stopped));
        };
        // What more there is this output finds by itself.
        if !self.file.ends_at(chunk.len() as u64)? {
            return Ok(None);
        }
        self.timer.switch(&timings.hash.busy);
        chunk.hash(&mut hasher);
        further.update(&chunk);
        self.total = chunk.len() as u64;
        control.progress.bytes.fetch_add(self.total, Relaxed);
        self.timer.switch(&timings.read.busy);
        self.file.check(self.total)?;
        if control.stop.is_urgent() {
            return Ok(Some(FillResult::Stopped));
        }
        self.timer.switch(&timings.write.busy);
        self.part.write(&chunk)?;
        Ok(Some(FillResult::Whole(context.keep_all(&transfer.target, hasher, further))))
    }

    /// Reads, hashes and writes the whole content, from the part file itself if it was `cloned`, unless it
    /// is to stop.
    fn fill(&mut self, cloned: Option<&WatchedFile<'_>>) -> Result<FillResult> {
        let Self { context, timings, transfer, .. } = *self;
        let file = cloned.unwrap_or(&self.file);
        let mut hasher = context.start_chain(transfer.entry().stat.size);
        let mut further = context.start_further();
        self.scratch.clear();
        loop {
            self.timer.switch(&timings.read.busy);
            let read = file.read(self.scratch.room())?;
            self.scratch.fill(read);
            self.total += read as u64;
            let all = read == 0 || file.is_all(self.total);
            let full = all || self.scratch.room().is_empty();
            if full {
                let bytes = self.scratch.len() as u64;
                context.control.progress.bytes.fetch_add(bytes, Relaxed);
            }
            // What is not of the size that was listed need not be read to an end that may never
            // come.
            if all || full && self.total > transfer.entry().stat.size {
                file.check(self.total)?;
            }
            if context.control.stop.is_urgent() {
                return Ok(FillResult::Stopped);
            }
            // A file whose stated size means nothing, or one that is copied once more, may be larger
            // than the block.
            if full {
                self.timer.switch(&timings.hash.busy);
                hasher.update(self.scratch);
                further.update(self.scratch);
                self.timer.switch(&timings.write.busy);
                self.part.write(self.scratch)?;
                self.scratch.clear();
            }
            if all {
                return Ok(FillResult::Whole(context.keep_all(&transfer.target, hasher, further)));
            }
        }
    }
}

/// The open source file, for what outputs share.
pub fn own_origin<'a>(
    context: &'a Context<'a>,
    transfer: &'a Transfer,
    file: &'a WatchedFile<'a>,
    sparing: CachePolicy,
) -> OwnOrigin<'a> {
    let (dir, entry) = (&*transfer.source, transfer.entry());
    let (follow, control) = (context.options.follow, context.control);
    OwnOrigin { file, dir, entry, sparing, follow, control }
}
