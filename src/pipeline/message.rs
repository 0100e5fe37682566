//! A file on its way through the three threads of a worker, and the messages that carry it.

use std::{sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed, time::Duration};

use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, Sender, bounded, select};

use crate::{
    error::Error, event::FileInHand, event::StageTiming, event::Timer, fanout::Data,
    fanout::OwnOrigin, fanout::Subscription, io::BlockPool, io::Sparse, io::WatchedFile,
    io::data_in_a_hole, io::is_zero, part::Part, part::Resumed, part::Transfer, sys,
    sys::Attributes, transfer::Context, tree::Batch, tree::Checkpoint,
};

/// A stage before that sends nothing for this long may hang in a call.
const A_WHILE: Duration = Duration::from_millis(500);

/// A file on its way.
pub struct LargeFile {
    pub transfer: Transfer,
    /// Where it is gone on with, if a killed run left its beginning.
    pub resumed: Option<Resumed>,
    /// Number of bytes that lie between its checkpoints, if it has any.
    pub checkpoints: Option<u64>,
    given_up: AtomicBool,
    /// True if it was given up because this machine computed two digests of one content.
    pub miscomputed: AtomicBool,
}

impl LargeFile {
    /// A file that is about to be read.
    pub fn new(transfer: Transfer, resumed: Option<Resumed>, checkpoints: Option<u64>) -> Self {
        let (given_up, miscomputed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { transfer, resumed, checkpoints, given_up, miscomputed }
    }

    /// Number of bytes that are in the part file before anything is read.
    pub fn start(&self) -> u64 {
        self.resumed.as_ref().map_or(0, |resumed| resumed.offset)
    }

    /// Tells the stages before that nothing more of the file is wanted.
    pub fn give_up(&self) {
        self.given_up.store(true, Relaxed);
    }

    /// True if a later stage needs nothing more of it.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Relaxed)
    }
}

/// One step of a file from stage to stage. Every `Begin` is followed by one `End`; a channel that
/// closes in between means that a thread died, never that the file is complete.
pub enum FileStep<E> {
    /// The following steps are of this file, and go into this part file.
    Begin(Arc<LargeFile>, Part),
    /// All of the file so far is void: it changed while it was read, and begins again as this.
    Again(Arc<LargeFile>),
    Data(Data),
    /// The next so many bytes are zeros, in what is called a hole.
    Hole(u64),
    /// There is data in what is called a hole: from here on zeros come as data, and are to become holes.
    Unmapped,
    /// Up to here the file is to be made durable: from the hasher.
    Checkpoint(Checkpoint),
    /// The end of the file, good or bad.
    End(E),
}

/// The good end of reading, with everything else that is to be taken over.
pub struct ReadEnd {
    /// The file's extended attributes.
    pub attributes: Attributes,
    /// Attributes that could not be read.
    pub warnings: Vec<Error>,
}

/// The early end of a file.
pub enum EarlyEnd {
    Failed(Error),
    /// Because the run stops, or a later stage gave the file up.
    Abandoned,
}

/// Receives the next step, counting the wait; an error when the stage before is gone.
pub fn receive<E>(
    from: &Receiver<FileStep<E>>,
    clock: &StageTiming,
) -> Result<FileStep<E>, RecvError> {
    from.try_recv().or_else(|_| {
        let _waiting = Timer::start(&clock.waited);
        from.recv()
    })
}

/// The same, but nothing once nothing has come for a while and `is_to_stop`.
pub fn receive_unless<E>(
    from: &Receiver<FileStep<E>>,
    clock: &StageTiming,
    is_to_stop: impl Fn() -> bool,
) -> Option<Result<FileStep<E>, RecvError>> {
    if let Ok(step) = from.try_recv() {
        return Some(Ok(step));
    }
    let _waiting = Timer::start(&clock.waited);
    loop {
        match from.recv_timeout(A_WHILE) {
            Err(RecvTimeoutError::Timeout) if is_to_stop() => return None,
            Err(RecvTimeoutError::Timeout) => {}
            received => return Some(received.map_err(|_| RecvError)),
        }
    }
}

/// The stage after is gone: its thread died, and this one is to end too.
pub struct Disconnected;

/// Sends a step, counting the wait.
pub fn send<E>(
    to: &Sender<FileStep<E>>,
    step: FileStep<E>,
    clock: &StageTiming,
) -> Result<(), Disconnected> {
    to.try_send(step).or_else(|full| {
        let _waiting = Timer::start(&clock.waited);
        to.send(full.into_inner()).map_err(|_| Disconnected)
    })
}

// Work for the workers: those that have three threads take large files and, unless these are left to workers for
// small files alone, small ones too.

/// Where work comes from.
pub struct Feed {
    /// Without workers for small files alone, everything goes one way, in its order.
    large: Option<Sender<Batch>>,
    all: Sender<Batch>,
    block_size: u64,
}

/// Where a worker takes work.
#[derive(Clone)]
pub struct Tasks {
    large: Option<Receiver<Batch>>,
    all: Option<Receiver<Batch>>,
}

