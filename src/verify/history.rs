//! A history of ASC MHL before its lists are read: its chain, its generations, and the histories further below.
//!
//! The chain is a list of the generations, which are checked by it as files are. A generation that refers to one of
//! a history further below lists that one as a file, and that history is checked too, as are those that no generation
//! refers to. With another directory than its own, the files of that are held against it; what it refers to is looked
//! for where it lies itself.

use std::{borrow::Cow, collections::BTreeSet, io, path::Path, sync::Arc};

use crate::manifest::archive::{bag, mhl::CHAIN, mhl::HISTORY, mhl::is_history, mhl::read_chain};
use crate::{
    error::Deed, error::Error, event::Stop, hash::Algorithm, manifest::ChainLink,
    manifest::Declaration, manifest::MhlEntries, manifest::MhlPiece, manifest::Named,
    path::RelPath, sys::Dir, sys::DirListing, sys::stat::Kind, tree::EntryBelow,
    tree::pass::each_below, verify::Expanded, verify::Finding, verify::ManifestAt, verify::Target,
    verify::TargetSpec, verify::expand::open, verify::expand::root_of,
};

/// Number of files that are named as not in the chain.
const MOST_OTHERS: usize = 100_000;

/// Largest number of histories below one.
const MOST_BELOW: usize = 10_000;

/// Puts the lists of a history, and of those further below, in the place of what was asked for.
pub fn expand(spec: &TargetSpec, expanded: &mut Expanded) {
    let root = root_of(spec, usize::from(spec.manifest.is_some()));
    // The copy that the history is held against, if it is.
    let copy = spec.root.as_ref().or(spec.dir.as_ref()).filter(|_| spec.manifest.is_some());
    let mut waiting = BTreeSet::from([RelPath::root()]);
    let mut known = BTreeSet::new();
    let top = match Dir::open(&root) {
        Ok(top) => top,
        Err(error) => {
            let error = Error::io("open the directory", &root, error);
            return expanded.unusable(&Arc::new(Target::none()), error);
        }
    };
    match find_below(&top, &root, &mut waiting) {
        Ok(emptied) => emptied.into_iter().for_each(|below| {
            let at = below.full_path(&root).join(HISTORY);
            let why = "it is the directory of a history, and has neither a chain nor a generation: put these back, or \
                       remove it if there was none";
            let error = Error::finding("take for complete", at, why);
            expanded.found(&Arc::new(Target::none()), Finding::Incomplete(error));
        }),
        Err(error) => expanded.found(&Arc::new(Target::none()), Finding::Unsearched(error)),
    }
    while let Some(below) = waiting.pop_first() {
        let at = below.full_path(&root);
        // Not through links, which may lead elsewhere.
        let opened = top.open_below(&below).and_then(|dir| {
            let target = dir.try_clone()?;
            Ok((dir.open_dir(HISTORY.as_ref(), false)?, target))
        });
        let (dir, kept) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let error = Error::io("open the history", at.join(HISTORY), error);
                expanded.unusable(&Arc::new(Target::none()), error);
                continue;
            }
        };
        known.insert(below.clone());
        let files = copy.map(|copy| below.full_path(copy));
        let history = History { root: &at, copy: files.as_deref(), dir: &dir, spec };
        let target = Target::of_dir(at.join(HISTORY).join(CHAIN), at.clone(), kept, PartOf::Alone);
        let target = match target {
            Ok(target) => Arc::new(target),
            Err(error) => {
                expanded.unusable(&Arc::new(Target::none()), error);
                continue;
            }
        };
        for child in history.add(&target, expanded) {
            let below = below.as_bytes();
            let child = if below.is_empty() { child } else { [below, b"/", &child].concat() };
            let Ok(child) = RelPath::parse(&child) else { continue };
            if !known.contains(&child) && known.len() + waiting.len() < MOST_BELOW {
                waiting.insert(child);
            }
        }
    }
}

