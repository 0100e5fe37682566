//! The bad files that a check found, until they are made whole.

use std::{
    cell::RefCell, collections::BTreeMap, collections::BTreeSet, fs::File, io, io::Seek,
    mem::size_of, path::Path, path::PathBuf, sync::Arc, sync::OnceLock, sync::atomic::AtomicU64,
    sync::atomic::Ordering::Relaxed,
};

use crate::state::{
    Knowledge, Missing, Note, OpenedDir, Origin, PrivateDir, Row, Trace, private_dir::NAME,
};
use crate::{
    chain::Damage, error::Deed, error::Error, error::Result, event::Stop, hash::Chain,
    hash::Digest, heal::FileCopy, heal::from_rescue::Rescued, heal::new_file::has_digest,
    heal::parents::DirPlace, heal::parents::Parents, io::ReadBack, manifest::Index,
    manifest::Lookup, manifest::ManifestName, manifest::NextLine, manifest::archive::bag::PAYLOAD,
    manifest::archive::mhl::is_chain, manifest::readers::is_of_stranger, manifest::readers::ours,
    path::RelPath, path::Shown, staged::StagedFile, sys::Dir, sys::Medium, sys::PartTag,
    sys::is_on_turning_disk, sys::stat::Identity, sys::stat::Kind, tree::Patience, verify::Finding,
    verify::ManifestLines, verify::Mend, verify::NameHasher, verify::PartOf, verify::Rival,
    verify::SeenNames, verify::Target, verify::TargetSpec, verify::Verdict,
};

/// Bytes of what is remembered of bad files. What is left out is told, and is found again by the next run.
const MOST_BYTES: usize = 16 << 20;

/// In which way a file is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    Differs,
    Missing,
    Unreadable,
}

/// A listed file that is not as it is listed.
#[derive(Debug)]
pub struct BadFile {
    pub target: Arc<Target>,
    /// The number of its tree.
    pub tree: usize,
    pub path: RelPath,
    /// The digest that is listed; of several, that of the strongest algorithm.
    pub digest: Digest,
    pub harm: Harm,
    /// Number of lines of manifests that list it.
    pub lines: u64,
    /// Why it must not be touched, if so.
    pub barrier: Option<String>,
}

/// The bad files of all trees.
#[derive(Debug, Default)]
pub struct BadFiles {
    files: Vec<BadFile>,
    /// Where each stands.
    names: BTreeMap<(RelPath, usize), usize>,
    weight: usize,
    /// Number of files that were too many to be remembered.
    pub left_out: u64,
}

impl BadFiles {
    /// Notes a file of the tree of this number, if the finding is that it is bad.
    pub fn note(&mut self, target: &Arc<Target>, tree: usize, finding: &Finding) {
        let Finding::File { path, listed, verdict, .. } = finding else { return };
        let (harm, barrier) = match verdict {
            Verdict::Good(_) | Verdict::Refused(_) => return,
            Verdict::Differs(..) | Verdict::OtherSize { .. } => (Harm::Differs, None),
            Verdict::Missing => (Harm::Missing, None),
            Verdict::NotThrough(kind) => {
                (Harm::Missing, Some(format!("{} is on the way to it", kind.name())))
            }
            Verdict::NotAFile(kind) => {
                (Harm::Missing, Some(format!("{} has its name", kind.name())))
            }
            Verdict::Unreadable(error) => {
                // What the device says is damage; what else is in the way is not.
                let is_read = error.deed() == "read" && error.kind().is_some();
                (Harm::Unreadable, (!is_read).then(|| error.reason()))
            }
        };
        let name = (path.clone(), tree);
        if let Some(known) = self.names.get(&name).and_then(|at| self.files.get_mut(*at)) {
            known.lines += 1;
            if listed.algorithm() < known.digest.algorithm() {
                (known.target, known.digest) = (Arc::clone(target), *listed);
            }
            return;
        }
        let weight = 3 * path.as_bytes().len() + size_of::<(BadFile, RelPath, usize)>();
        if self.weight + weight > MOST_BYTES {
            self.left_out += 1;
            return;
        }
        self.weight += weight;
        self.names.insert(name, self.files.len());
        let (target, path, digest) = (Arc::clone(target), path.clone(), *listed);
        self.files.push(BadFile { target, tree, path, digest, harm, lines: 1, barrier });
    }

    /// The files of one tree after the other, in the order of their names: workers find them in none.
    pub fn in_order(&self) -> impl Iterator<Item = &BadFile> {
        let mut files: Vec<&BadFile> = self.files.iter().collect();
        files.sort_by(|a, b| (a.tree, &a.path).cmp(&(b.tree, &b.path)));
        files.into_iter()
    }