/// Both ends, with room for so many batches that are `waiting` for workers that take everything, and for `small`
/// workers that take files of at most `block_size` bytes.
pub fn tasks(waiting: usize, small: usize, block_size: usize) -> (Feed, Tasks) {
    let (all, from_all) = bounded(waiting + small);
    let (large, from_large) = (small > 0).then(|| bounded(waiting)).unzip();
    let block_size = block_size as u64;
    (Feed { large, all, block_size }, Tasks { large: from_large, all: Some(from_all) })
}

impl Feed {
    /// Waits until there is room for it; false if the workers are gone.
    pub fn send(&self, run: Batch) -> bool {
        let is_large = self.is_large(&run);
        let way = self.large.as_ref().filter(|_| is_large).unwrap_or(&self.all);
        way.send(run).is_ok()
    }

    /// True if it is for workers that take large files: the walk makes a large file a batch of its own.
    pub fn is_large(&self, run: &Batch) -> bool {
        run.files.last().is_some_and(|file| file.stat.size > self.block_size)
    }
}

impl Tasks {
    /// For a worker that takes small files alone.
    pub fn small(&self) -> Self {
        Self { large: None, all: self.all.clone() }
    }

    /// For a worker that leaves small files to those that take them alone, of which there is one at least.
    pub fn large(&self) -> Self {
        Self { large: self.large.clone(), all: None }
    }

    /// The next task, as soon as there is one; `None` at the end.
    pub fn next(&self) -> Option<Batch> {
        match (&self.large, &self.all) {
            // When one has come to its end, there may still be something in the other.
            (Some(large), Some(all)) => select! {
                recv(large) -> run => run.or_else(|_| all.recv()).ok(),
                recv(all) -> run => run.or_else(|_| large.recv()).ok(),
            },
            (Some(only), None) | (None, Some(only)) => only.recv().ok(),
            (None, None) => None,
        }
    }
}

// Reading the content of a large file block by block, and sending it to the hasher.

/// The reader's message to the hasher.
pub type ReadStep = FileStep<Result<ReadEnd, EarlyEnd>>;

/// Where the content of a file is read.
#[derive(Clone, Copy)]
pub enum ContentFrom<'a> {
    /// From an open file that is this worker's alone.
    Own(&'a WatchedFile<'a>),
    /// Together with other outputs.
    Shared(&'a Subscription<'a>, &'a OwnOrigin<'a>),
}

impl<'a> ContentFrom<'a> {
    /// The file, to be looked at.
    pub fn file(self) -> &'a WatchedFile<'a> {
        match self {
            ContentFrom::Own(file) => file,
            ContentFrom::Shared(_, own) => own.file,
        }
    }

    /// True if `read` bytes that outputs shared are the whole content: sharing ends at the size that was listed,
    /// whatever follows in the file.
    fn ends_at(self, read: u64) -> Result<bool, Error> {
        match self {
            ContentFrom::Own(_) => Ok(false),
            ContentFrom::Shared(_, own) if read < own.entry.stat.size => Ok(false),
            ContentFrom::Shared(_, own) => own.file.ends_at(read),
        }
    }
}

/// Why reading a file ended before its end.
pub enum ReadError {
    /// The file is not copied.
    Early(EarlyEnd),
    /// The hasher is gone.
    Gone,
}

impl ReadError {
    /// The end of the file; an error if there is nowhere to tell it.
    pub fn into_early_end(self) -> Result<EarlyEnd, Disconnected> {
        match self {
            ReadError::Early(end) => Ok(end),
            ReadError::Gone => Err(Disconnected),
        }
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError::Early(EarlyEnd::Failed(error))
    }
}

impl From<Disconnected> for ReadError {
    fn from(_: Disconnected) -> Self {
        ReadError::Gone
    }
}

/// Reads files into blocks and sends these on.
pub struct ContentReader<'a> {
    /// The state that the run shares.
    pub context: &'a Context<'a>,
    pub pool: BlockPool,
    pub next: Sender<ReadStep>,
    /// The file that is read, if a program shows it.
    pub in_hand: Option<Arc<FileInHand>>,
}

