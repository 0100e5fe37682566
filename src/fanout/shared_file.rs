//! A file of the source as several outputs share it: which of them still want it, and which of its
//! chunks are held for them.

use std::sync::{Arc, Mutex, OnceLock, atomic::Ordering::Relaxed};
use std::{collections::VecDeque, fmt, ops::Deref, time::Duration, time::Instant};

use crate::{
    event::Stop, fanout::Hub, fanout::NAP, fanout::OutputSet, fanout::OwnOrigin,
    fanout::SharedOrigin, hash::ChainHasher, hash::ChainingState, hash::Hasher,
    hash::chain::update_passing, io::Block, io::RateLimit, path::DirPath, sys::stat::Identity,
    tree::OutputDir, tree::SourceDir, tree::SourceEntry,
};

/// A file of the source, under one of its names, as it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// The file's identity.
    pub id: Identity,
    /// A number made from its path, size and times.
    pub version: u64,
}

/// The state of a file that outputs share.
pub struct SharedFile {
    /// Counts up with each file: its age.
    pub number: u64,
    /// The outputs that may still want the content.
    pub wanted: OutputSet,
    state: SharedState,
}

/// The extent to which the content was shared.
enum SharedState {
    /// No output began to read it.
    Unread,
    Open(Box<OpenFile>),
    /// It was read, and is not shared again.
    Over,
}

/// A file that outputs read at the moment.
struct OpenFile {
    /// The outputs that take chunks from here.
    subscribers: OutputSet,
    /// It was read up to this position; bytes.
    end: u64,
    /// The chunks that not all subscribers took, in order.
    held: VecDeque<HeldChunk>,
    origin: Arc<Mutex<SharedOrigin>>,
}

/// A chunk that is held for outputs that did not take it yet.
pub struct HeldChunk {
    /// Counts up with each chunk: its age.
    pub number: u64,
    pub chunk: Arc<Chunk>,
    at: u64,
    awaits: OutputSet,
}

/// Where an output finds the next chunk of a file.
pub enum NextChunk {
    /// Here: it was read for another output.
    Held(Arc<Chunk>),
    /// In the source: this output is to read it for all.
    Unread(Arc<Mutex<SharedOrigin>>),
    /// Not here: the output reads the source by itself.
    Elsewhere,
}

impl SharedFile {
    /// A file that these outputs may want.
    pub fn new(number: u64, wanted: OutputSet) -> Self {
        Self { number, wanted, state: SharedState::Unread }
    }

    /// An output begins to read: from now on those that want the file are its subscribers.
    pub fn open(&mut self) {
        if matches!(self.state, SharedState::Unread) {
            let origin = Arc::new(Mutex::new(SharedOrigin::default()));
            let (subscribers, held) = (self.wanted, VecDeque::new());
            self.state =
                SharedState::Open(Box::new(OpenFile { subscribers, end: 0, held, origin }));
        }
    }

    /// Where `output` finds the chunk at position `at`. One that is held counts as taken.
    pub fn next(&mut self, output: OutputSet, at: u64) -> NextChunk {
        let SharedState::Open(open) = &mut self.state else { return NextChunk::Elsewhere };
        if open.subscribers & output == 0 {
            return NextChunk::Elsewhere;
        }
        // Between the end and `at` is a hole, if they are not the same.
        if at >= open.end {
            return NextChunk::Unread(Arc::clone(&open.origin));
        }
        match open.held.iter_mut().find(|held| held.at == at) {
            Some(held) => {
                held.awaits &= !output;
                NextChunk::Held(Arc::clone(&held.chunk))
            }
            None => NextChunk::Elsewhere,
        }
    }

    /// The chunk at `at` was read by `reader`, which has it; whether it is held for other outputs.
    pub fn add(&mut self, number: u64, reader: OutputSet, at: u64, chunk: &Arc<Chunk>) -> bool {
        let SharedState::Open(open) = &mut self.state else { return false };
        if at < open.end {
            return false;
        }
        open.end = at + chunk.len() as u64;
        let awaits = open.subscribers & !reader;
        if awaits != 0 {
            open.held.push_back(HeldChunk { number, chunk: Arc::clone(chunk), at, awaits });
        }
        awaits != 0
    }

    /// These outputs take no more chunks from here.
    pub fn unsubscribe(&mut self, outputs: OutputSet) {
        if let SharedState::Open(open) = &mut self.state {
            open.subscribers &= !outputs;
            open.held.iter_mut().for_each(|held| held.awaits &= !outputs);
        }
    }

