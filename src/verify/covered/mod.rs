//! Is every file of a source at so many places, by its content, that the source may be erased?
//!
//! The source is read as a whole, now. What is at a place is known by the private record of this user's runs where the
//! file is untouched since, by reading it, or by a list that is believed because the user says so. Every doubt is "not
//! there", and is named. Contents are sorted by their digests in bounded memory, and what was found of each file of the
//! source once more by its name.

mod content;
mod lists;
mod places;

pub use content::{Recorded, Tree};
pub use lists::{refuse_index, time_of_list};

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashSet},
    io,
    path::Path,
    path::PathBuf,
};

use crate::{
    error::{Deed, Error, Result},
    event::{Event, EventObserver},
    hash::{Algorithm, Algorithms, Digest},
    state::PrivateDir,
    sys::Dir,
    tree::{PathRecord, SortedRecords, Sorter, by_path, by_words},
    verify::{DiffJob, covered::content::Source, covered::lists::Prefix},
};

/// Whether a source may be erased.
#[derive(Clone, Debug, Default)]
pub struct CoveredJob {
    pub source: PathBuf,
    pub places: Vec<PlaceAsked>,
    /// At so many places every file is to be.
    pub copies: usize,
    /// Read what is at mounted places, instead of asking the records of earlier runs.
    pub read: bool,
    /// The lists that are given say what is there.
    pub trusts_lists: bool,
    /// Lists that are byte for byte the same, or of one run by their names, are of different disks.
    pub lists_apart: bool,
    /// What was proven last before this time does not count; seconds since 1970.
    pub not_before: Option<u32>,
    /// How far a file has to be proven.
    pub at_least: Option<AtLeast>,
    /// Places in memory count too.
    pub counts_memory: bool,
    /// Where private directories are kept, if not at the places.
    pub state: Option<PathBuf>,
}

/// A place that is asked for.
#[derive(Clone, Debug, Default)]
pub struct PlaceAsked {
    pub path: PathBuf,
    /// The trees there on one file system, each with a private record of its own; none of a list. Of files that several
    /// have by hard links the first counts.
    pub trees: Vec<PathBuf>,
}

/// How far a file has to be proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLeast {
    /// It was read from the device after it was written.
    ReadBack,
    /// … and after the device was away.
    Replugged,
    /// It is read from the device now.
    Read,
}

/// How far a file is proven. The last reached counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// A list that is believed has it.
    Listed,
    /// It was hashed when it was copied, and is untouched since.
    Recorded,
    /// It was read now, perhaps from a cache.
    ThroughCache,
    /// It was read from its device after that was away.
    Replugged,
    /// It was read from its device now.
    Read,
    /// The same, after the device was away.
    ReadReplugged,
}

/// What a place has of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It is there.
    There,
    /// It was proven too long ago, or it is not known when.
    TooOld,
    /// It is not proven as far as was asked for.
    NotSoFar,
    /// An earlier run left it there, and nothing shows that it is untouched.
    InDoubt,
    /// Only a list that is not believed has it.
    Untrusted,
    /// Only a digest that does not tell contents apart has it.
    Weak,
    /// It was there, and is something else now.
    Differs,
}

/// What was found of a content at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub standing: Standing,
    pub proof: Proof,
    /// When it was proven last, in seconds since 1970; 0 if that is not known, or was not asked.
    pub time: u32,
}

/// What was found of a file of the source, for each place.
pub type FoundAt = [Option<Found>];

/// A file of the source that is not at enough places: its name, at how many it is, and what each place has of it.
pub type UncoveredListener<'a> = dyn Fn(&CoveredReport, &[u8], usize, &FoundAt) + 'a;

