//! The expected content of the source, by an earlier manifest (`--expect`) or that of a bag: its line for each file,
//! and the files of it that were found.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::{
    collections::BTreeSet, fs::File, io, io::Read, path::Path, path::PathBuf,
    sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed,
};

use crate::error::{Deed, Error, Result, is_absent};
use crate::hash::{Algorithm, Algorithms, Digest, Digests};
use crate::manifest::{Entries, Index, Lookup, ManifestName, Parsed, PayloadList, lists};
use crate::state::{
    BagSince, Knowledge, Missing, Origin, PrivateDir, RecordedPayload, RecordedSizes, RecordedTree,
    RemovedFile, SinceRecorded,
};
use crate::sys::stat::{Kind, Stat, Time};
use crate::sys::{Dir, DirListing, FileRange};
use crate::{
    manifest::archive::bag_list, manifest::archive::mhl::is_mhl, manifest::name::LIKE_SHA512,
    path::RelPath, path::Shown, sys, tree::LastDir, tree::OwnPaths,
};

/// Number of bytes that tell the kind of a file.
const START: u64 = 512;

/// The manifest that the source is held against.
#[derive(Debug)]
pub struct Baseline {
    index: Index,
    path: PathBuf,
    /// The algorithm of its digests, where its name tells.
    named: Option<Algorithm>,
    /// The manifest itself, and its length and time when it was read.
    file: File,
    read: (u64, Time),
    written: Time,
    as_listed: AtomicU64,
    edited: AtomicU64,
    /// Where the lines of these stand.
    edited_lines: Mutex<BTreeSet<u64>>,
    /// Files that are as listed by the algorithm that the list was not taken to be of.
    alike: AtomicU64,
    /// Listed files that were come upon.
    visited: AtomicU64,
    /// Of the manifest of a bag: the prefix of names of the payload.
    payload: Option<&'static str>,
    /// True if everything is expected as it is listed, as in a bag: then no file is edited, and none gone.
    is_all: bool,
    /// A file of the payload that it does not list.
    unlisted: OnceLock<Vec<u8>>,
    /// What this user's runs recorded of the source, which was their output; looked up where a file differs.
    own: OnceLock<Knowledge>,
    /// The source, if that counts.
    recorded: Option<PathBuf>,
    /// The sizes that this user's runs recorded of the listed files, and the tree whose runs these are, if any count.
    sizes: RecordedSizes,
    tree: Option<RecordedPlace>,
    /// What is to be told of a bag beside that.
    of_bag: Vec<Error>,
}

/// The tree whose records count.
#[derive(Debug)]
struct RecordedPlace {
    root: Dir,
    path: PathBuf,
    state: Option<PathBuf>,
    is_bag: bool,
}

/// The list that a source is held against, and in which way.
#[derive(Clone, Copy)]
pub struct ExpectedList<'a> {
    /// Where it is; it may be that of a bag.
    pub path: &'a Path,
    /// The source.
    pub source: &'a Path,
    /// All is expected as it is listed.
    pub all: bool,
    /// Where private directories are kept, if not in the bag.
    pub state: Option<&'a Path>,
}

impl RecordedPlace {
    fn open(path: &Path, state: Option<&Path>, is_bag: bool) -> Option<Self> {
        let (root, state) = (Dir::open(path).ok()?, state.map(Path::to_path_buf));
        Some(Self { root, path: path.to_path_buf(), state, is_bag })
    }

    fn tree(&self) -> RecordedTree<'_> {
        let Self { root, path, state, is_bag } = self;
        RecordedTree { root, path, state: state.as_deref(), is_bag: *is_bag }
    }
}

/// Listed files that were not found.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnmetFiles {
    /// Lines with names that no tree can hold.
    pub refused: u64,
    /// Listed files that are not in the source.
    pub gone: u64,
    /// … and that are.
    pub present: u64,
}

