//! One read of the source for several outputs.

mod shared_file;

pub use shared_file::{Chunk, Data, Slot, Subscription};

use std::{
    collections::BTreeMap, collections::HashMap, hash::BuildHasher, hash::RandomState, sync::Arc,
    sync::Condvar, sync::Mutex, sync::MutexGuard, sync::PoisonError, sync::atomic::AtomicBool,
    sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed, time::Duration, time::Instant,
};

use crate::{
    error::Result, event::Stop, fanout::shared_file::FileKey, fanout::shared_file::HeldChunk,
    fanout::shared_file::NextChunk, fanout::shared_file::SharedFile, io::Block, io::Control,
    io::PausedFile, io::RateLimit, io::SharedBlocks, io::WatchedFile, sys::CachePolicy,
    sys::stat::Stat, tree::SourceDir, tree::SourceEntry,
};

// The hub, which the outputs of a run share: chunks of what was read, and the waiting for each other.
//
// Each output is a run of its own. An output that needs the next chunk of a file takes it from the
// hub. If no output has read it yet, this one reads it, for all. So the output that is ahead reads and
// none leads: there is none whose death, failure or slow disk the others would have to wait for.
//
// What the hub holds is bounded. When it is full, an output that reads waits for those that are behind;
// but all waiting together takes no more than a twentieth of the time. Then the laggards are dropped:
// each reads the rest of the file from the source by itself, at its own pace. `docs/design/fan-out.md`
// has the measurement that decided so.

/// All waiting for outputs that are behind takes at most one part in so many of the time, …
const SHARE: u32 = 20;

/// … and this.
const GRACE: Duration = Duration::from_millis(200);

/// A waiting thread checks this often whether the run is to stop.
pub const NAP: Duration = Duration::from_millis(50);

/// The state that the outputs of a run share.
pub struct Hub {
    ledger: Mutex<ChunkLedger>,
    /// Something in the ledger, or an output, changed.
    changed: Condvar,
    /// The most that is held for outputs that are behind; bytes.
    max_backlog: u64,
    /// The blocks that chunks are read into.
    pub blocks: SharedBlocks,
    /// The limit for reading the source.
    pub rate: Option<RateLimit>,
    /// Since when outputs may wait for those that are behind, and how long they did so far; nanoseconds.
    started: Instant,
    waited: AtomicU64,
    /// Makes file versions of paths, sizes and times.
    versions: RandomState,
    /// The outputs, in order.
    pub outputs: Vec<OutputStatus>,
}

/// The state of an output as the others see it.
#[derive(Debug, Default)]
pub struct OutputStatus {
    /// True once its run is ready to copy.
    pub is_ready: AtomicBool,
    /// Number of files that it read from the source by itself, in part at least.
    pub read_alone: AtomicU64,
}

impl Hub {
    /// For so many outputs, at most [`MOST_OUTPUTS`]. At most `max_backlog` bytes are held for those that
    /// are behind, in `blocks`; `rate` is how fast the source may be read, in bytes a second.
    pub fn new(outputs: usize, max_backlog: u64, blocks: SharedBlocks, rate: Option<u64>) -> Self {
        let outputs = outputs.min(MOST_OUTPUTS);
        Self {
            ledger: Mutex::new(ChunkLedger::new(outputs)),
            changed: Condvar::new(),
            max_backlog,
            blocks,
            rate: rate.map(RateLimit::new),
            started: Instant::now(),
            waited: AtomicU64::new(0),
            versions: RandomState::new(),
            outputs: (0..outputs).map(|_| OutputStatus::default()).collect(),
        }
    }

    /// The ledger, once no other thread has it.
    pub fn ledger(&self) -> MutexGuard<'_, ChunkLedger> {
        // No call in between can panic.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all threads that wait for a change.
    pub fn notify(&self) {
        self.changed.notify_all();
    }

    /// Gives the ledger back until something changes, or this time is over.
    pub fn wait<'g>(
        &self,
        ledger: MutexGuard<'g, ChunkLedger>,
        most: Duration,
    ) -> MutexGuard<'g, ChunkLedger> {
        let waited = self.changed.wait_timeout(ledger, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until so many bytes more can be held, or drops the outputs that are behind.
    pub fn make_room(&self, bytes: u64, stop: &Stop) -> MutexGuard<'_, ChunkLedger> {
        let mut ledger = self.ledger();
        while ledger.bytes() > 0 && ledger.bytes() + bytes > self.max_backlog {
            let waited = Duration::from_nanos(self.waited.load(Relaxed));
            let left = (self.started.elapsed() / SHARE + GRACE).saturating_sub(waited);
            if left.is_zero() || stop.is_urgent() || !ledger.is_worth_waiting() {
                ledger.drop_laggards();
                continue;
            }
            let since = Instant::now();
            ledger = self.wait(ledger, left.min(NAP));
            self.waited.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        }
        ledger
    }

    /// The key of a file at `path` below the root.
    pub fn key(&self, path: &[u8], stat: &Stat) -> FileKey {
        let version = self.versions.hash_one((path, stat.size, stat.mtime, stat.ctime));
        FileKey { id: stat.id, version }
    }
}

