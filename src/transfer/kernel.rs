//! Copy methods: what two file systems can do with each other, clones, and bytes that the kernel moves.

use std::sync::{Arc, PoisonError, RwLock, atomic::AtomicBool, atomic::Ordering::Relaxed};
use std::{collections::HashMap, path::PathBuf};

use crate::{
    error::Error, error::Result, fanout::Chunk, fanout::OwnOrigin, fanout::Subscription, io::Block,
    io::Cache, io::CopyOptions, io::Reflink, io::Sparse, io::WatchedFile, io::data_in_a_hole,
    io::is_zero, part::Part, part::content::Method, sys, sys::CachePolicy, sys::Cloned,
    sys::KernelCopy, sys::Mover, sys::stat::Stat, transfer::Context, tree::OutputDir,
};

// Cloning a file into its part file, where both lie on one file system that can share data.
//
// The clone is a snapshot of one moment, and it is the part file itself that is read and hashed
// afterwards: the digest is of what stands at the output.

/// Clones `source` into the empty `part` if that is wanted and possible, and says what the part
/// file is then. `None` when the bytes have to go another way, for which the part file is ready.
/// `is_hashed` says that the copy will be read.
pub fn clone(
    context: &Context<'_>,
    pair: &FileSystemPair,
    source: &WatchedFile<'_>,
    part: &mut Part,
    is_hashed: bool,
) -> Result<Option<Stat>> {
    let size = source.before().size;
    let is_large = size > context.options.block_size as u64;
    // An empty file has nothing to share, or its content is made up as it is read.
    if size > 0
        && context.shared.methods.wants_clone(pair, is_hashed, is_large)
        && is_cloned(context.options.asked.reflink, pair, source, part)?
    {
        let stat = part.stat()?;
        source.check(stat.size)?;
        part.is_filled_by(Method::Clone);
        return Ok(Some(stat));
    }
    part.prepare(&context.options, pair.output, source)?;
    Ok(None)
}

/// The same, and opens the clone, which is at `path`, to be read and hashed.
pub fn clone_to_hash<'a>(
    context: &'a Context<'a>,
    pair: &FileSystemPair,
    source: &WatchedFile<'_>,
    part: &mut Part,
    path: &'a dyn Fn() -> PathBuf,
) -> Result<Option<WatchedFile<'a>>> {
    let stat = clone(context, pair, source, part, true)?;
    let Some(stat) = stat else { return Ok(None) };
    let mut content = part.content(stat, path)?;
    content.spare_cache(pair.output, &context.control.resident.output);
    // What is read are the source's blocks.
    Ok(Some(content.at_rate(context.control.rate, context.control.stop)))
}

fn is_cloned(
    reflink: Reflink,
    pair: &FileSystemPair,
    source: &WatchedFile<'_>,
    part: &Part,
) -> Result<bool> {
    match sys::clone_file(source.file(), part.file()?) {
        Ok(Cloned::Yes) => Ok(true),
        Ok(Cloned::No { cause, .. }) if reflink == Reflink::Always => {
            let hint = "; both must lie on one file system that can share data (xfs, btrfs)";
            Err(source.error("clone", cause).with_note(hint))
        }
        Ok(Cloned::No { ever, .. }) => {
            if ever {
                pair.clones.store(false, Relaxed);
            }
            Ok(false)
        }
        Err(error) => Err(part.or_source_error("clone", source, error)),
    }
}

// By which way content goes from the source to the output: what is asked for, what turned out to
// be possible between two file systems, and what was done in the end.

/// The facts about a pair of file systems.
#[derive(Debug)]
pub struct FileSystemPair {
    /// The cache policy for the source's files …
    pub source: CachePolicy,
    /// … and on the output's side.
    pub output: CachePolicy,
    /// True if the source's files end where their stated sizes say.
    pub has_exact_sizes: bool,
    /// True until cloning turns out to be impossible between the two …
    clones: AtomicBool,
    /// … or `copy_file_range`.
    ranges: AtomicBool,
}

/// Pairs that are remembered; with more (snapshots of btrfs are file systems each) all is learnt
/// again.
const MOST_PAIRS: usize = 1024;

/// The ways of a run.
#[derive(Debug, Default)]
pub struct CopyMethods {
    reflink: Reflink,
    sparse: Sparse,
    cache: Cache,
    /// True if what is written is read soon, by who drops it then.
    pub is_read_soon: bool,
    pairs: RwLock<HashMap<(u64, u64), Arc<FileSystemPair>>>,
}

impl CopyMethods {
    /// The pair as the options ask for it, before anything was tried.
    pub fn new(&CopyOptions { reflink, sparse, cache, .. }: &CopyOptions) -> Self {
        Self { reflink, sparse, cache, ..Self::default() }
    }

    /// True if of a copy of so many bytes is left in memory what is read of it.
    pub fn stays(&self, size: u64) -> bool {
        self.is_read_soon && size <= sys::MOST_LATER
    }

