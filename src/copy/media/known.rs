//! What histories say of the files that they list, as records in the order of paths.

use std::io;

use crate::copy::media::records::{PathReader, PathRecord, PathSorter};
use crate::hash::{Algorithm, Digest};
use crate::manifest::archive::mhl::MhlEntry;
use crate::path::RelPath;

/// What a history says of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownFile {
    /// Digests that may be used, those of the first generations first.
    pub digests: Vec<Digest>,
    /// Whether it is listed at all.
    pub is_listed: bool,
    /// Whether it has another name in a later generation.
    pub is_renamed: bool,
}

/// What a record says of a path: that there is no digest that may be used, or that it has another name now.
const NO_DIGEST: &str = "-";
const RENAMED: &str = ">";

impl KnownFile {
    /// What the history of the directory at `of` says of `path`, which is the next one.
    ///
    /// # Errors
    /// What was sorted cannot be read.
    pub fn read(known: &mut PathReader, path: &[u8], of: &RelPath) -> io::Result<Self> {
        let mut file = Self::default();
        while let Some(record) = known.take_of(path)? {
            file.add(PathRecord::of(&record).words, of);
        }
        Ok(file)
    }

    /// Takes what a record says, if it is of the history of `of`.
    pub fn add(&mut self, words: &str, of: &RelPath) {
        let mut words = words.split(' ');
        let is_of = words.next().and_then(|len| len.parse().ok()) == Some(of.as_bytes().len());
        let what = words.nth(1).filter(|_| is_of);
        match what {
            None => {}
            Some(RENAMED) => self.is_renamed = true,
            Some(name) => {
                self.is_listed = true;
                let algorithm = Algorithm::listed().find(|algorithm| algorithm.name() == name);
                let text = words.next().unwrap_or_default().as_bytes();
                self.digests.extend(algorithm.and_then(|it| Digest::parse(it, text)));
            }
        }
    }
}

/// Adds an entry of a generation of the history of `rel`.
///
/// # Errors
/// The file that it would wait in cannot be made or written.
pub fn add(known: &mut PathSorter, rel: &RelPath, number: u64, entry: &MhlEntry) -> io::Result<()> {
    let below = |path: &str| match rel.is_root() {
        true => path.as_bytes().to_vec(),
        false => [rel.as_bytes(), b"/", path.as_bytes()].concat(),
    };
    let head = format!("{:05} {number:06}", rel.as_bytes().len());
    let path = below(&entry.path);
    if entry.digests.is_empty() {
        known.add(&format!("{head} {NO_DIGEST}"), &path)?;
    }
    for digest in &entry.digests {
        known.add(&format!("{head} {} {digest}", digest.algorithm().name()), &path)?;
    }
    match entry.previous.as_deref().filter(|previous| *previous != entry.path) {
        Some(previous) => known.add(&format!("{head} {RENAMED}"), &below(previous)),
        None => Ok(()),
    }
}
