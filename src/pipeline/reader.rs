//! The first thread of a lane: takes files, copies the small ones itself, and reads the large ones
//! block by block.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::Sender;

use crate::error::Error;
use crate::fanout::chunk::Data;
use crate::hash::Algorithm;
use crate::io::block::BlockPool;
use crate::io::options::Sparse;
use crate::io::read_back::ReadBack;
use crate::io::timing::Timer;
use crate::io::watched_file::WatchedFile;
use crate::part::resume::{self, Begun};
use crate::pipeline::message::{Cut, Gone, LargeFile, ReadEnd, Step, send};
use crate::pipeline::queue::Tasks;
use crate::pipeline::shared_read::Where;
use crate::sys;
use crate::transfer::clone::clone_to_hash;
use crate::transfer::context::Context;
use crate::transfer::outcome::{Fate, Message, Outcome};
use crate::transfer::prepare::{Next, arrange};
use crate::transfer::{retry, small};
use crate::tree::cleanup::Leftovers;
use crate::tree::dirs::OutputDir;
use crate::tree::found::WalkItem;
use crate::tree::found::{Batch, SourceEntry};

/// What the reader sends to the hasher.
pub type Read = Step<Result<ReadEnd, Cut>>;

/// The reader of a lane.
pub struct Reader<'a> {
    /// What the run shares.
    pub context: &'a Context<'a>,
    /// The lane's blocks.
    pub pool: BlockPool,
    /// For files that are there already.
    pub read_back: ReadBack,
    /// Where work comes from.
    pub tasks: Tasks,
    /// The hasher.
    pub next: Sender<Read>,
    /// The committer.
    pub outcomes: Sender<Message>,
}

