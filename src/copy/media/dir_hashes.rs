//! The digests of directories, by ASC MHL: of the digests of what is in them (content), and of these with the names
//! (structure), both in the order of the digests.
//!
//! The digests of a directory of a million files have no room in memory. So everything is sorted by the depth of its
//! directory, the deepest first, then by that directory and by digest: then each directory is one stretch that is
//! hashed as it is read, and what comes of it is sorted into the level above.

use std::{cmp::Ordering, io};

use crate::{
    copy::media::sorter, hash::Algorithm, hash::Algorithms, hash::Digest, hash::Hasher, hash::hex,
    tree::JoinReader, tree::PathRecord, tree::SortedRecords, tree::Sorter, tree::by_path,
    tree::names::compare,
};

/// Levels are counted down from here, so that the deepest comes first.
const MOST_DEPTH: usize = 999_999;

/// So many letters of a record are its level.
const LEVEL: usize = 6;

/// Says that something in the directory is not listed, so that it has no digests.
const PART: &str = "!";

/// By level, then by directory, then by digest.
fn by_level(one: PathRecord<'_>, other: PathRecord<'_>) -> Ordering {
    let order = one.words.get(..LEVEL).cmp(&other.words.get(..LEVEL));
    order.then_with(|| compare(one.path, other.path)).then_with(|| one.words.cmp(other.words))
}

/// The level of what is in the directory at `path`.
fn level(path: &[u8]) -> String {
    let slashes = memchr::memchr_iter(b'/', path).count();
    let depth = if path.is_empty() { 0 } else { slashes + 1 };
    format!("{:0LEVEL$}", MOST_DEPTH - depth.min(MOST_DEPTH))
}

/// The directory that `path` is in, and its name there.
fn split(path: &[u8]) -> PlaceInDir<'_> {
    match memchr::memrchr(b'/', path) {
        Some(slash) => PlaceInDir { dir: &path[..slash], name: &path[slash + 1..] },
        None => PlaceInDir { dir: b"", name: path },
    }
}

struct PlaceInDir<'a> {
    dir: &'a [u8],
    name: &'a [u8],
}

/// Takes the digests of files.
pub struct DirHasher {
    algorithms: Vec<Algorithm>,
    sorter: Sorter,
}

impl DirHasher {
    /// Nothing yet.
    pub fn new(algorithms: Algorithms) -> Self {
        Self { algorithms: algorithms.iter().collect(), sorter: sorter(by_level) }
    }

    /// There is a directory.
    ///
    /// # Errors
    /// It cannot be sorted.
    pub fn directory(&mut self, path: &[u8]) -> io::Result<()> {
        self.sorter.add(level(path), path)
    }

    /// There is a file with these digests, in the order of the algorithms.
    ///
    /// # Errors
    /// It cannot be sorted.
    pub fn file(&mut self, path: &[u8], digests: &[Digest]) -> io::Result<()> {
        for (at, digest) in digests.iter().enumerate() {
            let bytes = digest.bytes();
            add_child(&mut self.sorter, at, path, DirDigest { digest: *digest, bytes })?;
        }
        Ok(())
    }

    /// There is a file that is not listed.
    ///
    /// # Errors
    /// It cannot be sorted.
    pub fn unlisted(&mut self, path: &[u8]) -> io::Result<()> {
        add_part(&mut self.sorter, path)
    }

    /// For each directory whose files are all listed, its content and structure digests by each algorithm, in
    /// hexadecimal.
    ///
    /// # Errors
    /// Fails if the sorted records cannot be read.
    pub fn finish(self) -> io::Result<SortedRecords> {
        let all = self.sorter.finish()?;
        let mut all = JoinReader::of(&all)?;
        let mut results = sorter(by_path);
        let mut below = JoinReader::of(&sorter(by_level).finish()?)?;
        while let Some(first) = all.peek() {
            let level = first.text().get(..LEVEL).unwrap_or_default().to_owned();
            let mut above = sorter(by_level);
            let mut group: Option<DirGroup> = None;
            while let Some(record) = next_of(&level, &mut all, &mut below)? {
                let record = PathRecord::of(&record);
                if let Some(done) = group.take_if(|group| group.path != record.path) {
                    done.finish(&self.algorithms, &mut results, &mut above)?;
                }
                let group =
                    group.get_or_insert_with(|| DirGroup::new(record.path, &self.algorithms));
                group.take(record.text().get(LEVEL..).unwrap_or_default().trim_start());
            }
            if let Some(done) = group {
                done.finish(&self.algorithms, &mut results, &mut above)?;
            }
            below = JoinReader::of(&above.finish()?)?;
        }
        results.finish()
    }
}

/// The part that a file or a directory adds to its directory.
struct DirDigest<'a> {
    /// To the content.
    digest: Digest,
    /// To the structure, behind its name.
    bytes: &'a [u8],
}

