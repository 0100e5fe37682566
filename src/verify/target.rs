//! A target of a check: a manifest and the directory its names start at.

use std::{ffi::OsStr, fs::File, io, path::Path, path::PathBuf, sync::Arc, sync::OnceLock};

use crate::{
    chain::side_file::MOST_RECORDS, chain::side_file::SideFile, error::Deed, error::Error,
    error::Result, hash::Algorithm, hash::Chain, hash::Digest, manifest::ManifestName,
    manifest::states_name, path::RelPath, path::directory_of, state::RecordedPayload,
    state::RecordedSizes, state::RecordedTree, sys, sys::Dir, sys::stat::Identity, sys::stat::Kind,
    sys::stat::Stat, verify::PartOf, verify::Rival, verify::Verdict, verify::choice::OwnManifests,
    verify::unlisted::other_lists,
};

/// Where a manifest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestAt {
    /// In this file, whatever it is called.
    File(PathBuf),
    /// On standard input.
    StandardInput,
}

/// The first part of the name of each file of the payload of a bag.
pub const BELOW_PAYLOAD: &[u8] = b"data/";

/// A manifest and the directory its names start at.
#[derive(Debug)]
pub struct Target {
    /// The manifest, for messages; empty where none was found.
    pub manifest: PathBuf,
    /// The directory that names start at.
    pub root: PathBuf,
    /// The manifest's name, if it is one that dircopy gives: finished or not.
    pub ours: Option<ManifestName>,
    /// The identity of `root`.
    pub root_id: Identity,
    /// The archive that the manifest is a part of.
    pub part: PartOf,
    /// Where private directories are kept, if not in `root`.
    pub state: Option<PathBuf>,
    handle: Option<Dir>,
    /// The directory that the manifest was opened in; `None` if it was moved from there at that moment.
    beside: Option<Dir>,
    /// The side file of the manifest, opened when it is first asked for.
    states: OnceLock<Option<SideFile>>,
    /// What this user's runs recorded of the sizes of the files.
    sizes: RecordedSizes,
}

/// A target that is open.
#[derive(Debug)]
pub struct OpenTarget {
    pub target: Arc<Target>,
    pub found: FoundManifest,
}

/// The manifest of a target, with what is known of it beside that.
#[derive(Debug)]
pub struct FoundManifest {
    pub manifest: File,
    /// The file's identity.
    pub id: Identity,
    /// True if the last run of this user wrote it, as its record says.
    pub is_recorded: bool,
    /// A manifest of a later run that was cut short.
    pub unfinished: Option<ManifestName>,
    /// Others that may be taken for the one that holds.
    pub rivals: Vec<Rival>,
    /// Other lists that were not asked for.
    pub others: Vec<String>,
    /// The error if it is a generation that was given the name of another one.
    pub misnamed: Option<Error>,
}

/// A target that is to be opened.
#[derive(Clone, Debug)]
pub struct TargetSpec {
    /// The manifest; the one of dircopy in `dir` that holds if `None`.
    pub manifest: Option<ManifestAt>,
    /// Where to look for it, and where names start unless `root` says otherwise.
    pub dir: Option<PathBuf>,
    /// Where names start.
    pub root: Option<PathBuf>,
    /// Where private directories are kept, if not in `dir`.
    pub state: Option<PathBuf>,
    /// The archive that the manifest is a part of. Then it is not opened through a link.
    pub part: PartOf,
    /// True if something is written there too. Then no link of another user leads there: he would say where to.
    pub is_written: bool,
}

impl Target {
    /// For findings that concern none.
    pub fn none() -> Self {
        Self::unopened(PathBuf::new(), PathBuf::new())
    }

    fn unopened(manifest: PathBuf, root: PathBuf) -> Self {
        let (root_id, states) = (Identity::default(), OnceLock::new());
        let (part, ours) = (PartOf::Alone, None);
        let (handle, beside, state) = (None, None, None);
        let sizes = RecordedSizes::default();
        Self { manifest, root, ours, root_id, part, state, handle, beside, states, sizes }
    }

    /// A directory that is open, and the file that says what it is.
    ///
    /// # Errors
    /// The directory cannot be looked at.
    pub fn of_dir(manifest: PathBuf, root: PathBuf, dir: Dir, part: PartOf) -> Result<Self> {
        let root_id = dir.identity().deed("look at", &root)?;
        Ok(Self { root_id, part, handle: Some(dir), ..Self::unopened(manifest, root) })
    }

