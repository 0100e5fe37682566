//! What has left the source and is still at the output: few pieces, because a directory that goes with everything in
//! it is one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io::{self, Read};
use std::sync::OnceLock;

use crate::error::Error;
use crate::event::Stop;
use crate::manifest::{Entries, Parsed};
use crate::path::RelPath;
use crate::sys::stat::Stat;
use crate::sys::{Dir, name_from_bytes};
use crate::volume::alike::{form_of, sameness};

/// So many bytes of names are kept; what is beyond goes in a later run.
const MOST_BYTES: usize = 24 << 20;

/// What a name takes besides its own bytes.
const EACH: usize = 96;

/// So many are named when a run is refused.
const MOST_EXAMPLES: usize = 5;

/// An entry of the output that goes, a directory with everything in it.
#[derive(Debug)]
pub struct DepartedItem {
    pub name: OsString,
    /// Files and links in it, or itself.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What has left the source.
#[derive(Debug, Default)]
pub struct Departures {
    /// By the directory it is in.
    dirs: BTreeMap<RelPath, Vec<DepartedItem>>,
    held: usize,
    /// The paths by what those that are alike have in common; made when it is first asked for.
    by_form: OnceLock<HashMap<Vec<u8>, Vec<RelPath>>>,
    /// Directories that have left the source and have part files or journals in them.
    pub with_leftovers: Vec<RelPath>,
    /// What is in the source, but not to be copied or not of this kind; searched for on request.
    pub unfit: Vec<RelPath>,
    /// Directories in which nothing can be changed, because they are protected; searched for on request.
    pub protected: Vec<RelPath>,
    /// That a file system was mounted in the source last time, and not even its directory is there now.
    pub missed: Option<Box<Error>>,
    /// Whether more than that may be in the way of a copy.
    pub may_lack_unfit: bool,
    /// How many items were too many to be kept.
    pub postponed: u64,
    /// Files and links that go.
    pub entries: u64,
    /// How many pieces there are, of which some may be empty directories.
    pub items: u64,
    /// Files and links that are in the source and at the output.
    pub present: u64,
    /// What has no counterpart in the source and stays, because no earlier run listed it.
    pub others: u64,
}

impl Departures {
    /// Nothing has left the source, which has all `present` files and links of the output.
    pub fn none(present: u64) -> Self {
        Self { present, ..Self::default() }
    }

    /// Adds what goes of the directory `dir`.
    pub fn add(&mut self, dir: RelPath, items: Vec<DepartedItem>) {
        let mut kept = Vec::new();
        for item in items {
            self.items += 1;
            self.entries += item.entries;
            let size = item.name.len() + EACH;
            if self.held + size > MOST_BYTES {
                self.postponed += 1;
                continue;
            }
            self.held += size;
            kept.push(item);
        }
        kept.sort_unstable_by(|a, b| a.name.as_encoded_bytes().cmp(b.name.as_encoded_bytes()));
        if !kept.is_empty() {
            self.held += dir.as_bytes().len() + EACH;
            self.dirs.insert(dir, kept);
        }
    }

    /// Notes that part files or journals are in the directory `dir`, which has left the source.
    pub fn add_leftovers(&mut self, dir: RelPath) {
        let size = dir.as_bytes().len() + EACH;
        if self.held + size <= MOST_BYTES {
            self.held += size;
            self.with_leftovers.push(dir);
        }
    }

    /// Notes that what is at `path` is in the way of a copy.
    pub fn add_unfit(&mut self, path: RelPath) {
        let size = path.as_bytes().len() + EACH;
        if self.held + size > MOST_BYTES {
            self.may_lack_unfit = true;
            return;
        }
        self.held += size;
        self.unfit.push(path);
    }

    /// Notes that the directory at `path` is protected.
    pub fn add_protected(&mut self, path: RelPath) {
        let size = path.as_bytes().len() + EACH;
        if self.held + size > MOST_BYTES {
            self.may_lack_unfit = true;
            return;
        }
        self.held += size;
        self.protected.push(path);
    }

    /// Whether nothing has left the source.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// What goes of each directory.
    pub fn dirs(&self) -> impl Iterator<Item = (&RelPath, &[DepartedItem])> {
        self.dirs.iter().map(|(dir, items)| (dir, &**items))
    }

    /// All pieces, by their paths.
    pub fn paths(&self) -> impl Iterator<Item = RelPath> {
        self.dirs().flat_map(|(dir, items)| items.iter().map(|item| dir.join(&item.name)))
    }

    /// The first of them.
    pub fn examples(&self) -> Vec<RelPath> {
        self.paths().take(MOST_EXAMPLES).collect()
    }

    /// Whether the file at `path`, or a directory above it, goes.
    pub fn covers(&self, path: &RelPath) -> bool {
        self.piece_over(path, None).is_some()
    }