impl Baseline {
    /// Reads the list twice. It takes 14 to 15 bytes of memory a line. Nothing more is read once `is_to_stop` says so.
    ///
    /// # Errors
    /// It is not a regular file, cannot be read, or lists nothing and is not the manifest of a bag.
    pub fn open(expected: ExpectedList<'_>, is_to_stop: &dyn Fn() -> bool) -> Result<Self> {
        let ExpectedList { path: bag, source, all, state } = expected;
        let of_bag = bag_list::manifest_of(bag)?;
        let path = of_bag.as_deref().unwrap_or(bag);
        let fail = |error| Error::io("read the expected manifest", path, error);
        let file = Self::open_file(path)?;
        let stat = Dir::stat_file(&file).map_err(fail)?;
        let read = (stat.size, stat.mtime);
        let own_name = path.file_name().and_then(ManifestName::parse);
        let (mut payload, mut told) = (None, Vec::new());
        let (list, named) = match bag_list::as_list(path, &file, source)? {
            Some(mut list) => {
                // Who names the manifest itself says that it counts.
                if of_bag.is_some() {
                    let recorded = RecordedList::of(&list, path, bag, state, is_to_stop)?;
                    list.file = recorded.file.unwrap_or(list.file);
                    told = recorded.told;
                }
                payload = Some(list.payload);
                (list.file, Some(list.algorithm))
            }
            None => (file.try_clone().map_err(fail)?, own_name.map(|name| name.algorithm())),
        };
        let index = Index::build(list, is_to_stop).map_err(fail)?;
        // A bag may be empty.
        let may_be_empty = payload.is_some() && index.skipped() == 0;
        if index.is_empty() && !may_be_empty && !is_to_stop() {
            return Err(Error::finding("expect what is listed in", path, why_none(&file)));
        }
        // A time that was set by hand may be later than the real one, so the earlier of both counts. It may have been
        // cut, so the latest that can be meant.
        let written = stat.mtime.min(stat.ctime).latest_cut_to_this();
        let (as_listed, edited) = (AtomicU64::new(0), AtomicU64::new(0));
        let (path, alike, visited) = (path.to_path_buf(), AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self {
            edited_lines: Mutex::default(),
            is_all: all || payload.is_some(),
            index,
            path,
            named,
            file,
            read,
            written,
            as_listed,
            edited,
            alike,
            visited,
            payload,
            unlisted: OnceLock::new(),
            own: OnceLock::new(),
            recorded: None,
            sizes: RecordedSizes::default(),
            tree: of_bag.is_some().then(|| RecordedPlace::open(bag, state, true)).flatten(),
            of_bag: told,
        })
    }

    /// The same, where what is recorded of `source` may count beside the list.
    #[must_use]
    pub fn with_records_of(self, may_count: bool, source: &Path) -> Self {
        let is_own = may_count && self.is_all && !self.is_of_bag();
        let own = is_own.then(|| RecordedPlace::open(source, None, false)).flatten();
        Self { recorded: is_own.then(|| source.to_path_buf()), tree: own.or(self.tree), ..self }
    }

    /// The size on record for what is listed of the file `path`, if a file of this size is something else. Of a small
    /// one that `is_read` for it nothing is asked.
    pub fn other_size(&self, path: &[u8], size: u64, is_read: bool) -> Result<Option<u64>> {
        let Some(place) = &self.tree else { return Ok(None) };
        let Lookup::Agreed { digest, .. } = self.listed(path)? else { return Ok(None) };
        let below = path.strip_prefix(self.payload.unwrap_or_default().as_bytes());
        let (path, tree) = (below.unwrap_or(path), || Some(place.tree()));
        Ok(match is_read {
            true => self.sizes.other_than(size, path, &digest, tree),
            false => self.sizes.size_of(path, &digest, tree).filter(|recorded| *recorded != size),
        })
    }

