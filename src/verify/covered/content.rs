//! What is read for that: the files of the source, and those of the trees at places.

use std::{
    cell::RefCell, collections::BTreeSet, collections::HashSet, fs::File, hash::DefaultHasher,
    hash::Hash, hash::Hasher, io, path::Path, sync::atomic::Ordering::Relaxed,
};

use crate::{
    error::{Cause, Deed, Error, Result},
    event::{Event, EventObserver},
    hash::{Algorithm, Algorithms, Digest},
    io::{HashedFrom, ReadBack},
    manifest::archive::bag,
    path::RelPath,
    staged::refuse_moved,
    state::private_dir::NAME,
    state::{Belief, KeptPayload, Knowledge, NotePlace, PrivateDir, Row, plugs::KnownPlugs},
    sys::{self, Dir, Medium, stat::Identity, stat::Kind, stat::Stat},
    tree::EntryBelow,
    tree::pass::each_below,
    verify::covered::lists::Known,
    verify::covered::places::is_private,
    verify::covered::{Contents, CoveredJob, CoveredReport, Found, Proof, Standing, changed},
    verify::list_diff::{is_own, is_passing},
    verify::scrub::Verified,
    verify::target::BELOW_PAYLOAD,
};

pub const DEED: &str = "take for covered";

/// What stopped a pass over a tree.
enum Stopped {
    /// What is sorted cannot be kept.
    Full(io::Error),
    /// Nothing: a list of entries has come to its end.
    Asked,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Full(error)
    }
}

/// The source, which was looked at once.
pub struct Source<'a> {
    path: &'a Path,
    root: Dir,
    /// The names of all that its files lie on.
    pub disks: BTreeSet<String>,
    /// Entries without content.
    pub others: u64,
    /// True if what is called like a private directory in its root is one.
    has_private: bool,
    /// The sizes of its large files. A large file of any other size covers none of them, and is not read at a place.
    pub large: HashSet<u64>,
}

/// A smaller file is read whatever its size is, in bytes.
const LEAST_LARGE: u64 = 1 << 20;

/// What a pass over the source saw, by which two are compared.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    files: u64,
    bytes: u64,
    others: u64,
    /// A sum over what the files are.
    sum: u64,
}

impl<'a> Source<'a> {
    /// Opens it, and counts what is there.
    ///
    /// # Errors
    /// It is no directory that can be opened, or has no file.
    pub fn open(path: &'a Path, observer: &EventObserver<'_>) -> Result<Self> {
        let root = Dir::open(path).deed("open the source", path)?;
        let private = root.open_dir(NAME.as_ref(), false);
        let has_private = private.is_ok_and(|dir| {
            root.stat(NAME.as_ref(), false).is_ok_and(|stat| PrivateDir::is_one(&dir, &stat))
        });
        if sys::has_mounts_below(&root) {
            let finding = "something is mounted below it, which may hide what it has there: unmount that, and give it as \
                           a source of its own";
            return Err(Error::finding(DEED, path, finding));
        }
        let disks = sys::disks_of(&root);
        let large = HashSet::new();
        let mut source = Self { path, root, disks, others: 0, has_private, large };
        let mut disks = BTreeSet::new();
        let (mut devices, mut large) = (BTreeSet::new(), HashSet::new());
        let seen = source.pass(observer, &mut |entry, stat| {
            large.extend(Some(stat.size).filter(|size| *size >= LEAST_LARGE));
            if devices.insert(stat.id.dev) {
                disks.insert(format!("file system {}", stat.id.dev));
                disks.extend(sys::disks_of(entry.dir));
            }
            Ok(())
        });
        source.disks.extend(disks);
        source.large = large;
        let seen = seen?.0;
        if seen.files == 0 && !observer.stop.is_requested() {
            let finding = "it has no file: is its disk mounted?";
            return Err(Error::finding(DEED, path, finding));
        }
        source.others = seen.others;
        let progress = &observer.progress;
        progress.total_bytes.fetch_add(seen.bytes, Relaxed);
        progress.total_entries.fetch_add(seen.files, Relaxed);
        progress.counted.store(true, Relaxed);
        Ok(source)
    }

