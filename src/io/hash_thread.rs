//! Hashing on a thread of its own, so that a large file is read while what came before is hashed.
//!
//! The thread is started once and serves one file after the other. Buffers go to it filled and come home
//! empty: there are [`BUFFERS`] of them, so the reader is at most so far ahead.

use std::sync::{Mutex, MutexGuard};
use std::{cell::Cell, collections::HashMap, io, ops::Deref, thread::Builder};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    event::StageTiming, event::Timer, hash::Algorithm, hash::Algorithms, hash::ChainHasher,
    hash::Digest, hash::Digests, hash::Hasher, io::Options, manifest::Content, manifest::ListKind,
    path::Shown, sys::ALIGNMENT,
};

/// Number of buffers on their way: one is read into, one is hashed, and two keep either side busy when the other is
/// late.
const BUFFERS: usize = 4;

/// Memory that starts at a multiple of [`ALIGNMENT`].
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` bytes.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, start, len }
    }

    /// All of it.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    fn filled(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len.min(self.len)]
    }
}

enum Work {
    /// The digest of a file is gone on with here; what there is of another is dropped.
    Begin(ChainHasher),
    /// The buffer, and the number of its bytes that follow.
    Bytes(AlignedBuffer, usize),
    /// The end of the file.
    End,
}

/// The thread, as its user sees it. It ends when this is dropped.
pub struct HashThread {
    work: Sender<Work>,
    home: Receiver<AlignedBuffer>,
    hashed: Receiver<ChainHasher>,
    /// Buffers that were never sent, or were not filled.
    spare: Vec<AlignedBuffer>,
}

impl HashThread {
    /// Starts the thread, with buffers of `len` bytes.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(len: usize) -> io::Result<Self> {
        // There is room for all messages of a file and the first of the next.
        let (work, to_hash) = bounded(BUFFERS + 2);
        let (to_home, home) = bounded(BUFFERS);
        let (to_user, hashed) = bounded(1);
        let run = move || hash(&to_hash, &to_home, &to_user);
        Builder::new().name("hash-ahead".into()).spawn(run)?;
        let spare = (0..BUFFERS).map(|_| AlignedBuffer::new(len)).collect();
        Ok(Self { work, home, hashed, spare })
    }

    /// Begins a file, of which `hasher` has what was read so far.
    ///
    /// # Errors
    /// The thread died.
    pub fn begin(&self, hasher: ChainHasher) -> io::Result<()> {
        self.work.send(Work::Begin(hasher)).map_err(|_| died())
    }

    /// A buffer to read into, as soon as there is one.
    ///
    /// # Errors
    /// The thread died.
    pub fn buffer(&mut self) -> io::Result<AlignedBuffer> {
        match self.spare.pop() {
            Some(buffer) => Ok(buffer),
            None => self.home.recv().map_err(|_| died()),
        }
    }

    /// Hashes the first `len` bytes of a buffer.
    ///
    /// # Errors
    /// The thread died.
    pub fn hash(&self, buffer: AlignedBuffer, len: usize) -> io::Result<()> {
        self.work.send(Work::Bytes(buffer, len)).map_err(|_| died())
    }

    /// Takes back a buffer that is not to be hashed.
    pub fn give_back(&mut self, buffer: AlignedBuffer) {
        self.spare.push(buffer);
    }

    /// The hasher of the file, when all of it is hashed.
    ///
    /// # Errors
    /// The thread died.
    pub fn finish(&self) -> io::Result<ChainHasher> {
        self.work.send(Work::End).map_err(|_| died())?;
        self.hashed.recv().map_err(|_| died())
    }
}

fn died() -> io::Error {
    io::Error::other("the thread that hashes it died; this is a defect of dircopy")
}

/// Hashes until the user is gone.
fn hash(work: &Receiver<Work>, home: &Sender<AlignedBuffer>, hashed: &Sender<ChainHasher>) {
    let mut hasher = None;
    for work in work {
        match work {
            Work::Begin(begun) => hasher = Some(begun),
            Work::Bytes(buffer, len) => {
                if let Some(hasher) = &mut hasher {
                    hasher.update(buffer.filled(len));
                }
                // There is room for every buffer.
                let _ = home.send(buffer);
            }
            Work::End => {
                if let Some(hasher) = hasher.take() {
                    let _ = hashed.send(hasher);
                }
            }
        }
    }
}

// The further digests to list for a file, besides the one that proves.
//
// The thread that comes to a file's end puts its further digests here, under its path; the committer takes them when
// it lists the file, and forgets them when the file comes to nothing. So there are never more than files on their
// way.

/// The further digests of the files that are on their way.
#[derive(Debug)]
pub struct FurtherDigests {
    /// The algorithms beside the one that proves.
    algorithms: Algorithms,
    lists: Vec<ListKind>,
    waiting: Mutex<HashMap<Box<[u8]>, WaitingDigests>>,
}

/// The further digests of a file that is not listed yet.
#[derive(Debug)]
struct WaitingDigests {
    proof: Digest,
    further: Option<Digests>,
}

impl FurtherDigests {
    /// None yet, of these algorithms beside the one that proves, for these lists.
    pub fn new(algorithms: Algorithms, lists: Vec<ListKind>) -> Self {
        Self { algorithms, lists, waiting: Mutex::default() }
    }

    /// Those of a run with these options, which holds the source against digests by the algorithms `expected` too;
    /// and the options with these. Large files are gone on with only where all of them can be.
    pub fn of_run(options: Options, expected: Algorithms, lists: Vec<ListKind>) -> (Self, Options) {
        let further = options.further.and(expected).without(options.asked.algorithm);
        let journaling = options.journaling.filter(|_| further.can_go_on());
        (Self::new(further, lists), Options { further, journaling, ..options })
    }

    /// True if further digests or lists are asked for.
    pub fn is_any(&self) -> bool {
        !self.algorithms.is_empty() || !self.lists.is_empty()
    }

    /// Appends to each of `texts` what that list says of the file at `path`; returns what is to be told of lists that
    /// cannot have it.
    pub fn list(
        &self,
        texts: &mut Vec<Vec<u8>>,
        content: Option<&Content>,
        path: &[u8],
    ) -> Option<String> {
        texts.resize_with(self.lists.len(), Vec::new);
        let lacks = |(list, text): (&ListKind, &mut Vec<u8>)| {
            let has = content.is_some_and(|content| list.write(text, content, path));
            (!has).then(|| format!(".{}", list.suffix()))
        };
        let lacking: Vec<String> = self.lists.iter().zip(texts).filter_map(lacks).collect();
        let why = match content {
            Some(_) => "its name cannot be written there",
            None => "its further digests are not known",
        };
        (!lacking.is_empty()).then(|| {
            let (name, lists) = (Shown::bytes(path), lacking.join(", "));
            format!("{name} is not in the list {lists}: {why}; the manifest has it")
        })
    }

    /// The algorithms beside the one that proves; there may be none, where only forms of lists are asked for.
    pub fn algorithms(&self) -> Algorithms {
        self.algorithms
    }

    /// Starts them over one file.
    pub fn start(&self) -> Hasher {
        self.algorithms.start()
    }

    /// The file at `path` has these digests.
    pub fn put(&self, path: &[u8], proof: Digest, further: Hasher) {
        let further = further.finish_all(self.algorithms);
        self.waiting().insert(path.into(), WaitingDigests { proof, further });
    }

    /// The same of a file whose digests are at hand, the one that proves first.
    pub fn put_all(&self, path: &[u8], digests: Digests) {
        let (proof, further) = (digests.proof, digests.only(self.algorithms));
        self.waiting().insert(path.into(), WaitingDigests { proof, further });
    }

    /// The same of an untouched file, of which an earlier run recorded these; false if one is missing.
    pub fn put_recorded(&self, path: &[u8], proof: Digest, further: Vec<Digest>) -> bool {
        let all = Digests::new(proof, further).only(self.algorithms.with(proof.algorithm()));
        let Some(all) = all else { return false };
        self.put_all(path, all.proven_by(proof.algorithm()));
        true
    }

    /// The digest by `algorithm` of the file at `path`, if it waits with this proof.
    pub fn waiting_digest(
        &self,
        path: &[u8],
        proof: Digest,
        algorithm: Algorithm,
    ) -> Option<Digest> {
        let waiting = self.waiting();
        waiting.get(path).filter(|found| found.proof == proof)?.further.as_ref()?.of(algorithm)
    }

    /// The content to list for the file at `path`, which is of so many bytes, has this digest, and was read by this run
    /// if `is_read`; nothing if its further digests are not known.
    pub fn take(&self, path: &[u8], size: u64, proof: Digest, is_read: bool) -> Option<Content> {
        if self.algorithms.is_empty() {
            return Some(Content { size, digests: proof.into(), is_read });
        }
        let found = self.waiting().remove(path).filter(|found| found.proof == proof)?;
        let further = found.further?.iter().copied().collect();
        Some(Content { size, digests: Digests::new(proof, further), is_read })
    }

    /// The file at `path` is not listed by this run, or was.
    pub fn forget(&self, path: &[u8]) {
        if !self.algorithms.is_empty() {
            self.waiting().remove(path);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, WaitingDigests>> {
        // One that panicked over it left a whole map.
        self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

// Blocks: a fixed number of buffers for each worker, which return to their pool when they are dropped.
//
// Memory is therefore workers × blocks × block size, whatever the files are. A reader that is ahead of
// the other stages waits until a block returns.

/// The blocks of one worker, each made when it is first needed: copying small files takes one.
pub struct BlockPool {
    size: usize,
    /// Number of blocks that may still be made.
    unmade: Cell<usize>,
    free: Receiver<Vec<u8>>,
    give_back: Sender<Vec<u8>>,
}

/// A buffer out of a pool, with some of it filled.
pub struct Block {
    bytes: Vec<u8>,
    filled: usize,
    /// The way back to its pool, unless it was made for one content.
    give_back: Option<Sender<Vec<u8>>>,
}

/// Blocks that several outputs share: made when they are needed, and kept for reuse when they return.
/// The caller bounds how many are in use at a time.
pub struct SharedBlocks {
    size: usize,
    free: Receiver<Vec<u8>>,
    give_back: Sender<Vec<u8>>,
}

impl SharedBlocks {
    /// Blocks of `size` bytes, of which at most `count` are kept for reuse.
    pub fn new(count: usize, size: usize) -> Self {
        let (give_back, free) = bounded(count);
        Self { size, free, give_back }
    }

    /// An empty block with room for so many bytes, or for as many as blocks have.
    pub fn block(&self, bytes: u64) -> Block {
        match usize::try_from(bytes) {
            Ok(bytes) if bytes < self.size => {
                Block { bytes: vec![0; bytes], filled: 0, give_back: None }
            }
            _ => {
                let bytes = self.free.try_recv().unwrap_or_else(|_| vec![0; self.size]);
                Block { bytes, filled: 0, give_back: Some(self.give_back.clone()) }
            }
        }
    }
}

impl BlockPool {
    /// `count` blocks of `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        let (give_back, free) = bounded(count);
        Self { size, unmade: Cell::new(count), free, give_back }
    }

    /// An empty block, as soon as there is one; the time until then counts as `waited`.
    pub fn take(&self, timing: &StageTiming) -> Block {
        let bytes = self.free.try_recv().unwrap_or_else(|_| match self.unmade.get() {
            0 => {
                let _waiting = Timer::start(&timing.waited);
                // The pool holds a sender itself, so the channel cannot be disconnected.
                self.free.recv().unwrap_or_default()
            }
            unmade => {
                self.unmade.set(unmade - 1);
                vec![0; self.size]
            }
        });
        Block { bytes, filled: 0, give_back: Some(self.give_back.clone()) }
    }
}