    /// The outputs that did not take the oldest chunk that is held.
    pub fn laggards(&self) -> OutputSet {
        match &self.state {
            SharedState::Open(open) => open.held.front().map_or(0, |oldest| oldest.awaits),
            SharedState::Unread | SharedState::Over => 0,
        }
    }

    /// Removes the chunks that every subscriber took.
    pub fn release(&mut self) -> Vec<HeldChunk> {
        let SharedState::Open(open) = &mut self.state else { return Vec::new() };
        let mut released = Vec::new();
        while open.held.front().is_some_and(|held| held.awaits == 0) {
            released.extend(open.held.pop_front());
        }
        if open.subscribers == 0 {
            released.extend(open.held.drain(..));
            self.state = SharedState::Over;
        }
        released
    }

    /// The chunks that are still held, when the file is forgotten.
    pub fn into_held(self) -> impl Iterator<Item = HeldChunk> {
        let held = match self.state {
            SharedState::Open(open) => open.held,
            SharedState::Unread | SharedState::Over => VecDeque::new(),
        };
        held.into_iter()
    }
}

/// A file that an output copies from what outputs share. Dropped when its content is here, or comes from
/// elsewhere.
pub struct Subscription<'a> {
    hub: &'a Hub,
    /// The number of the output.
    number: usize,
    key: FileKey,
    size: u64,
}

impl Subscription<'_> {
    fn output(&self) -> OutputSet {
        1 << self.number
    }

    /// The next chunk, of at most `most` bytes, for an output that has the content up to `at`: from the
    /// hub, or read from the source for all. `None` if the output has to read the source by itself, for
    /// whatever reason: it was dropped, or the file could not be read, and it will meet that error itself.
    pub fn next(&self, own: &OwnOrigin<'_>, at: u64, most: u64) -> Option<Arc<Chunk>> {
        let (hub, key, output) = (self.hub, self.key, self.output());
        loop {
            let next = hub.ledger().next(key, output, at);
            let origin = match next {
                NextChunk::Elsewhere => return None,
                NextChunk::Unread(origin) => origin,
                NextChunk::Held(chunk) => {
                    hub.notify();
                    return Some(chunk);
                }
            };
            let Ok(mut origin) = origin.lock() else {
                // The thread that read it died.
                hub.ledger().stop_sharing(key);
                continue;
            };
            // Another output may have read it while this one waited for the origin.
            let next = hub.ledger().next(key, output, at);
            match next {
                NextChunk::Elsewhere => return None,
                NextChunk::Unread(_) if at >= self.size => return None,
                NextChunk::Unread(_) => {}
                NextChunk::Held(chunk) => return Some(chunk),
            }
            let mut block = hub.blocks.block(most.min(self.size - at));
            if !origin.fill(&mut block, at, own) {
                hub.ledger().stop_sharing(key);
                hub.notify();
                return None;
            }
            let chunk = Arc::new(Chunk::new(block));
            hub.make_room(chunk.len() as u64, own.control.stop).add(key, output, at, &chunk);
            return Some(chunk);
        }
    }

    /// Counts the file as one that the output reads from the source by itself from now on.
    pub fn count_alone(&self) {
        if let Some(output) = self.hub.outputs.get(self.number) {
            output.read_alone.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        self.hub.ledger().finish(self.key, self.output());
        self.hub.notify();
    }
}

// A chunk of a file's content on its way to one output, or to several.

/// A chunk of content that several outputs hold: read once, and hashed once.
pub struct Chunk {
    block: Block,
    /// The digest's state before the chunk and behind it. The first thread that needs it computes it; if
    /// that thread dies over it, the next one does.
    hashed: OnceLock<HashedChunk>,
}

/// The digest's state before a chunk, behind it, and at each step of a chain within it.
struct HashedChunk {
    before: Hasher,
    after: Hasher,
    passed: Vec<(u64, ChainingState)>,
}

impl Chunk {
    /// A chunk of what was read.
    pub fn new(block: Block) -> Self {
        Self { block, hashed: OnceLock::new() }
    }

    /// Takes the digest of all that came before the chunk to that of all up to its end.
    pub fn hash(&self, hasher: &mut ChainHasher) {
        let HashedChunk { before, after, passed } = self.hashed.get_or_init(|| {
            let before = hasher.hasher().clone();
            let (mut after, mut passed) = (before.clone(), Vec::new());
            update_passing(&mut after, &self.block, |at, state| passed.push((at, state)));
            HashedChunk { before, after, passed }
        });
        // An output that comes with another state hashes the chunk for itself: its file was given up
        // in a hole, or has other holes now. The shared state stays right for the others.
        match before == hasher.hasher() {
            true => hasher.jump(after, passed),
            false => hasher.update(&self.block),
        }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block
    }
}