// Sets of outputs.

/// A set of outputs: a bit for each.
pub type OutputSet = u16;

/// The most outputs that one run can have.
pub const MOST_OUTPUTS: usize = OutputSet::BITS as usize;

// A file of the source that is read for several outputs: the first output to need a chunk reads it.

/// The file as it is open for all outputs, between two that read on in it.
#[derive(Default)]
pub enum SharedOrigin {
    #[default]
    Closed,
    /// It was read up to this position; bytes.
    Open(PausedFile, u64),
    /// An output is reading it, or it was read to its end, or cannot be read.
    Gone,
}

/// The file as one output has it open for itself, and what it takes to open it for all.
pub struct OwnOrigin<'a> {
    /// The output's own handle, from which nothing was read so far.
    pub file: &'a WatchedFile<'a>,
    /// The directory it is in.
    pub dir: &'a SourceDir,
    /// The file as it was listed.
    pub entry: &'a SourceEntry,
    /// The cache policy for its pages.
    pub sparing: CachePolicy,
    /// True if a symbolic link stands for its target.
    pub follow: bool,
    /// The limit for reading it, and the counters.
    pub control: Control<'a>,
}

impl SharedOrigin {
    /// Fills `block` with the content from `at` on; whether that was possible. If not, the file is no
    /// longer shared: each output goes on with its own handle, and meets the cause there.
    pub fn fill(&mut self, block: &mut Block, at: u64, own: &OwnOrigin<'_>) -> bool {
        let size = own.entry.stat.size;
        // A file that is read at once needs no handle for another output to read on.
        if at == 0 && block.room().len() as u64 >= size {
            return fill(block, own.file);
        }
        let path = || own.dir.path_of(&own.entry.name);
        let control = &own.control;
        // If this does not come to its end, for whatever reason, no output reads on.
        let (file, position) = match std::mem::replace(self, SharedOrigin::Gone) {
            SharedOrigin::Closed => match own.open(&path) {
                Ok(file) => (file, 0),
                Err(_) => return false,
            },
            SharedOrigin::Open(file, position) => {
                let sum = &control.resident.source;
                let file = WatchedFile::resume(file, own.entry.stat, &path, sum);
                (file.at_rate(control.rate, control.stop), position)
            }
            SharedOrigin::Gone => return false,
        };
        if position != at && file.seek(at).is_err() {
            return false;
        }
        if !fill(block, &file) {
            return false;
        }
        let end = at + block.len() as u64;
        match end >= size {
            true => file.finish(),
            false => *self = SharedOrigin::Open(file.pause(), end),
        }
        true
    }
}

impl<'a> OwnOrigin<'a> {
    /// Opens the file once more, for all outputs.
    fn open<'p>(&self, path: &'p dyn Fn() -> std::path::PathBuf) -> Result<WatchedFile<'p>>
    where
        'a: 'p,
    {
        let Self { dir, entry: SourceEntry { name, stat }, sparing, follow, control, .. } = *self;
        let mut file = WatchedFile::open(&dir.handle, name, follow, stat, path)?;
        // Each output looks at its own handle in the end, so this one must be of the same file.
        file.is_still(stat)?;
        file.spare_cache(sparing, &control.resident.source);
        Ok(file.at_rate(control.rate, control.stop))
    }
}

/// Fills a block with what comes next; whether there was enough.
fn fill(block: &mut Block, file: &WatchedFile<'_>) -> bool {
    while !block.room().is_empty() {
        match file.read(block.room()) {
            Ok(0) | Err(_) => return false,
            Ok(read) => block.fill(read),
        }
    }
    true
}

// The ledger of outputs that share their reading: which of them still want which file, and which chunks of it are held
// for them.
//
// This is the bookkeeping alone: nothing here waits, reads or writes, and one lock guards it all.

/// Files that are remembered until every output had them; about 100 bytes each.
const MOST_FILES: usize = 131_072;

/// The bookkeeping of all files that outputs share.
pub struct ChunkLedger {
    /// The outputs that still run.
    running: OutputSet,
    /// The outputs that were dropped from a file and took no chunk since.
    behind: OutputSet,
    files: HashMap<FileKey, SharedFile>,
    /// The files by age.
    by_age: BTreeMap<u64, FileKey>,
    /// The file of each chunk that is held, by age of the chunk.
    held: BTreeMap<u64, FileKey>,
    /// The size of all chunks that are held; bytes.
    bytes: u64,
    /// The last number that a file or a chunk got.
    last_number: u64,
    /// Number of files that were forgotten while the output still wanted them, for each.
    forgotten: [u64; MOST_OUTPUTS],
}

