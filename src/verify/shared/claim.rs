//! What a worker is told of the data of a file that it is about to read.

use std::fs::File;
use std::sync::Arc;

use crate::hash::Digest;
use crate::io::read_back::HashedFrom;
use crate::sys::stat::Stat;
use crate::verify::lines::manifest_lines::ManifestLine;
use crate::verify::target::Target;

/// Which data it is, hashed with keys that are drawn for each check: 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataKey(pub u128);

/// A line that waits until the data of its file was read for another one.
#[derive(Debug)]
pub struct WaitingLine {
    pub target: Arc<Target>,
    pub line: ManifestLine,
}

impl WaitingLine {
    /// Bytes that it takes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.line.path.as_bytes().len()
    }
}

/// A file whose data was claimed, and what is listed of it.
pub struct Claimed<'a> {
    pub key: DataKey,
    pub target: &'a Target,
    pub file: &'a File,
    /// What the file was when it was claimed.
    pub stat: &'a Stat,
    pub digest: &'a Digest,
}

/// What is to be done about a file.
#[derive(Debug)]
pub enum DataClaim {
    /// It is to be read; its data is its own, as far as that is known.
    Alone(ManifestLine),
    /// It is to be read, and then settled: others may wait for that.
    First(ManifestLine, DataKey),
    /// Its data was read, from there, and has the listed digest.
    Known(ManifestLine, HashedFrom),
    /// Its data is being read. Who reads it is given the line when that is done.
    Waits,
}