/// What was found of a place.
#[derive(Clone, Debug, Default)]
pub struct PlaceReport {
    pub path: PathBuf,
    pub is_list: bool,
    /// The first place on the same disk, or that of which a list may be.
    pub same_as: Option<PathBuf>,
    /// Places of one group are one place.
    group: usize,
    /// The groups of mounted places of which a list may be.
    may_be: BTreeSet<usize>,
    /// True if it is on a disk of the source, and counts for nothing.
    pub is_at_source: bool,
    /// True if it is in memory, and counts for nothing.
    pub is_in_memory: bool,
    /// Why it is not known whether what is there outlasts a power cut, if so and it counts all the same.
    pub unknown_why: Option<&'static str>,
    /// Files of the source that are there, by how far they are proven.
    pub proven: [u64; PROOFS.len()],
    /// Number of files of the source that are there so, and do not count.
    pub standing: [u64; STANDINGS.len()],
    /// Number of files of the source of which the place has nothing.
    pub absent: u64,
    /// Number of files that are there and of which no record says anything.
    pub unknown: u64,
    /// The longest ago that a file that counts was proven last; 0 if that was not asked.
    pub oldest: u32,
    /// The algorithms of the digests that were compared.
    pub by: Algorithms,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct CoveredReport {
    /// Files of the source that were read.
    pub files: u64,
    pub bytes: u64,
    /// Number of these that are at enough places.
    pub covered: u64,
    /// Entries of the source that could not be read, or changed meanwhile.
    pub failed: u64,
    /// Trees at places in which something changed since they were looked at.
    pub changed: u64,
    /// Links and special files of the source, which have no content of their own.
    pub others: u64,
    /// Lines, or whole lists, that could not be read, and newest generations that are lost.
    pub unusable: u64,
    pub places: Vec<PlaceReport>,
    pub interrupted: Option<usize>,
}

pub const PROOFS: [Proof; 6] = [
    Proof::Listed,
    Proof::Recorded,
    Proof::ThroughCache,
    Proof::Replugged,
    Proof::Read,
    Proof::ReadReplugged,
];

pub const STANDINGS: [Standing; 7] = [
    Standing::There,
    Standing::TooOld,
    Standing::NotSoFar,
    Standing::InDoubt,
    Standing::Untrusted,
    Standing::Weak,
    Standing::Differs,
];

impl CoveredReport {
    /// The list whose names begin so is of the tree that this is for.
    fn take_for_list(&mut self, prefix: &Prefix) {
        let tree = prefix.of.map(|of| (self.places[of].group, self.places[of].path.clone()));
        let list = &mut self.places[prefix.list];
        match tree {
            Some((group, path)) => {
                list.may_be.insert(group);
                list.same_as.get_or_insert(path);
            }
            None => list.is_at_source = true,
        }
    }

    /// True if the source may be erased.
    pub fn is_covered(&self) -> bool {
        let is_whole =
            self.failed + self.changed + self.unusable == 0 && self.interrupted.is_none();
        is_whole && self.files > 0 && self.covered == self.files
    }
}

impl Proof {
    fn reaches(self, wanted: AtLeast) -> bool {
        match wanted {
            AtLeast::ReadBack => self >= Proof::Replugged,
            AtLeast::Replugged => matches!(self, Proof::Replugged | Proof::ReadReplugged),
            AtLeast::Read => self >= Proof::Read,
        }
    }
}

impl Found {
    /// The better of two: what counts, or else what is nearest to it.
    fn better(self, other: Option<Self>) -> Self {
        let worth = |it: &Self| (it.standing, std::cmp::Reverse((it.proof, it.time)));
        other.filter(|other| worth(other) < worth(&self)).unwrap_or(self)
    }

    fn words(&self) -> String {
        format!("{} {} {}", self.standing as usize, self.proof as usize, self.time)
    }

    fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut next = || words.next()?.parse::<usize>().ok();
        let (standing, proof) = (*STANDINGS.get(next()?)?, *PROOFS.get(next()?)?);
        Some(Self { standing, proof, time: u32::try_from(next()?).ok()? })
    }
}

/// All contents that were found, on their way to be compared.
struct Contents<'a> {
    job: &'a CoveredJob,
    sorter: Sorter,
    algorithms: Algorithms,
    places: Vec<Algorithms>,
    now: u32,
    /// The sizes of large files of the source.
    large: HashSet<u64>,
}

/// Waits until everything on the file system of a tree is on its device, where that can be waited for as a whole: the
/// last run there may not have waited (`--no-sync`).
fn make_durable(tree: &Path) -> Result<()> {
    let root = Dir::open(tree).deed("open the directory", tree)?;
    match root.persist_all() {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        persisted => persisted.deed("make durable", tree),
    }
}

/// Runs of one second are given seconds that are still to come; nothing later is believed. In seconds.
const AHEAD: u32 = 24 * 3600;

/// True if no two contents have one digest by accident.
pub fn is_enough(algorithm: Algorithm) -> bool {
    use Algorithm::{Crc32, None, Xxh3, Xxh64, Xxh128};
    !matches!(algorithm, Crc32 | Xxh3 | Xxh64 | Xxh128 | None)
}

