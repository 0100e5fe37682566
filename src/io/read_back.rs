//! Hashing what is stored: a file is read to its end, from its medium or through a cache.

use std::{io, sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed};

use crate::{
    error::Error, error::Result, hash::Algorithm, hash::Algorithms, hash::Backend, hash::Chain,
    hash::ChainHasher, hash::Digest, hash::Digests, hash::Stream, hash::multibuffer::streams,
    io::AlignedBuffer, io::hash_thread::HashThread, manifest::ManifestFile, sys::ALIGNMENT,
    sys::Dir, sys::Medium, sys::ResidentBytes,
};

/// Read at once: large enough for the device, small enough to hash before it leaves the processor's
/// second-level cache.
const BLOCK: usize = 512 << 10;

/// … and of all the files together that are read side by side: 64 KiB each of sixteen.
const ROOM: usize = 1 << 20;

/// Number of bytes of a file that are hashed by the thread that reads it; the rest is hashed by another while this one
/// reads on. Handing blocks over costs a few µs each and wakes a thread for the first: for a file that is hashed within
/// a millisecond that gains nothing.
const ALONE: u64 = 1 << 20;

/// Where the bytes that were hashed were read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashedFrom {
    /// From the device: none of them was in memory when reading began, or the cache was bypassed.
    Device,
    /// Perhaps from a cache: the file system has no device of its own (network, tmpfs), or keeps its
    /// pages in memory, or the caller asked for nothing else.
    Cache,
}

/// The result of reading and hashing a file.
#[derive(Clone, Copy, Debug)]
pub struct FileDigest {
    /// The digest of all of it; `None` for [`Algorithm::None`].
    pub digest: Option<Digest>,
    /// Number of bytes read.
    pub bytes: u64,
    /// Where they were read from.
    pub hashed_from: HashedFrom,
}

/// Reads files back, one after the other or several side by side, through one buffer.
#[derive(Default)]
pub struct ReadBack {
    buffer: Option<AlignedBuffer>,
    backend: Backend,
    /// Hashes large files; started for the first of them, where there is a processor for it.
    hash_thread: Option<HashThread>,
}

/// One of the files that are read side by side.
struct ParallelRead<'a> {
    medium: Option<Medium<'a>>,
    stream: Stream,
    bytes: u64,
    result: Option<io::Result<FileDigest>>,
}

impl ParallelRead<'_> {
    /// Reads the next bytes; `None` at the end and after an error.
    fn read<'b>(&mut self, room: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut medium = self.medium.take()?;
        match medium.read(room) {
            Ok(0) => {
                let hashed_from =
                    if medium.finish() { HashedFrom::Device } else { HashedFrom::Cache };
                let digest = Some(std::mem::take(&mut self.stream).finish().into());
                self.result = Some(Ok(FileDigest { digest, bytes: self.bytes, hashed_from }));
                None
            }
            Ok(read) => {
                self.bytes += read as u64;
                self.medium = Some(medium);
                Some(&room[..read])
            }
            Err(error) => {
                self.result = Some(Err(error));
                None
            }
        }
    }
}

/// A file that was read to its end.
struct HashedFile {
    hasher: ChainHasher,
    bytes: u64,
    hashed_from: HashedFrom,
}

impl HashedFile {
    fn finish(self) -> (FileDigest, Option<Chain>) {
        let Self { hasher, bytes, hashed_from } = self;
        let (digest, chain) = hasher.finish();
        (FileDigest { digest, bytes, hashed_from }, chain)
    }
}

