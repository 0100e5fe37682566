//! How many of the files that have left the source are there under other names: what was renamed has not left.
//!
//! A departed file and a new one are taken for the same if size and time are. Of those pairs a random sample is read,
//! and if the content of one is not what was recorded, none counts: a ransomed tree, whose files have new names and new
//! content, is stopped also where its files kept size and time.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io;

use crate::copy::mirror::departures::Departures;
use crate::event::Stop;
use crate::hash::{Algorithm, Digest};
use crate::io::read_back::ReadBack;
use crate::path::RelPath;
use crate::state::knowledge::Knowledge;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{self, Dir, DirReader, Medium};
use crate::tree::classify::Classifier;
use crate::tree::dirs::open_source_below;
use crate::tree::filter::Inclusion;

/// So many departed files are remembered, in about 100 MiB.
const MOST_FILES: usize = 1 << 20;

/// So many pairs are read, …
const SAMPLE: usize = 16;

/// … but no further one after so many bytes.
const SAMPLE_BYTES: u64 = 256 << 20;

/// What is looked through.
pub struct MovedFiles<'a> {
    pub source: &'a Dir,
    pub output: &'a Dir,
    pub known: &'a Knowledge,
    pub departures: &'a Departures,
    pub classifier: Classifier<'a>,
    /// By which algorithm the run proves.
    pub proof: Algorithm,
    pub stop: &'a Stop,
}

/// Size and second of a file.
type Look = (u64, i64);

/// What the search has come to.
#[derive(Default)]
struct MovesFound {
    departed: HashMap<Look, Alike>,
    /// How many have one.
    moved: u64,
    /// Some of those, by a random number.
    sample: BTreeMap<u64, (RelPath, Look)>,
    random: RandomState,
}

/// Departed files that look alike.
#[derive(Default)]
struct Alike {
    /// How many have no new name yet.
    left: u64,
    /// The beginnings of their digests.
    digests: Vec<u32>,
}

impl MovedFiles<'_> {
    /// How many files were renamed; 0 if one of the sample is another file.
    ///
    /// # Errors
    /// Something cannot be read, so nothing is known.
    pub fn count(&self) -> io::Result<u64> {
        let mut found = MovesFound { departed: self.departed(), ..MovesFound::default() };
        if found.departed.is_empty() {
            return Ok(0);
        }
        let mut reader = DirReader::default();
        let mut todo = vec![(RelPath::root(), self.classifier.filter.root())];
        while let Some((rel, above)) = todo.pop() {
            let follow = self.classifier.follow;
            let source = open_source_below(self.source, &rel, follow)?;
            let source = source.open_dir(".".as_ref(), false)?;
            let (device, output) = (source.identity()?.dev, self.output.open_below(&rel).ok());
            loop {
                let batch = reader.next_batch(&source)?;
                if batch.is_empty() || self.stop.is_requested() {
                    break;
                }
                for listed in batch {
                    // A link that leads nowhere, or what was removed a moment ago.
                    let Ok(stat) = source.stat(&listed.name, follow) else { continue };
                    let (path, is_dir) = (rel.join(&listed.name), stat.kind == Kind::Dir);
                    let inclusion = self.classifier.filter.judge(path.as_bytes(), is_dir, above);
                    let is_elsewhere = self.classifier.one_file_system && stat.id.dev != device;
                    if inclusion == Inclusion::Out {
                        continue;
                    }
                    if is_dir && !is_elsewhere {
                        todo.push((path, inclusion));
                    } else if stat.kind == Kind::File && !has(output.as_ref(), &listed.name) {
                        found.take(path, &stat);
                    }
                }
            }
        }
        Ok(if self.proves(&found)? { found.moved } else { 0 })
    }

    /// What has left the source.
    fn departed(&self) -> HashMap<Look, Alike> {
        let (mut departed, mut number) = (HashMap::<_, Alike>::new(), 0);
        // What was read until an error is as good.
        let _ = self.known.unsettled(&|| self.stop.is_requested(), |path, unsettled| {
            let row = unsettled.remembered.row.filter(|row| row.digest.algorithm() == self.proof);
            if let Some(row) = row.filter(|_| number < MOST_FILES && self.departures.covers(path)) {
                number += 1;
                let alike = departed.entry((row.trace.size, row.trace.mtime.secs)).or_default();
                alike.left += 1;
                alike.digests.push(beginning(&row.digest));
            }
            Ok(())
        });
        departed
    }

    /// Whether each file of the sample has the content of a departed one.
    fn proves(&self, found: &MovesFound) -> io::Result<bool> {
        let (mut read_back, mut bytes, follow) = (ReadBack::new(), 0, self.classifier.follow);
        for (path, look) in found.sample.values() {
            let Some((above, name)) = path.split().filter(|_| bytes < SAMPLE_BYTES) else { break };
            let dir = open_source_below(self.source, &above, follow)?;
            let file = dir.open_file(sys::name_from_bytes(name)?, follow)?;
            let is_to_stop = || self.stop.is_requested();
            let read = read_back.hash(Medium::any(&file), self.proof, is_to_stop, |_| ())?;
            let digest = read.and_then(|read| read.digest);
            let alike = found.departed.get(look).zip(digest);
            if !alike.is_some_and(|(alike, it)| alike.digests.contains(&beginning(&it))) {
                return Ok(false);
            }
            bytes += look.0;
        }
        Ok(true)
    }
}

impl MovesFound {
    /// Takes a new file for a departed one, if one looks like it.
    fn take(&mut self, path: RelPath, stat: &Stat) {
        let look = (stat.size, stat.mtime.secs);
        let Some(alike) = self.departed.get_mut(&look).filter(|alike| alike.left > 0) else {
            return;
        };
        alike.left -= 1;
        self.moved += 1;
        if stat.size > 0 {
            self.sample.insert(self.random.hash_one(path.as_bytes()), (path, look));
        }
        if self.sample.len() > SAMPLE {
            self.sample.pop_last();
        }
    }
}

fn beginning(digest: &Digest) -> u32 {
    digest.bytes().iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// Whether something is called `name` in `dir`.
fn has(dir: Option<&Dir>, name: &OsStr) -> bool {
    dir.is_some_and(|dir| dir.stat(name, false).is_ok())
}
