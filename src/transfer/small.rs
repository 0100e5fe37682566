//! The gear for small files: one thread reads, hashes and writes a file before the next. Files that
//! nobody hashes go this way too, whatever their size: the kernel moves their bytes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Result};
use crate::fanout::origin::OwnOrigin;
use crate::fanout::subscription::Subscription;
use crate::hash::{Algorithm, Digest};
use crate::io::block::Block;
use crate::io::options::Sparse;
use crate::io::read_back::ReadBack;
use crate::io::timing::{Timer, Timings};
use crate::io::watched_file::WatchedFile;
use crate::part::part_file::Part;
use crate::sys::{Attributes, CachePolicy};
use crate::transfer::clone::clone_to_hash;
use crate::transfer::context::Context;
use crate::transfer::kernel::Filling;
use crate::transfer::method::Pair;
use crate::transfer::outcome::{Fate, Outcome};
use crate::transfer::prepare::{Next, arrange};
use crate::transfer::small_batch::{Handful, Taken};
use crate::transfer::{baseline, retry};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::{Batch, SourceEntry};

/// Copies a run of files through the block `scratch`, one after the other or a handful at a time;
/// `read_back` is for those that are there already.
pub fn copy_run(
    context: &Context<'_>,
    run: Batch,
    scratch: &mut Block,
    read_back: &mut ReadBack,
) -> Vec<Outcome> {
    if let Some(first) = run.files.first() {
        context.control.progress.set_current(|path| run.source.rel.join_into(&first.name, path));
    }
    let Batch { source, output, files } = run;
    let clocks = Timings::default();
    let mut handful = Handful::new((context, &clocks), (&source, &output));
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(files.len());
    for mut entry in files {
        let mut warnings = Vec::new();
        let next = match context.control.stop.is_requested() {
            true => Next::Settled(Fate::Abandoned),
            false => arrange(context, &source, &output, &entry, read_back),
        };
        let fate = match next {
            Next::Settled(fate) => fate,
            Next::Copy { replaces, warning } => {
                warnings.extend(warning);
                let at = outcomes.len();
                match handful.take((&entry, replaces), at, scratch, &mut warnings) {
                    // Which is what becomes of it unless it is written.
                    Ok(Taken::Waits) => Fate::Abandoned,
                    Err(error) => Fate::Failed(error),
                    Ok(alone) => {
                        // The block is needed.
                        handful.complete(&mut outcomes, scratch);
                        let trees = (&*source, &output);
                        let entry = (&mut entry, replaces);
                        let through = (&mut *scratch, &mut warnings);
                        let copied = match alone {
                            Taken::Changed(first) => {
                                copy_again((context, &clocks), trees, entry, through, first)
                            }
                            _ => copy_watched((context, &clocks), trees, entry, through),
                        };
                        copied.unwrap_or_else(Fate::Failed)
                    }
                }
            }
        };
        let (source, output) = (Arc::clone(&source), Arc::clone(&output));
        outcomes.push(Outcome { source, output, entry, fate, warnings, resumed: 0 });
        if handful.is_full() {
            handful.complete(&mut outcomes, scratch);
        }
    }
    handful.complete(&mut outcomes, scratch);
    context.control.clocks.add(&clocks);
    outcomes
}

