//! The names a manifest has listed so far, to notice one that comes again.
//!
//! A line takes 16 bytes and the slack of a hash table: a keyed 64-bit hash of its name, a keyed hash of 32 bits of its
//! digest, and 32 bits of its number. Two names of 12 million share a hash with a probability of 4 in a million, and
//! two digests of one name with one of 1 in 4 billion. Names and digests that do cannot be chosen, because the keys are
//! drawn anew for each run.

use std::collections::{hash_map::Entry, hash_map::RandomState};
use std::{convert::Infallible, fs::File, hash::BuildHasher, io, io::Read, sync::Arc};

use crossbeam_channel::Sender;

use crate::{
    error, error::Error, event::Stop, hash::Algorithm, hash::Algorithms, hash::Digest,
    hash::HashTable, hash::HashedSet, hash::Hasher, hash::Sha256, manifest::Fault,
    manifest::OtherName, path::RelPath, path::Shown, sys, sys::Uninterrupted, sys::stat::Kind,
    tree::Filter, tree::LastDir, tree::Pattern, verify::Bag, verify::Finding, verify::PartOf,
    verify::Target, verify::lines::manifest_lines::ManifestLine,
};

/// Makes the hashes of a run.
#[derive(Clone, Debug, Default)]
pub struct NameHasher(RandomState);

impl NameHasher {
    /// The hash of a path.
    pub fn of(&self, path: &RelPath) -> u64 {
        self.0.hash_one(path.as_bytes())
    }
}

/// The names of one manifest.
#[derive(Debug, Default)]
pub struct SeenNames {
    digests: RandomState,
    names: HashTable<[u32; 2]>,
    /// The algorithms of their digests: a name has a digest of its own by each.
    algorithms: Algorithms,
    /// Names that were listed with no digest that can be checked.
    bare: HashedSet,
}

impl SeenNames {
    /// Notes a name's hash; the line it was on before, if it was, and whether with this digest.
    pub fn note(&mut self, name: u64, line: u64, digest_of: &Digest) -> Option<(u64, bool)> {
        let digest = self.digests.hash_one(digest_of) as u32;
        let algorithm = digest_of.algorithm();
        self.algorithms = self.algorithms.with(algorithm);
        match self.names.entry(mixed(name, algorithm)) {
            Entry::Occupied(there) => {
                let [first, listed] = *there.get();
                Some((u64::from(first), listed == digest))
            }
            Entry::Vacant(free) => {
                free.insert([u32::try_from(line).unwrap_or(u32::MAX), digest]);
                None
            }
        }
    }

    /// Notes a name's hash with all digests of a line; the line it was on before with all of them, or with another
    /// one of the same algorithm.
    pub fn note_all(
        &mut self,
        name: u64,
        line: u64,
        digests: impl Iterator<Item = Digest>,
    ) -> Option<(u64, bool)> {
        let (mut same, mut is_new) = (None, false);
        let mut other = None;
        for digest in digests {
            match self.note(name, line, &digest) {
                None => is_new = true,
                Some(before @ (_, true)) => same = Some(before),
                Some(before) => other = Some(before),
            }
        }
        other.or(same.filter(|_| !is_new))
    }

    /// Notes a name's hash that was listed with no digest that can be checked.
    pub fn note_bare(&mut self, name: u64) {
        self.bare.insert(name);
    }

    /// True if a name with this hash was noted.
    pub fn has(&self, name: u64) -> bool {
        self.bare.contains(&name) || self.has_digest(name)
    }

    /// True if a name with this hash was noted with a digest.
    pub fn has_digest(&self, name: u64) -> bool {
        self.algorithms.iter().any(|one| self.names.contains_key(&mixed(name, one)))
    }

    /// True if no name was noted.
    pub fn is_empty(&self) -> bool {
        self.bare.is_empty() && self.has_no_digest()
    }

    /// True if no name was noted with a digest.
    pub fn has_no_digest(&self) -> bool {
        self.names.is_empty()
    }
}