impl Block {
    /// The part that is not filled yet.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// Counts bytes of the [`room`](Self::room) as filled.
    pub fn fill(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.bytes.len());
    }

    /// Makes all of it room again.
    pub fn clear(&mut self) {
        self.filled = 0;
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // The channel has room for every block of a pool, so this only fails when the pool is gone.
        if let Some(give_back) = &self.give_back {
            let _ = give_back.try_send(std::mem::take(&mut self.bytes));
        }
    }
}

// Telling zeros from data, so that runs of zeros can become holes.

/// Zeros count in units of the usual page and block size, in bytes: nothing smaller can be a hole on
/// the file systems in use.
const SMALLEST_HOLE: usize = 4096;

/// Bytes that are either all zeros, or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// A number of zeros.
    Zeros(usize),
    /// Anything else.
    Data(&'a [u8]),
}

/// Cuts `bytes` where runs of whole zero units begin and end.
pub fn segments(bytes: &[u8]) -> impl Iterator<Item = Segment<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let zeros = is_zero(rest.chunks(SMALLEST_HOLE).next()?);
        let alike = rest.chunks(SMALLEST_HOLE).take_while(|unit| is_zero(unit) == zeros).count();
        let (now, later) = rest.split_at(rest.len().min(alike * SMALLEST_HOLE));
        rest = later;
        Some(if zeros { Segment::Zeros(now.len()) } else { Segment::Data(now) })
    })
}

