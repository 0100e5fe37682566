//! The histories that a run goes on with: those of the source, which the copy brings along, and those at the output.
//!
//! A chain at the output must begin with that of the source, or the other way round; else the two have gone apart, and
//! no chain can have both. Each generation must be what its chain says, and what those above refer to must be there, or
//! the history was touched.

use std::{collections::BTreeMap, collections::BTreeSet, fs::File, io, io::Read};

use crate::error::Deed;
use crate::{
    copy::media::one_history::DEED, copy::media::one_history::GenerationsSay,
    copy::media::one_history::HistoryRoot, copy::media::one_history::OneHistory,
    copy::media::one_history::Reference, copy::media::one_history::touched, copy::media::sorter,
    error::Error, error::Result, event::Stop, hash::Algorithm, hash::Algorithms, hash::Digest,
    hash::Sha256, manifest::ChainLink, manifest::MhlEntry, manifest::archive::mhl::HISTORY,
    path::RelPath, path::Shown, state::Secret, sys::Dir, sys::Uninterrupted, tree::JoinReader,
    tree::PathRecord, tree::SortedRecords, tree::Sorter, tree::by_path,
};

/// Where histories are looked for.
#[derive(Clone, Copy)]
pub struct HistorySides<'a> {
    pub source: HistoryRoot<'a>,
    pub output: Option<HistoryRoot<'a>>,
    /// By which generations of runs of this output are known.
    pub mark: Option<OwnMark>,
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
    /// The records of each path, as [`KnownFile`] reads them.
    pub known: SortedRecords,
    /// What they refer to.
    references: BTreeSet<Reference>,
}