/// Copies a file, and once more if it changed while it was read; then `entry` is what it was the
/// second time.
fn copy_watched(
    (context, clocks): (&Context<'_>, &Timings),
    (source, output): (&SourceDir, &Arc<OutputDir>),
    (entry, replaces): (&mut SourceEntry, bool),
    (scratch, warnings): (&mut Block, &mut Vec<Error>),
) -> Result<Fate> {
    let mut changed = false;
    let copying = Copying { context, clocks, entry, replaces, is_shared: true };
    let first = match copying.try_copy(source, output, scratch, warnings, &mut changed) {
        Err(error) if changed => error,
        done => return done,
    };
    let (trees, through) = ((source, output), (scratch, warnings));
    copy_again((context, clocks), trees, (entry, replaces), through, first)
}

/// Copies a file once more that changed while it was read, as `first` says.
fn copy_again(
    (context, clocks): (&Context<'_>, &Timings),
    (source, output): (&SourceDir, &Arc<OutputDir>),
    (entry, replaces): (&mut SourceEntry, bool),
    (scratch, warnings): (&mut Block, &mut Vec<Error>),
    first: Error,
) -> Result<Fate> {
    match retry::look_again(context, source, output, entry, replaces) {
        Some(now) => entry.stat = now,
        None => return Err(first),
    }
    let copying = Copying { context, clocks, entry, replaces, is_shared: false };
    let fate = copying.copy(source, output, scratch, warnings)?;
    warnings.push(retry::warning(first));
    Ok(fate)
}

/// Opens the file `entry`, which is at `path`, to be read; with it, its attributes, and what is known of
/// the file systems.
pub fn open<'a>(
    context: &'a Context<'a>,
    (source, output): (&SourceDir, &OutputDir),
    SourceEntry { name, stat }: &SourceEntry,
    path: &'a dyn Fn() -> PathBuf,
    warnings: &mut Vec<Error>,
) -> Result<(WatchedFile<'a>, Attributes, Arc<Pair>)> {
    let file = WatchedFile::open(&source.handle, name, context.options.follow, stat, path)?;
    let mut file = file.at_rate(context.control.rate, context.control.stop);
    let attributes = file.attributes(warnings);
    let pair = context.shared.methods.between(file.file(), stat, output);
    file.trust_size(pair.has_exact_sizes);
    Ok((file, attributes, pair))
}

/// Appends content of the file `entry` to its part file.
pub fn write(
    context: &Context<'_>,
    entry: &SourceEntry,
    part: &mut Part,
    content: &[u8],
) -> Result<()> {
    match entry.stat.is_sparse() && context.options.sparse == Sparse::Auto {
        true => part.write_with_holes(content),
        false => part.write(content),
    }
}

/// A file being copied, and where its time is counted.
pub struct Copying<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) clocks: &'a Timings,
    pub(crate) entry: &'a SourceEntry,
    pub(crate) replaces: bool,
    /// Whether the content may come from what outputs share.
    pub is_shared: bool,
}

