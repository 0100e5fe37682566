//! The targets of a check, with directories that are archives replaced by the lists that they have.

use std::{collections::HashSet, fs::File, io, io::Read, path::Path, path::PathBuf, sync::Arc};

use crate::manifest::archive::{bag::DECLARATION, bag::START, mhl, mhl::CHAIN, mhl::HISTORY};
use crate::{
    error::Error, error::Result, hash::Algorithm, manifest::Declaration, path::RelPath,
    path::Shown, path::directory_of, sys::Dir, sys::Uninterrupted, sys::stat::Kind, tree::LastDir,
    verify::Finding, verify::Findings, verify::ManifestAt, verify::ManifestLines,
    verify::NameHasher, verify::PartOf, verify::Target, verify::TargetSpec, verify::bag,
    verify::choice::DirProof, verify::choice::OwnManifests, verify::history,
    verify::history::BagPart, verify::lines::manifest_lines::Meaning,
};

/// Puts the lists of archives in the place of what was asked for.
pub fn expand(asked: Vec<TargetSpec>) -> Expanded {
    let mut expanded = Expanded::default();
    for spec in asked {
        let ours = spec.manifest.is_none().then(|| {
            let dir = spec.dir.as_deref().unwrap_or(Path::new("."));
            OwnManifests::look(dir, spec.state.as_deref()).ok()
        });
        let mut ours = ours.flatten();
        if let Some(error) = ours.as_mut().and_then(|ours| ours.unbelieved.take()) {
            expanded.found(&Arc::new(Target::none()), Finding::Warning(error));
        }
        match archive_of(&spec, ours.as_ref()) {
            Archive::None => expanded.specs.push(spec),
            Archive::Bag => bag::expand(&spec, &mut expanded),
            Archive::Either => {
                bag::expand(&spec, &mut expanded);
                expanded.specs.push(spec);
            }
            Archive::EitherHistory => {
                history::expand(&spec, &mut expanded);
                expanded.specs.push(spec);
            }
            Archive::History => history::expand(&spec, &mut expanded),
            Archive::Generation(root) => {
                expanded.specs.push(TargetSpec { root: Some(root), ..spec });
            }
        }
    }
    expanded
}

/// The kinds of archive that a directory or a file can be.
enum Archive {
    None,
    /// A bag; the specification is that of its directory.
    Bag,
    /// A bag, or a directory that has a manifest: it is checked as both.
    Either,
    /// A history.
    History,
    /// A history, or a directory that has a manifest which no record knows: it is checked as both.
    EitherHistory,
    /// One generation of a history of this directory.
    Generation(PathBuf),
}

/// Looks whether an archive is asked for. A finished manifest of dircopy in a directory, if it has any of `ours`, comes
/// first.
fn archive_of(spec: &TargetSpec, ours: Option<&OwnManifests>) -> Archive {
    match &spec.manifest {
        Some(ManifestAt::StandardInput) => Archive::None,
        Some(ManifestAt::File(path)) => archive_by(spec, path),
        None => {
            let dir = spec.dir.as_deref().unwrap_or(Path::new("."));
            if spec.root.is_some() {
                return Archive::None;
            }
            let is_listed = ours.is_some_and(|it| !matches!(it.valid(dir), Ok(None)));
            let has_history = || {
                let stat = Dir::open(dir).and_then(|here| here.stat(HISTORY.as_ref(), false));
                stat.is_ok_and(|stat| stat.kind == Kind::Dir)
            };
            match ours.map_or(DirProof::Nothing, OwnManifests::proof) {
                DirProof::Bag => Archive::Bag,
                DirProof::Either if is_listed => Archive::Either,
                DirProof::Either => Archive::Bag,
                _ if !is_listed && has_history() => Archive::History,
                DirProof::Manifest if has_history() => Archive::EitherHistory,
                _ => Archive::None,
            }
        }
    }
}

/// The archive that a given file stands for.
fn archive_by(spec: &TargetSpec, path: &Path) -> Archive {
    let mut start = Vec::new();
    // It is opened again, by its name: what is no regular file may be read once only.
    if !std::fs::metadata(path).is_ok_and(|file| file.is_file()) {
        return Archive::None;
    }
    let read =
        File::open(path).and_then(|file| Uninterrupted(file).take(512).read_to_end(&mut start));
    if read.is_err() {
        return Archive::None;
    }
    let above = directory_of(path);
    let is_in_history = mhl::is_mhl(&start) && above.file_name().is_some_and(|it| it == HISTORY);
    let is_chain = is_in_history && path.file_name().is_some_and(|name| name == CHAIN);
    let is_of_bag =
        start.starts_with(START) && path.file_name().is_some_and(|name| name == DECLARATION);
    if let Some(dir) = spec.root.as_ref().or(spec.dir.as_ref()) {
        let id = |dir: &Path| Dir::open(dir).and_then(|dir| dir.identity()).ok();
        return match id(dir) == id(above) {
            true if is_of_bag => Archive::Bag,
            // A chain lists what lies beside it; with any other directory, its history is held against that.
            false if is_chain => Archive::History,
            _ => Archive::None,
        };
    }
    if is_of_bag {
        return Archive::Bag;
    }
    match (is_in_history, is_chain) {
        (false, _) => Archive::None,
        (true, true) => Archive::History,
        (true, false) => Archive::Generation(directory_of(above).to_owned()),
    }
}

