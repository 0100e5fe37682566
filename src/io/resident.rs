//! How much of large files stays in memory although it was not there before, where that can be told:
//! counted when each is complete, without what is still on its way to the device.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys::ResidentBytes;

/// What stayed in memory of the files of a run.
#[derive(Debug, Default)]
pub struct Residency {
    /// Of files that were read.
    pub source: ResidentTotal,
    /// Of files that were written.
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