fn add_child(sorter: &mut Sorter, at: usize, path: &[u8], child: DirDigest<'_>) -> io::Result<()> {
    let PlaceInDir { dir, name } = split(path);
    let mut named = child.digest.algorithm().start();
    named.update(name);
    named.update(child.bytes);
    let named = named.finish();
    let structure = named.as_ref().map(Digest::bytes).unwrap_or_default();
    for (kind, bytes) in [('c', child.digest.bytes()), ('s', structure)] {
        let words = format!("{} {at} {kind} {}", level(dir), hex::text(bytes));
        sorter.add(&words, dir)?;
    }
    Ok(())
}

fn add_part(sorter: &mut Sorter, path: &[u8]) -> io::Result<()> {
    let PlaceInDir { dir, .. } = split(path);
    sorter.add(format!("{} {PART}", level(dir)), dir)
}

/// The next record of this level from both.
fn next_of(
    level: &str,
    one: &mut JoinReader,
    other: &mut JoinReader,
) -> io::Result<Option<Vec<u8>>> {
    let is_of = |it: &PathRecord<'_>| it.text().starts_with(level);
    let takes_first = match (one.peek().filter(is_of), other.peek().filter(is_of)) {
        (None, None) => return Ok(None),
        (one, None) => one.is_some(),
        (None, _) => false,
        (Some(one), Some(other)) => by_level(one, other) != Ordering::Greater,
    };
    if takes_first { one.take() } else { other.take() }
}

/// A directory while what is in it is hashed.
struct DirGroup {
    path: Vec<u8>,
    is_whole: bool,
    /// For each algorithm content and structure.
    hashers: Vec<[Hasher; 2]>,
}

impl DirGroup {
    fn new(path: &[u8], algorithms: &[Algorithm]) -> Self {
        let hashers = algorithms.iter().map(|it| [it.start(), it.start()]).collect();
        Self { path: path.to_vec(), is_whole: true, hashers }
    }

    /// Takes what is in it, in the order of digests.
    fn take(&mut self, words: &str) {
        let mut words = words.split(' ');
        match words.next() {
            Some(PART) => self.is_whole = false,
            Some(at) => {
                let hashers = at.parse().ok().and_then(|at: usize| self.hashers.get_mut(at));
                let kind = usize::from(words.next() == Some("s"));
                let bytes = words.next().and_then(|it| hex::parse(it.as_bytes()));
                if let (Some(hashers), Some(bytes)) = (hashers, bytes) {
                    hashers[kind].update(&bytes);
                }
            }
            None => {}
        }
    }

    fn finish(
        self,
        algorithms: &[Algorithm],
        results: &mut Sorter,
        above: &mut Sorter,
    ) -> io::Result<()> {
        let is_root = self.path.is_empty();
        if !self.is_whole {
            return if is_root { Ok(()) } else { add_part(above, &self.path) };
        }
        let mut words = String::new();
        for (at, [content, structure]) in self.hashers.into_iter().enumerate() {
            let (Some(content), Some(structure)) = (content.finish(), structure.finish()) else {
                return Err(io::Error::other(
                    "a directory has no digest; this is a defect of dircopy",
                ));
            };
            debug_assert_eq!(content.algorithm(), algorithms[at]);
            for digest in [content, structure] {
                if !words.is_empty() {
                    words.push(' ');
                }
                words.push_str(&hex::text(digest.bytes()));
            }
            if !is_root {
                let child = DirDigest { digest: content, bytes: structure.bytes() };
                add_child(above, at, &self.path, child)?;
            }
        }
        results.add(&words, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xxh64(text: &[u8]) -> Digest {
        let mut hasher = Algorithm::Xxh64.start();
        hasher.update(text);
        hasher.finish().unwrap()
    }

    /// The values are those of the reference implementation for the same tree.
    #[test]
    fn directories_have_the_digests_of_the_reference() {
        let mut dirs = DirHasher::new(Algorithms::default().with(Algorithm::Xxh64));
        for dir in ["", "Clips", "empty"] {
            dirs.directory(dir.as_bytes()).unwrap();
        }
        dirs.file(b"Clips/A002C006_141024_R2EC.mov", &[xxh64(b"abcd\n")]).unwrap();
        dirs.file(b"Clips/A002C007_141024_R2EC.mov", &[xxh64(b"def\n")]).unwrap();
        dirs.directory(b"part").unwrap();
        dirs.directory(b"part/whole").unwrap();
        dirs.unlisted(b"part/x").unwrap();
        let found = dirs.finish().unwrap();
        let mut found = JoinReader::of(&found).unwrap();
        let mut all = Vec::new();
        while let Some(record) = found.take().unwrap() {
            let (words, path) = PathRecord::told(&record);
            all.push((String::from_utf8(path.to_vec()).unwrap(), words.to_owned()));
        }
        let empty = "ef46db3751d8e999 ef46db3751d8e999";
        let clips = "4c226b42e27d7af3 906faa843d591a9f";
        let expected = [("Clips", clips), ("empty", empty), ("part/whole", empty)];
        assert_eq!(all, expected.map(|(path, words)| (path.to_owned(), words.to_owned())));
    }
}