/// True if all bytes are zeros: the first one is, and each is as the one before.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.split_first().is_none_or(|(first, rest)| *first == 0 && *rest == bytes[..rest.len()])
}

#[cfg(test)]
mod hash_thread_tests {
    use super::*;
    use crate::hash::Algorithm;

    fn send(thread: &mut HashThread, bytes: &[u8]) {
        let mut buffer = thread.buffer().unwrap();
        assert_eq!(buffer.room().as_ptr().align_offset(ALIGNMENT), 0);
        buffer.room()[..bytes.len()].copy_from_slice(bytes);
        thread.hash(buffer, bytes.len()).unwrap();
    }

    /// Files one after the other, some given up half-way.
    #[test]
    fn each_file_gets_its_own_digest() {
        let mut thread = HashThread::start(8).unwrap();
        for file in 0..20u8 {
            let mut alone = Algorithm::Sha256.start();
            thread.begin(ChainHasher::without(Algorithm::Sha256.start())).unwrap();
            for part in 0..file {
                let bytes = [file, part, 7];
                alone.update(&bytes);
                send(&mut thread, &bytes);
            }
            let unused = thread.buffer().unwrap();
            thread.give_back(unused);
            if file % 3 == 0 {
                continue;
            }
            assert_eq!(thread.finish().unwrap().finish().0, alone.finish());
        }
    }
}