    /// The algorithms by which files are to be read: those that are listed, and those whose digests look like these.
    pub fn algorithms(&self) -> Algorithms {
        let meant = |one: Algorithm| match (self.named, one.alike()) {
            (Some(named), Some(alike)) if alike == named => [alike; 2],
            // BLAKE3 would cost as much again for every list of SHA-256: it is tried where a file differs.
            (None, Some(alike)) if one != Algorithm::Sha256 => [one, alike],
            _ => [one; 2],
        };
        self.index.algorithms().iter().flat_map(meant).collect()
    }

    /// The listed digest as one of the algorithm whose digests look alike, where nothing tells which is meant and
    /// that one is not computed.
    pub fn other_meaning(&self, listed: Digest) -> Option<Digest> {
        listed.alike().filter(|_| self.named.is_none() && listed.algorithm() == Algorithm::Sha256)
    }

    /// Opens what may be a manifest.
    ///
    /// # Errors
    /// It is not a regular file, or cannot be opened.
    fn open_file(path: &Path) -> Result<File> {
        let fail = |error| Error::io("read the expected manifest", path, error);
        // Opening a FIFO would wait.
        if !std::fs::metadata(path).map_err(fail)?.is_file() {
            let finding = "it is not a regular file";
            return Err(Error::finding("read the expected manifest", path, finding));
        }
        File::open(path).map_err(fail)
    }

    /// Lines that say nothing that could be expected: malformed, torn or too long ones.
    pub fn malformed(&self) -> u64 {
        self.index.skipped()
    }

    /// Checks that the manifest is still the one that was read. The index keeps of most lines only where they stand, so
    /// after a change it cannot tell what was listed before.
    ///
    /// # Errors
    /// It is not.
    pub fn check_unchanged(&self) -> Result<()> {
        let stat = Dir::stat_file(&self.file).map_err(|error| self.unreadable(error))?;
        if (stat.size, stat.mtime) == self.read {
            return Ok(());
        }
        let finding =
            "it was changed while the source was held against it; run again with one that stays";
        Err(Error::finding("rely on the expected manifest", &self.path, finding))
    }

    /// The warning if so many lines were of no use.
    pub fn warning(&self, unusable: u64) -> Option<Error> {
        let finding = format!(
            "{unusable} of its lines say nothing that can be expected of a file in the source, so what \
             they were to list is held against nothing"
        );
        let is_any = unusable > 0;
        is_any.then(|| Error::finding("use all of the expected manifest", &self.path, finding))
    }

    /// Files that were read and found to have the listed digest.
    pub fn as_listed(&self) -> u64 {
        self.as_listed.load(Relaxed)
    }

    /// … and those that were edited since.
    pub fn edited(&self) -> u64 {
        self.edited.load(Relaxed)
    }

    /// The listed digest of the file `path`.
    pub fn listed(&self, path: &[u8]) -> Result<Lookup> {
        let listed = self.index.peek(path).map_err(|error| self.unreadable(error))?;
        Ok(match listed {
            Lookup::Agreed { digest, last } => {
                let named = self.named.unwrap_or(Algorithm::None);
                Lookup::Agreed { digest: digest.in_list_of(named), last }
            }
            Lookup::Nothing => {
                if self.payload.is_some_and(|payload| is_payload(path, payload)) {
                    self.unlisted.get_or_init(|| path.to_vec());
                }
                Lookup::Nothing
            }
            Lookup::Unclear => Lookup::Unclear,
        })
    }

    /// True if the file `path` is held against nothing.
    pub fn lacks(&self, path: &[u8]) -> bool {
        !self.index.lists(path)
    }

    fn unreadable(&self, error: io::Error) -> Error {
        Error::io("read the expected manifest", &self.path, error)
    }

    /// Where it is, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if a file with these times was edited after the manifest was written, if any may have been.
    pub fn is_older_than(&self, stat: &Stat) -> bool {
        stat.mtime > self.written && !self.is_all
    }

    /// What is recorded of the file at `path` of the source, where that is an output whose records count: a run that
    /// was cut short has no finished list, and the last one does not have what was found to be something else.
    pub fn recorded(&self, path: &RelPath) -> Option<(Digests, Origin)> {
        self.own()?.digests(path.as_bytes())
    }