    /// Goes through all files; returns what was seen, and what could not be.
    fn pass(
        &self,
        observer: &EventObserver<'_>,
        see: &mut dyn FnMut(&EntryBelow<'_>, &Stat) -> io::Result<()>,
    ) -> Result<(Seen, Vec<Error>)> {
        let (mut seen, mut failed) = (Seen::default(), Vec::new());
        let went = each_below(&self.root, &observer.stop, &mut |entry| -> io::Result<bool> {
            let looked = entry.and_then(|entry| entry.stat().map(|stat| (entry, stat)));
            let (entry, stat) = match looked {
                Ok(looked) => looked,
                Err((at, error)) => {
                    failed.push(Error::io("read", at.full_path(self.path), error));
                    return Ok(false);
                }
            };
            match stat.kind {
                Kind::Dir => {
                    let is_private = entry.above.is_root() && *entry.name == *NAME;
                    return Ok(!(is_private && self.has_private));
                }
                Kind::File => {
                    seen.files += 1;
                    seen.bytes += stat.size;
                    seen.sum = seen.sum.wrapping_add(sum_of_entry(&entry.path, &stat));
                    see(&entry, &stat)?;
                }
                _ => seen.others += 1,
            }
            Ok(false)
        });
        went.deed("sort the contents of", self.path)?;
        Ok((seen, failed))
    }

    /// Reads all files. What cannot be read, was changed meanwhile, or is not at its path any more is told and counted.
    ///
    /// # Errors
    /// What is sorted cannot be kept.
    pub(super) fn read(
        &self,
        observer: &EventObserver<'_>,
        contents: &mut Contents<'_>,
        report: &mut CoveredReport,
    ) -> Result<()> {
        let mut reader = FileReader::new(observer, contents.algorithms);
        let mut failures = 0;
        let mut fail = |error: &Error| {
            failures += 1;
            (observer.listen)(&Event::Failed(error));
        };
        let mut bytes = 0;
        let (read, failed) = self.pass(observer, &mut |entry, stat| {
            match reader.read(entry, stat, false) {
                Ok(Some((digests, _))) => {
                    bytes += stat.size;
                    contents.add_source(&digests, entry.path.as_bytes())?;
                }
                Ok(None) => {}
                Err(error) => {
                    fail(&Error::io("read", entry.path.full_path(self.path), error));
                }
            }
            observer.progress.entries.fetch_add(1, Relaxed);
            Ok(())
        })?;
        failed.iter().for_each(&mut fail);
        let (now, _) = self.pass(observer, &mut |_, _| Ok(()))?;
        if now != read && !observer.stop.is_requested() {
            fail(&changed(self.path, "while it was read"));
        }
        let moved = refuse_moved(&self.root, self.path).err();
        moved.into_iter().for_each(|moved| fail(&moved.of_deed(DEED)));
        (report.bytes, report.failed) = (bytes, failures);
        Ok(())
    }
}

fn sum_of_entry(path: &RelPath, stat: &Stat) -> u64 {
    let mut hasher = DefaultHasher::new();
    (path, stat.id, stat.size, stat.mtime, stat.ctime).hash(&mut hasher);
    hasher.finish()
}

/// A tree at a place.
pub struct Tree<'a> {
    path: &'a Path,
    job: &'a CoveredJob,
    /// What the runs of this user know of it, and of the payload of a bag.
    known: Vec<KnownTree>,
}

/// A file of which this user's runs know something.
struct OurFile<'t> {
    known: &'t KnownTree,
    below: RelPath,
    belief: Belief,
}

/// What the record of this user's runs has of a file.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub digests: Vec<Digest>,
    /// None if it is in doubt whether the file still has that content, or which of them.
    pub found: Option<Found>,
}

/// Hears of a file: its path, its size, and what is recorded of it, if anything is.
type RecordedListener<'a> = dyn FnMut(&[u8], u64, Option<&Recorded>) -> io::Result<()> + 'a;

/// What is known of the files below a directory.
struct KnownTree {
    /// What their paths begin with.
    below: &'static [u8],
    knowledge: Knowledge,
    verified: Verified,
    plugs: Option<KnownPlugs>,
}

