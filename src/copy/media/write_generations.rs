//! The generations of a run: one for each history that has something to say, those further below first, because those
//! above refer to them.
//!
//! A generation gets its name when it is whole and durable, and its chain after it, in place of the old one.

use std::{cmp::Ordering, io, path::Path, path::PathBuf, sync::Arc};

use crate::copy::media::{
    DEED, MediaWriting, below, date_of, folder, histories::Histories, histories::OpenHistory,
    histories::OwnMark, join::Joined, join::JoinedEntry, join::ToList, join::old_name,
    one_history::HistoryRoot, one_history::MediaRole, one_history::patterns, ordered, place,
    sorter,
};
use crate::manifest::archive::{mhl::CHAIN, mhl::HISTORY, mhl::OF_HISTORIES, mhl::read_chain};
use crate::{
    copy::list_file::ListFile, copy::list_file::remove_all, error::Deed, error::Error,
    error::Result, hash::Algorithm, hash::Algorithms, hash::Digest, hash::Hasher, hash::hex,
    manifest::ChainLink, manifest::Creator, manifest::DirHash, manifest::KeptFile,
    manifest::MediaEntry, manifest::MhlWriter, path::RelPath, sys, sys::Dir, sys::Uninterrupted,
    sys::stat::Kind, sys::stat::Stat, sys::stat::Time, tree::JoinReader, tree::PathRecord,
    tree::SortedRecords, tree::Sorter, tree::by_path, tree::names::compare, tree::names::is_within,
};

/// Lists that are being written: that of a directory stands below those further down.
pub struct OpenLists<'a> {
    pub role: &'a MediaRole,
    pub with: MediaWriting<'a>,
    /// The mark of the generations of this output.
    pub mark: Option<OwnMark>,
    pub root: HistoryRoot<'a>,
    pub histories: &'a Histories,
    pub creator: Creator,
    /// The patterns that the history of the root leaves out.
    pub ignored: &'a [String],
    pub stack: Vec<OpenLevel<'a>>,
    /// The list of the root.
    pub written: Option<PathBuf>,
}

/// A directory that has a history, while what is in it is listed.
pub struct OpenLevel<'a> {
    rel: RelPath,
    /// Unless it has nothing to say.
    list: Option<OpenList<'a>>,
}

/// The directory of a history.
struct HistoryDir {
    dir: Arc<Dir>,
    path: PathBuf,
    history: OpenHistory,
    /// True if its chain has all generations.
    has_all: bool,
    /// The metadata before, if it had to be opened up for its owner.
    closed: Option<Stat>,
}

struct OpenList<'a> {
    /// The directory of the history, and what it was, if it had to be opened up for its owner.
    dir: Arc<Dir>,
    closed: Option<Stat>,
    path: PathBuf,
    links: Vec<ChainLink>,
    name: String,
    writer: MhlWriter<ListFile<'a>>,
    references: Vec<ChainLink>,
}

impl<'a> OpenLists<'a> {
    fn fail(&self, error: io::Error) -> Error {
        Error::io(DEED, self.root.path, error)
    }

    /// Writes all that there is to write; returns where the list of the root is, if it has one.
    ///
    /// # Errors
    /// A list cannot be written: what is not complete is removed.
    pub fn write(mut self, joined: &Joined) -> Result<Option<PathBuf>> {
        let written = self.write_all(joined);
        if written.is_err() {
            self.discard();
        }
        written.map(|()| self.written)
    }

    fn write_all(&mut self, joined: &Joined) -> Result<()> {
        let path = self.root.path;
        let fail = |error| Error::io(DEED, path, error);
        let mut entries = JoinReader::of(&joined.entries).map_err(fail)?;
        let mut dirs = JoinReader::of(&joined.dirs).map_err(fail)?;
        let mut renames = JoinReader::of(&joined.renames).map_err(fail)?;
        while let Some(record) = entries.take().map_err(fail)? {
            let path = PathRecord::of(&record).path;
            self.leave(path)?;
            let found = match PathRecord::of(&record).json() {
                Some(JoinedEntry::Dir(found)) => found,
                Some(JoinedEntry::File(file)) => {
                    let previous = renames.last_of(path).map_err(fail)?;
                    let previous = previous.and_then(|it| old_name(PathRecord::of(&it).text()));
                    self.file(path, &file, previous.as_deref())?;
                    continue;
                }
                None => continue,
            };
            let hashes = dirs.last_of(path).map_err(fail)?;
            let hashes = hashes.map(|it| self.hashes(PathRecord::of(&it).text()));
            let hashes = hashes.unwrap_or_default();
            self.directory(path, found.modified, &hashes)?;
            let rel = RelPath::parse(path).unwrap_or_default();
            if rel.is_root() || joined.histories.contains(&rel) {
                let list = match joined.writing.contains(&rel) {
                    true => Some(self.begin(&rel, &hashes)?),
                    false => {
                        self.bring_chain(&rel)?;
                        None
                    }
                };
                self.stack.push(OpenLevel { rel, list });
            }
        }
        while !self.stack.is_empty() {
            self.pop()?;
        }
        Ok(())
    }

