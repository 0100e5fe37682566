//! Hashing on a thread of its own, so that a large file is read while what came before is hashed.
//!
//! The thread is started once and serves one file after the other. Buffers go to it filled and come home
//! empty: there are [`BUFFERS`] of them, so the reader is at most so far ahead.

use std::io;
use std::thread::Builder;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::hash::chain::ChainHasher;
use crate::sys::ALIGNMENT;

/// How many buffers are on their way: one is read into, one is hashed, and two keep either side busy when
/// the other is late.
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
    /// So many bytes of the buffer follow.
    Bytes(AlignedBuffer, usize),
    /// That was all of the file.
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

#[cfg(test)]
mod tests {
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