    /// True if the file of this name was found bad in the tree of this number.
    pub fn has(&self, path: &RelPath, tree: usize) -> bool {
        self.names.contains_key(&(path.clone(), tree))
    }
}

// A bad file and its copies, and what came of making it whole.

/// Why a file was not made whole.
#[derive(Debug)]
pub enum Unmended {
    /// No tree has these places good.
    Lost(Damage),
    /// No tree has it good.
    Nowhere,
    /// Nor has parity enough of it.
    Beyond {
        bad: usize,
        left: usize,
    },
    /// Something else is in the way.
    Barrier(String),
    Failed(Error),
    /// The run is to stop.
    Stopped,
}

impl From<Error> for Unmended {
    fn from(error: Error) -> Self {
        Unmended::Failed(error)
    }
}

/// A bad file and its copies.
pub struct Case<'c> {
    pub bad: &'c BadFile,
    pub place: DirPlace<'c>,
    /// Where it is, for messages.
    pub path: &'c Path,
    /// The copies, that of its own tree first, if it is there; of a missing file, what was rescued of it.
    pub copies: &'c [FileCopy],
    /// What is missing of that.
    pub rescued: Option<Rescued>,
    /// The trees whose copy was told to be unreadable; that of the bad file was by the check.
    pub told: RefCell<Vec<usize>>,
}

impl<'c> Case<'c> {
    /// The copy that the new file is begun with and looks like: the bad one, or for want of it the first good one.
    pub fn base(&self) -> Result<&'c FileCopy, Unmended> {
        self.copies.first().ok_or(Unmended::Nowhere)
    }

    /// The bad file itself, if it is there, or what was rescued of it.
    pub fn own(&self) -> Option<&'c FileCopy> {
        self.copies.first().filter(|copy| copy.tree == self.bad.tree)
    }
}

/// A file that is whole by now, and waits to take the place of the bad one.
pub struct ReadyFile {
    pub parents: Parents,
    pub file: StagedFile,
    /// True if there is a bad one.
    pub replaces: bool,
}

/// The message about the file, and the work that is still to be done unless this is a dry run.
pub struct Mended {
    pub mend: Mend,
    pub ready: Option<ReadyFile>,
}

// Names that the trees list with different digests: then they are no copies of one another there.

/// Number of names that are remembered.
const MOST_CONFLICTS: usize = 50_000;

/// Between so many lines it is asked whether the run is to stop.
const ASK: u64 = 1 << 12;

/// The contradictions between the manifests.
#[derive(Debug, Default)]
pub struct Conflicts {
    names: BTreeSet<RelPath>,
    /// Names beyond those that are remembered.
    more: bool,
}

impl Conflicts {
    /// Reads the manifests of all trees, and tells each name that has two digests.
    ///
    /// # Errors
    /// A manifest cannot be read.
    pub fn find(
        listed: Vec<ListedTree>,
        stop: &Stop,
        tell: &dyn Fn(&Target, Finding),
    ) -> Result<Self> {
        let (mut seen, key) = (SeenNames::default(), NameHasher::default());
        let mut conflicts = Self::default();
        // Of one tree nothing is to be said.
        let mut is_any_shared =
            listed.windows(2).all(|pair| pair[0].target.root_id == pair[1].target.root_id);
        let last = listed.last().map(|it| Arc::clone(&it.target));
        for ListedTree { target, manifest } in listed {
            let mut lines = ManifestLines::new(&target, manifest);
            while let Some(line) = lines.next_file().deed("read the manifest", &target.manifest)? {
                if line.number.is_multiple_of(ASK) && stop.is_requested() {
                    return Ok(conflicts);
                }
                let before = seen.note(key.of(&line.path), line.number, &line.digest);
                is_any_shared |= before.is_some();
                if matches!(before, Some((_, false))) && conflicts.note(&line.path) {
                    tell(&target, Finding::Conflict(line.path));
                }
            }
        }
        if let Some(target) = last.filter(|_| !is_any_shared) {
            let finding =
                "none of its files is listed by another of these trees: is it a copy of them?";
            tell(
                &target,
                Finding::Notice(Error::finding("heal from other trees", &target.root, finding)),
            );
        }
        Ok(conflicts)
    }

    /// Notes a name; whether it is not known yet.
    fn note(&mut self, path: &RelPath) -> bool {
        if self.names.len() >= MOST_CONFLICTS {
            self.more = true;
            return !self.names.contains(path);
        }
        self.names.insert(path.clone())
    }