impl Histories {
    /// Reads the histories at these directories of the source and of the output.
    ///
    /// # Errors
    /// One cannot be gone on with.
    pub fn read(sides: HistorySides<'_>, dirs: &BTreeSet<RelPath>, stop: &Stop) -> Result<Self> {
        let HistorySides { source, output, mark } = sides;
        let mut says = GenerationsSay::default();
        let mut all = BTreeMap::new();
        let mut known = sorter(by_path);
        for rel in dirs {
            let at = |root: Option<HistoryRoot<'_>>| root.map(|root| OneHistory::open(root, rel));
            let mut of_source = at(Some(source)).transpose()?.flatten();
            if let Some(history) = &mut of_source {
                history.settle(None, None)?;
            }
            let mut of_output = at(output).transpose()?.flatten();
            if let Some(history) = &mut of_output {
                history.settle(of_source.as_ref(), mark.as_ref())?;
            }
            if of_source.is_none() && of_output.is_none() {
                continue;
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
                    side.generation(link, rel, &mut known, &mut says)?;
                    history.patterns.clone_from(&says.patterns);
                }
            }
            all.insert(rel.clone(), history);
        }
        // Where it is to stop, not all was read that may be referred to.
        let references = if stop.is_requested() { BTreeSet::new() } else { says.references };
        Ok(Self { all, known: known.finish().deed(DEED, source.path)?, references })
    }

    /// Refuses those that refer to what is not there, where all that are there were read: each generation of a chain is
    /// what the chain says.
    ///
    /// # Errors
    /// One does.
    pub fn hold(&self) -> Result<()> {
        let Self { all, references, .. } = self;
        for Reference { of, name, digest, from } in references {
            let is_it = |link: &ChainLink| {
                link.name == *name && link.digest.is_some_and(|it| it.to_string() == *digest)
            };
            if !all.get(of).is_some_and(|history| history.links.iter().any(is_it)) {
                let path = [of.as_bytes(), HISTORY.as_bytes(), name.as_bytes()];
                let path = path.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
                let shown = Shown::bytes(&path.join(&b'/')).to_string();
                let why = format!(
                    "it refers to {shown}, which is not there as it was, or not in its chain"
                );
                return Err(touched(from, &why));
            }
        }
        Ok(())
    }

    /// The algorithms by which all files that are known can be told, if these are computed anyway.
    ///
    /// # Errors
    /// Fails if the sorted records cannot be read.
    pub fn algorithms(&self, asked: Algorithms) -> io::Result<Algorithms> {
        let (mut known, mut algorithms) = (JoinReader::of(&self.known)?, asked);
        while let Some(first) = known.peek() {
            let path = first.path.to_vec();
            let len = first.text().split(' ').next().and_then(|len| len.parse().ok()).unwrap_or(0);
            let of = RelPath::parse(path.get(..len).unwrap_or_default()).unwrap_or_default();
            let file = KnownFile::read(&mut known, &path, &of)?;
            let strongest = file.digests.iter().map(Digest::algorithm).min();
            algorithms = strongest.map_or(algorithms, |it| algorithms.with(it));
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

// What histories say of the files that they list, as records in the order of paths.

/// A history's record of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownFile {
    /// Digests that may be used, those of the first generations first.
    pub digests: Vec<Digest>,
    /// True if it is listed at all.
    pub is_listed: bool,
    /// True if it has another name in a later generation.
    pub is_renamed: bool,
}

/// The marks of a record: the path has no digest that may be used, or it has another name now.
const NO_DIGEST: &str = "-";
const RENAMED: &str = ">";

impl KnownFile {
    /// The record of `path`, which is the next one, in the history of the directory at `of`.
    ///
    /// # Errors
    /// Fails if the sorted records cannot be read.
    pub fn read(known: &mut JoinReader, path: &[u8], of: &RelPath) -> io::Result<Self> {
        let mut file = Self::default();
        while let Some(record) = known.take_of(path)? {
            file.add(PathRecord::of(&record).text(), of);
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
pub fn add(known: &mut Sorter, rel: &RelPath, number: u64, entry: &MhlEntry) -> io::Result<()> {
    let below = |path: &str| match rel.is_root() {
        true => path.as_bytes().to_vec(),
        false => [rel.as_bytes(), b"/", path.as_bytes()].concat(),
    };
    let head = format!("{:05} {number:06}", rel.as_bytes().len());
    let path = below(&entry.path);
    if entry.digests.is_empty() {
        known.add(format!("{head} {NO_DIGEST}"), &path)?;
    }
    for digest in &entry.digests {
        known.add(format!("{head} {} {digest}", digest.algorithm().name()), &path)?;
    }
    match entry.previous.as_deref().filter(|previous| *previous != entry.path) {
        Some(previous) => known.add(format!("{head} {RENAMED}"), &below(previous)),
        None => Ok(()),
    }
}

// The mark by which the runs of an output know a generation for theirs: a sum at its end, over the private secret of
// the output and all that comes before.
//
// A run that is killed between the names of a generation and of its chain leaves a generation that the chain does not
// have. The next run goes on with it by its mark. It holds for this place in this history only, so that neither a
// generation of another one nor one that was planted is believed.

/// The text around the sum: a comment of XML.
const HEAD: &str = "<!-- dircopy ";
const TAIL: &str = " -->\n";

/// The bytes of a mark.
const LEN: u64 = (HEAD.len() + 2 * Sha256::LEN + TAIL.len()) as u64;

/// The mark that shows and proves that generations are of this user's runs.
#[derive(Clone, Copy)]
pub struct OwnMark(Sha256);

impl OwnMark {
    /// By the secret of an output.
    pub fn by(secret: &Secret) -> Self {
        Self(secret.of_generations())
    }

    /// The mark of the generation `name` that comes after `last`, with this digest of all that is before the mark.
    pub fn text(&self, name: &str, last: Option<&ChainLink>, digest: &Digest) -> String {
        let last = last.and_then(|link| link.digest).map(|it| it.to_string()).unwrap_or_default();
        let all = format!("{name}\0{last}\0{digest}");
        format!("{HEAD}{}{TAIL}", Sha256::of(&[&self.0.0, all.as_bytes()]))
    }

    /// The digest of the generation `name` that comes after `last`, if it has this mark.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn proves(
        &self,
        file: &File,
        name: &str,
        last: Option<&ChainLink>,
    ) -> io::Result<Option<Digest>> {
        let Some(len) = Dir::stat_file(file)?.size.checked_sub(LEN) else { return Ok(None) };
        let mut hasher = Algorithm::C4.start();
        let (mut input, mut room, mut left) = (Uninterrupted(file), vec![0; 64 << 10], len);
        while left > 0 {
            let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = input.read(&mut room[..most])?;
            if got == 0 {
                return Ok(None);
            }
            hasher.update(&room[..got]);
            left -= got as u64;
        }
        let mut mark = Vec::new();
        input.take(LEN + 1).read_to_end(&mut mark)?;
        let Some(digest) = hasher.clone().finish() else { return Ok(None) };
        if mark != self.text(name, last, &digest).as_bytes() {
            return Ok(None);
        }
        hasher.update(&mark);
        Ok(hasher.finish())
    }
}