    /// The digests of a directory, in the order of the schema.
    fn hashes(&self, words: &str) -> Vec<DirHash> {
        let mut words = words.split(' ');
        let mut next = |algorithm| {
            let bytes = hex::parse(words.next()?.as_bytes())?;
            Digest::of_bytes(algorithm, &bytes)
        };
        let each =
            |algorithm| Some(DirHash { content: next(algorithm)?, structure: next(algorithm)? });
        let mut hashes: Vec<DirHash> = self.role.algorithms.iter().filter_map(each).collect();
        hashes.sort_by_key(|hash| place(hash.content.algorithm(), &OF_HISTORIES));
        hashes
    }

    /// Ends the lists of directories that `path` is not in.
    fn leave(&mut self, path: &[u8]) -> Result<()> {
        while self.stack.last().is_some_and(|level| !is_within(path, level.rel.as_bytes())) {
            self.pop()?;
        }
        Ok(())
    }

    /// Lists a directory in that of the history that it is in, if all that is in it is listed.
    fn directory(&mut self, path: &[u8], modified: Time, hashes: &[DirHash]) -> Result<()> {
        let root = self.root.path;
        let Some(OpenLevel { rel, list: Some(list) }) = self.stack.last_mut() else {
            return Ok(());
        };
        let Some(path) = below(path, rel).filter(|_| !hashes.is_empty()) else { return Ok(()) };
        let written =
            list.writer.directory(path, &date_of(modified), hashes, &self.creator.finished);
        written.deed(DEED, root)
    }

    fn file(&mut self, path: &[u8], file: &ToList, previous: Option<&str>) -> Result<()> {
        let root = self.root.path;
        let Some(OpenLevel { rel, list: Some(list) }) = self.stack.last_mut() else {
            return Ok(());
        };
        let kept = KeptFile::parse(&file.kept, self.role.algorithms);
        let (Some(path), Some(kept)) = (below(path, rel), kept) else { return Ok(()) };
        let file = MediaEntry {
            path,
            size: kept.size,
            modified: date_of(file.found.modified),
            digests: &ordered(&kept.digests, &OF_HISTORIES),
            action: file.action,
            read: kept.is_read.then_some(self.creator.finished.as_str()),
            previous: previous.and_then(|it| below(it.as_bytes(), rel)),
        };
        list.writer.file(&file).deed(DEED, root)
    }