    /// Why a file of this name must not be touched, if so.
    pub fn barrier(&self, path: &RelPath) -> Option<String> {
        if self.more {
            return Some("the trees are no copies of one another".into());
        }
        self.names.contains(path).then(|| "the trees list different digests for it".into())
    }
}

// The trees of a run: opened once, kept from other runs, with their manifests.

/// A run that was cut short, kept its record elsewhere, or listed nothing, may have published newer files, which the
/// list does not have.
const MAY_BE_NEWER: &str = "it may be newer than the list: a later run there was cut short, kept its record \
                            elsewhere, or made no list (--hash none, a plan that is not finished); run that copy \
                            again first, with a list, or give the list that is to hold (--manifest)";

/// A tree that gives good content, and gets it if it is to be healed.
#[derive(Debug)]
pub struct Tree {
    pub root: PathBuf,
    pub dir: Dir,
    pub id: Identity,
    /// Its manifests, as far as they can be opened.
    pub targets: Vec<Arc<Target>>,
    /// The files of these, to be read once more.
    manifests: Vec<File>,
    /// Keeps other runs out.
    private: Option<PrivateDir>,
    /// Why nothing may be written to it.
    pub barrier: Option<String>,
    /// What runs recorded of it; looked up where a file is bad.
    known: OnceLock<Knowledge>,
    /// True if private records tell which of its lists hold.
    is_recorded: bool,
    /// The lines of its other lists for bad files; looked up where a file is bad.
    others: OnceLock<Vec<(ManifestName, Index)>>,
    /// True for a disk that turns, where one sequence of reads is fastest.
    pub turns: bool,
}

/// A manifest that is to be read.
pub struct ListedTree {
    pub target: Arc<Target>,
    pub manifest: File,
}

/// The means to keep other runs out of a tree.
#[derive(Clone, Copy)]
pub struct Keeping<'a> {
    pub patience: Patience<'a>,
    /// The treatment of a missing private directory: made or not.
    pub missing: Missing,
    /// Where private directories are, if not in the trees.
    pub state: Option<&'a std::path::Path>,
}