impl ContentReader<'_> {
    /// Reads and sends the whole content from `total` on, which says how far it came; false if the rest
    /// is not to be had where it is from.
    pub fn read(
        &self,
        large: &LargeFile,
        from: ContentFrom<'_>,
        total: &mut u64,
        warnings: &mut Vec<Error>,
    ) -> Result<bool, ReadError> {
        let file = from.file();
        let is_sparse = large.transfer.entry().stat.is_sparse();
        if is_sparse && self.context.options.asked.sparse != Sparse::Never {
            self.read_extents(large, from, total, warnings)?;
        } else if *total > 0 {
            self.seek(file, *total)?;
        }
        // Also after the extents: a file that grew is read to its end, and found to have grown.
        while !file.is_all(*total) && !from.ends_at(*total)? {
            if !self.send_block(large, from, u64::MAX, total)? {
                if let ContentFrom::Shared(..) = from {
                    return Ok(false);
                }
                break;
            }
        }
        file.check(*total)?;
        Ok(true)
    }

    /// Reads a file with holes, and tells the writer of them. It comes nowhere where the file system does not tell
    /// where the holes are, and ends early where it told wrong.
    fn read_extents(
        &self,
        large: &LargeFile,
        from: ContentFrom<'_>,
        at: &mut u64,
        warnings: &mut Vec<Error>,
    ) -> Result<(), ReadError> {
        let stat = &large.transfer.entry().stat;
        let (file, size, start) = (from.file(), stat.size, *at);
        let believed = self.context.options.asked.holes.are_believed(stat);
        while *at < size {
            let extent = sys::next_extent(file.file(), *at, size)
                .map_err(|error| file.error("find the holes of", error))?;
            let Some(extent) = extent else { break };
            if believed {
                self.pass_hole(large, extent.start, at)?;
            }
            self.seek(file, *at)?;
            if !self.read_hole(large, from, extent.start, at, warnings)? {
                return Ok(());
            }
            while *at < extent.end {
                if !self.send_block(large, from, extent.end - *at, at)? {
                    return Ok(());
                }
            }
        }
        if *at == start { self.seek(file, start) } else { Ok(()) }
    }

    /// Believes that up to `end` is a hole.
    fn pass_hole(&self, large: &LargeFile, end: u64, at: &mut u64) -> Result<(), ReadError> {
        while *at < end {
            self.continue_unless_stopped(large)?;
            // In parts, so that there are checkpoints in a long one.
            let hole = (end - *at).min(large.checkpoints.unwrap_or(u64::MAX));
            self.advance(hole);
            self.context.control.progress.believed.fetch_add(hole, Relaxed);
            self.send(FileStep::Hole(hole))?;
            *at += hole;
        }
        Ok(())
    }

    /// Reads what is called a hole up to `end`; false if the file has ended, or was found to have data there, which is
    /// sent: its file system tells wrong where its holes are.
    fn read_hole(
        &self,
        large: &LargeFile,
        from: ContentFrom<'_>,
        end: u64,
        at: &mut u64,
        warnings: &mut Vec<Error>,
    ) -> Result<bool, ReadError> {
        while *at < end {
            let Some(data) = self.read_block(large, from, end - *at, at)? else {
                return Ok(false);
            };
            if !is_zero(&data) {
                warnings.push(data_in_a_hole(large.transfer.source_path()));
                self.send(FileStep::Unmapped)?;
                self.send(FileStep::Data(data))?;
                return Ok(false);
            }
            self.send(FileStep::Hole(data.len() as u64))?;
        }
        Ok(true)
    }

    /// Reads and sends a block of at most `limit` bytes, adding to `total`; false at the end.
    fn send_block(
        &self,
        large: &LargeFile,
        from: ContentFrom<'_>,
        limit: u64,
        total: &mut u64,
    ) -> Result<bool, ReadError> {
        let Some(data) = self.read_block(large, from, limit, total)? else { return Ok(false) };
        self.send(FileStep::Data(data))?;
        Ok(true)
    }

    /// Reads a block of at most `limit` bytes, adding to `total`; `None` at the end.
    fn read_block(
        &self,
        large: &LargeFile,
        from: ContentFrom<'_>,
        limit: u64,
        total: &mut u64,
    ) -> Result<Option<Data>, ReadError> {
        let clock = &self.context.control.timings.read;
        self.continue_unless_stopped(large)?;
        let file = match from {
            ContentFrom::Own(file) => file,
            ContentFrom::Shared(subscription, own) => {
                let busy = Timer::start(&clock.busy);
                let Some(chunk) = subscription.next(own, *total, limit) else {
                    return Ok(None);
                };
                drop(busy);
                *total += chunk.len() as u64;
                self.advance(chunk.len() as u64);
                return Ok(Some(Data::Shared(chunk)));
            }
        };
        let mut block = self.pool.take(clock);
        let busy = Timer::start(&clock.busy);
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
            self.advance(read as u64);
        }
        drop(busy);
        Ok((!block.is_empty()).then_some(Data::Own(block)))
    }

    /// Counts bytes that were read.
    fn advance(&self, bytes: u64) {
        self.context.control.progress.advance(bytes, self.in_hand.as_deref());
    }

    /// An error if the run is to stop, or a later stage gave the file up.
    pub fn continue_unless_stopped(&self, large: &LargeFile) -> Result<(), ReadError> {
        match self.context.control.stop.is_urgent() || large.is_given_up() {
            true => Err(ReadError::Early(EarlyEnd::Abandoned)),
            false => Ok(()),
        }
    }

    /// Goes to a place in an open file.
    pub fn seek(&self, file: &WatchedFile<'_>, to: u64) -> Result<(), ReadError> {
        Ok(file.seek(to).map_err(|error| file.error("find the data of", error))?)
    }

    /// Sends a step to the hasher.
    pub fn send(&self, step: ReadStep) -> Result<(), Disconnected> {
        send(&self.next, step, &self.context.control.timings.read)
    }
}