// The targets that archives become: their lists, and the findings before these are read.

/// The targets of a check.
#[derive(Default)]
pub struct Expanded {
    /// The lists.
    pub specs: Vec<TargetSpec>,
    /// The bags among what was asked for.
    pub bags: Vec<Bag>,
    /// The findings about archives before their lists were read.
    pub findings: Vec<Findings>,
}

/// A bag, as far as it is no list.
#[derive(Debug)]
pub struct Bag {
    /// Its `bagit.txt` and its directory.
    pub target: Arc<Target>,
    /// The names of the manifests of its payload that can be checked.
    pub manifests: Vec<String>,
    /// The names of those that cannot, by algorithms that are not known here.
    pub unknown: Vec<String>,
    /// The content of `bagit.txt`.
    pub declaration: Declaration,
    /// The bytes and files that its payload has by its `Payload-Oxum`.
    pub oxum: Option<(u64, u64)>,
}

impl Expanded {
    /// Adds a finding about an archive.
    pub fn found(&mut self, target: &Arc<Target>, finding: Finding) {
        self.findings.push(Findings::new(target, vec![finding]));
    }

    /// Adds the finding that a part of the target cannot be used.
    pub fn unusable(&mut self, target: &Arc<Target>, error: Error) {
        self.found(target, Finding::Unusable(error));
    }
}

/// The directory of the archive that a specification is of: with a file, `above` levels above the one it is in.
pub fn root_of(spec: &TargetSpec, above: usize) -> PathBuf {
    match &spec.manifest {
        Some(ManifestAt::File(path)) => {
            let mut dir = directory_of(path);
            (0..above).for_each(|_| dir = directory_of(dir));
            dir.to_owned()
        }
        _ => spec.dir.clone().unwrap_or_else(|| ".".into()),
    }
}

/// Opens a regular file in `dir`, not through a link.
///
/// # Errors
/// There is none.
pub fn open(dir: &Dir, name: &str) -> io::Result<File> {
    if dir.stat(name.as_ref(), false)?.kind != Kind::File {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let file = dir.open_file(name.as_ref(), false)?;
    match Dir::stat_file(&file)?.kind {
        Kind::File => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Reads what `input` begins with, up to `most` bytes.
///
/// # Errors
/// It cannot be read.
pub fn read_begin(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Uninterrupted(input).take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads what `input` has, if it is not more than `most` bytes.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn read_short(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let bytes = read_begin(input, most + 1)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long to be one")),
        false => Ok(bytes),
    }
}

// A manifest of a bag's payload by an algorithm that is not known here: its digests cannot be checked, but it must
// list every file of the payload, as each manifest of it must, and every file that it lists must be there.

/// Such a manifest, read.
pub struct UnknownList {
    /// The manifest, and the directory of the bag.
    pub target: Arc<Target>,
    names: HashSet<u64>,
}

impl UnknownList {
    /// Reads the manifest `name` of a bag, and tells what is wrong with it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(
        bag: &Bag,
        name: &str,
        key: &NameHasher,
        tell: &mut impl FnMut(&Target, Finding),
    ) -> Result<Self> {
        let (root, path) = (&bag.target.root, bag.target.root.join(name));
        let fail = |error| Error::io("read the manifest", &path, error);
        let dir = bag.target.handle()?;
        let declaration = bag.declaration;
        let part = BagPart { is_tag: false, algorithm: Algorithm::None, declaration };
        let kept = dir.try_clone().map_err(fail)?;
        let target = Target::of_dir(path.clone(), root.clone(), kept, PartOf::Bag(part))?;
        let target = Arc::new(target);
        let mut list = Self { target: Arc::clone(&target), names: HashSet::new() };
        let mut lines = ManifestLines::new(&target, open(dir, name).map_err(fail)?);
        let mut last = LastDir::default();
        while let Some(meaning) = lines.next_line().map_err(fail)? {
            let finding = match meaning {
                Meaning::Fault(finding) => Some(finding),
                Meaning::Unhashed(line, path, _) => list.take(line, path, part, key, &mut last),
                _ => None,
            };
            finding.into_iter().for_each(|finding| tell(&target, finding));
        }
        Ok(list)
    }

    /// Takes a name in, and looks for its file.
    fn take(
        &mut self,
        line: u64,
        path: RelPath,
        part: BagPart,
        key: &NameHasher,
        last: &mut LastDir,
    ) -> Option<Finding> {
        let spellings = [Some(path.clone()), part.other_spelling(&path)];
        let mut is_there = false;
        for path in spellings.into_iter().flatten() {
            self.names.insert(key.of(&path));
            let root = self.target.handle().ok()?;
            is_there |= last.stat(root, &path, false).is_ok_and(|stat| stat.kind == Kind::File);
        }
        let manifest = Shown::path(&self.target.manifest);
        let why = || format!("line {line} of {manifest} lists it, and there is no such file");
        let missing = || Error::finding("find the listed file", self.target.path_of(&path), why());
        (!is_there).then(|| Finding::Incomplete(missing()))
    }

    /// True if it lists the path with this hash.
    pub fn has(&self, hash: u64) -> bool {
        self.names.contains(&hash)
    }
}