    /// Begins the generation of the directory `rel`, which has these digests.
    fn begin(&self, rel: &RelPath, hashes: &[DirHash]) -> Result<OpenList<'a>> {
        let HistoryDir { dir, path, history, closed, .. } = self.open(rel)?;
        let OpenHistory { links, patterns: its } = history;
        let stamp = self.role.started.strftime("%Y-%m-%d_%H%M%SZ");
        let folder = folder(&rel.full_path(self.root.path));
        let name = format!("{:04}_{folder}_{stamp}.mhl", links.len() + 1);
        let file = ListFile::new(self.with.lists, &dir, path.join(&name)).begin()?;
        let ignored = patterns(&its, self.ignored);
        let writer = MhlWriter::generation(file, &self.creator, hashes, &ignored);
        let writer = writer.map_err(|error| self.fail(error))?;
        Ok(OpenList { dir, closed, path, links, name, writer, references: Vec::new() })
    }

    /// Writes the chain of the source's history where that has more than the one at the output, and there is nothing
    /// new to say.
    fn bring_chain(&self, rel: &RelPath) -> Result<()> {
        if self.histories.all.get(rel).is_none_or(|history| history.links.is_empty()) {
            return Ok(());
        }
        let HistoryDir { dir, path, history, has_all, closed } = self.open(rel)?;
        let written = if has_all { Ok(()) } else { self.write_chain(&dir, &path, &history.links) };
        written.and(close_up(&dir, closed, &path))
    }

    fn write_chain(&self, dir: &Arc<Dir>, path: &Path, links: &[ChainLink]) -> Result<()> {
        let chain = ListFile::new(self.with.lists, dir, path.join(CHAIN)).begin()?;
        let chain = MhlWriter::chain(chain, links).map_err(|error| self.fail(error))?;
        self.with.publish(chain, true).map(drop)
    }

    /// Opens the directory of the history of `rel`, which is made if it is not there.
    fn open(&self, rel: &RelPath) -> Result<HistoryDir> {
        let path = rel.full_path(self.root.path).join(HISTORY);
        let fail = |deed, error| Error::io(deed, &path, error);
        let opened = match rel.is_root() {
            true => self.root.dir.try_clone(),
            false => self.root.dir.open_below(rel),
        };
        let above = opened.map_err(|error| fail("open", error))?;
        if above.stat(HISTORY.as_ref(), false).is_err() {
            // A copy of a card that may only be read is closed to its owner too.
            let closed = open_up(&above).map_err(|error| fail("open up for", error))?;
            let made = above.make_dir(HISTORY.as_ref(), false);
            close_up(&above, closed, &path)?;
            made.map_err(|error| fail("make the directory", error))?;
            if self.with.lists.durable {
                above.persist().map_err(|error| fail("make durable", error))?;
            }
        }
        let dir = above.open_dir(HISTORY.as_ref(), false).map_err(|error| fail("open", error))?;
        let closed = open_up(&dir).map_err(|error| fail("open up", error))?;
        remove_all(&dir, sys::is_part_name).map_err(|error| fail("remove leftovers in", error))?;
        let history = self.histories.all.get(rel).cloned().unwrap_or_default();
        let has_all = has_chain(&dir, &path, &history.links)?;
        Ok(HistoryDir { dir: Arc::new(dir), path, history, has_all, closed })
    }

    /// Ends the list of the innermost directory, and refers to it in that of the one above.
    fn pop(&mut self) -> Result<()> {
        let Some(OpenLevel { rel, list: Some(list) }) = self.stack.pop() else { return Ok(()) };
        let OpenList { dir, closed, path, mut links, name, writer, references } = list;
        let mut file = writer.finish_generation(&references).map_err(|error| self.fail(error))?;
        if let Some(mark) = &self.mark {
            let text = mark.text(&name, links.last(), &file.digests()?.proof);
            file.text.extend_from_slice(text.as_bytes());
        }
        let generation = path.join(&name);
        let digest = Some(self.with.publish(file, false)?);
        links.push(ChainLink { number: links.len() as u64 + 1, name: name.clone(), digest });
        let written = self.write_chain(&dir, &path, &links);
        written.and(close_up(&dir, closed, &path))?;
        if let Some(OpenLevel { rel: above, list: Some(list) }) = self.stack.last_mut() {
            let inner = below(rel.as_bytes(), above).unwrap_or_default();
            let name = format!("{inner}/{HISTORY}/{name}");
            list.references.push(ChainLink { number: 0, name, digest });
        }
        if rel.is_root() {
            self.written = Some(generation);
        }
        Ok(())
    }

    /// Removes what is not complete.
    fn discard(&mut self) {
        for list in self.stack.drain(..).filter_map(|level| level.list) {
            list.writer.discard().discard();
            // The error that led here is told.
            let _ = close_up(&list.dir, list.closed, &list.path);
        }
    }
}

/// Lets the owner of `dir` make entries in it; returns what it was, if that had to be changed.
fn open_up(dir: &Dir) -> io::Result<Option<Stat>> {
    let stat = dir.stat_self()?;
    Ok(dir.open_up(&stat)?.then_some(stat))
}

/// Takes that back, in the directory `dir`, which is at `path`.
fn close_up(dir: &Dir, closed: Option<Stat>, path: &Path) -> Result<()> {
    let closed = closed.map_or(Ok(()), |stat| dir.close_up(&stat));
    closed.deed("set the permissions of", path)
}

/// True if the chain in `dir`, which is at `path`, has all of these; each must be there.
fn has_chain(dir: &Dir, path: &Path, links: &[ChainLink]) -> Result<bool> {
    let refuse = |why: &'static str| Err(Error::finding("go on with the history in", path, why));
    let is_file = |name: &str| dir.stat(name.as_ref(), false).is_ok_and(|it| it.kind == Kind::File);
    let mut there = Vec::new();
    if is_file(CHAIN) {
        let file = dir
            .open_file(CHAIN.as_ref(), false)
            .deed_at("read the chain of generations", || path.join(CHAIN))?;
        there = read_chain(Uninterrupted(file), &path.join(CHAIN))?;
        there.sort_by_key(|link| link.number);
        if !links.starts_with(&there) {
            return refuse("it was changed meanwhile");
        }
    }
    match links.iter().all(|link| is_file(&link.name)) {
        true => Ok(there.len() == links.len()),
        false => refuse("one of its generations is not there"),
    }
}

// The digests of directories, by ASC MHL: of the digests of what is in them (content), and of these with the names
// (structure), both in the order of the digests.
//
// The digests of a directory of a million files have no room in memory. So everything is sorted by the depth of its
// directory, the deepest first, then by that directory and by digest: then each directory is one stretch that is
// hashed as it is read, and what comes of it is sorted into the level above.

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