    /// The digest in an earlier list there of the file at `path`, which is `stat`, if the newest does not have it and
    /// it was not modified since. Of a tree without a record of its own nothing else says that a run found it rotten.
    pub fn left_out(&self, path: &RelPath, stat: &Stat) -> Option<Digest> {
        let own = self.own().filter(|own| !own.has_records())?;
        own.digest_left_out(path.as_bytes(), stat)
    }

    fn own(&self) -> Option<&Knowledge> {
        let source = self.recorded.as_deref()?;
        let load = || {
            let root = Dir::open(source).ok()?;
            let private = PrivateDir::open(&root, source, None, Missing::Leave).ok().flatten();
            let load = |from| Knowledge::load(from, &root, source, &|_| false, &|| false).0;
            let known = load(private.as_ref());
            // A record of another directory says nothing of this one, nor of which lists there hold.
            Some(if known.has_records() { known } else { load(None) })
        };
        Some(self.own.get_or_init(|| load().unwrap_or_default()))
    }

    /// The list there of a run that was cut short.
    pub fn cut_short(&self) -> Option<ManifestName> {
        let root = Dir::open(self.recorded.as_deref()?).ok()?;
        let listed = DirListing::of(&root).ok()?.filter_map(Result::ok);
        let names = listed.filter_map(|it| ManifestName::parse(&it.name));
        names.filter(|name| !name.is_finished()).max()
    }

    /// True if everything is expected as it is listed: no file is edited, and none gone.
    pub fn expects_all(&self) -> bool {
        self.is_all
    }

    /// True for the manifest of a bag.
    pub fn is_of_bag(&self) -> bool {
        self.payload.is_some()
    }

    /// The message if the payload of the bag has files that it does not list.
    pub fn told_unlisted(&self) -> Option<Error> {
        let first = Shown::bytes(self.unlisted.get()?);
        let finding = format!(
            "there are files that it does not list ({first} is one), so this is no valid bag, and they were held \
             against nothing"
        );
        Some(Error::finding("hold all of the payload against", &self.path, finding))
    }

    /// What is to be told of a bag, because its lists are not what this user's runs recorded, or may not be.
    pub fn told_of_bag(&self) -> &[Error] {
        &self.of_bag
    }

    /// The message if nothing that is listed is in the source.
    pub fn told_foreign(&self, left: UnmetFiles) -> Option<Error> {
        let is_any = self.visited.load(Relaxed) + left.present > 0 || self.index.is_empty();
        let finding = "nothing that it lists is in the source, so the source was held against nothing; give the \
                       directory that it is of, or a manifest of this one";
        (!is_any).then(|| Error::finding("hold the source against", &self.path, finding))
    }

    /// The file `path` was come upon, and is not counted.
    pub fn visit(&self, path: &[u8]) -> Result<()> {
        self.count(path, None)
    }

    /// The file `path` has the listed digest.
    pub fn count_as_listed(&self, path: &[u8]) -> Result<()> {
        self.count(path, Some(&self.as_listed))
    }

    /// The file `path` has the listed digest, by the algorithm of its other meaning.
    pub fn count_alike(&self, path: &[u8]) -> Result<()> {
        self.alike.fetch_add(1, Relaxed);
        self.count_as_listed(path)
    }

    /// The message about files that have the listed digest by the other algorithm.
    pub fn told_alike(&self) -> Option<Error> {
        let alike = self.alike.load(Relaxed);
        let finding = format!(
            "{alike} files have the listed digests by BLAKE3; those of SHA-256 look alike, and its name does not say \
             which they are"
        );
        (alike > 0).then(|| Error::finding("take for a list of SHA-256", &self.path, finding))
    }

    /// The message if all files that were read, of which so many count as rotten, differ by SHA-512.
    pub fn told_like_sha512(&self, rotten: u64) -> Option<Error> {
        let differ = self.as_listed() == 0 && rotten + self.edited() > 0;
        let is_meant = self.named.is_none() && self.index.algorithms().has(Algorithm::Sha512);
        (differ && is_meant)
            .then(|| Error::finding("tell the algorithm of", &self.path, LIKE_SHA512))
    }