/// Adds the directories that have histories: also those that no generation refers to. Returns those of which the
/// history is gone, but for its directory.
fn find_below(
    top: &Dir,
    root: &Path,
    found: &mut BTreeSet<RelPath>,
) -> Result<Vec<RelPath>, Error> {
    let mut emptied = Vec::new();
    let fail = |(at, error): (RelPath, _)| Error::io("list", at.full_path(root), error);
    let mut see = |entry: Result<EntryBelow<'_>, _>| {
        let entry = entry.map_err(fail)?;
        let is_dir = entry.kind == Kind::Dir;
        if is_dir && *entry.name == *HISTORY {
            let history = entry.dir.open_dir(HISTORY.as_ref(), false);
            match history.is_ok_and(|history| is_history(&history)) {
                true if found.len() < MOST_BELOW => drop(found.insert(entry.above.path())),
                // What is wrong with the outermost is told when it is read.
                false if emptied.len() < MOST_BELOW && !entry.above.is_root() => {
                    emptied.push(entry.above.path());
                }
                _ => {}
            }
            return Ok(false);
        }
        Ok(is_dir)
    };
    each_below(top, &Stop::default(), &mut see).map(|_| emptied)
}

/// One history.
struct History<'a> {
    root: &'a Path,
    /// Where the files are that it lists, if it is held against a copy.
    copy: Option<&'a Path>,
    dir: &'a Dir,
    spec: &'a TargetSpec,
}

impl History<'_> {
    /// Adds its chain and its generations, the newest first; returns the directories below it that its
    /// generations say to have histories.
    fn add(&self, target: &Arc<Target>, expanded: &mut Expanded) -> BTreeSet<Vec<u8>> {
        let at = self.root.join(HISTORY);
        let mut below = BTreeSet::new();
        let mut generations = match self.chain(&at.join(CHAIN)) {
            Ok(generations) => generations,
            Err(error) => {
                expanded.unusable(target, error);
                return below;
            }
        };
        expanded.specs.push(TargetSpec {
            manifest: Some(ManifestAt::File(at.join(CHAIN))),
            root: Some(at.clone()),
            ..self.spec.clone()
        });
        generations.sort_by_key(|generation| std::cmp::Reverse(generation.number));
        let count = generations.len() as u64;
        for (at, generation) in generations.iter().enumerate() {
            if generation.number != count - at as u64 {
                let why = "the numbers of its generations have a gap, or one twice";
                let error = Error::finding("take for complete", &target.manifest, why);
                expanded.found(target, Finding::Incomplete(error));
                break;
            }
        }
        let generation_of = |generation: &ChainLink, root: &Path, newest, entries| TargetSpec {
            manifest: Some(ManifestAt::File(at.join(&generation.name))),
            root: Some(root.to_owned()),
            part: PartOf::Generation { newest, entries },
            ..self.spec.clone()
        };
        let (files, entries) = match self.copy {
            Some(copy) => (copy, GenerationEntries::Files),
            None => (self.root, GenerationEntries::All),
        };
        let mut apart = Vec::new();
        for (number, generation) in generations.iter().enumerate() {
            expanded.specs.push(generation_of(generation, files, number == 0, entries));
            // What is wrong with it is told when it is read for the check.
            let has_references = self.references(generation, &mut below).unwrap_or(true);
            if self.copy.is_some() && has_references {
                let entries = GenerationEntries::References;
                apart.push(generation_of(generation, self.root, false, entries));
            }
        }
        expanded.specs.extend(apart);
        let names = generations.into_iter().map(|generation| generation.name).collect();
        match self.unchained(&names) {
            Ok(others) => others.into_iter().for_each(|name| {
                let path = RelPath::root().join(HISTORY.as_ref()).join(name.as_ref());
                expanded.found(target, Finding::Unlisted(path));
            }),
            Err(error) => {
                let error = Error::io("look for manifests in", &at, error);
                expanded.found(target, Finding::Unsearched(error));
            }
        }
        below
    }

    /// Reads the chain. Its faults are told when it is read as a list.
    fn chain(&self, path: &Path) -> Result<Vec<ChainLink>, Error> {
        read_chain(open(self.dir, CHAIN).deed("read the chain of generations", path)?, path)
    }

    /// Adds the directories of the histories that a generation refers to. Returns whether it refers to any.
    fn references(
        &self,
        generation: &ChainLink,
        below: &mut BTreeSet<Vec<u8>>,
    ) -> io::Result<bool> {
        let mut has_references = false;
        let mut pieces = MhlEntries::new(open(self.dir, &generation.name)?);
        while let Some((_, piece)) = pieces.next_piece()? {
            let MhlPiece::Entry(entry) = piece else { continue };
            if entry.named != Named::Reference {
                continue;
            }
            has_references = true;
            let child = entry.path.rsplit_once('/').and_then(|(dir, _)| dir.rsplit_once('/'));
            if let Some((child, name)) = child
                && name == HISTORY
                && below.len() < MOST_BELOW
                && RelPath::parse(child.as_bytes()).is_ok()
            {
                below.insert(child.as_bytes().to_vec());
            }
        }
        Ok(has_references)
    }

    /// The names of generations that are not in the chain.
    fn unchained(&self, chained: &BTreeSet<String>) -> io::Result<Vec<String>> {
        let mut others = Vec::new();
        for entry in DirListing::of(self.dir)? {
            let name = entry?.name;
            let Some(name) = name.to_str() else { continue };
            let is_generation = name.ends_with(".mhl") && !name.starts_with('.');
            if is_generation && !chained.contains(name) && others.len() < MOST_OTHERS {
                others.push(name.to_owned());
            }
        }
        others.sort_unstable();
        Ok(others)
    }
}