impl ChunkLedger {
    /// For so many outputs.
    pub fn new(outputs: usize) -> Self {
        Self {
            running: OutputSet::MAX >> (MOST_OUTPUTS - outputs.clamp(1, MOST_OUTPUTS)),
            behind: 0,
            files: HashMap::new(),
            by_age: BTreeMap::new(),
            held: BTreeMap::new(),
            bytes: 0,
            last_number: 0,
            forgotten: [0; MOST_OUTPUTS],
        }
    }

    /// Number of bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Those of `outputs` that still run.
    pub fn running(&self, outputs: OutputSet) -> OutputSet {
        self.running & outputs
    }

    /// Number of files that were forgotten before output `number` came to them.
    pub fn forgotten(&self, number: usize) -> u64 {
        self.forgotten.get(number).copied().unwrap_or(0)
    }

    /// An output begins to copy a file; whether chunks of it can be had here.
    pub fn subscribe(&mut self, key: FileKey, output: OutputSet) -> bool {
        let Some(file) = self.file(key) else { return false };
        let is_wanted = file.wanted & output != 0;
        if is_wanted {
            file.open();
        }
        is_wanted
    }

    /// Where an output that has the content up to `at` finds the next chunk.
    pub fn next(&mut self, key: FileKey, output: OutputSet, at: u64) -> NextChunk {
        let Some(file) = self.files.get_mut(&key) else { return NextChunk::Elsewhere };
        let next = file.next(output, at);
        match next {
            NextChunk::Held(_) => {
                self.behind &= !output;
                self.release(key);
            }
            NextChunk::Elsewhere => self.unsubscribe(key, output),
            NextChunk::Unread(_) => {}
        }
        next
    }

    /// The chunk at `at` was read by the output `reader`, which has it.
    pub fn add(&mut self, key: FileKey, reader: OutputSet, at: u64, chunk: &Arc<Chunk>) {
        let number = self.number();
        self.behind &= !reader;
        let file = self.files.get_mut(&key);
        if file.is_some_and(|file| file.add(number, reader, at, chunk)) {
            self.held.insert(number, key);
            self.bytes += chunk.len() as u64;
        }
    }

    /// The file cannot be read for all: every output reads it by itself.
    pub fn stop_sharing(&mut self, key: FileKey) {
        self.unsubscribe(key, OutputSet::MAX);
    }

    /// True if an output that did not take the oldest chunk is worth waiting for: none is that took nothing since it
    /// was last dropped.
    pub fn is_worth_waiting(&self) -> bool {
        self.oldest().is_some_and(|(_, laggards)| laggards & !self.behind != 0)
    }

    /// Drops the outputs that did not take the oldest chunk: they get no more chunks of its file.
    pub fn drop_laggards(&mut self) {
        if let Some((key, laggards)) = self.oldest() {
            self.behind |= laggards;
            self.unsubscribe(key, laggards);
        }
    }

    /// An output needs nothing more of the file from here.
    pub fn finish(&mut self, key: FileKey, output: OutputSet) {
        self.unsubscribe(key, output);
        if let Some(file) = self.files.get_mut(&key) {
            file.wanted &= !output;
            if file.wanted & self.running == 0 {
                self.forget(key);
            }
        }
    }

    /// An output does not copy the file. Outputs that come to it later shall know.
    pub fn skip(&mut self, key: FileKey, output: OutputSet) {
        self.file(key);
        self.finish(key, output);
    }