/// The next bytes of a file.
pub enum Data {
    Own(Block),
    Shared(Arc<Chunk>),
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Data::Own(block) => block,
            Data::Shared(chunk) => chunk,
        }
    }
}

// An output's slot at the hub: through it the output joins, leaves, and subscribes to files.

/// A run waits this long, or as long as it took to get ready, for others to get ready too.
const START: Duration = Duration::from_secs(1);

/// An output's slot at the hub.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    hub: &'a Hub,
    number: usize,
}

impl fmt::Debug for Slot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({} of {})", self.number, self.among())
    }
}

impl<'a> Slot<'a> {
    /// The slot of output `number`, counted from 0.
    pub fn new(hub: &'a Hub, number: usize) -> Self {
        Self { hub, number }
    }

    fn output(self) -> OutputSet {
        1 << self.number
    }

    /// Number of outputs.
    pub fn among(self) -> usize {
        self.hub.outputs.len()
    }

    /// True if it is the first, which does the work that is needed once for all.
    pub fn is_first(self) -> bool {
        self.number == 0
    }

    /// The limit for reading the source.
    pub fn rate(self) -> Option<&'a RateLimit> {
        self.hub.rate.as_ref()
    }

    /// Number of files that the output read from the source by itself, in part at least.
    pub fn read_alone(self) -> u64 {
        self.hub.outputs.get(self.number).map_or(0, |output| output.read_alone.load(Relaxed))
    }

    /// Number of files that were forgotten before the output came to them.
    pub fn forgotten(self) -> u64 {
        self.hub.ledger().forgotten(self.number)
    }

    /// The run is about to begin to copy, and got ready since `since`: waits for others that are about
    /// to, so that none is behind from the start, but not for long.
    pub fn begin(self, since: Instant, stop: &Stop) {
        let hub = self.hub;
        if let Some(output) = hub.outputs.get(self.number) {
            output.is_ready.store(true, Relaxed);
        }
        let until = Instant::now() + since.elapsed().max(START);
        let mut ledger = hub.ledger();
        hub.notify();
        while Instant::now() < until && !stop.is_requested() {
            let mut outputs = hub.outputs.iter().enumerate();
            let is_missing = outputs.any(|(number, output)| {
                !output.is_ready.load(Relaxed) && ledger.running(1 << number) != 0
            });
            if !is_missing {
                return;
            }
            ledger = hub.wait(ledger, NAP);
        }
    }

    /// The output's run is over, however it ended.
    pub fn end(self) {
        self.hub.ledger().end(self.output());
        self.hub.notify();
    }

    /// The output begins to copy a file; `None` if it has to read it by itself.
    pub fn subscribe(self, dir: &SourceDir, entry: &SourceEntry) -> Option<Subscription<'a>> {
        let key = self.key(&dir.rel, entry);
        // The size of an empty file may mean nothing.
        let is_shared = entry.stat.size > 0 && self.hub.ledger().subscribe(key, self.output());
        let Self { hub, number } = self;
        is_shared.then(|| Subscription { hub, number, key, size: entry.stat.size })
    }

    /// The outcome of a file at the output is known: nothing more of it is needed.
    pub fn finish(self, output: &OutputDir, entry: &SourceEntry) {
        self.hub.ledger().finish(self.key(&output.rel, entry), self.output());
        self.hub.notify();
    }

    /// A file is not copied to the output: other outputs need not hold chunks of it for this one.
    pub fn skip(self, output: &OutputDir, entry: &SourceEntry) {
        self.hub.ledger().skip(self.key(&output.rel, entry), self.output());
        self.hub.notify();
    }

    fn key(self, dir: &DirPath, SourceEntry { name, stat }: &SourceEntry) -> FileKey {
        self.hub.key(dir.join(name).as_bytes(), stat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Algorithm;
    use crate::io::SharedBlocks;

    #[test]
    fn a_state_is_shared_only_after_the_same_content() {
        let mut block = SharedBlocks::new(1, 8).block(8);
        block.room().copy_from_slice(b"the same");
        block.fill(8);
        let chunk = Chunk::new(block);
        let digest = |before: &[u8], chunk: Option<&Chunk>| {
            let mut hasher = ChainHasher::keeping(Algorithm::Sha256.start());
            hasher.update(before);
            match chunk {
                Some(chunk) => chunk.hash(&mut hasher),
                None => hasher.update(b"the same"),
            }
            hasher.finish().0
        };
        for before in [&b"cut short"[..], b"right", b"right", b""] {
            assert_eq!(digest(before, Some(&chunk)), digest(before, None));
        }
    }
}
