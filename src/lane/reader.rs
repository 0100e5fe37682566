//! The first thread of a lane: takes files, copies the small ones itself, and reads the large ones
//! block by block.

use std::io::{Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Receiver, Sender};

use crate::error::Error;
use crate::hash::Algorithm;
use crate::lane::arrange::{Next, arrange};
use crate::lane::block::Pool;
use crate::lane::clock::Timer;
use crate::lane::clone::clone_to_hash;
use crate::lane::context::Context;
use crate::lane::inline;
use crate::lane::large::{Cut, Gone, LargeFile, ReadEnd, Step, send};
use crate::lane::outcome::{Fate, Message, Outcome};
use crate::lane::part::Part;
use crate::lane::read_back::ReadBack;
use crate::lane::reading::Reading;
use crate::lane::ways::Sparse;
use crate::sys;
use crate::tree::node::{Entry, Run};

/// What the reader sends to the hasher.
pub type Read = Step<Result<ReadEnd, Cut>>;

/// The reader of a lane.
pub struct Reader<'a> {
    /// What the run shares.
    pub context: &'a Context<'a>,
    /// The lane's blocks.
    pub pool: Pool,
    /// For files that are there already.
    pub read_back: ReadBack,
    /// Where work comes from.
    pub tasks: Receiver<Run>,
    /// The hasher.
    pub next: Sender<Read>,
    /// The committer.
    pub outcomes: Sender<Message>,
}