    /// An output's run is over: nothing is held for it.
    pub fn end(&mut self, output: OutputSet) {
        self.running &= !output;
        let keys: Vec<FileKey> = self.files.keys().copied().collect();
        keys.into_iter().for_each(|key| self.finish(key, output));
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The state of a file, which is begun if there is none.
    fn file(&mut self, key: FileKey) -> Option<&mut SharedFile> {
        if !self.files.contains_key(&key) {
            if self.files.len() >= MOST_FILES {
                self.forget_oldest();
            }
            let number = self.number();
            self.files.insert(key, SharedFile::new(number, self.running));
            self.by_age.insert(number, key);
        }
        self.files.get_mut(&key)
    }

    fn forget_oldest(&mut self) {
        let Some((_, &key)) = self.by_age.first_key_value() else { return };
        let wanted = self.files.get(&key).map_or(0, |file| file.wanted & self.running);
        let each = self.forgotten.iter_mut().enumerate();
        each.filter(|(number, _)| wanted & (1 << number) != 0).for_each(|(_, count)| *count += 1);
        self.forget(key);
    }

    fn forget(&mut self, key: FileKey) {
        if let Some(file) = self.files.remove(&key) {
            self.by_age.remove(&file.number);
            file.into_held().for_each(|held| self.is_released(&held));
        }
    }

    fn unsubscribe(&mut self, key: FileKey, outputs: OutputSet) {
        if let Some(file) = self.files.get_mut(&key) {
            file.unsubscribe(outputs);
            self.release(key);
        }
    }

    fn release(&mut self, key: FileKey) {
        let released = self.files.get_mut(&key).map(SharedFile::release).unwrap_or_default();
        released.iter().for_each(|held| self.is_released(held));
    }

    fn is_released(&mut self, held: &HeldChunk) {
        self.held.remove(&held.number);
        self.bytes -= held.chunk.len() as u64;
    }

    /// The file of the oldest chunk, and the outputs that did not take it.
    fn oldest(&self) -> Option<(FileKey, OutputSet)> {
        let (_, key) = self.held.first_key_value()?;
        Some((*key, self.files.get(key)?.laggards()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::SharedBlocks;
    use crate::sys::stat::Identity;

    const KEY: FileKey = FileKey { id: Identity { dev: 1, ino: 2 }, version: 3 };

    fn chunk() -> Arc<Chunk> {
        let mut block = SharedBlocks::new(1, 8).block(8);
        block.fill(8);
        Arc::new(Chunk::new(block))
    }

    fn is_unread(next: &NextChunk) -> bool {
        matches!(next, NextChunk::Unread(_))
    }

    fn is_held(next: &NextChunk) -> bool {
        matches!(next, NextChunk::Held(_))
    }

    #[test]
    fn a_chunk_that_every_output_took_is_released() {
        let mut ledger = ChunkLedger::new(3);
        assert!(ledger.subscribe(KEY, 1) && is_unread(&ledger.next(KEY, 1, 0)));
        ledger.add(KEY, 1, 0, &chunk());
        ledger.add(KEY, 1, 8, &chunk());
        assert_eq!(ledger.bytes(), 16);
        ledger.skip(KEY, 4); // it has the file already
        assert!(ledger.subscribe(KEY, 2) && is_held(&ledger.next(KEY, 2, 0)));
        assert_eq!(ledger.bytes(), 8);
        assert!(is_held(&ledger.next(KEY, 2, 8)) && ledger.bytes() == 0);
        // Behind a hole.
        assert!(is_unread(&ledger.next(KEY, 2, 64)));
        ledger.finish(KEY, 1);
        ledger.finish(KEY, 2);
        assert!(ledger.files.is_empty() && ledger.by_age.is_empty() && ledger.held.is_empty());
    }

    #[test]
    fn an_output_that_is_dropped_is_not_waited_for_until_it_takes_a_chunk() {
        let mut ledger = ChunkLedger::new(2);
        assert!(ledger.subscribe(KEY, 1) && ledger.subscribe(KEY, 2));
        ledger.add(KEY, 1, 0, &chunk());
        assert!(ledger.is_worth_waiting());
        ledger.drop_laggards();
        assert!(ledger.bytes() == 0 && !ledger.is_worth_waiting());
        assert!(matches!(ledger.next(KEY, 2, 0), NextChunk::Elsewhere));
        // Of the next file too, until it takes something of it.
        let next = FileKey { version: 4, ..KEY };
        assert!(ledger.subscribe(next, 1) && ledger.subscribe(next, 2));
        ledger.add(next, 1, 0, &chunk());
        assert!(!ledger.is_worth_waiting());
        assert!(is_held(&ledger.next(next, 2, 0)));
        ledger.add(next, 1, 8, &chunk());
        assert!(ledger.is_worth_waiting());
    }

    #[test]
    fn nothing_is_held_for_an_output_whose_run_is_over() {
        let mut ledger = ChunkLedger::new(2);
        assert!(ledger.subscribe(KEY, 1) && ledger.subscribe(KEY, 2));
        ledger.add(KEY, 1, 0, &chunk());
        ledger.end(2);
        assert_eq!(ledger.bytes(), 0);
        ledger.finish(KEY, 1);
        assert!(ledger.files.is_empty());
        assert!(!ledger.subscribe(KEY, 2) && ledger.running(3) == 1);
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let mut ledger = ChunkLedger::new(2);
        for ino in 0..MOST_FILES as u64 + 10 {
            let key = FileKey { id: Identity { dev: 1, ino }, version: 0 };
            assert!(ledger.subscribe(key, 1));
            ledger.add(key, 1, 0, &chunk());
            ledger.finish(key, 1);
        }
        assert_eq!(ledger.files.len(), MOST_FILES);
        assert_eq!([0, 1].map(|number| ledger.forgotten(number)), [0, 10]);
        assert_eq!(ledger.bytes(), 8 * MOST_FILES as u64);
    }
}