impl Contents<'_> {
    /// The place with this number has the content with these digests, one of which is compared.
    fn add(&mut self, place: usize, digests: &[Digest], found: Found) -> io::Result<()> {
        let enough = digests.iter().filter(|digest| is_enough(digest.algorithm()));
        let strongest = enough.min_by_key(|digest| digest.algorithm());
        let Some(digest) = strongest.or(digests.first()) else { return Ok(()) };
        let standing = match found.standing {
            Standing::There if strongest.is_none() => Standing::Weak,
            Standing::There if self.is_too_old(found.time) => Standing::TooOld,
            Standing::There if self.job.at_least.is_some_and(|it| !found.proof.reaches(it)) => {
                Standing::NotSoFar
            }
            other => other,
        };
        let words = Found { standing, ..found }.words();
        let algorithm = digest.algorithm();
        self.algorithms = self.algorithms.with(algorithm);
        if let Some(by) = self.places.get_mut(place) {
            *by = by.with(algorithm);
        }
        self.sorter.add(format!("{digest:?} 0 {place} {words}"), b"")
    }

    fn is_too_old(&self, time: u32) -> bool {
        let latest = self.now.saturating_add(AHEAD);
        self.job.not_before.is_some_and(|since| time < since || time > latest)
    }

    /// The source has this file.
    fn add_source(&mut self, digests: &[Digest], path: &[u8]) -> io::Result<()> {
        digests.iter().try_for_each(|digest| self.sorter.add(format!("{digest:?} 1"), path))
    }
}

/// The error about a directory that changed while it was read, or others were.
fn changed(path: &Path, what: &str) -> Error {
    let finding = format!(
        "something was changed, added or removed {what}: run it again when nothing writes there"
    );
    Error::finding(content::DEED, path, finding)
}