/// The hash of a name with a digest by this algorithm.
fn mixed(name: u64, algorithm: Algorithm) -> u64 {
    name ^ (algorithm as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

// The files that a history leaves out: those that match the patterns of its newest generation.

/// Number of patterns that are taken in.
const MOST_PATTERNS: usize = 1024;

/// Patterns of what a history leaves out.
#[derive(Default)]
pub struct LeftOut {
    patterns: Vec<Pattern>,
    /// Made of them when it is asked for.
    filter: Option<Filter>,
}

impl LeftOut {
    /// Adds a pattern.
    pub fn add(&mut self, pattern: String) {
        // As gitignore(5) has it.
        if pattern.starts_with('#') || pattern.trim().is_empty() {
            return;
        }
        let pattern = Pattern::Exclude(pattern);
        // What cannot be understood leaves out nothing.
        if self.patterns.len() < MOST_PATTERNS
            && Filter::new(std::slice::from_ref(&pattern)).is_ok()
        {
            self.patterns.push(pattern);
            self.filter = None;
        }
    }

    /// True if the file at `path` is left out.
    pub fn has(&mut self, path: &RelPath) -> bool {
        !self.patterns.is_empty() && self.filter().leaves_out(path)
    }

    /// All patterns so far, ready for use.
    pub fn filter(&mut self) -> &Filter {
        let made = || Filter::new(&self.patterns).unwrap_or_default();
        self.filter.get_or_insert_with(made)
    }
}

// Manifests that list nothing, and when that is amiss.
//
// Mostly a list that lists nothing is cut off, or not a list. A manifest that is what the last run of this user wrote
// says that this run found no file, as one of many generations may. It proves nothing where it is all that is checked.

/// The manifests read so far that list nothing, and whether one lists something.
#[derive(Default)]
pub struct EmptyManifests {
    /// True if one lists something.
    any_lists: bool,
    /// Those that list nothing and are what a run wrote.
    recorded: Vec<Arc<Target>>,
    /// The first generation of a history, and whether none so far lists anything.
    generations: Option<(Arc<Target>, bool)>,
}

impl EmptyManifests {
    /// Notes a manifest that was read, which is what a run wrote if `is_recorded`; a finding if it has to list
    /// something and does not.
    pub fn note(
        &mut self,
        target: &Arc<Target>,
        is_empty: bool,
        is_recorded: bool,
    ) -> Option<Finding> {
        self.any_lists |= !is_empty;
        if let PartOf::Generation { .. } = target.part {
            self.generations.get_or_insert((Arc::clone(target), true)).1 &= is_empty;
        }
        if !is_empty || target.part.may_be_empty() {
            return None;
        }
        if is_recorded {
            self.recorded.push(Arc::clone(target));
            return None;
        }
        Some(Finding::Nothing)
    }

    /// The findings after all were read.
    pub fn findings(self) -> impl Iterator<Item = (Arc<Target>, Finding)> {
        let Self { any_lists, recorded, generations } = self;
        let finding = move || if any_lists { Finding::NoneFound } else { Finding::Nothing };
        let history = generations.filter(|(_, is_empty)| *is_empty);
        let history = history.map(|(target, _)| (target, Finding::Nothing));
        recorded.into_iter().map(move |target| (target, finding())).chain(history)
    }
}

// The names that were listed below a root, when all lists were read.

/// A root and the names that are listed below it, for finding files that are not listed.
pub struct ListedRoot {
    /// The root, with any of its manifests.
    pub target: Arc<Target>,
    /// The names, a table for each manifest.
    pub names: Vec<NamesOf>,
    /// The filter for the paths that its history leaves out.
    pub left_out: Filter,
}

/// The names that a manifest lists.
pub struct NamesOf {
    /// The manifest.
    pub target: Arc<Target>,
    /// Its names.
    pub names: SeenNames,
}

impl ListedRoot {
    /// The files of a directory of which nothing is listed.
    pub fn empty(target: &Arc<Target>) -> Self {
        let target = Arc::clone(target);
        Self { target, names: Vec::new(), left_out: Filter::default() }
    }

    /// True if it is the directory of this bag.
    pub fn is_of(&self, bag: &Bag) -> bool {
        self.target.root_id == bag.target.root_id
    }

    /// Takes in what another manifest of the same root says.
    pub fn join(&mut self, other: Self) {
        self.names.extend(other.names);
        if matches!(other.target.part, PartOf::Generation { newest: true, .. }) {
            self.left_out = other.left_out;
        }
    }

    /// True if one of its manifests lists the path.
    pub fn lists(&self, key: &NameHasher, path: &RelPath) -> bool {
        let hash = key.of(path);
        self.names.iter().any(|names| names.names.has(hash))
    }
}

// Lines go to the workers in batches: a message for each small file would cost as much as checking it.

/// Lines of a batch.
const LINES: usize = 64;

/// Bytes of names of a batch. Names as long as a line may be must not fill the memory.
const BYTES: usize = 64 << 10;

/// Nothing is ever sent: the thread that waits hears when the last clone is dropped.
pub type PassGuard = Sender<Infallible>;

/// Lines for a worker.
#[derive(Debug)]
pub struct LineBatch {
    /// The manifest they are lines of.
    pub target: Arc<Target>,
    /// In a scrub: dropped when the last file of the batch was begun, or is skipped.
    pub pass: Option<PassGuard>,
    pub lines: std::vec::IntoIter<ManifestLine>,
}

/// Lines on their way to be a batch.
#[derive(Debug, Default)]
pub struct FillingBatch {
    lines: Vec<ManifestLine>,
    bytes: usize,
}

impl FillingBatch {
    pub fn push(&mut self, line: ManifestLine) {
        self.bytes += line.path.as_bytes().len();
        self.lines.push(line);
    }

    /// True if it is large enough to be given out.
    pub fn is_full(&self) -> bool {
        self.lines.len() >= LINES || self.bytes >= BYTES
    }

    /// The lines; none are left.
    pub fn take(&mut self) -> Vec<ManifestLine> {
        self.bytes = 0;
        std::mem::replace(&mut self.lines, Vec::with_capacity(LINES))
    }
}

// Lines with no digest that can be checked: by algorithms that are not known here, or, in a Media Hash List, only such
// that failed. Their files are looked for, which is all that can be checked of them.

/// Number of absent files that are remembered until all lines are known, …
const MOST: usize = 1 << 14;

/// … with so many bytes of names.
const MOST_BYTES: usize = 16 << 20;

/// Number of algorithms that are told apart.
const MOST_NAMES: usize = 256;

/// A line with no digest that can be checked.
#[derive(Clone, Copy, Debug)]
pub struct UnhashedLine {
    /// The hash of the name on it.
    pub key: u64,
    pub line: u64,
    /// The algorithm of its digest; `None` if all its digests failed.
    pub algorithm: Option<OtherName>,
}

/// The files on such lines, with the first line of each: 16 bytes a file and some slack, as for other lines.
#[derive(Default)]
pub struct UnhashedFiles {
    files: HashTable<UnhashedPlace>,
    algorithms: Vec<Option<OtherName>>,
}

/// Where such a file is listed: in which of several lists, on which line, and by which of the algorithms.
#[derive(Clone, Copy)]
struct UnhashedPlace {
    line: u32,
    list: [u8; 3],
    algorithm: u8,
}

/// The files of which nothing can be checked.
pub struct UnprovenFiles {
    /// Number of such files.
    pub files: u64,
    /// The list that has the first of them, by its place.
    pub list: usize,
    /// The line of that.
    pub line: u64,
    pub algorithm: Option<OtherName>,
}

impl UnhashedFiles {
    /// Notes a line of the list of this number.
    pub fn note(&mut self, list: usize, line: UnhashedLine) {
        let UnhashedLine { key, line, algorithm } = line;
        let known = self.algorithms.iter().position(|known| *known == algorithm);
        let at = known.unwrap_or_else(|| {
            if self.algorithms.len() < MOST_NAMES {
                self.algorithms.push(algorithm);
            }
            self.algorithms.len() - 1
        });
        if let Entry::Vacant(free) = self.files.entry(key) {
            let [_, list @ ..] = u32::try_from(list).unwrap_or(u32::MAX).to_be_bytes();
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            free.insert(UnhashedPlace {
                line,
                list,
                algorithm: u8::try_from(at).unwrap_or(u8::MAX),
            });
        }
    }

    /// Those of these files for which `is_proven` does not hold, if there are any.
    pub fn without(&self, is_proven: impl Fn(u64) -> bool) -> Option<UnprovenFiles> {
        let left = self.files.iter().filter(|(key, _)| !is_proven(**key)).map(|(_, place)| *place);
        let (mut files, mut first) = (0, None::<UnhashedPlace>);
        for place in left {
            files += 1;
            let of = |place: &UnhashedPlace| (place.list, place.line, place.algorithm);
            first = first.filter(|first| of(first) <= of(&place)).or(Some(place));
        }
        let UnhashedPlace { line, list: [a, b, c], algorithm } = first?;
        let list = u32::from_be_bytes([0, a, b, c]) as usize;
        let algorithm = self.algorithms.get(usize::from(algorithm)).copied().flatten();
        Some(UnprovenFiles { files, list, line: u64::from(line), algorithm })
    }
}

/// Such lines of a list.
#[derive(Default)]
pub struct UnhashedLines {
    /// The first of those with digests of other algorithms, and its algorithm.
    first: Option<(u64, OtherName)>,
    /// Number of the other lines.
    others: u64,
    /// Number of these whose names cannot be read, and the first.
    nameless: u64,
    first_nameless: Option<(u64, OtherName)>,
    named: UnhashedFiles,
    /// Files that are not there, with their names and lines.
    absent: Vec<(u64, u64, RelPath)>,
    /// The bytes of these names.
    absent_bytes: usize,
    last: LastDir,
}

impl UnhashedLines {
    /// There is a digest of another algorithm on a line.
    pub fn note(&mut self, line: u64, algorithm: OtherName) {
        self.first.get_or_insert((line, algorithm));
        self.others += 1;
    }

    /// There is such a line, of a file whose name cannot be read.
    pub fn note_nameless(&mut self, line: u64, algorithm: OtherName) {
        self.first_nameless.get_or_insert((line, algorithm));
        self.nameless += 1;
    }

    /// Looks for the file on such a line.
    pub fn look(&mut self, target: &Target, line: UnhashedLine, path: RelPath) {
        self.named.note(0, line);
        let Ok(root) = target.handle() else { return };
        let is_absent = match self.last.stat(root, &path, false) {
            Ok(stat) => stat.kind != Kind::File,
            Err(error) => error::is_absent(&error),
        };
        let bytes = self.absent_bytes + path.as_bytes().len();
        if is_absent && self.absent.len() < MOST && bytes <= MOST_BYTES {
            self.absent_bytes = bytes;
            self.absent.push((line.key, line.line, path));
        }
    }

    /// The findings after all lines were read, of which `seen` has the names. Lines beside others with digests of the
    /// same files are a notice.
    pub fn findings(self, target: &Target, seen: &SeenNames) -> Vec<Finding> {
        let is_all = seen.has_no_digest();
        if let (true, Some((line, algorithm))) = (is_all, self.first) {
            return vec![Finding::Malformed { line, fault: Fault::NotComputed(algorithm) }];
        }
        let unproven = self.unproven(seen);
        let files = unproven.as_ref().map_or(0, |unproven| unproven.files);
        let Self { first, others, absent, .. } = self;
        let notice = first.filter(|_| files < others);
        let notice = notice.map(|(line, algorithm)| Finding::OtherAlgorithm {
            line,
            algorithm,
            lines: others,
        });
        let unproven = unproven.map(|UnprovenFiles { files, line, algorithm, .. }| {
            Finding::Unproven { line, algorithm, files, is_all }
        });
        let absent = absent.into_iter().filter(|(key, ..)| !seen.has_digest(*key));
        let missing = absent.map(|(_, line, path)| {
            let manifest = Shown::path(&target.manifest);
            let why = format!("line {line} of {manifest} lists it, and there is no such file");
            Finding::Incomplete(Error::finding("find the listed file", target.path_of(&path), why))
        });
        notice.into_iter().chain(unproven).chain(missing).collect()
    }

    /// The files of which nothing can be checked; a name counts once, and one that cannot be read each time.
    fn unproven(&self, seen: &SeenNames) -> Option<UnprovenFiles> {
        let named = self.named.without(|key| seen.has_digest(key));
        let nameless = self.first_nameless.map(|(line, algorithm)| UnprovenFiles {
            files: self.nameless,
            list: 0,
            line,
            algorithm: Some(algorithm),
        });
        let (Some(one), Some(other)) = (&named, &nameless) else { return named.or(nameless) };
        let files = one.files + other.files;
        let first = if one.line <= other.line { named } else { nameless };
        first.map(|first| UnprovenFiles { files, ..first })
    }
}

/// True if there is a regular file. Where that cannot be found out, what checks it tells.
pub fn is_there(target: &Target, path: &RelPath) -> bool {
    let Ok(root) = target.handle() else { return true };
    LastDir::default().stat(root, path, false).is_ok_and(|stat| stat.kind == Kind::File)
}

// A list that is read with a look for a request to stop.

/// Reads a file and looks for a request to stop while it waits: a pipe may be silent for ever.
pub struct StoppableReader<'a> {
    pub file: File,
    pub stop: &'a Stop,
    /// Takes all that is read, if its digest is wanted.
    pub hasher: Option<Hasher>,
}

impl StoppableReader<'_> {
    /// The digest of the whole file, what was not asked for among it.
    pub fn sum(mut self) -> Option<Sha256> {
        self.hasher.as_ref()?;
        io::copy(&mut self, &mut io::sink()).ok()?;
        self.hasher?.finish()?.as_sha256()
    }
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while !sys::wait_readable(&self.file) {
            if self.stop.is_requested() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let read = Uninterrupted(&self.file).read(room)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&room[..read]);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_again() {
        let (key, mut seen) = (NameHasher::default(), SeenNames::default());
        let name = |name: &str| key.of(&RelPath::parse(name.as_bytes()).unwrap());
        let (one, two) = (Digest::sha256([1; 32]), Digest::sha256([2; 32]));
        assert!(seen.is_empty());
        assert_eq!(seen.note(name("a"), 1, &one), None);
        assert_eq!(seen.note(name("b"), 2, &one), None);
        assert_eq!(seen.note(name("./a"), 3, &one), Some((1, true)));
        assert_eq!(seen.note(name("a"), 4, &two), Some((1, false)));
        let last_differs = Digest::sha256(std::array::from_fn(|at| if at == 31 { 0 } else { 1 }));
        assert_eq!(seen.note(name("a"), 4, &last_differs), Some((1, false)));
        assert!(seen.has(name("b")) && !seen.has(name("c")));
        let md5 = Digest::parse(Algorithm::Md5, &[b'1'; 32]).unwrap();
        assert_eq!(seen.note(name("a"), 5, &md5), None);
        assert_eq!(seen.note(name("d"), 6, &md5), None);
        assert_eq!(seen.note(name("d"), 7, &md5), Some((6, true)));
        assert!(seen.has(name("d")));
        seen.note_bare(name("e"));
        assert!(seen.has(name("e")) && !seen.has_digest(name("e")) && seen.has_digest(name("d")));
    }
}