impl Reader<'_> {
    /// Works until there is no more to do. It ends early only when a thread it needs is gone.
    pub fn work(mut self) {
        while let Ok(run) = self.tasks.recv() {
            if self.take(run).is_err() {
                return;
            }
        }
    }

    fn take(&mut self, mut run: Run) -> Result<(), Gone> {
        // The walk makes a large file a run of its own.
        let block_size = self.context.block_size as u64;
        if self.context.algorithm != Algorithm::None
            && let Some(large) = run.files.pop_if(|entry| entry.stat.size > block_size)
        {
            return self.take_large(&run, large);
        }
        let mut scratch = self.pool.take(&self.context.clocks.read);
        let outcomes = inline::copy_run(self.context, run, &mut scratch, &mut self.read_back);
        self.report(outcomes)
    }

    fn take_large(&mut self, run: &Run, entry: Entry) -> Result<(), Gone> {
        let context = self.context;
        context.progress.set_current(&run.source.rel, &entry.name);
        let next = if context.stop.is_requested() {
            Next::Settled(Fate::Abandoned)
        } else {
            arrange(context, &run.source, &run.output, &entry, &mut self.read_back)
        };
        let fate = match next {
            Next::Settled(fate) => fate,
            Next::Copy { replaces, warning } => {
                if let Some(warning) = warning {
                    self.outcomes.send(Message::Warning(warning)).map_err(|_| Gone)?;
                }
                match self.copy(run, &entry, replaces) {
                    Ok(()) => return Ok(()),
                    Err(Ended::Gone) => return Err(Gone),
                    Err(Ended::Cut(Cut::Failed(error))) => Fate::Failed(error),
                    Err(Ended::Cut(Cut::Abandoned)) => Fate::Abandoned,
                }
            }
        };
        let (source, output) = (Arc::clone(&run.source), Arc::clone(&run.output));
        self.report(vec![Outcome { source, output, entry, fate, warnings: Vec::new() }])
    }

    /// Reads a file and sends it on its way. After an error nothing was sent: what goes wrong later
    /// goes the way of the file, to its end.
    fn copy(&self, run: &Run, entry: &Entry, replaces: bool) -> Result<(), Ended> {
        let (context, source, output) = (self.context, &run.source, &run.output);
        let path = || source.path_of(&entry.name);
        let mut timer = Timer::start(&context.clocks.read.busy);
        let mut file =
            Reading::open(&source.handle, &entry.name, context.follow, &entry.stat, &path)?
                .at_rate(context.rate, context.stop);
        let mut warnings = Vec::new();
        let attributes = file.attributes(&mut warnings);
        let pair = context.ways.between(file.file(), &entry.stat, output);
        file.spare_cache(pair.source);
        timer.switch(&context.clocks.write.busy);
        let mut part = Part::create(context, output, &entry.name, replaces)?;
        let copy_path = part.path();
        let copy_path = || copy_path.clone();
        let copy = match clone_to_hash(context, &pair, &file, &mut part, &copy_path) {
            Ok(copy) => copy,
            Err(error) => return Err(part.discard(error).into()),
        };
        drop(timer);
        let entry = entry.clone();
        let large = LargeFile::new(Arc::clone(source), Arc::clone(output), entry, replaces);
        let large = Arc::new(large);
        self.send(Step::Begin(Arc::clone(&large), part))?;
        let end = match self.read(&large, copy.as_ref().unwrap_or(&file)) {
            Ok(()) => Ok(ReadEnd { attributes, warnings }),
            Err(Ended::Cut(cut)) => Err(cut),
            Err(Ended::Gone) => return Err(Ended::Gone),
        };
        Ok(self.send(Step::End(end))?)
    }

    /// Reads and sends the whole content.
    fn read(&self, large: &LargeFile, file: &Reading<'_>) -> Result<(), Ended> {
        let mut total = 0;
        if large.entry.stat.is_sparse() && self.context.ways.sparse != Sparse::Never {
            total = self.read_extents(large, file)?;
        }
        // Also after the extents: a file that grew is read to its end, and found to have grown.
        while !file.is_all(total) && self.read_block(large, file, u64::MAX, &mut total)? {}
        Ok(file.check(total)?)
    }

    /// Reads the data of a file with holes and names the holes. Returns how far it came, which is 0
    /// where the file system does not tell where the holes are.
    fn read_extents(&self, large: &LargeFile, file: &Reading<'_>) -> Result<u64, Ended> {
        let size = large.entry.stat.size;
        let mut at = 0;
        while at < size {
            let extent = sys::next_extent(file.file(), at, size)
                .map_err(|error| file.error("find the holes of", error))?;
            let Some(extent) = extent else { break };
            if extent.start > at {
                self.context.progress.bytes.fetch_add(extent.start - at, Relaxed);
                self.send(Step::Hole(extent.start - at))?;
                at = extent.start;
            }
            file.file()
                .seek(SeekFrom::Start(at))
                .map_err(|error| file.error("find the data of", error))?;
            while at < extent.end {
                if !self.read_block(large, file, extent.end - at, &mut at)? {
                    return Ok(at);
                }
            }
        }
        if at == 0 {
            file.file().rewind().map_err(|error| file.error("find the start of", error))?;
        }
        Ok(at)
    }

    /// Reads and sends a block of at most `limit` bytes, adding to `total`; false at the end.
    fn read_block(
        &self,
        large: &LargeFile,
        file: &Reading<'_>,
        limit: u64,
        total: &mut u64,
    ) -> Result<bool, Ended> {
        let context = self.context;
        if context.stop.is_urgent() || large.is_given_up() {
            return Err(Ended::Cut(Cut::Abandoned));
        }
        let mut block = self.pool.take(&context.clocks.read);
        let busy = Timer::start(&context.clocks.read.busy);
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
            context.progress.bytes.fetch_add(read as u64, Relaxed);
            if block.len() as u64 >= limit {
                break;
            }
        }
        drop(busy);
        if block.is_empty() {
            return Ok(false);
        }
        self.send(Step::Data(block))?;
        Ok(true)
    }

    fn send(&self, step: Read) -> Result<(), Gone> {
        send(&self.next, step, &self.context.clocks.read)
    }

    fn report(&self, outcomes: Vec<Outcome>) -> Result<(), Gone> {
        self.outcomes.send(Message::Outcomes(outcomes)).map_err(|_| Gone)
    }
}

/// Why reading a file ended before its end.
enum Ended {
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
