//! A history on one side of a copy: its chain, its generations, and whether it was touched.
//!
//! The chain must have all generations that are there, and each must be what its chain says. Whatever else is there
//! was touched, and no run goes on with it: what it lists would be believed from then on.

use std::{collections::BTreeSet, io, path::Path, path::PathBuf};

use jiff::Timestamp;

use crate::manifest::archive::mhl::{
    CHAIN, HISTORY, OF_HISTORIES, OF_LEGACY, generations, number_of, read_chain,
};
use crate::{
    copy::media::histories::Histories, copy::media::histories::OwnMark,
    copy::media::histories::add, error::Error, error::Result, error::is_absent, hash::Algorithm,
    hash::Algorithms, hash::Hashed, manifest::ChainLink, manifest::ListFormat,
    manifest::MhlEntries, manifest::MhlEntry, manifest::MhlPiece, manifest::Named, path::RelPath,
    path::Shown, sys::Dir, sys::Uninterrupted, sys::stat::Kind, tree::Filter, tree::Pattern,
    tree::Sorter,
};

pub const DEED: &str = "go on with the history in";

/// So many generations of histories further below may be referred to.
const MOST_REFERENCES: usize = 100_000;

/// A tree in which there are histories.
#[derive(Clone, Copy)]
pub struct HistoryRoot<'a> {
    pub dir: &'a Dir,
    pub path: &'a Path,
}

/// A generation of a history further below that another one refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The directory that it is of.
    pub of: RelPath,
    pub name: String,
    /// Its digest, in words.
    pub digest: String,
    /// The generation that refers to it.
    pub from: PathBuf,
}

/// The lines of the generations besides the files that they list.
#[derive(Default)]
pub struct GenerationsSay {
    /// The patterns of the last one.
    pub patterns: Vec<String>,
    pub references: BTreeSet<Reference>,
}

/// A history on one side.
pub struct OneHistory {
    dir: Dir,
    pub path: PathBuf,
    pub links: Vec<ChainLink>,
    /// Generations that the chain does not have.
    unchained: Vec<String>,
}

impl OneHistory {
    /// Opens the history of the directory `rel`, if it has one.
    ///
    /// # Errors
    /// It was touched, or cannot be read.
    pub fn open(root: HistoryRoot<'_>, rel: &RelPath) -> Result<Option<Self>> {
        let path = rel.full_path(root.path).join(HISTORY);
        let fail = |error| Error::io(DEED, &path, error);
        let above = if rel.is_root() { root.dir.try_clone() } else { root.dir.open_below(rel) };
        let is_dir = above.and_then(|above| Ok((above.stat(HISTORY.as_ref(), false)?.kind, above)));
        let dir = match is_dir {
            Ok((Kind::Dir, above)) => above.open_dir(HISTORY.as_ref(), false).map_err(fail)?,
            Ok((Kind::Symlink, _)) => return Err(touched(&path, "it is a symbolic link")),
            Ok(_) => return Ok(None),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(fail(error)),
        };
        let links = chain(&dir, &path)?;
        let mut unchained = generations(&dir).map_err(fail)?;
        if links.is_none() && unchained.is_empty() {
            return Ok(None);
        }
        let links = links.unwrap_or_default();
        unchained.retain(|name| links.iter().all(|link| link.name != *name));
        Ok(Some(Self { dir, path, links, unchained }))
    }