    /// The file `path` was edited since.
    pub fn count_edited(&self, path: &[u8]) -> Result<()> {
        if let Lookup::Agreed { last, .. } = self.listed(path)? {
            self.edited_lines.lock().unwrap_or_else(PoisonError::into_inner).insert(last);
        }
        self.count(path, Some(&self.edited))
    }

    /// True if the file `path` was found to be edited since.
    pub fn has_edited(&self, path: &[u8]) -> bool {
        let lines = self.edited_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_line =
            |listed| matches!(listed, Lookup::Agreed { last, .. } if lines.contains(&last));
        !lines.is_empty() && self.listed(path).is_ok_and(is_line)
    }

    /// Hands to `tell` the files that were edited since, in the order of the list.
    ///
    /// # Errors
    /// The manifest could not be read.
    pub fn each_edited(&self, mut tell: impl FnMut(&RelPath)) -> Result<()> {
        let lines = self.edited_lines.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines.iter() {
            let found = self.index.record_at(*line).map_err(|error| self.unreadable(error))?;
            found.iter().for_each(|(path, _)| tell(path));
        }
        Ok(())
    }

    /// Counts the file `path`, unless that was done before: a file may be read again.
    fn count(&self, path: &[u8], count: Option<&AtomicU64>) -> Result<()> {
        let first = self.index.visit(path).map_err(|error| self.unreadable(error))?;
        for count in [Some(&self.visited), count].into_iter().flatten() {
            count.fetch_add(first.into(), Relaxed);
        }
        Ok(())
    }

    /// The listed files that this run did not come upon and that are not in `source` as regular files, under the very
    /// names that are listed: a link counts if it is to `follow` them. Nothing more is looked for once `is_to_stop`
    /// says so.
    ///
    /// Returns how many there are.
    ///
    /// # Errors
    /// The manifest could not be read.
    pub fn gone(
        &self,
        source: &Dir,
        follow: bool,
        is_to_stop: &dyn Fn() -> bool,
        mut tell: impl FnMut(&RelPath),
    ) -> Result<UnmetFiles> {
        let mut counts = UnmetFiles::default();
        let (mut last, mut own) = (LastDir::default(), OwnPaths::below(source));
        let mut unvisited = self.index.unvisited(is_to_stop);
        for listed in unvisited.by_ref() {
            let (path, _) = listed.map_err(|error| self.unreadable(error))?;
            let is_gone = match last.stat(source, &path, follow) {
                // What is found by a name in other letter case was held against its own name, and nothing against this.
                Ok(stat) if stat.kind == Kind::File => !own.has(&path).unwrap_or(false),
                Ok(_) => true,
                // Of a directory that cannot be read the walk has told.
                Err(error) => cannot_be(&error) && !path.is_root(),
            };
            match is_gone {
                true => {
                    counts.gone += 1;
                    tell(&path);
                }
                false => counts.present += 1,
            }
        }
        Ok(UnmetFiles { refused: unvisited.refused(), ..counts })
    }
}

/// True for the system's word that there is nothing of a name, or that there can be nothing.
fn cannot_be(error: &io::Error) -> bool {
    is_absent(error) || error.kind() == io::ErrorKind::InvalidFilename
}

/// Why nothing is listed in a file.
fn why_none(file: &File) -> &'static str {
    let mut start = Vec::new();
    match FileRange::new(file, 0, START).read_to_end(&mut start) {
        Ok(_) if is_mhl(&start) => {
            "it is a Media Hash List, and a copy is held against plain lists and bags; check the source by it with \
             dirverify, and copy without --expect"
        }
        _ => "it has no line with a digest that is known here and a name",
    }
}

