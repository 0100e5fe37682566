//! The histories that a run goes on with: those of the source, which the copy brings along, and those at the output.
//!
//! A chain at the output must begin with that of the source, or the other way round; else the two have gone apart, and
//! no chain can have both. Each generation must be what its chain says, or the history was touched.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::copy::media::records::{PathReader, PathRecord, PathSorter};
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::{Algorithm, Algorithms, Digest, Hasher};
use crate::manifest::archive::mhl::{CHAIN, HISTORY, MhlEntries, MhlEntry, MhlPiece, Named};
use crate::manifest::archive::mhl_chain::{ChainLink, read_chain};
use crate::path::RelPath;
use crate::sys::stat::Kind;
use crate::sys::{Dir, DirReader, Uninterrupted};
use crate::tree::names::sorter::SortedRecords;

const DEED: &str = "go on with the history in";

/// A tree in which there are histories.
#[derive(Clone, Copy)]
pub struct HistoryRoot<'a> {
    pub dir: &'a Dir,
    pub path: &'a Path,
}

/// A history that a run goes on with.
#[derive(Clone, Debug, Default)]
pub struct OpenHistory {
    /// Its generations, from the first.
    pub links: Vec<ChainLink>,
    /// The patterns of what it leaves out.
    pub patterns: Vec<String>,
}

/// All histories that a run goes on with.
#[derive(Debug)]
pub struct Histories {
    /// By the directories that they are of.
    pub all: BTreeMap<RelPath, OpenHistory>,
    /// What they say of each path, as [`KnownFile`] reads it.
    pub known: SortedRecords,
}

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

impl Histories {
    /// Reads the histories at these directories of the source and of the output.
    ///
    /// # Errors
    /// One cannot be gone on with.
    pub fn read(
        source: HistoryRoot<'_>,
        output: Option<HistoryRoot<'_>>,
        dirs: &BTreeSet<RelPath>,
        stop: &Stop,
    ) -> Result<Self> {
        let mut all = BTreeMap::new();
        let mut known = PathSorter::by_path();
        for rel in dirs {
            let at = |root: Option<HistoryRoot<'_>>| root.map(|root| OneHistory::open(root, rel));
            let of_source = at(Some(source)).transpose()?.flatten();
            let mut of_output = at(output).transpose()?.flatten();
            if let Some(history) = &mut of_output {
                history.take_unchained(of_source.as_ref())?;
            }
            let links = together(of_source.as_ref(), of_output.as_ref())?;
            let mut history = OpenHistory { links, patterns: Vec::new() };
            for link in &history.links {
                if stop.is_requested() {
                    break;
                }
                // That of the source first: what is damaged at the output is copied anew.
                let sides = [&of_source, &of_output].into_iter().flatten();
                let mut has = sides.filter(|side| side.links.contains(link));
                if let Some(side) = has.next() {
                    history.patterns = side.generation(link, rel, &mut known)?;
                }
            }
            all.insert(rel.clone(), history);
        }
        let fail = |error| Error::io(DEED, source.path, error);
        Ok(Self { all, known: known.finish().map_err(fail)? })
    }

    /// The algorithms by which all files that are known can be told, if these are computed anyway.
    ///
    /// # Errors
    /// What was sorted cannot be read.
    pub fn algorithms(&self, asked: Algorithms) -> io::Result<Algorithms> {
        let (mut known, mut algorithms) = (PathReader::of(&self.known)?, asked);
        while let Some(first) = known.peek() {
            let path = first.path.to_vec();
            let len = first.words.split(' ').next().and_then(|len| len.parse().ok()).unwrap_or(0);
            let of = RelPath::parse(path.get(..len).unwrap_or_default()).unwrap_or_default();
            let file = KnownFile::read(&mut known, &path, &of)?;
            let mut its = file.digests.iter().map(Digest::algorithm);
            if !its.clone().any(|algorithm| algorithms.has(algorithm)) {
                algorithms = its.next().map_or(algorithms, |it| algorithms.with(it));
            }
        }
        Ok(algorithms)
    }

    /// The directory whose history a path belongs to.
    pub fn closest(&self, path: &RelPath) -> RelPath {
        let mut at = path.split().map(|(dir, _)| dir);
        while let Some(dir) = at {
            if dir.is_root() || self.all.contains_key(&dir) {
                return dir;
            }
            at = dir.split().map(|(dir, _)| dir);
        }
        RelPath::root()
    }
}

/// The chain of both.
fn together(source: Option<&OneHistory>, output: Option<&OneHistory>) -> Result<Vec<ChainLink>> {
    let (Some(source), Some(output)) = (source, output) else {
        return Ok(source.or(output).map(|it| it.links.clone()).unwrap_or_default());
    };
    match () {
        () if output.links.starts_with(&source.links) => Ok(output.links.clone()),
        () if source.links.starts_with(&output.links) => Ok(source.links.clone()),
        () => {
            let finding = "it has generations that the one of the source has not, and the other way round; copy to another \
                           output, or without --format mhl; nothing was touched";
            Err(Error::finding(DEED, &output.path, finding))
        }
    }
}

/// A history on one side.
struct OneHistory {
    dir: Dir,
    path: PathBuf,
    links: Vec<ChainLink>,
}