    /// The pair of the file systems of a source file, which is `stat`, and an output.
    pub fn between(
        &self,
        source: &std::fs::File,
        stat: &Stat,
        output: &OutputDir,
    ) -> Arc<FileSystemPair> {
        let key = (stat.id.dev, output.volume.dev);
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = pairs.get(&key) {
            return Arc::clone(pair);
        }
        drop(pairs);
        let (from, to) = match (self.cache, &output.handle) {
            (Cache::Drop, Some(handle)) => (CachePolicy::of(source), CachePolicy::of(handle)),
            _ => (CachePolicy::None, CachePolicy::None),
        };
        let is_later = self.is_read_soon && to != CachePolicy::None;
        let to = if is_later { CachePolicy::Later } else { to };
        // A clone has the source's holes, and copy_file_range may make one.
        let shares = self.reflink != Reflink::Never && self.sparse == Sparse::Auto;
        let pair = Arc::new(FileSystemPair {
            source: from,
            output: to,
            has_exact_sizes: sys::has_exact_sizes(source),
            clones: AtomicBool::new(shares),
            ranges: AtomicBool::new(shares),
        });
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        if pairs.len() >= MOST_PAIRS {
            pairs.clear();
        }
        Arc::clone(pairs.entry(key).or_insert(pair))
    }

    /// True if a file is to be cloned if that turns out to be possible. `is_hashed` says that its copy will be read.
    pub fn wants_clone(&self, pair: &FileSystemPair, is_hashed: bool, is_large: bool) -> bool {
        match self.reflink {
            Reflink::Never => false,
            Reflink::Always => true,
            // The copy's content is read from the device even if the source's is in memory: for
            // small files that takes longer than writing it.
            Reflink::Auto => (is_large || !is_hashed) && pair.clones.load(Relaxed),
        }
    }
}

// Files without a digest: the kernel moves the bytes, and one thread waits for it.
//
// A clone where the file system can, else `copy_file_range`, else `sendfile`, else reading and
// writing. The next way is taken only while nothing of the file was moved: an error in the middle is
// an error of the file. A file of 4 KiB gains as well: 2.0 µs of processor time with
// `copy_file_range`, 2.4 µs read and written (tmpfs, least of 5 rounds).

/// Fills the empty `part` with the whole content of `source`, which other outputs may share by the `subscription`;
/// false when the run is to stop instead. `scratch` is for what the kernel does not move.
pub fn fill_by_kernel(
    context: &Context<'_>,
    pair: &FileSystemPair,
    source: &OwnOrigin<'_>,
    subscription: Option<&Subscription<'_>>,
    part: &mut Part,
    scratch: &mut Block,
    warnings: &mut Vec<Error>,
) -> Result<bool> {
    let OwnOrigin { file, entry, .. } = *source;
    let stat = &entry.stat;
    if clone(context, pair, file, part, false)?.is_some() {
        context.control.progress.bytes.fetch_add(stat.size, Relaxed);
        return Ok(true);
    }
    // What is shared goes through memory.
    let first = match stat.size == 0 || part.makes_holes() || subscription.is_some() {
        true => KernelCopy::None,
        false if pair.ranges.load(Relaxed) => KernelCopy::Range,
        false => KernelCopy::Send,
    };
    let mover = Mover::new(first);
    let (is_unmapped, at) = (false, 0);
    let mut moving = ContentMove {
        context,
        pair,
        source,
        mover,
        part,
        scratch,
        subscription,
        warnings,
        is_unmapped,
        at,
    };
    let whole = moving.all()?;
    let ContentMove { mover, at, part, .. } = moving;
    if mover.has_no_ranges() {
        pair.ranges.store(false, Relaxed);
    }
    part.is_filled_by(match mover.way() {
        KernelCopy::Range => Method::Range,
        KernelCopy::Send => Method::Send,
        KernelCopy::None => Method::ReadWrite,
    });
    if whole {
        // What has to be copied again is not done.
        file.check(at).inspect_err(|_| {
            context.control.progress.bytes.fetch_sub(at, Relaxed);
        })?;
    }
    Ok(whole)
}

/// The content on its way.
struct ContentMove<'a> {
    context: &'a Context<'a>,
    /// The facts about the two file systems.
    pair: &'a FileSystemPair,
    source: &'a OwnOrigin<'a>,
    mover: Mover,
    part: &'a mut Part,
    scratch: &'a mut Block,
    /// The share in the reading for several outputs, as long as the content comes from there.
    subscription: Option<&'a Subscription<'a>>,
    warnings: &'a mut Vec<Error>,
    /// True if data was found in what is called a hole.
    is_unmapped: bool,
    /// Number of bytes done.
    at: u64,
}