/// True for the name of a payload file, which begins so, and not of a list of ours beside it.
fn is_payload(path: &[u8], payload: &str) -> bool {
    let is_ours = |name: &[u8]| {
        sys::name_from_bytes(name).is_ok_and(|name| ManifestName::of_any(name).is_some())
    };
    path.strip_prefix(payload.as_bytes()).is_some_and(|name| !is_ours(name))
}

// The manifest of a bag that is expected of a source, line by line held against what this user's runs recorded of the
// payload: who may write there may have written data and manifest anew.

/// Number of bytes that are written at a time.
const BUFFER: usize = 256 << 10;

/// What counts in the place of a manifest.
pub struct RecordedList {
    /// Its lines have the recorded digests, also of files that the manifest has no more, and no file that was added.
    /// `None` if this user's runs recorded nothing of it.
    pub file: Option<File>,
    /// What is to be told of the bag.
    pub told: Vec<Error>,
}

impl RecordedList {
    /// What counts of the `list` at `path` of the bag at `bag`, whose private directory is below `state`, if that is
    /// given.
    ///
    /// # Errors
    /// The list or the record cannot be read, or what they become not be written.
    pub fn of(
        list: &PayloadList,
        path: &Path,
        bag: &Path,
        state: Option<&Path>,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let root = Dir::open(bag).deed("open the bag", bag)?;
        let since = BagSince::look(&root, bag, state);
        let is_rewritten = !since.tag_lists.is_empty();
        let mut told = since.told(bag);
        let recorded = RecordedPayload::load(&root, bag, state, list.algorithm, is_to_stop);
        let Some(recorded) = recorded else {
            if is_rewritten {
                let finding = "what your runs recorded of the payload is gone, and the tag manifests, which cover this \
                               list, are not as your last run wrote them: give a list that was kept elsewhere \
                               (--expect LIST)";
                return Err(Error::finding("rely on", path, finding));
            }
            return Ok(Self { file: None, told });
        };
        let (file, differing) = held(list, recorded, is_to_stop)
            .deed("compare with its private record the list of", bag)?;
        if differing > 0 {
            let finding = format!(
                "{differing} of its lines were changed, added or taken out since your last run recorded the bag: what \
                 that recorded counts"
            );
            told.push(Error::finding("rely on", path, finding));
        }
        Ok(Self { file: Some(file), told })
    }
}

/// The lines that count, and by how many they differ from the manifest.
fn held(
    list: &PayloadList,
    mut recorded: RecordedPayload,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<(File, u64)> {
    let (file, mut text) = (tempfile::tempfile()?, Vec::new());
    let (mut differing, below) = (0, list.payload.as_bytes());
    let len = list.file.metadata()?.len();
    let mut entries = Entries::of_all(FileRange::new(&list.file, 0, len));
    while let Some(entry) = entries.next_entry()?.filter(|_| !is_to_stop()) {
        let Parsed::Record(record) = entry.parsed else {
            text.extend_from_slice(b"?\n");
            continue;
        };
        let name = record.name.strip_prefix(b"./").unwrap_or(record.name);
        let held = recorded.hold(name.strip_prefix(below).unwrap_or(name), record.digest);
        differing += u64::from(held.contradiction.is_some());
        if held.contradiction != Some(SinceRecorded::Added) {
            lists::write_known(&mut text, &held.digest, name);
        }
        write_much(&file, &mut text, BUFFER)?;
    }
    while let removed = recorded.take_removed()?
        && !removed.is_empty()
    {
        for RemovedFile { path, digest } in removed {
            differing += 1;
            lists::write_known(&mut text, &digest, &[below, path.as_bytes()].concat());
        }
        write_much(&file, &mut text, BUFFER)?;
    }
    write_much(&file, &mut text, 0)?;
    Ok((file, differing))
}

/// Writes what is waiting, if that is more than so many bytes.
fn write_much(file: &File, text: &mut Vec<u8>, most: usize) -> io::Result<()> {
    if text.len() > most {
        sys::write_all(file, text)?;
        text.clear();
    }
    Ok(())
}
