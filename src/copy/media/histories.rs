//! The histories that a run goes on with: those of the source, which the copy brings along, and those at the output.
//!
//! A chain at the output must begin with that of the source, or the other way round; else the two have gone apart, and
//! no chain can have both. Each generation must be what its chain says, and what those above refer to must be there, or
//! the history was touched.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::copy::media::known::KnownFile;
use crate::copy::media::one_history::{
    DEED, GenerationsSay, HistoryRoot, OneHistory, Reference, touched,
};
use crate::copy::media::own_mark::OwnMark;
use crate::copy::media::records::{PathReader, PathSorter};
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::{Algorithms, Digest};
use crate::manifest::archive::mhl::HISTORY;
use crate::manifest::archive::mhl_chain::ChainLink;
use crate::path::{RelPath, Shown};
use crate::tree::names::sorter::SortedRecords;

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
    /// What they say of each path, as [`KnownFile`] reads it.
    pub known: SortedRecords,
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
        let mut known = PathSorter::by_path();
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
        if !stop.is_requested() {
            hold(&says.references, &all)?;
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

/// Refuses a history that refers to what is not there: each generation of a chain was read, and is what the chain says.
fn hold(references: &BTreeSet<Reference>, all: &BTreeMap<RelPath, OpenHistory>) -> Result<()> {
    for Reference { of, name, digest, from } in references {
        let is_it = |link: &ChainLink| {
            link.name == *name && link.digest.is_some_and(|it| it.to_string() == *digest)
        };
        if !all.get(of).is_some_and(|history| history.links.iter().any(is_it)) {
            let path = [of.as_bytes(), HISTORY.as_bytes(), name.as_bytes()];
            let path = path.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
            let shown = Shown::bytes(&path.join(&b'/')).to_string();
            let why =
                format!("it refers to {shown}, which is not there as it was, or not in its chain");
            return Err(touched(from, &why));
        }
    }
    Ok(())
}