impl Copying<'_> {
    /// Copies it through the block `scratch`.
    pub fn copy(
        &self,
        source: &SourceDir,
        output: &Arc<OutputDir>,
        scratch: &mut Block,
        warnings: &mut Vec<Error>,
    ) -> Result<Fate> {
        self.try_copy(source, output, scratch, warnings, &mut false)
    }

    /// The same; after an error `changed` says whether the file changed while it was read.
    fn try_copy(
        &self,
        source: &SourceDir,
        output: &Arc<OutputDir>,
        scratch: &mut Block,
        warnings: &mut Vec<Error>,
        changed: &mut bool,
    ) -> Result<Fate> {
        let Self { context, clocks, entry, replaces, is_shared } = *self;
        let slot = context.shared.slot.filter(|_| is_shared);
        let subscription = slot.and_then(|slot| slot.subscribe(source, entry));
        let mut timer = Timer::start(&clocks.read.busy);
        let path = || source.path_of(&entry.name);
        let opened = open(context, (source, output), entry, &path, warnings)?;
        let (mut file, attributes, pair) = opened;
        if subscription.is_none() || context.options.algorithm == Algorithm::None {
            file.spare_cache(pair.source, &context.control.resident.source);
        }
        timer.switch(&clocks.write.busy);
        let mut part = Part::create(&context.options, output, entry, replaces)?;
        let mut total = 0;
        let filled = match context.options.algorithm {
            Algorithm::None => {
                let own = OwnOrigin {
                    file: &file,
                    dir: source,
                    entry,
                    sparing: pair.source,
                    follow: context.options.follow,
                    control: context.control,
                };
                let (pair, subscription) = (&pair, subscription.as_ref());
                let filling = Filling { context, pair, source: &own, subscription };
                let whole = filling.fill(&mut part, scratch);
                whole.map(|whole| if whole { Filled::Whole(None) } else { Filled::Stopped })
            }
            _ => {
                // A path is put together only for a message: there is none of it for most files.
                let path = || output.path_of(&entry.name);
                let way = (&*pair, &path as &dyn Fn() -> PathBuf);
                let trees = (source, subscription.as_ref());
                let through = (&mut *scratch, &mut total);
                self.fill_and_hash(trees, way, &mut file, &mut part, through, &mut timer)
            }
        };
        match filled {
            Ok(Filled::Whole(digest)) => {
                match baseline::objection(context, (source, output), entry, digest, None) {
                    None => {
                        let Context { options, control, .. } = context;
                        let completed =
                            part.finish(options, control, entry, &attributes, replaces, warnings);
                        Ok(Fate::of_part(completed, digest, replaces))
                    }
                    Some(fate) => Ok(baseline::discard(part, fate, warnings)),
                }
            }
            Ok(Filled::Stopped) => {
                part.abandon(warnings);
                Ok(Fate::Abandoned)
            }
            Err(error) => {
                *changed = file.has_changed();
                if *changed {
                    context.control.progress.bytes.fetch_sub(total, Relaxed);
                }
                Err(part.discard(error))
            }
        }
    }

    /// Fills the part file and hashes what it is filled with, unless it is to stop.
    fn fill_and_hash<'f, 'a: 'f>(
        &'a self,
        (source, subscription): (&SourceDir, Option<&Subscription<'_>>),
        (pair, path): (&Pair, &dyn Fn() -> PathBuf),
        file: &mut WatchedFile<'f>,
        part: &mut Part,
        (scratch, total): (&mut Block, &mut u64),
        timer: &mut Timer<'a>,
    ) -> Result<Filled> {
        let copy = clone_to_hash(self.context, pair, file, part, path)?;
        if copy.is_none()
            && let Some(subscription) = subscription
        {
            let trees = (source, subscription);
            if let Some(filled) = self.fill_shared(trees, file, part, total, timer)? {
                return Ok(filled);
            }
            subscription.count_alone();
            file.spare_cache(pair.source, &self.context.control.resident.source);
            let sought = file.seek(0);
            sought.map_err(|error| file.error("find the start of", error))?;
        }
        self.fill(copy.as_ref().unwrap_or(file), part, scratch, total, timer)
    }

    /// Fills the part file with what outputs share. `None` if this output has to read it by itself.
    fn fill_shared<'a>(
        &'a self,
        (source, subscription): (&SourceDir, &Subscription<'_>),
        file: &WatchedFile<'_>,
        part: &mut Part,
        total: &mut u64,
        timer: &mut Timer<'a>,
    ) -> Result<Option<Filled>> {
        let Self { context, clocks, entry, .. } = *self;
        let size = entry.stat.size;
        // More is no small file: it does not fit into one chunk.
        if size > context.options.block_size as u64 {
            return Ok(None);
        }
        timer.switch(&clocks.read.busy);
        // It is read at once, so its pages are too few to be looked after.
        let own = OwnOrigin {
            file,
            dir: source,
            entry,
            sparing: CachePolicy::None,
            follow: context.options.follow,
            control: context.control,
        };
        let mut hasher = context.options.algorithm.start();
        let chunk = subscription.next(&own, 0, size);
        let Some(chunk) = chunk else {
            let stops = context.control.stop.is_urgent();
            return Ok(stops.then_some(Filled::Stopped));
        };
        timer.switch(&clocks.hash.busy);
        chunk.hash(&mut hasher);
        *total = chunk.len() as u64;
        context.control.progress.bytes.fetch_add(*total, Relaxed);
        timer.switch(&clocks.read.busy);
        file.check(*total)?;
        if context.control.stop.is_urgent() {
            return Ok(Some(Filled::Stopped));
        }
        timer.switch(&clocks.write.busy);
        write(context, entry, part, &chunk)?;
        Ok(Some(Filled::Whole(hasher.finish())))
    }

    /// Reads, hashes and writes the whole content, unless it is to stop; `total` says how far it came.
    /// The timer is on writing before and after.
    fn fill<'a>(
        &'a self,
        file: &WatchedFile<'_>,
        part: &mut Part,
        scratch: &mut Block,
        total: &mut u64,
        timer: &mut Timer<'a>,
    ) -> Result<Filled> {
        let Self { context, clocks, entry, .. } = *self;
        let mut hasher = context.options.algorithm.start();
        scratch.clear();
        loop {
            timer.switch(&clocks.read.busy);
            let read = file.read(scratch.room())?;
            scratch.fill(read);
            *total += read as u64;
            let all = read == 0 || file.is_all(*total);
            let full = all || scratch.room().is_empty();
            if full {
                context.control.progress.bytes.fetch_add(scratch.len() as u64, Relaxed);
            }
            // What is not of the size that was listed need not be read to an end that may never
            // come.
            if all || full && *total > entry.stat.size {
                file.check(*total)?;
            }
            if context.control.stop.is_urgent() {
                return Ok(Filled::Stopped);
            }
            // A file whose stated size means nothing, or one that is copied once more, may be larger
            // than the block.
            if full {
                timer.switch(&clocks.hash.busy);
                hasher.update(scratch);
                timer.switch(&clocks.write.busy);
                write(context, entry, part, scratch)?;
                scratch.clear();
            }
            if all {
                return Ok(Filled::Whole(hasher.finish()));
            }
        }
    }
}

/// How far a file was filled.
enum Filled {
    /// To its end, with this digest.
    Whole(Option<Digest>),
    /// Not to its end, because the run stops.
    Stopped,
}
