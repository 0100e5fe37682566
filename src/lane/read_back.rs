//! Hashing what is stored: a file is read from its medium, or from wherever its bytes come, to its
//! end.

use std::io;

use crate::hash::{Algorithm, Digest};
use crate::sys::{ALIGNMENT, Medium};

/// Read at once: large enough for the device, small enough to hash before it leaves the processor's
/// second-level cache.
const BLOCK: usize = 512 << 10;

/// Where the bytes that were hashed came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// From the device: none of them was in memory when reading began, or memory was gone round.
    Device,
    /// Perhaps from a cache: the file system has no device of its own (network, tmpfs), or does not
    /// let go of what it holds in memory, or nothing else was asked for.
    Cache,
}

/// What came out of a file.
#[derive(Clone, Copy, Debug)]
pub struct Hashed {
    /// The digest of all of it; `None` for [`Algorithm::None`].
    pub digest: Option<Digest>,
    /// So many bytes were read.
    pub bytes: u64,
    /// Where they came from.
    pub proof: Proof,
}

/// The room that files are read into, one after the other.
pub struct ReadBack {
    buffer: Vec<u8>,
}

impl ReadBack {
    /// Room of 512 KiB. The system gives the memory when it is first used.
    pub fn new() -> Self {
        Self { buffer: vec![0; BLOCK + ALIGNMENT] }
    }

    /// Reads a file to its end and hashes it; `told` hears how many bytes came each time. `None` if
    /// it is to stop before the end.
    ///
    /// # Errors
    /// It could not be read.
    pub fn hash(
        &mut self,
        mut medium: Medium<'_>,
        algorithm: Algorithm,
        is_to_stop: impl Fn() -> bool,
        mut told: impl FnMut(u64),
    ) -> io::Result<Option<Hashed>> {
        let start = self.buffer.as_ptr().align_offset(ALIGNMENT);
        let room = &mut self.buffer[start..start + BLOCK];
        let (mut hasher, mut bytes) = (algorithm.start(), 0);
        loop {
            if is_to_stop() {
                return Ok(None);
            }
            let read = medium.read(room)?;
            if read == 0 {
                break;
            }
            hasher.update(&room[..read]);
            bytes += read as u64;
            told(read as u64);
        }
        let proof = if medium.finish() { Proof::Device } else { Proof::Cache };
        Ok(Some(Hashed { digest: hasher.finish(), bytes, proof }))
    }
}

impl Default for ReadBack {
    fn default() -> Self {
        Self::new()
    }
}