    /// The directory that names start at, opened once for the whole check.
    pub fn handle(&self) -> Result<&Dir> {
        self.handle.as_ref().ok_or_else(|| Error::finding("check", &self.root, "it is not open"))
    }

    /// The full path of a listed file, for messages.
    pub fn path_of(&self, path: &RelPath) -> PathBuf {
        let is_here = self.root.as_os_str() == ".";
        path.full_path(if is_here { Path::new("") } else { &self.root })
    }

    /// The chain of the content with this digest, and the size of that, if one stands beside the manifest.
    pub fn chain(&self, digest: &Digest) -> Option<(Chain, u64)> {
        // What cannot be opened says nothing.
        let open = || {
            let name = states_name(&self.manifest)?;
            SideFile::open_in(self.beside.as_ref()?, &name, MOST_RECORDS, &|| false).ok().flatten()
        };
        self.states.get_or_init(open).as_ref()?.chain(digest)
    }

    /// The identity of the manifest's side file, if there is one.
    pub fn states_id(&self) -> Option<Identity> {
        let (name, dir) = (states_name(&self.manifest)?, self.beside.as_ref()?);
        dir.stat(&name, false).ok().map(|stat| stat.id)
    }

    /// The directory that the manifest is in, which was opened with it: its path may lead elsewhere by now.
    ///
    /// # Errors
    /// The manifest is no file, or was moved while it was opened.
    pub fn beside(&self) -> io::Result<&Dir> {
        let moved = || io::Error::new(io::ErrorKind::NotFound, "the manifest was moved meanwhile");
        self.beside.as_ref().ok_or_else(moved)
    }

    /// What this user's runs recorded of what a manifest by this algorithm lists, if it is that of the payload of a bag
    /// of theirs.
    pub fn recorded_payload(&self, by: Algorithm) -> Option<RecordedPayload> {
        let is_payload = by != Algorithm::None && self.part.bag().is_some_and(|bag| !bag.is_tag);
        let root = self.handle.as_ref().filter(|_| is_payload)?;
        RecordedPayload::load(root, &self.root, self.state.as_deref(), by, &|| false)
    }

    /// The size of the content with this digest that runs of this user left at `path`, if that is on record.
    pub fn size_of(&self, path: &RelPath, digest: &Digest) -> Option<u64> {
        self.sizes.size_of(self.below_record(path)?, digest, || self.recorded_tree())
    }

    /// The verdict on a file of this size, if another one is on record for what is listed: reading it would tell no
    /// more, and may take as long as who put it there pleases.
    pub fn other_size(&self, size: u64, path: &RelPath, digest: &Digest) -> Option<Verdict> {
        let (found, tree) = (size, || self.recorded_tree());
        let recorded = self.sizes.other_than(size, self.below_record(path)?, digest, tree)?;
        Some(Verdict::OtherSize { found, recorded, damage: None })
    }

    /// True if runs of this user left the content with this digest at `path`, and the file, which is `there`, has the
    /// size and the time on record.
    pub fn is_as_left(&self, path: &RelPath, digest: &Digest, there: &Stat) -> bool {
        let tree = || self.recorded_tree();
        self.below_record(path).is_some_and(|it| self.sizes.is_as_left(it, digest, there, tree))
    }

    fn recorded_tree(&self) -> Option<RecordedTree<'_>> {
        let (root, state, is_bag) =
            (self.handle.as_ref()?, self.state.as_deref(), self.part.bag().is_some());
        Some(RecordedTree { root, path: &self.root, state, is_bag })
    }

    /// The name that the record has for a file.
    fn below_record<'p>(&self, path: &'p RelPath) -> Option<&'p [u8]> {
        match self.part.bag() {
            Some(_) => path.as_bytes().strip_prefix(BELOW_PAYLOAD),
            None => Some(path.as_bytes()),
        }
    }

    /// True for the manifest of a run of dircopy that did not come to its end.
    pub fn is_unfinished(&self) -> bool {
        self.ours.is_some_and(|name| !name.is_finished())
    }
}