impl CoveredJob {
    /// The paths of the places.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().map(|place| &*place.path)
    }

    /// Reads the source and looks for its files at the places; each that is not at enough is told.
    ///
    /// # Errors
    /// The source or a place is not there or not to be used, or what is sorted can be neither kept nor read.
    pub fn run(
        &self,
        observer: &EventObserver<'_>,
        listen: &UncoveredListener<'_>,
    ) -> Result<CoveredReport> {
        PrivateDir::look_for(self.state.as_deref())?;
        let mut trees = self.places.iter().flat_map(|place| &place.trees);
        trees.try_for_each(|tree| places::refuse_passing(tree))?;
        let mut source = Source::open(&self.source, observer)?;
        let mut report = CoveredReport { others: source.others, ..CoveredReport::default() };
        let prefixes;
        (report.places, prefixes) = self.places_of(&mut source.disks, observer)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut contents = Contents {
            job: self,
            sorter: Sorter::new(by_words),
            algorithms: Algorithms::default().with(Algorithm::Sha256),
            places: vec![Algorithms::default(); self.places.len()],
            large: std::mem::take(&mut source.large),
            now: now.map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(u32::MAX)),
        };
        let mut sums = Vec::new();
        for (number, place) in self.places.iter().enumerate() {
            let mut inodes = HashSet::new();
            // They are on one file system. What is read is waited for file by file.
            place.trees.first().filter(|_| !self.read).map_or(Ok(()), |tree| make_durable(tree))?;
            for tree in &place.trees {
                let opened = Tree::open(tree, self, observer)?;
                let unread = RefCell::new(None);
                let warn = |error| {
                    (observer.listen)(&Event::Warning(&error));
                    unread.borrow_mut().get_or_insert(error);
                };
                let read = opened.read(number, &mut inodes, observer, &warn, &mut contents)?;
                report.places[number].unknown += read.0;
                sums.push((tree, read.1, unread));
            }
        }
        report.unusable = self.read_lists(observer, &prefixes, &mut contents, &mut report)?;
        source.read(observer, &mut contents, &mut report)?;
        // Other places, and the source, may have been read for hours since.
        for (tree, sum, unread) in sums {
            let warn = |error| _ = unread.borrow_mut().get_or_insert(error);
            if Tree::sum_of(tree, observer, &warn)? != sum && !observer.stop.is_requested() {
                report.changed += 1;
                // What could be looked at only once may be the difference.
                let unread = unread.take().filter(|error| error.kind().is_some());
                let error = match unread {
                    Some(error) => error.of_deed(content::DEED),
                    None => changed(tree, "since it was looked at"),
                };
                (observer.listen)(&Event::Failed(&error));
            }
        }
        report.interrupted = observer.stop.requested();
        if report.interrupted.is_some() {
            return Ok(report);
        }
        for (place, by) in report.places.iter_mut().zip(&contents.places) {
            place.by = *by;
        }
        let fail = |error| Error::io("sort the contents of", &self.source, error);
        let sorted = contents.sorter.finish().and_then(|all| self.join(&all)).map_err(fail)?;
        self.judge(&sorted, &mut report, listen).map_err(fail)?;
        report.interrupted = observer.stop.requested();
        Ok(report)
    }

    fn read_lists(
        &self,
        observer: &EventObserver<'_>,
        prefixes: &[Prefix],
        contents: &mut Contents<'_>,
        report: &mut CoveredReport,
    ) -> Result<u64> {
        let of_lists = self.places.iter().enumerate().filter(|(_, place)| place.trees.is_empty());
        let (numbers, lists): (Vec<usize>, Vec<PathBuf>) =
            of_lists.map(|(number, place)| (number, place.path.clone())).unzip();
        let standing = if self.trusts_lists { Standing::There } else { Standing::Untrusted };
        let times: Vec<u32> = lists.iter().map(|list| lists::time_of_list(list)).collect();
        DiffJob { lists, ..DiffJob::default() }.each_file(observer, &mut |list, path, digests| {
            let is_met = |prefix: &&Prefix| prefix.list == numbers[list] && prefix.begins(path);
            prefixes.iter().filter(is_met).for_each(|prefix| report.take_for_list(prefix));
            let found = Found { standing, proof: Proof::Listed, time: times[list] };
            contents.add(numbers[list], digests, found)?;
            // Of which of two algorithms a digest is cannot always be seen.
            match digests.iter().find(|it| it.algorithm() == Algorithm::Sha256) {
                Some(digest) => {
                    let alike: Vec<Digest> = digest.alike().into_iter().collect();
                    contents.add(numbers[list], &alike, found)
                }
                None => Ok(()),
            }
        })
    }

    /// Says of each file of the source what was found of its content, once for each of its digests.
    fn join(&self, contents: &SortedRecords) -> io::Result<SortedRecords> {
        let (mut found, mut records) = (Sorter::new(by_path), contents.reader());
        let (mut content, mut at) = (String::new(), vec![None; self.places.len()]);
        while let Some((words, path)) = records.next_record()?.map(PathRecord::told) {
            let mut words = words.split(' ');
            let digest = words.next().unwrap_or_default();
            if digest != content {
                digest.clone_into(&mut content);
                at.fill(None);
            }
            if words.next() == Some("0") {
                let number = words.next().and_then(|it| it.parse::<usize>().ok());
                if let Some(known) = number.and_then(|number| at.get_mut(number))
                    && let Some(new) = Found::parse(&mut words)
                {
                    *known = Some(new.better(*known));
                }
                continue;
            }
            found.add(words_of(&at), path)?;
        }
        found.finish()
    }

    /// Judges each file of the source.
    fn judge(
        &self,
        sorted: &SortedRecords,
        report: &mut CoveredReport,
        listen: &UncoveredListener<'_>,
    ) -> io::Result<()> {
        let mut records = sorted.reader();
        let mut file: Option<(Vec<u8>, Vec<Option<Found>>)> = None;
        loop {
            let record = records.next_record()?.map(PathRecord::told);
            if let Some((path, at)) = &file
                && record.is_none_or(|(_, next)| next != path)
            {
                self.judge_file(path, at, report, listen);
                file = None;
            }
            let Some((words, path)) = record else { return Ok(()) };
            let (_, at) =
                file.get_or_insert_with(|| (path.to_vec(), vec![None; self.places.len()]));
            let mut words = words.split(' ');
            while let Some(number) = words.next().and_then(|it| it.parse::<usize>().ok())
                && let (Some(new), Some(known)) = (Found::parse(&mut words), at.get_mut(number))
            {
                *known = Some(new.better(*known));
            }
        }
    }

    fn judge_file(
        &self,
        path: &[u8],
        at: &FoundAt,
        report: &mut CoveredReport,
        listen: &UncoveredListener<'_>,
    ) {
        let mut groups = BTreeSet::new();
        for (place, found) in report.places.iter_mut().zip(at) {
            match found {
                None => place.absent += 1,
                Some(found) => {
                    place.standing[found.standing as usize] += 1;
                    if found.standing != Standing::There {
                        continue;
                    }
                    place.proven[found.proof as usize] += 1;
                    let is_older = place.oldest == 0 || found.time < place.oldest;
                    place.oldest = if is_older { found.time } else { place.oldest };
                    // Of what is at a disk that is given, the disk itself was asked, and not its list.
                    if !place.is_at_source && !place.is_in_memory && place.may_be.is_empty() {
                        groups.insert(place.group);
                    }
                }
            }
        }
        let places = groups.len();
        report.files += 1;
        match places >= self.copies {
            true => report.covered += 1,
            false => listen(report, path, places, at),
        }
    }
}

/// What was found at each place, in words.
fn words_of(at: &FoundAt) -> String {
    let known = at.iter().enumerate().filter_map(|(number, found)| Some((number, (*found)?)));
    let words: Vec<String> =
        known.map(|(number, found)| format!("{number} {}", found.words())).collect();
    words.join(" ")
}