    /// Refuses generations that the chain does not have, but for those of `source`, which came along with files.
    ///
    /// One behind the last is taken in if a run of this output wrote it, which was killed before it could replace the
    /// chain.
    ///
    /// # Errors
    /// There are such.
    pub fn settle(&mut self, source: Option<&Self>, mark: Option<&OwnMark>) -> Result<()> {
        let of_source =
            |name: &String| source.is_some_and(|it| it.links.iter().any(|l| l.name == *name));
        self.unchained.retain(|name| !of_source(name));
        let Some(name) = self.unchained.first().cloned() else { return Ok(()) };
        let number = self.links.len() as u64 + 1;
        let fail = |error| Error::io("read the generation", self.path.join(&name), error);
        if self.unchained.len() == 1
            && number_of(&name) == Some(number)
            && let Some(mark) = mark
            && let Some(file) = self.regular(&name).map_err(fail)?
            && let Some(digest) = mark.proves(&file, &name, self.links.last()).map_err(fail)?
        {
            self.links.push(ChainLink { number, name, digest: Some(digest) });
            self.unchained.clear();
            return Ok(());
        }
        let name = Shown::bytes(name.as_bytes());
        let why = match self.dir.stat(CHAIN.as_ref(), false) {
            Ok(_) => format!("its chain does not have the generation {name}"),
            Err(_) => format!("it has no chain ({CHAIN}), and there is the generation {name}"),
        };
        Err(touched(&self.path, &why))
    }

    fn regular(&self, name: &str) -> io::Result<Option<std::fs::File>> {
        if !self.dir.stat(name.as_ref(), false).is_ok_and(|it| it.kind == Kind::File) {
            return Ok(None);
        }
        let file = self.dir.open_file(name.as_ref(), false)?;
        Ok((Dir::stat_file(&file)?.kind == Kind::File).then_some(file))
    }

    /// Adds what a generation says to `known` and to `says`.
    ///
    /// # Errors
    /// It was touched, or cannot be read.
    pub fn generation(
        &self,
        link: &ChainLink,
        rel: &RelPath,
        known: &mut Sorter,
        says: &mut GenerationsSay,
    ) -> Result<()> {
        let path = self.path.join(&link.name);
        let fail = |error| Error::io("read the generation", &path, error);
        let refuse = |why: String| Err(touched(&path, &why));
        let Some(file) = self.regular(&link.name).map_err(fail)? else {
            return refuse("it is in the chain, and there is no such file".into());
        };
        let mut input = Hashed::new(Uninterrupted(file), Algorithm::C4);
        let mut pieces = MhlEntries::new(&mut input);
        says.patterns.clear();
        while let Some((line, piece)) = pieces.next_piece().map_err(fail)? {
            match piece {
                MhlPiece::Fault(fault) => return refuse(format!("line {line}: {fault}")),
                MhlPiece::Ignored(pattern) => says.patterns.push(pattern),
                MhlPiece::Entry(entry) if entry.named == Named::File => {
                    if RelPath::parse(entry.path.as_bytes()).is_err() {
                        return refuse(format!("line {line}: a path leads out of its directory"));
                    }
                    add(known, rel, link.number, &entry).map_err(fail)?;
                }
                MhlPiece::Entry(entry) => {
                    let Some(reference) = reference(rel, &entry, &path) else {
                        return refuse(format!("line {line}: it refers to what is no generation"));
                    };
                    says.references.insert(reference);
                    if says.references.len() > MOST_REFERENCES {
                        return refuse("it refers to too many generations".into());
                    }
                }
            }
        }
        drop(pieces);
        io::copy(&mut input, &mut io::sink()).map_err(fail)?;
        if input.digest() != link.digest {
            return refuse("it is not what the chain says; it was touched, or is damaged".into());
        }
        Ok(())
    }
}

/// The error that refuses a history that was touched.
pub fn touched(path: &Path, why: &str) -> Error {
    let finding = format!(
        "{why}; the history was touched or is damaged: put it back as it was, or take the directory {HISTORY} away to \
         begin a new one; nothing was touched"
    );
    Error::finding(DEED, path, finding)
}