/// Opens a regular file in a directory, not through a link.
fn open_in(dir: &Path, name: &OsStr) -> io::Result<File> {
    let dir = Dir::open(dir)?;
    match dir.stat(name, false)?.kind {
        Kind::File => dir.open_file(name, false),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

impl TargetSpec {
    /// Opens the manifest and the directory. With an error comes a target to tell it of.
    pub fn open(&self) -> std::result::Result<OpenTarget, (Arc<Target>, Error)> {
        let mut target = Target::unopened(PathBuf::new(), self.names_start_at());
        target.state.clone_from(&self.state);
        match self.fill(&mut target) {
            Ok(found) => Ok(OpenTarget { target: Arc::new(target), found }),
            Err(error) => {
                // Findings about it belong to this directory, if it is there.
                let id = Dir::open(&target.root).and_then(|root| root.identity());
                target.root_id = id.unwrap_or(target.root_id);
                Err((Arc::new(target), error))
            }
        }
    }

    /// The directory that names start at.
    pub fn names_start_at(&self) -> PathBuf {
        let beside = || match &self.manifest {
            Some(ManifestAt::File(path)) => path.parent().map(Path::to_path_buf),
            _ => None,
        };
        let root = self.root.clone().or_else(|| self.dir.clone()).or_else(beside);
        root.filter(|root| !root.as_os_str().is_empty()).unwrap_or_else(|| PathBuf::from("."))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        if self.is_written { Dir::open_named(path) } else { Dir::open(path) }
    }

    /// The directory of the manifest at `path`, if that is the file `id` there.
    fn dir_of(&self, path: &Path, id: Identity) -> Option<Dir> {
        let dir = self.open_dir(directory_of(path)).ok()?;
        let found = dir.stat(path.file_name()?, true).ok()?;
        (found.id == id).then_some(dir)
    }

    fn fill(&self, target: &mut Target) -> Result<FoundManifest> {
        let (mut is_recorded, mut misnamed) = (false, None);
        let (manifest, mut unfinished, rivals) = match &self.manifest {
            Some(ManifestAt::StandardInput) => {
                target.manifest = "standard input".into();
                let input = sys::standard_input().deed("read", &target.manifest)?;
                (input, None, Vec::new())
            }
            Some(ManifestAt::File(path)) => {
                target.manifest.clone_from(path);
                target.ours = path.file_name().and_then(ManifestName::parse);
                let open = |error| Error::io("open the manifest", path, error);
                target.part = self.part;
                let manifest = match self.part {
                    PartOf::Alone => File::open(path),
                    _ => open_in(directory_of(path), path.file_name().unwrap_or_default()),
                };
                let manifest = manifest.map_err(open)?;
                let superseding = target.ours.and_then(|name| self.superseding(path, name));
                (manifest, None, superseding.into_iter().collect())
            }
            None => {
                let dir = self.dir.as_deref().unwrap_or(Path::new("."));
                let mut own = OwnManifests::look(dir, self.state.as_deref())?;
                misnamed = own.misnamed.take();
                let mut taken = own.open_valid(dir)?;
                if taken.is_recorded {
                    // Earlier ones that cannot be read say nothing; the one that holds is checked.
                    let dropped = Dir::open(dir).and_then(|here| own.dropped(&here, taken.name));
                    taken.rivals.extend(dropped.ok().flatten());
                }
                target.manifest = dir.join(taken.name.to_string());
                (target.ours, is_recorded) = (Some(taken.name), taken.is_recorded);
                (taken.file, taken.unfinished, taken.rivals)
            }
        };
        let path = &target.manifest;
        let stat = Dir::stat_file(&manifest).deed("look at", path)?;
        if stat.kind == Kind::Dir {
            return Err(Error::finding("read the manifest", path, "it is a directory"));
        }
        if self.manifest != Some(ManifestAt::StandardInput) {
            target.beside = self.dir_of(path, stat.id);
        }
        let fail = |error| Error::io("open the directory", &target.root, error);
        let root = self.open_dir(&target.root).map_err(fail)?;
        target.root_id = root.identity().map_err(fail)?;
        let others = match (&self.manifest, target.ours) {
            (None, Some(name)) => other_lists(&root, name),
            _ => Vec::new(),
        };
        target.handle = Some(root);
        unfinished = unfinished.filter(|name| target.ours.is_some_and(|ours| *name > ours));
        let id = stat.id;
        Ok(FoundManifest { manifest, id, is_recorded, unfinished, rivals, others, misnamed })
    }

    /// The manifest in the same directory that took the place of the one at `path`, called `name`.
    fn superseding(&self, path: &Path, name: ManifestName) -> Option<Rival> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(".".as_ref());
        let manifests = OwnManifests::look(dir, self.state.as_deref());
        // That it was asked for is reason enough to check against it.
        let valid = manifests.and_then(|manifests| manifests.valid(dir)).ok()?;
        valid.filter(|valid| *valid > name).map(Rival::Superseding)
    }
}