impl Tree {
    /// Opens a tree; what its manifests cannot be opened for is told by the check.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(root: PathBuf, specs: &[TargetSpec]) -> Result<(Self, Vec<ListedTree>)> {
        let fail = |error| Error::io("open the directory", &root, error);
        let dir = Dir::open_named(&root).map_err(fail)?;
        let id = dir.identity().map_err(fail)?;
        let (mut targets, mut manifests, mut listed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut barrier, mut is_recorded) = (None, true);
        for opened in specs.iter().filter_map(|spec| spec.open().ok()) {
            let has_later = |rival: &Rival| match rival {
                Rival::Unrecorded(name) => !name.is_ahead(),
                rival => matches!(rival, Rival::Doubtful(_) | Rival::Unlisted),
            };
            if opened.found.unfinished.is_some() || opened.found.rivals.iter().any(has_later) {
                barrier = Some(MAY_BE_NEWER.to_owned());
            }
            is_recorded &= opened.found.is_recorded;
            targets.push(Arc::clone(&opened.target));
            let again = opened.found.manifest.try_clone();
            manifests.push(again.deed("read the manifest", &opened.target.manifest)?);
            listed.push(ListedTree { target: opened.target, manifest: opened.found.manifest });
        }
        let turns = is_on_turning_disk(&dir);
        let (private, known, others) = (None, OnceLock::new(), OnceLock::new());
        let tree = Self {
            root,
            dir,
            id,
            targets,
            manifests,
            private,
            barrier,
            known,
            is_recorded,
            others,
            turns,
        };
        Ok((tree, listed))
    }

    /// Keeps other runs out until this is dropped. A tree that cannot have a private directory is not written to.
    ///
    /// # Errors
    /// Another run is at work on it.
    pub fn keep(&mut self, keeping: Keeping<'_>) -> Result<()> {
        let Keeping { patience, missing, state } = keeping;
        // What no list is of is not written to: it may be a card.
        let missing = if self.targets.is_empty() { Missing::Leave } else { missing };
        match PrivateDir::need(&self.dir, &self.root, state, missing) {
            Ok(Some(private)) => {
                patience.lock(&private, &self.root)?;
                self.private = Some(private);
            }
            Ok(None) => {}
            Err(error) => self.barrier = Some(error.to_string()),
        }
        Ok(())
    }

    /// The manifest that parity is made by, and its target, if there is one.
    pub fn only_manifest(&self) -> Option<(&Arc<Target>, &File)> {
        let lists: Vec<PartOf> = self.targets.iter().map(|target| target.part).collect();
        let is_it = |(target, _): &(&Arc<Target>, &File)| {
            target.part.is_protected_of(&lists)
                && (target.ours.is_some() || target.part.bag().is_some())
        };
        self.targets.iter().zip(&self.manifests).find(is_it)
    }

    /// Gives a directory that a killed run left writable its permissions back.
    ///
    /// # Errors
    /// They cannot be set.
    pub fn close_opened(&self) -> Result<()> {
        let Some(private) = &self.private else { return Ok(()) };
        let Some(opened) = OpenedDir::read(private) else { return Ok(()) };
        let closed = opened.close(&self.dir).and_then(|()| OpenedDir::forget(private));
        closed.deed("close again what was opened in", &self.root)
    }

    /// Why the file that is there, and not as listed, must not be touched, if a later run may have made it.
    pub fn newer(&self, bad: &BadFile, all: &BadFiles, stop: &Stop) -> Option<String> {
        if let Some(other) = self.other_list_of(bad, all, stop) {
            return Some(format!(
                "it is exactly what {other} here lists, and no private record tells which list holds: give the one that is \
                 to hold (--manifest)"
            ));
        }
        let known = self.known();
        let (recorded, from) = known.digest(bad.path.as_bytes(), bad.digest.algorithm())?;
        (recorded != bad.digest && from != Origin::There).then(|| MAY_BE_NEWER.to_owned())
    }

    /// Another list of the tree by which the file is good. Where no record tells which list holds, a clock may have
    /// been wrong, and the other be the newer one.
    fn other_list_of(&self, bad: &BadFile, all: &BadFiles, stop: &Stop) -> Option<ManifestName> {
        let taken = bad.target.ours.filter(|_| !self.is_recorded && bad.harm == Harm::Differs)?;
        let is_to_stop = || stop.is_requested();
        let others = self.others.get_or_init(|| {
            let is_bad = |name: &[u8]| {
                let path = RelPath::parse(name.strip_prefix(b"./").unwrap_or(name));
                path.is_ok_and(|path| all.has(&path, bad.tree))
            };
            let mut names = ours(&self.dir, |_| false, Some(taken)).unwrap_or_default();
            names.retain(|name| *name != taken && !is_of_stranger(&self.dir, name));
            // One that cannot be read says nothing.
            let open = |name: ManifestName| {
                let file = self.dir.open_file(name.to_string().as_ref(), false).ok()?;
                let is_file = Dir::stat_file(&file).ok()?.kind == Kind::File;
                let index = is_file.then(|| Index::build_of(file, &is_bad, &is_to_stop))?;
                Some((name, index.ok()?))
            };
            names.into_iter().filter_map(open).collect()
        });
        let copy = FileCopy::open(bad.tree, self, &bad.path).ok()?;
        let mut read_back = ReadBack::new();
        let is_of = |(name, index): &&(ManifestName, Index)| {
            let Ok(Lookup::Agreed { digest, .. }) = index.peek(bad.path.as_bytes()) else {
                return false;
            };
            let listed = digest.in_list_of(name.algorithm());
            let medium = || Ok(Medium::any(&copy.file));
            listed != bad.digest
                && matches!(
                    has_digest(medium, &listed, &mut read_back, is_to_stop, |_| ()),
                    Ok(Some(true))
                )
        };
        others.iter().find(is_of).map(|(name, _)| *name)
    }

    /// As what a run left the file at its path that was as listed, if that is on record and no run came later: a plan,
    /// or one with another private directory, leaves no rows.
    pub fn recorded(&self, bad: &BadFile) -> Option<Trace> {
        let (path, known) = (bad.path.as_bytes(), self.known());
        if known.is_behind() {
            return None;
        }
        let (digest, _) = known.digest(path, bad.digest.algorithm())?;
        let trace = known.recorded_trace(path, &mut NextLine::default());
        trace.filter(|trace| digest == bad.digest && *trace != Trace::UNKNOWN)
    }

    /// Hands to `see` each file that no manifest lists any more, because a run found it to be something else than
    /// recorded or could not read it, and its row. Nothing of a record that a later run did not go on with.
    ///
    /// # Errors
    /// A manifest or a record cannot be read.
    pub fn each_dropped(
        &self,
        stop: &Stop,
        mut see: impl FnMut(&RelPath, &Row) -> Result<()>,
    ) -> Result<()> {
        let known = self.known();
        if !known.has_records() || known.is_behind() {
            return Ok(());
        }
        for (target, manifest) in self.targets.iter().zip(&self.manifests) {
            let fail = |error| Error::io("read the manifest", &target.manifest, error);
            let mut manifest = manifest.try_clone().map_err(fail)?;
            manifest.rewind().map_err(fail)?;
            let mut lines = ManifestLines::new(target, manifest);
            while let Some(line) = lines.next_file().map_err(fail)? {
                known.settle(line.path.as_bytes());
                if line.number.is_multiple_of(ASK) && stop.is_requested() {
                    return Ok(());
                }
            }
        }
        known.unsettled(&|| stop.is_requested(), |path, unsettled| {
            let row = unsettled.remembered.row.filter(|row| !row.sure);
            row.map_or(Ok(()), |row| see(path, &row))
        })
    }

    fn known(&self) -> &Knowledge {
        self.known.get_or_init(|| {
            let private = self.private.as_ref();
            Knowledge::load(private, &self.dir, &self.root, &|_| false, &|| false).0
        })
    }

    /// The tag in the names of part files that copies to this tree make where `path` is.
    pub fn part_tag(&self, path: &RelPath) -> Option<PartTag> {
        let private = self.private.as_ref()?;
        let is_in_payload = path.components().next() == Some(PAYLOAD.as_bytes());
        let payload = is_in_payload.then(|| private.payload(&self.dir, &self.root)).flatten();
        let private = payload.as_ref().map_or(private, |kept| &kept.private);
        private.known_secret().ok().flatten().map(|secret| secret.of_parts())
    }

    /// The private directory, which keeps other runs out, and notes for later ones.
    pub fn private(&self) -> Option<&PrivateDir> {
        self.private.as_ref()
    }

    /// True if one of its manifests lists this file; so too if that cannot be found out. The manifests are read: it is
    /// for what hardly ever is the case.
    pub fn lists(&self, path: &RelPath) -> bool {
        let lists = |(target, manifest): (&Arc<Target>, &File)| -> io::Result<bool> {
            let mut manifest = manifest.try_clone()?;
            manifest.rewind()?;
            let mut lines = ManifestLines::new(target, manifest);
            while let Some(line) = lines.next_file()? {
                if line.path == *path {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        self.targets.iter().zip(&self.manifests).any(|both| lists(both).unwrap_or(true))
    }

    /// True if the directory `dir` of this tree, or the entry at `path`, is where private records are: nothing that
    /// came from elsewhere may become one.
    pub fn keeps_for_itself(&self, dir: &Dir, path: &RelPath) -> bool {
        let is_private = |name: &[u8]| name.eq_ignore_ascii_case(NAME.as_bytes());
        let private = self.private.as_ref().and_then(|private| private.dir().identity().ok());
        path.components().next().is_some_and(is_private)
            || private.is_some() && dir.identity().ok() == private
    }

    /// The chain of a content, and the size of that, if it stands beside one of the manifests.
    pub fn chain(&self, digest: &Digest) -> Option<(Chain, u64)> {
        self.targets.iter().find_map(|target| target.chain(digest))
    }
}

// Bad files of histories, which are checked and not healed: why, and what makes them whole.

/// Counts them.
#[derive(Default)]
pub struct Unhealed(AtomicU64);

impl Unhealed {
    /// Counts a finding that is of no list that trees are healed by, and returns what is to be told of it.
    pub fn note(&self, target: &Target, finding: &Finding) -> Option<Finding> {
        let Finding::File { path, verdict, .. } = finding else { return None };
        if matches!(verdict, Verdict::Good(_) | Verdict::Refused(_)) {
            return None;
        }
        self.0.fetch_add(1, Relaxed);
        let (path, why) = (path.clone(), remedy(target));
        Some(Finding::NotHealed { path, why, lost: None })
    }

    /// Number of bad files.
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Why a bad file that such a list has is not healed, and what to do.
fn remedy(target: &Target) -> String {
    let list = Shown::path(&target.manifest);
    match target.part {
        PartOf::Generation { .. } => format!(
            "nothing is healed by a history; give the one of its generations that is to hold, as in --manifest {list}"
        ),
        PartOf::Alone if is_chain(target.manifest.as_os_str().as_encoded_bytes()) => {
            "what its history consists of is not healed; put back the directory \"ascmhl\" of a good copy".to_owned()
        }
        PartOf::Alone | PartOf::Bag(_) => format!("{list} could not be read once more"),
    }
}