/// The generations that the chain in `dir` has, in their order; none without a chain.
fn chain(dir: &Dir, path: &Path) -> Result<Option<Vec<ChainLink>>> {
    let at = path.join(CHAIN);
    let fail = |error| Error::io(DEED, &at, error);
    match dir.stat(CHAIN.as_ref(), false) {
        Ok(stat) if stat.kind == Kind::File => {}
        Ok(_) => return Err(touched(&at, "it is no regular file")),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(fail(error)),
    }
    let file = dir.open_file(CHAIN.as_ref(), false).map_err(fail)?;
    if !Dir::stat_file(&file).is_ok_and(|stat| stat.kind == Kind::File) {
        return Err(touched(&at, "it is no regular file"));
    }
    let mut links = read_chain(Uninterrupted(file), &at)?;
    links.sort_by_key(|link| link.number);
    if links.is_empty() {
        return Err(touched(&at, "it has no generation"));
    }
    let is_next = |(link, number): (&ChainLink, u64)| {
        link.number == number && link.digest.is_some_and(|it| it.algorithm() == Algorithm::C4)
    };
    let names: BTreeSet<&str> = links.iter().map(|link| link.name.as_str()).collect();
    if !links.iter().zip(1..).all(is_next) || names.len() != links.len() {
        let why = "it has a gap, or a generation twice or without its C4 digest";
        return Err(touched(&at, why));
    }
    Ok(Some(links))
}

/// The history that an entry of the generation `from` of the history of `rel` refers to.
fn reference(rel: &RelPath, entry: &MhlEntry, from: &Path) -> Option<Reference> {
    let (dir, name) = entry.path.rsplit_once('/')?;
    let child = if dir == HISTORY { "" } else { dir.strip_suffix(HISTORY)?.strip_suffix('/')? };
    let below = [rel.as_bytes(), child.as_bytes()];
    let both = below.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/');
    let of = if both.is_empty() { RelPath::root() } else { RelPath::parse(&both).ok()? };
    let digest = entry.digest().map(|digest| digest.to_string()).unwrap_or_default();
    Some(Reference { of, name: name.to_owned(), digest, from: from.to_owned() })
}

// What a run that writes a Media Hash List is given: what is known before it begins.

/// The patterns of entries that histories leave out where they say nothing else, and of our own files. Without a `/`
/// before them, because the reference implementation matches whole paths from the root of the file system.
const LEFT_OUT: [&str; 6] = [
    ".DS_Store",
    "ascmhl",
    "ascmhl/",
    ".dircopy",
    ".dircopy-*",
    "dircopy-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T[0-9][0-9][0-9][0-9][0-9][0-9]Z*",
];

/// The inputs of a run that writes a Media Hash List.
#[derive(Debug)]
pub struct MediaRole {
    /// The digests that are listed.
    pub algorithms: Algorithms,
    /// The histories that are gone on with, if that is asked for; else a legacy list is written.
    pub histories: Option<Histories>,
    /// When the run began: all its lists have this time.
    pub started: Timestamp,
}

/// The digests that a list of this form has by `asked`: those of them that it can have, or else a fast one.
pub fn listed(form: ListFormat, asked: Algorithms) -> Algorithms {
    let (of_form, else_by) = match form {
        ListFormat::LegacyMhl => (OF_LEGACY.as_slice(), Algorithm::Xxh64),
        _ => (OF_HISTORIES.as_slice(), Algorithm::Xxh128),
    };
    // They are one digest, and one of the two is computed.
    let asked = if asked.has(Algorithm::Sha512) { asked.with(Algorithm::C4) } else { asked };
    let listed: Algorithms = of_form.iter().copied().filter(|it| asked.has(*it)).collect();
    if listed.is_empty() { listed.with(else_by) } else { listed }
}

/// The patterns of what a new generation leaves out, where older ones had these.
pub fn patterns(older: &[String], of_root: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let ours = LEFT_OUT.iter().map(|pattern| (*pattern).to_owned());
    for pattern in older.iter().chain(of_root).cloned().chain(ours) {
        if !all.contains(&pattern) {
            all.push(pattern);
        }
    }
    all
}

/// The filter that leaves out entries that match these patterns.
///
/// # Errors
/// One is wrong.
pub fn left_out(patterns: &[String]) -> Result<Filter, String> {
    let patterns: Vec<Pattern> = patterns.iter().cloned().map(Pattern::Exclude).collect();
    Filter::new(&patterns)
}

impl MediaRole {
    /// The algorithms that are computed for it beside `asked`.
    pub fn further(&self, asked: Algorithms) -> Algorithms {
        match asked.has(Algorithm::Sha512) {
            true => self.algorithms.without(Algorithm::C4),
            false => self.algorithms,
        }
    }
}