/// The archive that a list is a part of, which says how the list is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartOf {
    /// A list alone, whose kind shows by its content.
    #[default]
    Alone,
    /// A manifest of a bag.
    Bag(BagPart),
    /// A generation of a history. What newer ones list is checked by these alone.
    Generation {
        /// True for the newest generation.
        newest: bool,
        /// The entries that are read.
        entries: GenerationEntries,
    },
}

/// The entries of a generation that are read. The histories that it refers to may lie elsewhere than its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationEntries {
    /// All of them, where both lie below one directory.
    All,
    /// Those of files, and all else that it says.
    Files,
    /// Those of generations of histories further below, and nothing else.
    References,
}

/// A manifest of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BagPart {
    /// True if it lists tag files, not the payload.
    pub is_tag: bool,
    /// The algorithm of its digests; none if it is not known here.
    pub algorithm: Algorithm,
    /// The content of `bagit.txt`.
    pub declaration: Declaration,
}

impl PartOf {
    /// True if it may list nothing.
    pub fn may_be_empty(self) -> bool {
        self != PartOf::Alone
    }

    /// True if only the references to other generations are read, which lie elsewhere than the files.
    pub fn is_references(self) -> bool {
        matches!(self, PartOf::Generation { entries: GenerationEntries::References, .. })
    }

    /// True if entries for what is `named` are read; `None` stands for lines that are no entry.
    pub fn reads(self, named: Option<Named>) -> bool {
        let PartOf::Generation { entries, .. } = self else { return true };
        match entries {
            GenerationEntries::All => true,
            GenerationEntries::Files => named != Some(Named::Reference),
            GenerationEntries::References => named == Some(Named::Reference),
        }
    }

    /// The kind of bag manifest, if it is one.
    pub fn bag(self) -> Option<BagPart> {
        match self {
            PartOf::Bag(bag) => Some(bag),
            _ => None,
        }
    }
}

impl PartOf {
    /// True if parity of a directory with these lists is of this one: the only one, or of a bag that of its payload
    /// with the strongest digests.
    pub fn is_protected_of(self, lists: &[PartOf]) -> bool {
        let payload = |part: &PartOf| part.bag().filter(|bag| !bag.is_tag);
        match (self.bag(), payload(&self)) {
            (None, _) => lists.len() == 1,
            (_, own) => own.is_some_and(|own| {
                lists.iter().filter_map(payload).all(|bag| own.algorithm <= bag.algorithm)
            }),
        }
    }
}

impl BagPart {
    /// Why a name must not be listed here, if it must not.
    pub fn refuses(&self, name: &[u8]) -> Option<&'static str> {
        let is_payload = name.starts_with(b"data/");
        match self.is_tag {
            false if !is_payload => Some("it is not below data/"),
            true if is_payload => Some("it is a file of the payload, in a list of tag files"),
            true if name.starts_with(b"~") => Some("it starts with \"~\""),
            true if name.starts_with(b"tagmanifest-") => Some("it is a list of tag files itself"),
            _ => None,
        }
    }

    /// The spelling of the name by other programs: some do not escape `%`, and some escape line ends where it is not
    /// due.
    pub fn other_spelling(&self, path: &RelPath) -> Option<RelPath> {
        let name = path.as_bytes();
        let other = match self.declaration.escapes() {
            true => Cow::Owned(bag::escaped(name)),
            false => bag::unescaped(Cow::Borrowed(name)),
        };
        RelPath::parse(&other).ok().filter(|_| *other != *name)
    }
}