impl ReadBack {
    /// With a buffer of 1 MiB, made when it is first used, and 2 MiB more for files larger than that.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this backend to hash several files at once.
    pub fn with(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Number of files to read side by side; 1 if that gains nothing.
    pub fn side_by_side(&self) -> usize {
        self.backend.lanes()
    }

    /// Reads a file to its end and hashes it; `on_read` is called with the number of bytes of each
    /// read. `None` if `is_to_stop` said so before the end.
    ///
    /// # Errors
    /// The file could not be read.
    pub fn hash(
        &mut self,
        medium: Medium<'_>,
        algorithm: Algorithm,
        is_to_stop: impl Fn() -> bool,
        on_read: impl FnMut(u64),
    ) -> io::Result<Option<FileDigest>> {
        let hasher = ChainHasher::without(algorithm.start());
        let read = self.hash_to_end(medium, hasher, is_to_stop, on_read)?;
        Ok(read.map(|read| read.finish().0))
    }

    /// The same with SHA-256, and keeps the chain of the content, if that has one.
    ///
    /// # Errors
    /// The file could not be read.
    pub fn hash_keeping(
        &mut self,
        medium: Medium<'_>,
        is_to_stop: impl Fn() -> bool,
        on_read: impl FnMut(u64),
    ) -> io::Result<Option<(FileDigest, Option<Chain>)>> {
        let hasher = ChainHasher::keeping(Algorithm::Sha256.start());
        let read = self.hash_to_end(medium, hasher, is_to_stop, on_read)?;
        Ok(read.map(HashedFile::finish))
    }

    /// The same by several algorithms: what proves, and with all digests.
    ///
    /// # Errors
    /// The file could not be read.
    pub fn hash_by(
        &mut self,
        medium: Medium<'_>,
        algorithms: Algorithms,
        is_to_stop: impl Fn() -> bool,
    ) -> io::Result<Option<(FileDigest, Option<Digests>)>> {
        self.hash_paced(medium, algorithms, is_to_stop, |_| ())
    }

    /// The same, with `on_read` as in [`hash`](Self::hash).
    ///
    /// # Errors
    /// The file could not be read.
    pub fn hash_paced(
        &mut self,
        medium: Medium<'_>,
        algorithms: Algorithms,
        is_to_stop: impl Fn() -> bool,
        on_read: impl FnMut(u64),
    ) -> io::Result<Option<(FileDigest, Option<Digests>)>> {
        let hasher = ChainHasher::without(algorithms.start());
        let read = self.hash_to_end(medium, hasher, is_to_stop, on_read)?;
        Ok(read.map(|read| {
            let digests = read.hasher.hasher().clone().finish_all(algorithms);
            (read.finish().0, digests)
        }))
    }

    /// Reads a file to its end, hashing with `hasher`.
    fn hash_to_end(
        &mut self,
        mut medium: Medium<'_>,
        mut hasher: ChainHasher,
        is_to_stop: impl Fn() -> bool,
        mut on_read: impl FnMut(u64),
    ) -> io::Result<Option<HashedFile>> {
        let (mut bytes, mut is_alone) = (0, !hasher.hasher().is_digest());
        loop {
            if is_to_stop() {
                return Ok(None);
            }
            let room = &mut self.room()[..BLOCK];
            let read = medium.read(room)?;
            if read == 0 {
                break;
            }
            hasher.update(&room[..read]);
            bytes += read as u64;
            on_read(read as u64);
            if bytes >= ALONE && !is_alone {
                is_alone = true;
                if let Some(mut thread) = self.hash_thread.take().or_else(start_hash_thread) {
                    thread.begin(hasher)?;
                    let more = read_ahead(&mut medium, &mut thread, is_to_stop, on_read)?;
                    hasher = thread.finish()?;
                    self.hash_thread = Some(thread);
                    let Some(more) = more else { return Ok(None) };
                    bytes += more;
                    break;
                }
            }
        }
        let hashed_from = if medium.finish() { HashedFrom::Device } else { HashedFrom::Cache };
        Ok(Some(HashedFile { hasher, bytes, hashed_from }))
    }

    /// Reads files side by side to their ends and hashes them with SHA-256, as many as
    /// [`side_by_side`](Self::side_by_side) says or fewer; `on_read` is called as in [`hash`](Self::hash).
    /// The result for each, in order, or `None` if `is_to_stop` said so before all ended.
    pub fn hash_all(
        &mut self,
        media: Vec<Medium<'_>>,
        is_to_stop: impl Fn() -> bool,
        mut on_read: impl FnMut(u64),
    ) -> Option<Vec<io::Result<FileDigest>>> {
        let begin = |medium| ParallelRead {
            medium: Some(medium),
            stream: Stream::default(),
            bytes: 0,
            result: None,
        };
        let mut files: Vec<_> = media.into_iter().map(begin).collect();
        let backend = self.backend;
        loop {
            let open = files.iter().filter(|file| file.medium.is_some()).count();
            if open == 0 {
                return files.into_iter().map(|file| file.result).collect();
            }
            if is_to_stop() {
                return None;
            }
            let portion = (ROOM / open / ALIGNMENT * ALIGNMENT).clamp(ALIGNMENT, BLOCK);
            let open = files.iter_mut().filter(|file| file.medium.is_some());
            let mut work = Vec::with_capacity(backend.lanes());
            for (file, room) in open.zip(self.room().chunks_exact_mut(portion)) {
                if let Some(bytes) = file.read(room) {
                    on_read(bytes.len() as u64);
                    work.push((&mut file.stream, bytes));
                }
            }
            streams::update(backend, &mut work);
        }
    }

    fn room(&mut self) -> &mut [u8] {
        self.buffer.get_or_insert_with(|| AlignedBuffer::new(ROOM)).room()
    }
}

/// `None` where one processor would only be shared by two threads, or there can be no more threads.
fn start_hash_thread() -> Option<HashThread> {
    let processors = std::thread::available_parallelism().map_or(1, |number| number.get());
    (processors > 1).then(|| HashThread::start(BLOCK).ok()).flatten()
}

/// Reads a file to its end while the thread hashes it; how many bytes came. `None` if `is_to_stop` said so
/// before the end.
fn read_ahead(
    medium: &mut Medium<'_>,
    thread: &mut HashThread,
    is_to_stop: impl Fn() -> bool,
    mut on_read: impl FnMut(u64),
) -> io::Result<Option<u64>> {
    let mut bytes = 0;
    while !is_to_stop() {
        let mut buffer = thread.buffer()?;
        let read = medium.read(buffer.room())?;
        if read == 0 {
            thread.give_back(buffer);
            return Ok(Some(bytes));
        }
        thread.hash(buffer, read)?;
        bytes += read as u64;
        on_read(read as u64);
    }
    Ok(None)
}

// The part of large files that stays in memory although it was not there before, where that can be told: counted when
// each is complete, without pages that are still on their way to the device.

/// Number of bytes of a run's files that stayed in memory.
#[derive(Debug, Default)]
pub struct Residency {
    /// Bytes of files that were read.
    pub source: ResidentTotal,
    /// Bytes of files that were written.
    pub output: ResidentTotal,
}

/// Bytes that were looked for in memory, and those of them that were found, added up over files.
#[derive(Debug, Default)]
pub struct ResidentTotal {
    bytes: AtomicU64,
    of: AtomicU64,
}

impl ResidentTotal {
    pub fn add(&self, ResidentBytes { bytes, of }: ResidentBytes) {
        if of > 0 {
            self.bytes.fetch_add(bytes, Relaxed);
            self.of.fetch_add(of, Relaxed);
        }
    }