impl Reader<'_> {
    /// Works until there is no more to do. It ends early only when a thread it needs is gone.
    pub fn work(mut self) {
        while let Some(run) = self.tasks.next() {
            if self.take(run).is_err() {
                return;
            }
        }
    }

    fn take(&mut self, mut run: Batch) -> Result<(), Gone> {
        // The walk makes a large file a run of its own.
        let block_size = self.context.options.block_size as u64;
        if self.context.options.algorithm != Algorithm::None
            && let Some(large) = run.files.pop_if(|entry| entry.stat.size > block_size)
        {
            return self.take_large(&run, large);
        }
        let mut scratch = self.pool.take(&self.context.control.clocks.read);
        let outcomes = small::copy_run(self.context, run, &mut scratch, &mut self.read_back);
        self.report(outcomes)
    }

    fn take_large(&mut self, run: &Batch, entry: SourceEntry) -> Result<(), Gone> {
        let context = self.context;
        context.control.progress.set_current(|path| run.source.rel.join_into(&entry.name, path));
        let next = if context.control.stop.is_requested() {
            Next::Settled(Fate::Abandoned)
        } else {
            arrange(context, &run.source, &run.output, &entry, &mut self.read_back)
        };
        let mut warnings = Vec::new();
        let fate = match next {
            Next::Settled(Fate::Abandoned) => Fate::Abandoned,
            Next::Settled(fate) => {
                let swept = resume::forget(&context.options, &run.source, &run.output, &entry);
                self.tell(&run.output, swept, &mut warnings)?;
                fate
            }
            Next::Copy { replaces, warning } => {
                if let Some(warning) = warning {
                    self.outcomes.send(Message::Warning(warning)).map_err(|_| Gone)?;
                }
                match self.copy(run, &entry, replaces, None) {
                    Ok(()) => return Ok(()),
                    Err(Ended::Gone) => return Err(Gone),
                    Err(Ended::Cut(Cut::Failed(error))) => Fate::Failed(error),
                    Err(Ended::Cut(Cut::Abandoned)) => Fate::Abandoned,
                }
            }
        };
        let (source, output) = (Arc::clone(&run.source), Arc::clone(&run.output));
        self.report(vec![Outcome { source, output, entry, fate, warnings, resumed: 0 }])
    }

    /// Reads a file and sends it on its way. After an error nothing was sent: what goes wrong later
    /// goes the way of the file, to its end. `first` is what came of a first try.
    fn copy(
        &self,
        run: &Batch,
        entry: &SourceEntry,
        replaces: bool,
        first: Option<Error>,
    ) -> Result<(), Ended> {
        let (context, source, output) = (self.context, &run.source, &run.output);
        let is_first = first.is_none();
        let slot = context.shared.slot.filter(|_| is_first);
        let subscription = slot.and_then(|slot| slot.subscribe(source, entry));
        let path = || source.path_of(&entry.name);
        let mut timer = Timer::start(&context.control.clocks.read.busy);
        let mut file = WatchedFile::open(
            &source.handle,
            &entry.name,
            context.options.follow,
            &entry.stat,
            &path,
        )?
        .at_rate(context.control.rate, context.control.stop);
        let mut warnings: Vec<Error> = first.into_iter().map(retry::warning).collect();
        let attributes = file.attributes(&mut warnings);
        let pair = context.shared.methods.between(file.file(), &entry.stat, output);
        file.trust_size(pair.has_exact_sizes);
        if subscription.is_none() {
            file.spare_cache(pair.source, &context.control.resident.source);
        }
        timer.switch(&context.control.clocks.write.busy);
        let mut scratch = self.pool.take(&context.control.clocks.read);
        let trees = (&**source, output);
        let begun = resume::begin(
            &context.options,
            context.control.stop,
            trees,
            entry,
            replaces,
            &mut scratch,
            &mut warnings,
        )?;
        drop(scratch);
        let Some(Begun { mut part, resumed, checkpoints, swept }) = begun else {
            return Err(Ended::Cut(Cut::Abandoned));
        };
        self.tell(output, swept, &mut warnings)?;
        let copy_path = || output.path_of(&entry.name);
        let ready = match &resumed {
            Some(resumed) => {
                part.go_on(&context.options, pair.output, &file, resumed.offset).map(|()| None)
            }
            None => clone_to_hash(context, &pair, &file, &mut part, &copy_path),
        };
        let copy = match ready {
            Ok(copy) => copy,
            Err(error) => {
                let error = part.discard(error);
                // Cloned when it was no longer what was listed.
                let again = || retry::look_again(context, source, output, entry, replaces);
                return match file.has_changed().then(again).flatten() {
                    Some(stat) if is_first => {
                        let entry = SourceEntry { name: entry.name.clone(), stat };
                        self.copy(run, &entry, replaces, Some(error))
                    }
                    _ => Err(error.into()),
                };
            }
        };
        drop(timer);
        let entry = entry.clone();
        let mut large = LargeFile::new(Arc::clone(source), Arc::clone(output), entry, replaces);
        (large.resumed, large.checkpoints) = (resumed, checkpoints);
        let large = Arc::new(large);
        context.control.progress.skip(large.start());
        self.send(Step::Begin(Arc::clone(&large), part))?;
        let mut total = large.start();
        // A clone is read where it is, and who goes on in the middle is not where the others are.
        let read = match (&copy, subscription.filter(|_| copy.is_none() && total == 0)) {
            (None, Some(subscription)) => {
                self.read_shared(&large, &mut file, &subscription, pair.source, &mut total)
            }
            (copy, _) => {
                self.read(&large, Where::Own(copy.as_ref().unwrap_or(&file)), &mut total).map(drop)
            }
        };
        let again = match read {
            Ok(()) => None,
            Err(Ended::Cut(Cut::Failed(error))) if is_first && file.has_changed() => Some(error),
            Err(Ended::Cut(cut)) => return Ok(self.send(Step::End(Err(cut)))?),
            Err(Ended::Gone) => return Err(Ended::Gone),
        };
        let end = match again {
            None => Ok(ReadEnd { attributes, warnings }),
            Some(error) => {
                context.control.progress.bytes.fetch_sub(total, Relaxed);
                context.control.progress.skipped.fetch_sub(large.start(), Relaxed);
                match self.read_again(&large, error) {
                    Ok(end) => Ok(end),
                    Err(Ended::Cut(cut)) => Err(cut),
                    Err(Ended::Gone) => return Err(Ended::Gone),
                }
            }
        };
        Ok(self.send(Step::End(end))?)
    }

    /// Reads a file from its beginning that changed while it was read, which `error` says.
    fn read_again(&self, first: &LargeFile, error: Error) -> Result<ReadEnd, Ended> {
        let (context, LargeFile { source, output, entry, replaces, .. }) = (self.context, first);
        let Some(stat) = retry::look_again(context, source, output, entry, *replaces) else {
            return Err(error.into());
        };
        let entry = SourceEntry { name: entry.name.clone(), stat };
        let large = LargeFile::new(Arc::clone(source), Arc::clone(output), entry, *replaces);
        let large = Arc::new(large);
        self.send(Step::Again(Arc::clone(&large)))?;
        let path = || source.path_of(&large.entry.name);
        let SourceEntry { name, stat } = &large.entry;
        let mut file =
            WatchedFile::open(&source.handle, name, context.options.follow, stat, &path)?
                .at_rate(context.control.rate, context.control.stop);
        let pair = context.shared.methods.between(file.file(), stat, output);
        file.trust_size(pair.has_exact_sizes);
        file.spare_cache(pair.source, &context.control.resident.source);
        let mut warnings = vec![retry::warning(error)];
        let attributes = file.attributes(&mut warnings);
        self.read(&large, Where::Own(&file), &mut 0)?;
        Ok(ReadEnd { attributes, warnings })
    }

    /// Reads and sends the whole content from `total` on, which says how far it came; false if the rest
    /// is not to be had where it is from.
    pub(crate) fn read(
        &self,
        large: &LargeFile,
        from: Where<'_>,
        total: &mut u64,
    ) -> Result<bool, Ended> {
        let file = from.file();
        if large.entry.stat.is_sparse() && self.context.options.sparse != Sparse::Never {
            self.read_extents(large, from, total)?;
        } else if *total > 0 {
            self.seek(file, *total)?;
        }
        // Also after the extents: a file that grew is read to its end, and found to have grown.
        while !file.is_all(*total) {
            if !self.read_block(large, from, u64::MAX, total)? {
                if let Where::Shared(..) = from {
                    return Ok(false);
                }
                break;
            }
        }
        file.check(*total)?;
        Ok(true)
    }

    /// Reads the data of a file with holes and names the holes. It comes nowhere where the file
    /// system does not tell where the holes are.
    fn read_extents(&self, large: &LargeFile, from: Where<'_>, at: &mut u64) -> Result<(), Ended> {
        let (file, size, start) = (from.file(), large.entry.stat.size, *at);
        while *at < size {
            let extent = sys::next_extent(file.file(), *at, size)
                .map_err(|error| file.error("find the holes of", error))?;
            let Some(extent) = extent else { break };
            while *at < extent.start {
                self.go_on_unless_stopped(large)?;
                // In pieces, so that there are checkpoints in a long one.
                let hole = (extent.start - *at).min(large.checkpoints.unwrap_or(u64::MAX));
                self.context.control.progress.bytes.fetch_add(hole, Relaxed);
                self.send(Step::Hole(hole))?;
                *at += hole;
            }
            self.seek(file, *at)?;
            while *at < extent.end {
                if !self.read_block(large, from, extent.end - *at, at)? {
                    return Ok(());
                }
            }
        }
        if *at == start { self.seek(file, start) } else { Ok(()) }
    }

    pub(crate) fn go_on_unless_stopped(&self, large: &LargeFile) -> Result<(), Ended> {
        match self.context.control.stop.is_urgent() || large.is_given_up() {
            true => Err(Ended::Cut(Cut::Abandoned)),
            false => Ok(()),
        }
    }

    pub(crate) fn seek(&self, file: &WatchedFile<'_>, to: u64) -> Result<(), Ended> {
        let sought = file.seek(to);
        sought.map_err(|error| file.error("find the data of", error))?;
        Ok(())
    }

    /// Reads and sends a block of at most `limit` bytes, adding to `total`; false at the end.
    fn read_block(
        &self,
        large: &LargeFile,
        from: Where<'_>,
        limit: u64,
        total: &mut u64,
    ) -> Result<bool, Ended> {
        let context = self.context;
        self.go_on_unless_stopped(large)?;
        let file = match from {
            Where::Own(file) => file,
            Where::Shared(subscription, own) => {
                let busy = Timer::start(&context.control.clocks.read.busy);
                let Some(chunk) = subscription.next(own, *total, limit) else {
                    return Ok(false);
                };
                drop(busy);
                *total += chunk.len() as u64;
                context.control.progress.bytes.fetch_add(chunk.len() as u64, Relaxed);
                self.send(Step::Data(Data::Shared(chunk)))?;
                return Ok(true);
            }
        };
        let mut block = self.pool.take(&context.control.clocks.read);
        let busy = Timer::start(&context.control.clocks.read.busy);
        while (block.len() as u64) < limit && !file.is_all(*total) {
            let room = block.room();
            let room_len = room.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
            if room_len == 0 {
                break;
            }
            let read = file.read(&mut room[..room_len])?;
            if read == 0 {
                break;
            }
            block.fill(read);
            *total += read as u64;
            context.control.progress.bytes.fetch_add(read as u64, Relaxed);
            if block.len() as u64 >= limit {
                break;
            }
        }
        drop(busy);
        if block.is_empty() {
            return Ok(false);
        }
        self.send(Step::Data(Data::Own(block)))?;
        Ok(true)
    }

    pub(crate) fn send(&self, step: Read) -> Result<(), Gone> {
        send(&self.next, step, &self.context.control.clocks.read)
    }

    /// Names what was removed of what a killed run left.
    fn tell(
        &self,
        output: &Arc<OutputDir>,
        swept: Leftovers,
        warnings: &mut Vec<Error>,
    ) -> Result<(), Gone> {
        warnings.extend(swept.error);
        swept.removed.into_iter().try_for_each(|name| {
            let swept = Message::Walked(WalkItem::LeftoverRemoved(Arc::clone(output), name));
            self.outcomes.send(swept).map_err(|_| Gone)
        })
    }

    fn report(&self, outcomes: Vec<Outcome>) -> Result<(), Gone> {
        self.outcomes.send(Message::Outcomes(outcomes)).map_err(|_| Gone)
    }
}

/// Why reading a file ended before its end.
pub(crate) enum Ended {
    Cut(Cut),
    Gone,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Ended::Cut(Cut::Failed(error))
    }
}

impl From<Gone> for Ended {
    fn from(_: Gone) -> Self {
        Ended::Gone
    }
}