impl ContentMove<'_> {
    /// Moves everything; false when the run is to stop.
    fn all(&mut self) -> Result<bool> {
        let Self { context, source: OwnOrigin { file: source, entry, .. }, .. } = *self;
        let stat = &entry.stat;
        if stat.is_sparse() && context.options.asked.sparse != Sparse::Never {
            let believed = context.options.asked.holes.are_believed(stat);
            while self.at < stat.size {
                let extent = sys::next_extent(source.file(), self.at, stat.size)
                    .map_err(|error| source.error("find the holes of", error))?;
                let Some(extent) = extent else { break };
                if believed && extent.start > self.at {
                    let hole = extent.start - self.at;
                    self.part.skip(hole)?;
                    context.control.progress.believed.fetch_add(hole, Relaxed);
                    self.came(hole);
                }
                self.seek()?;
                if !self.read_hole(extent.start)? {
                    return Ok(false);
                }
                if self.at < extent.start || self.is_unmapped {
                    break; // it shrank, or is not as it is told
                }
                if !self.until(extent.end)? {
                    return Ok(false);
                }
                if self.at < extent.end {
                    return Ok(true); // it shrank: the check will say so
                }
            }
            // What is read as one stream from there on is read from where it is.
            if !self.is_unmapped {
                self.seek()?;
            }
        }
        // Also after the extents: a file that grew is read on, and found to have grown.
        self.until(u64::MAX)
    }

    /// Moves what there is up to `end`; false when the run is to stop.
    fn until(&mut self, end: u64) -> Result<bool> {
        let Self { context, source: OwnOrigin { file: source, entry, .. }, .. } = *self;
        while self.at < end && !source.is_all(self.at) {
            if context.control.stop.is_urgent() {
                return Ok(false);
            }
            // Not beyond the size that was listed: what grows meanwhile may have no end.
            let end = end.min(entry.stat.size.max(self.at + 1));
            let moved = match self.part.take(&mut self.mover, source, self.at, end - self.at)? {
                // What the kernel moves ends at the stated size, whatever is behind it.
                Some(0) if !self.pair.has_exact_sizes => self.read_and_write(end - self.at)?,
                Some(moved) => {
                    source.moved(moved);
                    moved
                }
                None => self.read_and_write(end - self.at)?,
            };
            if moved == 0 {
                break;
            }
            self.came(moved);
        }
        Ok(true)
    }

    /// Reads what is called a hole up to `end`, or to the block in which there is data after all: from there on zeros
    /// are to become holes. False when the run is to stop.
    fn read_hole(&mut self, end: u64) -> Result<bool> {
        let Self { context, source: OwnOrigin { dir, entry, .. }, .. } = *self;
        while self.at < end && !self.is_unmapped {
            if context.control.stop.is_urgent() {
                return Ok(false);
            }
            let chunk = self.read(end - self.at)?;
            let bytes = chunk.as_deref().map_or(&**self.scratch, |chunk| chunk);
            let read = bytes.len() as u64;
            match read {
                0 => break,
                _ if is_zero(bytes) => self.part.skip(read)?,
                _ => {
                    (self.is_unmapped, self.mover) = (true, Mover::new(KernelCopy::None));
                    self.warnings.push(data_in_a_hole(dir.path_of(&entry.name)));
                    self.part.make_holes();
                    self.part.write(bytes)?;
                }
            }
            self.came(read);
        }
        Ok(true)
    }

    /// Reads and writes a block of at most `most` bytes; 0 at the end.
    fn read_and_write(&mut self, most: u64) -> Result<u64> {
        let chunk = self.read(most)?;
        let bytes = chunk.as_deref().map_or(&**self.scratch, |chunk| chunk);
        self.part.write(bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Reads at most `most` bytes: a chunk that outputs share, or into `scratch`; none at the end.
    fn read(&mut self, most: u64) -> Result<Option<Arc<Chunk>>> {
        let source = self.source;
        self.scratch.clear();
        if let Some(subscription) = self.subscription {
            // What is shared ends at the size that was listed, whatever is behind it.
            if self.at >= source.entry.stat.size && source.file.ends_at(self.at)? {
                return Ok(None);
            }
            if let Some(chunk) = subscription.next(source, self.at, most) {
                return Ok(Some(chunk));
            }
            subscription.count_alone();
            self.subscription = None;
            self.seek()?;
        }
        let room = self.scratch.room();
        let most = match source.entry.stat.size {
            0 => room.len(), // the size may mean nothing
            _ => room.len().min(usize::try_from(most).unwrap_or(usize::MAX)),
        };
        let read = source.file.read(&mut room[..most])?;
        self.scratch.fill(read);
        Ok(None)
    }

    fn came(&mut self, bytes: u64) {
        self.at += bytes;
        self.context.control.progress.bytes.fetch_add(bytes, Relaxed);
    }

    fn seek(&self) -> Result<()> {
        let source = self.source.file;
        source.seek(self.at).map_err(|error| source.error("find the data of", error))
    }
}