#[cfg(test)]
mod block_tests {
    use super::*;

    #[test]
    fn blocks_return_to_their_pool() {
        let (pool, timing) = (BlockPool::new(2, 8), StageTiming::default());
        for round in 0..10 {
            let (mut one, two) = (pool.take(&timing), pool.take(&timing));
            assert!(pool.free.is_empty() && pool.unmade.get() == 0, "two blocks are all");
            assert!(one.is_empty() && two.is_empty(), "round {round}: a block comes empty");
            one.room()[..3].copy_from_slice(b"abc");
            one.fill(3);
            assert_eq!(one[..], *b"abc");
            assert_eq!(one.room().len(), 5);
            drop(two);
            assert_eq!(pool.take(&timing).room().len(), 8);
        }
        drop(pool.take(&timing));
    }
}

#[cfg(test)]
mod zero_runs_tests {
    use super::*;

    #[test]
    fn zeros_count_only_in_whole_units_and_at_the_end() {
        let mut bytes = vec![0; 5 * SMALLEST_HOLE + 10];
        (bytes[0], bytes[3 * SMALLEST_HOLE - 1]) = (1, 1);
        let (first, third) =
            (&bytes[..SMALLEST_HOLE], &bytes[2 * SMALLEST_HOLE..3 * SMALLEST_HOLE]);
        let expected = [
            Segment::Data(first),
            Segment::Zeros(SMALLEST_HOLE),
            Segment::Data(third),
            Segment::Zeros(2 * SMALLEST_HOLE + 10),
        ];
        assert_eq!(segments(&bytes).collect::<Vec<_>>(), expected);
        assert_eq!(segments(&[]).count(), 0);
    }
}