impl<'a> Tree<'a> {
    /// Opens it, and loads what is known of it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &'a Path, job: &'a CoveredJob, observer: &EventObserver<'_>) -> Result<Self> {
        let root = Dir::open(path).deed("open the directory", path)?;
        let mut known = Vec::new();
        let private = PrivateDir::consult(&root, path, job.state.as_deref());
        let private =
            private.map_err(|it| it.with_note("; so no file there is known to be untouched"));
        private.as_ref().err().iter().for_each(|it| (observer.listen)(&Event::Warning(it)));
        if let Ok(Some(private)) = private {
            if let Some(KeptPayload { dir, path, private }) = private.payload(&root, path) {
                known.push(KnownTree::load(BELOW_PAYLOAD, &private, &dir, &path));
            }
            known.push(KnownTree::load(b"", &private, &root, path));
        }
        Ok(Self { path, job, known })
    }

    /// Adds its files to `contents`, but for those of `inodes`, which were read; returns the number of those of which
    /// nothing is known, and the sum over what all are. `warn` hears what cannot be looked at.
    ///
    /// # Errors
    /// What is sorted cannot be kept.
    pub(super) fn read(
        &self,
        place: usize,
        inodes: &mut HashSet<Identity>,
        observer: &EventObserver<'_>,
        warn: &dyn Fn(Error),
        contents: &mut Contents<'_>,
    ) -> Result<(u64, u64)> {
        let mut reader = FileReader::new(observer, Algorithms::default().with(Algorithm::Sha256));
        let mut unknown = 0;
        let sum = Self::each(self.path, observer, warn, &mut |entry, stat| {
            let is_again = self.job.read && stat.links > 1 && !inodes.insert(stat.id);
            if !is_again
                && !self.add(place, entry, stat, &mut reader, contents)?
                && !self.is_own(entry.path.as_bytes())
            {
                unknown += 1;
            }
            Ok(())
        })?;
        Ok((unknown, sum))
    }

    /// The sum over what the files of a tree are now.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn sum_of(path: &Path, observer: &EventObserver<'_>, warn: &dyn Fn(Error)) -> Result<u64> {
        Self::each(path, observer, warn, &mut |_, _| Ok(()))
    }

    /// The names of given lists that a file of a tree has, whatever it is called. What cannot be looked at has none, as
    /// what is there does not count.
    ///
    /// # Errors
    /// It cannot be opened, or a file cannot be read that may be one of them.
    pub fn lists_in(
        path: &Path,
        known: &Known,
        observer: &EventObserver<'_>,
    ) -> Result<BTreeSet<String>> {
        let (mut found, mut failed) = (BTreeSet::new(), Ok(()));
        if known.names.is_empty() {
            return Ok(found);
        }
        Self::each(path, observer, &|_| (), &mut |entry, stat| {
            let names = known.names_of(entry.dir, entry.name, stat.size);
            match names.deed_at("read the list", || entry.path.full_path(path)) {
                Ok(names) => found.extend(names.into_iter().cloned()),
                Err(error) => failed = Err(error),
            }
            if failed.is_ok() { Ok(()) } else { Err(Stopped::Asked) }
        })?;
        failed.map(|()| found)
    }

    /// Goes through all files of a tree that may count; returns the sum over what they are.
    fn each(
        path: &Path,
        observer: &EventObserver<'_>,
        warn: &dyn Fn(Error),
        see: &mut dyn FnMut(&EntryBelow<'_>, &Stat) -> Result<(), Stopped>,
    ) -> Result<u64> {
        let root = Dir::open(path).deed("open the directory", path)?;
        let device = root.identity().deed("look at", path)?.dev;
        let mut sum = 0_u64;
        let went = each_below(&root, &observer.stop, &mut |entry| -> Result<bool, Stopped> {
            let looked = entry.and_then(|entry| entry.stat().map(|stat| (entry, stat)));
            let (entry, stat) = match looked {
                Ok(looked) => looked,
                Err((at, error)) => {
                    warn(Error::io("look for copies in", at.full_path(path), error));
                    return Ok(false);
                }
            };
            // Below a directory that has outputs there are some of these too.
            let is_kept =
                stat.kind == Kind::Dir && (is_private(&entry, &stat) || is_passing(entry.name));
            let is_here = stat.id.dev == device;
            if stat.kind == Kind::Dir && !is_kept && !is_here {
                let finding = "another file system is mounted there: give it as a place of its own";
                let path = entry.path.full_path(path);
                warn(Error::finding("look for copies in", path, finding));
            }
            if stat.kind != Kind::File || !is_here {
                return Ok(stat.kind == Kind::Dir && is_here && !is_kept);
            }
            if !sys::is_part_name(entry.name) {
                sum = sum.wrapping_add(sum_of_entry(&entry.path, &stat));
                see(&entry, &stat)?;
            }
            Ok(false)
        });
        match went {
            Ok(_) | Err(Stopped::Asked) => Ok(sum),
            Err(Stopped::Full(error)) => Err(Error::io("sort the contents of", path, error)),
        }
    }

    /// Hands out its files as the record has them, each with its size: what is untouched, what is in doubt, and that of
    /// which nothing is known. Those that the record has and that are not there `gone` gets.
    ///
    /// # Errors
    /// All of it cannot be read, or `see` failed.
    pub fn each_recorded(
        &self,
        observer: &EventObserver<'_>,
        see: &mut RecordedListener<'_>,
        gone: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let first = RefCell::new(None);
        let unread = |error: Error| match error.cause() {
            Cause::Io(_) => _ = first.borrow_mut().get_or_insert(error),
            // What the record has below a mount point is gone.
            _ => (observer.listen)(&Event::Warning(&error)),
        };
        Self::each(self.path, observer, &unread, &mut |entry, stat| {
            observer.progress.entries.fetch_add(1, Relaxed);
            let path = entry.path.as_bytes();
            match self.ours(entry, stat) {
                Some(ours) => see(path, stat.size, Some(&self.recorded(ours, entry)))?,
                None if self.is_own(path) => {}
                // Another file than the record has.
                None if self.was_ours(path) => {
                    see(path, stat.size, Some(&Recorded { digests: Vec::new(), found: None }))?;
                }
                None => see(path, stat.size, None)?,
            }
            Ok(())
        })?;
        first.into_inner().map_or(Ok(()), Err)?;
        let is_to_stop = || observer.stop.is_requested();
        for KnownTree { below, knowledge, .. } in &self.known {
            let read = knowledge.each_unsettled_row(&is_to_stop, |at, _| {
                let path =
                    knowledge.recorded(at).map(|(path, _)| [below, path.as_bytes()].concat());
                path.iter().for_each(|path| gone(path));
                true
            });
            read.deed("read the private record in", self.path)?;
        }
        Ok(())
    }

    /// True for what runs leave there beside the copy, or the payload of a bag.
    fn is_own(&self, path: &[u8]) -> bool {
        let is_bag = || self.known.iter().any(|known| known.below == BELOW_PAYLOAD);
        is_own(path) || bag::is_text_file(path) && is_bag()
    }

    /// True if this user's runs copied a file of this name.
    fn was_ours(&self, path: &[u8]) -> bool {
        self.known.iter().any(|known| {
            path.strip_prefix(known.below).is_some_and(|it| known.knowledge.has_heard_of(it))
        })
    }

    /// What this user's runs know of a file.
    fn ours(&self, entry: &EntryBelow<'_>, stat: &Stat) -> Option<OurFile<'_>> {
        self.known.iter().find_map(|known| {
            let below = entry.path.as_bytes().strip_prefix(known.below)?;
            match known.knowledge.belief(below, stat) {
                Belief::Nothing => None,
                belief => Some(OurFile { known, below: RelPath::parse(below).ok()?, belief }),
            }
        })
    }

    fn recorded(&self, ours: OurFile<'_>, entry: &EntryBelow<'_>) -> Recorded {
        let OurFile { known, below, belief } = ours;
        let Belief::Untouched(row, at) = belief else {
            let digests = belief.remembered().iter().flat_map(|it| it.digests()).collect();
            return Recorded { digests, found: None };
        };
        let mut digests = known.knowledge.further(at);
        digests.insert(0, row.digest);
        let proof = match known.is_replugged(&row, &below, false) {
            true => Proof::Replugged,
            false => Proof::Recorded,
        };
        let time = self.time_of(known, &below, &row, entry);
        Recorded { digests, found: Some(Found { standing: Standing::There, proof, time }) }
    }

    /// Adds a file; false if nothing is known of it.
    fn add(
        &self,
        place: usize,
        entry: &EntryBelow<'_>,
        stat: &Stat,
        reader: &mut FileReader<'_>,
        contents: &mut Contents<'_>,
    ) -> Result<bool, Stopped> {
        let ours = self.ours(entry, stat);
        let not = |standing| Found { standing, proof: Proof::Listed, time: 0 };
        if !self.job.read {
            let Some(ours) = ours else { return Ok(false) };
            let Recorded { digests, found } = self.recorded(ours, entry);
            match found {
                Some(found) => contents.add(place, &digests, found)?,
                None => digests
                    .iter()
                    .try_for_each(|it| contents.add(place, &[*it], not(Standing::InDoubt)))?,
            }
            return Ok(true);
        }
        // Reading it may take as long as who put it there pleases.
        if stat.size >= LEAST_LARGE && !contents.large.contains(&stat.size) {
            let other = self.known.iter().find_map(|known| {
                let below = entry.path.as_bytes().strip_prefix(known.below)?;
                known.knowledge.digest_of_other_size(below, stat.size)
            });
            let was = other.map(|was| contents.add(place, &[was], not(Standing::Differs)));
            was.transpose()?;
            return Ok(true);
        }
        let (digests, from) = match reader.read(entry, stat, true) {
            Ok(Some(read)) => read,
            Ok(None) => return Err(Stopped::Asked),
            Err(error) => {
                let error = Error::io("read", entry.path.full_path(self.path), error);
                (reader.observer.listen)(&Event::Warning(&error));
                return Ok(true);
            }
        };
        let is_replugged = |ours: &OurFile<'_>| match &ours.belief {
            Belief::Untouched(row, _) if digests.contains(&row.digest) => {
                ours.known.is_replugged(row, &ours.below, true)
            }
            _ => false,
        };
        let proof = match (from, ours.as_ref().is_some_and(is_replugged)) {
            (HashedFrom::Cache, _) => Proof::ThroughCache,
            (HashedFrom::Device, false) => Proof::Read,
            (HashedFrom::Device, true) => Proof::ReadReplugged,
        };
        let found = Found { standing: Standing::There, proof, time: contents.now };
        contents.add(place, &digests, found)?;
        let was = ours.and_then(|ours| ours.belief.remembered());
        for digest in was.iter().flat_map(|it| it.digests()) {
            if digest.algorithm() == Algorithm::Sha256 && !digests.contains(&digest) {
                contents.add(place, &[digest], not(Standing::Differs))?;
            }
        }
        Ok(true)
    }

    /// When an untouched file was proven last: by a check since it was made, or when it was made. 0 where that is not
    /// known, and where it is not asked.
    fn time_of(
        &self,
        known: &KnownTree,
        below: &RelPath,
        row: &Row,
        entry: &EntryBelow<'_>,
    ) -> u32 {
        if self.job.not_before.is_none() {
            return 0;
        }
        let checked = known.verified.time_of(below, &row.digest).unwrap_or(0);
        let checked = if i64::from(checked) > row.trace.ctime.secs { checked } else { 0 };
        let made = entry.dir.open_file(entry.name, false).ok();
        let made = made.and_then(|file| Dir::birth_of(&file));
        let made = made.and_then(|made| u32::try_from(made.secs).ok()).unwrap_or(0);
        checked.max(made)
    }
}