    /// The piece that is the file at `path`, or has it in it; by another spelling too, below the root of the `output`.
    pub fn piece_over(&self, path: &RelPath, output: Option<&Dir>) -> Option<RelPath> {
        let mut path = path.clone();
        while let Some((above, _)) = path.split() {
            let piece = self.piece_at(&path, output);
            if piece.is_some() {
                return piece;
            }
            path = above;
        }
        None
    }

    /// The piece that is at `path`. What cannot be looked at is not another spelling of one.
    fn piece_at(&self, path: &RelPath, output: Option<&Dir>) -> Option<RelPath> {
        let (above, name) = path.split()?;
        let by_name = |item: &DepartedItem| item.name.as_encoded_bytes().cmp(name);
        let has = |items: &Vec<DepartedItem>| items.binary_search_by(by_name).is_ok();
        if self.dirs.get(&above).is_some_and(has) {
            return Some(path.clone());
        }
        let output = output?;
        let all = self.by_form.get_or_init(|| {
            let mut all: HashMap<_, Vec<_>> = HashMap::new();
            self.paths()
                .for_each(|path| all.entry(form_of(path.as_bytes())).or_default().push(path));
            all
        });
        let is_one = |goes: &&RelPath| is_respelled(output, path, goes).unwrap_or(false);
        all.get(&form_of(path.as_bytes()))?.iter().find(is_one).cloned()
    }

    /// The pieces that `list` names, or something in them; not all of them once `stop` says so.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn named_in(
        &self,
        list: impl Read,
        output: Option<&Dir>,
        stop: &Stop,
    ) -> io::Result<HashSet<RelPath>> {
        let (mut entries, mut found) = (Entries::of_all(list), HashSet::new());
        // The lines of a directory stand together.
        let mut last: Option<(RelPath, Option<RelPath>)> = None;
        while let Some(entry) = entries.next_entry()? {
            let Parsed::Record(record) = entry.parsed else { continue };
            let Ok(path) = RelPath::parse(record.name) else { continue };
            let Some((above, _)) = path.split() else { continue };
            let piece = match &last {
                Some((dir, piece)) if *dir == above => piece,
                _ if stop.is_requested() => break,
                _ => {
                    let piece = self.piece_over(&above, output);
                    &last.insert((above, piece)).1
                }
            };
            found.extend(piece.clone().or_else(|| self.piece_at(&path, output)));
        }
        Ok(found)
    }
}

/// Whether `path` leads to what is listed at `other`, and nothing is listed at `path`.
fn is_respelled(root: &Dir, path: &RelPath, other: &RelPath) -> io::Result<bool> {
    let stat = |path: &RelPath| -> io::Result<Stat> {
        let (above, name) = path.split().ok_or(io::ErrorKind::NotFound)?;
        root.open_below(&above)?.stat(name_from_bytes(name)?, false)
    };
    if sameness(&stat(path)?) != sameness(&stat(other)?) {
        return Ok(false);
    }
    let mut dir = root.try_clone()?;
    for name in path.components() {
        let name = name_from_bytes(name)?;
        if !dir.lists(name)? {
            return Ok(true);
        }
        match dir.open_dir(name, false) {
            Ok(below) => dir = below,
            // The last one, mostly.
            Err(_) => break,
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_directory_goes_with_it() {
        let mut departures = Departures::default();
        let item = |name: &str| DepartedItem { name: name.into(), entries: 1, bytes: 1 };
        departures.add(RelPath::root(), vec![item("z"), item("b")]);
        departures.add(RelPath::parse(b"a").unwrap(), vec![item("x")]);
        for (path, covered) in [
            ("z", true),
            ("b/c/d", true),
            ("a", false),
            ("a/x", true),
            ("a/x/y", true),
            ("c", false),
        ] {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            assert_eq!(departures.covers(&path), covered, "{path:?}");
        }
        let paths: Vec<_> = departures.paths().map(|it| it.as_bytes().to_vec()).collect();
        assert_eq!(paths, [b"b".to_vec(), b"z".to_vec(), b"a/x".to_vec()]);
    }
    /// A directory that goes stays as a whole if a list names anything in it.
    #[test]
    fn a_list_names_pieces() {
        let mut departures = Departures::default();
        let item = |name: &str| DepartedItem { name: name.into(), entries: 1, bytes: 1 };
        departures.add(RelPath::root(), vec![item("b"), item("z")]);
        departures.add(RelPath::parse(b"a").unwrap(), vec![item("x"), item("y")]);
        let names = ["a/w", "a/x", "b/c/d", "b/c/e", "zz"];
        let list: String = names.iter().map(|it| format!("{}  {it}\n", "0".repeat(64))).collect();
        let named = departures.named_in(list.as_bytes(), None, &Stop::default()).unwrap();
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        assert_eq!(named, HashSet::from(["a/x", "b"].map(path)));
    }
}