    pub fn sum(&self) -> ResidentBytes {
        ResidentBytes { bytes: self.bytes.load(Relaxed), of: self.of.load(Relaxed) }
    }
}

// The proof that a manifest is on its medium as it was written, before it gets its name.

/// Makes a manifest durable and reads it back from its medium. False if the run is to stop before it is proven.
///
/// # Errors
/// The medium does not hold what was written, or cannot be read. The manifest is still there.
pub fn is_proven(manifest: &mut ManifestFile, is_to_stop: &dyn Fn() -> bool) -> Result<bool> {
    manifest.persist()?;
    let written = manifest.digest().map(Digest::from);
    match read_back(manifest, is_to_stop) {
        Ok(None) => Ok(false),
        Ok(Some(hashed)) if written.is_some() && hashed.digest == written => Ok(true),
        Ok(Some(_)) => {
            let finding = "what the disk holds is not what was written";
            Err(Error::finding("prove the manifest", manifest.path(), finding))
        }
        Err(error) => Err(Error::io("read back the manifest", manifest.path(), error)),
    }
}

fn read_back(
    manifest: &mut ManifestFile,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<Option<FileDigest>> {
    let file = manifest.open()?;
    let medium = Medium::of(&file, &Dir::stat_file(&file)?)?;
    ReadBack::new().hash(medium, Algorithm::Sha256, is_to_stop, |_| ())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Large files, read while another thread hashes them: to the end, stopped half-way, and once more.
    #[test]
    fn large_files_are_hashed_while_they_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut backs = ReadBack::new();
        for size in [ALONE - 1, ALONE, ALONE + 1, 9 * (BLOCK as u64) + 77] {
            let path = dir.path().join("file");
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            let mut whole = Algorithm::Sha256.start();
            whole.update(&content);
            let whole = whole.finish();
            let (mut calls, file) = (std::cell::Cell::new(0), File::open(&path).unwrap());
            let is_to_stop = || calls.replace(calls.get() + 1) == 4;
            let stopped = backs.hash(Medium::any(&file), Algorithm::Sha256, is_to_stop, |_| ());
            assert_eq!(stopped.unwrap().is_none(), *calls.get_mut() == 5);
            let (file, mut told) = (File::open(&path).unwrap(), 0);
            let read = |bytes| told += bytes;
            let all = backs.hash(Medium::any(&file), Algorithm::Sha256, || false, read);
            let all = all.unwrap().unwrap();
            assert_eq!((all.digest, all.bytes, told), (whole, size, size), "{size}");
            let file = File::open(&path).unwrap();
            let none = backs.hash(Medium::any(&file), Algorithm::None, || false, |_| ());
            assert_eq!(none.unwrap().unwrap().bytes, size);
        }
    }

    /// Files of any sizes, one of which cannot be read.
    #[test]
    fn side_by_side_is_as_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let sizes =
            [0, 1, 4096, 70_000, 3 << 20, 63, 64, 65, 1 << 20, 300_000, 128, 5, 9, 9, 700_001];
        let open = |i: usize, size: &usize| {
            let path = dir.path().join(i.to_string());
            let content: Vec<u8> = (0..*size).map(|at| (at % 251 + i) as u8).collect();
            std::fs::write(&path, content).unwrap();
            File::open(path).unwrap()
        };
        let mut files: Vec<File> =
            sizes.iter().enumerate().map(|(i, size)| open(i, size)).collect();
        files.insert(4, File::options().append(true).open(dir.path().join("3")).unwrap());
        for backend in Backend::all() {
            let mut backs = ReadBack::new().with(backend);
            let (media, mut told) = (files.iter().map(Medium::any).collect(), 0);
            let all = backs.hash_all(media, || false, |bytes| told += bytes).unwrap();
            assert_eq!(told, sizes.iter().sum::<usize>() as u64);
            for (i, (file, result)) in files.iter().zip(all).enumerate() {
                if i == 4 {
                    assert!(result.is_err(), "{backend:?}");
                    continue;
                }
                std::io::Seek::rewind(&mut &*file).unwrap();
                let alone = backs.hash(Medium::any(file), Algorithm::Sha256, || false, |_| ());
                let (alone, result) = (alone.unwrap().unwrap(), result.unwrap());
                assert_eq!((result.digest, result.bytes), (alone.digest, alone.bytes), "{i}");
                std::io::Seek::rewind(&mut &*file).unwrap();
            }
            let media = files.iter().map(Medium::any).collect();
            assert!(backs.hash_all(media, || true, |_| ()).is_none());
        }
    }
}