impl KnownTree {
    fn load(below: &'static [u8], private: &PrivateDir, root: &Dir, path: &Path) -> Self {
        let (knowledge, _) = Knowledge::load(Some(private), root, path, &|_| false, &|| false);
        let traits = NotePlace::Private(private).read();
        // What a run believes of a server, to copy once more or not, is too little to erase anything.
        let knowledge = match traits.is_none_or(|traits| traits.change_times) {
            true => knowledge.by_any_digest(),
            false => knowledge.by_any_digest().in_doubt(),
        };
        let verified = Verified::of(private);
        Self { below, knowledge, verified, plugs: KnownPlugs::of(private, root) }
    }

    fn is_replugged(&self, row: &Row, path: &RelPath, is_read_now: bool) -> bool {
        self.plugs.as_ref().is_some_and(|plugs| plugs.is_replugged(row, path, is_read_now))
    }
}

/// Reads files.
struct FileReader<'a> {
    observer: &'a EventObserver<'a>,
    algorithms: Algorithms,
    read_back: ReadBack,
}

impl<'a> FileReader<'a> {
    fn new(observer: &'a EventObserver<'a>, algorithms: Algorithms) -> Self {
        Self { observer, algorithms, read_back: ReadBack::new() }
    }

    /// The digests of a file that was `listed` so, and where it was read from; `None` if the run is to stop.
    ///
    /// # Errors
    /// It cannot be read, or changed meanwhile.
    fn read(
        &mut self,
        entry: &EntryBelow<'_>,
        listed: &Stat,
        from_device: bool,
    ) -> io::Result<Option<(Vec<Digest>, HashedFrom)>> {
        let file = entry.dir.open_file(entry.name, false)?;
        let is_still = |file: &File| match listed.change(&Dir::stat_file(file)?) {
            Some(change) => Err(io::Error::other(change)),
            None => Ok(()),
        };
        is_still(&file)?;
        let medium = match from_device {
            true => Medium::of(&file, listed)?,
            false => Medium::any(&file),
        };
        let (stop, progress) = (&self.observer.stop, &self.observer.progress);
        let hashed = self.read_back.hash_paced(
            medium,
            self.algorithms,
            || stop.is_requested(),
            |bytes| {
                if !from_device {
                    progress.bytes.fetch_add(bytes, Relaxed);
                }
            },
        )?;
        let Some((read, digests)) = hashed else { return Ok(None) };
        is_still(&file)?;
        if read.bytes != listed.size {
            let finding = format!("{} of its {} bytes could be read", read.bytes, listed.size);
            return Err(io::Error::other(finding));
        }
        let digests = digests.ok_or_else(|| io::Error::other("it has no digest"))?;
        Ok(Some((digests.iter().copied().collect(), read.hashed_from)))
    }
}