impl OneHistory {
    /// Opens the history of the directory `rel`, if it has one.
    fn open(root: HistoryRoot<'_>, rel: &RelPath) -> Result<Option<Self>> {
        let path = rel.full_path(root.path).join(HISTORY);
        let above = if rel.is_root() { root.dir.try_clone() } else { root.dir.open_below(rel) };
        let opened = above.and_then(|above| {
            let dir = above.open_dir(HISTORY.as_ref(), false)?;
            match dir.stat(CHAIN.as_ref(), false)?.kind {
                Kind::File => Ok((dir.open_file(CHAIN.as_ref(), false)?, dir)),
                _ => Err(io::ErrorKind::InvalidInput.into()),
            }
        });
        let (chain, dir) = match opened {
            Ok(opened) => opened,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(Error::io(DEED, path, error)),
        };
        let mut links = read_chain(Uninterrupted(chain), &path.join(CHAIN))?;
        links.sort_by_key(|link| link.number);
        let is_next = |(link, number): (&ChainLink, u64)| {
            link.number == number && link.digest.is_some_and(|it| it.algorithm() == Algorithm::C4)
        };
        if !links.iter().zip(1..).all(is_next) {
            let finding =
                "its chain has a gap, or a generation without its C4 digest; nothing was touched";
            return Err(Error::finding(DEED, path, finding));
        }
        Ok(Some(Self { dir, path, links }))
    }

    /// Takes a generation behind the last one that the chain does not have: a run was killed before it could replace
    /// the chain. All programs take it for a part of the history. One that came from the source has its place there.
    fn take_unchained(&mut self, source: Option<&Self>) -> Result<()> {
        let fail = |error| Error::io("list", &self.path, error);
        let number = self.links.len() as u64 + 1;
        let here = self.dir.open_dir(".".as_ref(), false).map_err(fail)?;
        let (mut reader, mut found) = (DirReader::default(), Vec::new());
        loop {
            let batch = reader.next_batch(&here).map_err(fail)?;
            if batch.is_empty() {
                break;
            }
            let is_next = |name: &&str| {
                let digits = name.split(['_', '.']).next().unwrap_or_default();
                name.ends_with(".mhl") && digits.parse() == Ok(number)
            };
            let names = batch.iter().filter_map(|entry| entry.name.to_str()).filter(is_next);
            found.extend(names.map(str::to_owned));
        }
        let of_source =
            |name: &String| source.is_some_and(|it| it.links.iter().any(|l| l.name == *name));
        let [name] = &found[..] else { return Ok(()) };
        let is_file = self.dir.stat(name.as_ref(), false).is_ok_and(|it| it.kind == Kind::File);
        if of_source(name) || !is_file {
            return Ok(());
        }
        let file = self.dir.open_file(name.as_ref(), false).map_err(fail)?;
        let mut input = Hashed { input: Uninterrupted(file), hasher: Algorithm::C4.start() };
        io::copy(&mut input, &mut io::sink()).map_err(fail)?;
        let digest = input.hasher.finish();
        self.links.push(ChainLink { number, name: name.clone(), digest });
        Ok(())
    }

    /// Adds what a generation says to `known`; returns its patterns.
    fn generation(
        &self,
        link: &ChainLink,
        rel: &RelPath,
        known: &mut PathSorter,
    ) -> Result<Vec<String>> {
        let path = self.path.join(&link.name);
        let fail = |error| Error::io("read the generation", &path, error);
        let refuse =
            |why: String| Err(Error::finding(DEED, &path, format!("{why}; nothing was touched")));
        if !self.dir.stat(link.name.as_ref(), false).is_ok_and(|it| it.kind == Kind::File) {
            return refuse("it is in the chain, and there is no such file".into());
        }
        let file = self.dir.open_file(link.name.as_ref(), false).map_err(fail)?;
        let mut input = Hashed { input: Uninterrupted(file), hasher: Algorithm::C4.start() };
        let mut pieces = MhlEntries::new(&mut input);
        let mut patterns = Vec::new();
        while let Some((line, piece)) = pieces.next_piece().map_err(fail)? {
            match piece {
                MhlPiece::Fault(fault) => return refuse(format!("line {line}: {fault}")),
                MhlPiece::Ignored(pattern) => patterns.push(pattern),
                MhlPiece::Entry(entry) if entry.named == Named::File => {
                    if RelPath::parse(entry.path.as_bytes()).is_err() {
                        return refuse(format!("line {line}: a path leads out of its directory"));
                    }
                    add(known, rel, link.number, &entry).map_err(fail)?;
                }
                MhlPiece::Entry(_) => {}
            }
        }
        drop(pieces);
        io::copy(&mut input, &mut io::sink()).map_err(fail)?;
        if input.hasher.finish() != link.digest {
            return refuse("it is not what the chain says; it was touched, or is damaged".into());
        }
        Ok(patterns)
    }
}

/// Adds an entry of a generation of the history of `rel`.
fn add(known: &mut PathSorter, rel: &RelPath, number: u64, entry: &MhlEntry) -> io::Result<()> {
    let below = |path: &str| match rel.is_root() {
        true => path.as_bytes().to_vec(),
        false => [rel.as_bytes(), b"/", path.as_bytes()].concat(),
    };
    let head = format!("{:05} {number:06}", rel.as_bytes().len());
    let what = match entry.digest {
        Some(digest) => format!("{head} {} {digest}", digest.algorithm().name()),
        None => format!("{head} {NO_DIGEST}"),
    };
    known.add(&what, &below(&entry.path))?;
    match entry.previous.as_deref().filter(|previous| *previous != entry.path) {
        Some(previous) => known.add(&format!("{head} {RENAMED}"), &below(previous)),
        None => Ok(()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Hashes what is read.
struct Hashed<R> {
    input: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(room)?;
        self.hasher.update(&room[..len]);
        Ok(len)
    }
}
