//! What is checked: a manifest and the directory its names start at.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::manifest::ManifestName;
use crate::path::RelPath;
use crate::sys::stat::{Identity, Kind};
use crate::sys::{self, Dir, DirReader};

/// Where a manifest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestAt {
    /// In this file, whatever it is called.
    File(PathBuf),
    /// On standard input.
    StandardInput,
}

/// A manifest and the directory its names start at.
#[derive(Debug)]
pub struct Target {
    /// The manifest, for messages; empty where none was found.
    pub manifest: PathBuf,
    /// The directory that names start at.
    pub root: PathBuf,
    /// Whether the manifest is called as dircopy calls its own, and whether as a finished one.
    pub ours: Option<ManifestName>,
    /// Which directory `root` is.
    pub root_id: Identity,
    handle: Option<Dir>,
}

#[derive(Debug)]
pub struct OpenTarget {
    pub target: Arc<Target>,
    pub manifest: File,
    /// Which file it is.
    pub id: Identity,
    pub root_id: Identity,
    /// A manifest of a later run that was cut short.
    pub unfinished: Option<ManifestName>,
}

/// What is to be opened.
#[derive(Clone, Debug)]
pub struct TargetSpec {
    /// The manifest; the newest finished one of dircopy in `dir` if `None`.
    pub manifest: Option<ManifestAt>,
    /// Where to look for it, and where names start unless `root` says otherwise.
    pub dir: Option<PathBuf>,
    /// Where names start.
    pub root: Option<PathBuf>,
}

impl Target {
    /// For findings that concern none.
    pub fn none() -> Self {
        Self::unopened(PathBuf::new(), PathBuf::new())
    }

    fn unopened(manifest: PathBuf, root: PathBuf) -> Self {
        Self { manifest, root, ours: None, root_id: Identity::default(), handle: None }
    }

    /// The directory that names start at, opened once for the whole check.
    pub fn handle(&self) -> Result<&Dir> {
        self.handle.as_ref().ok_or_else(|| Error::finding("check", &self.root, "it is not open"))
    }

    /// The full path of a listed file, for messages.
    pub fn path_of(&self, path: &RelPath) -> PathBuf {
        let mut full = match self.root.as_os_str() == "." {
            true => PathBuf::new(),
            false => self.root.clone(),
        };
        full.extend(path.components().filter_map(|name| sys::name_from_bytes(name).ok()));
        full
    }

    /// Whether the manifest is that of a run of dircopy that did not come to its end.
    pub fn is_unfinished(&self) -> bool {
        self.ours.is_some_and(|name| !name.is_finished())
    }
}

impl TargetSpec {
    /// Opens the manifest and the directory. With an error comes a target to tell it of.
    pub fn open(&self) -> std::result::Result<OpenTarget, (Arc<Target>, Error)> {
        let mut target = Target::unopened(PathBuf::new(), self.names_start_at());
        match self.fill(&mut target) {
            Ok((manifest, id, root_id, unfinished)) => {
                Ok(OpenTarget { target: Arc::new(target), manifest, id, root_id, unfinished })
            }
            Err(error) => Err((Arc::new(target), error)),
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

    fn fill(
        &self,
        target: &mut Target,
    ) -> Result<(File, Identity, Identity, Option<ManifestName>)> {
        let (manifest, mut unfinished) = match &self.manifest {
            Some(ManifestAt::StandardInput) => {
                target.manifest = "standard input".into();
                let input = sys::standard_input()
                    .map_err(|error| Error::io("read", &target.manifest, error))?;
                (input, None)
            }
            Some(ManifestAt::File(path)) => {
                target.manifest.clone_from(path);
                target.ours = path.file_name().and_then(ManifestName::parse);
                let open = |error| Error::io("open the manifest", path, error);
                (File::open(path).map_err(open)?, None)
            }
            None => {
                let dir = self.dir.as_deref().unwrap_or(Path::new("."));
                let found = newest(dir)?;
                target.manifest = dir.join(found.name.to_string());
                target.ours = Some(found.name);
                (found.file, found.unfinished)
            }
        };
        let path = &target.manifest;
        let stat = Dir::stat_file(&manifest).map_err(|error| Error::io("look at", path, error))?;
        if stat.kind == Kind::Dir {
            return Err(Error::finding("read the manifest", path, "it is a directory"));
        }
        let fail = |error| Error::io("open the directory", &target.root, error);
        let root = Dir::open(&target.root).map_err(fail)?;
        let root_id = root.identity().map_err(fail)?;
        (target.handle, target.root_id) = (Some(root), root_id);
        unfinished = unfinished.filter(|name| target.ours.is_some_and(|ours| *name > ours));
        Ok((manifest, stat.id, root_id, unfinished))
    }
}

struct Newest {
    name: ManifestName,
    file: File,
    unfinished: Option<ManifestName>,
}

/// The newest finished manifest of dircopy in `dir`, and the newest unfinished one. Only regular
/// files count; a name alone proves nothing.
fn newest(dir: &Path) -> Result<Newest> {
    let fail = |error: io::Error| {
        let is_file = error.kind() == io::ErrorKind::NotADirectory;
        let hint = "; a manifest is given with --manifest";
        Error::io("look for a manifest in", dir, error).with_note(if is_file { hint } else { "" })
    };
    let here = Dir::open(dir).map_err(fail)?;
    let (mut finished, mut unfinished) = (Vec::new(), None);
    let mut listing = DirReader::default();
    loop {
        let batch = listing.next_batch(&here).map_err(fail)?;
        if batch.is_empty() {
            break;
        }
        for name in batch.iter().filter_map(|listed| ManifestName::parse(&listed.name)) {
            match name.is_finished() {
                true => finished.push(name),
                false => unfinished = unfinished.max(Some(name)),
            }
        }
    }
    finished.sort_unstable_by(|a, b| b.cmp(a));
    for name in finished {
        let file_name = name.to_string();
        let path = || dir.join(&file_name);
        let cannot = |error| Error::io("open the manifest", path(), error);
        let stat = here.stat(file_name.as_ref(), false).map_err(cannot)?;
        if stat.kind == Kind::File {
            let file = here.open_file(file_name.as_ref(), false).map_err(cannot)?;
            return Ok(Newest { name, file, unfinished });
        }
    }
    let finding = match unfinished {
        None => "there is no finished manifest of dircopy in it (dircopy-<UTC time>.sha256sum); \
                 another is given with --manifest"
            .to_owned(),
        Some(name) => format!(
            "there is only {name}, the manifest of a run that was cut short; \
             run the copy again, or give that one with --manifest"
        ),
    };
    Err(Error::finding("check", dir, finding))
}
