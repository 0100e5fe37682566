//! What is to be checked, with directories that are archives as the lists that they have.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::manifest::archive::bag::{DECLARATION, START};
use crate::manifest::archive::mhl::{self, CHAIN, HISTORY};
use crate::path::directory_of;
use crate::sys::stat::Kind;
use crate::sys::{Dir, Uninterrupted};
use crate::verify::archive::bag;
use crate::verify::archive::expanded::Expanded;
use crate::verify::archive::history;
use crate::verify::choice::OwnManifests;
use crate::verify::target::{ManifestAt, TargetSpec};

/// Puts the lists of archives in the place of what was asked for.
pub fn expand(asked: Vec<TargetSpec>) -> Expanded {
    let mut expanded = Expanded::default();
    for spec in asked {
        match archive_of(&spec) {
            Archive::None => expanded.specs.push(spec),
            Archive::Bag => bag::expand(&spec, &mut expanded),
            Archive::History => history::expand(&spec, &mut expanded),
            Archive::Generation(root) => {
                expanded.specs.push(TargetSpec { root: Some(root), ..spec });
            }
        }
    }
    expanded
}

/// What a directory or a file is.
enum Archive {
    None,
    /// A bag; the specification is that of its directory.
    Bag,
    /// A history.
    History,
    /// One generation of a history of this directory.
    Generation(PathBuf),
}

/// Looks whether an archive is asked for. A finished manifest of dircopy in a directory comes first.
fn archive_of(spec: &TargetSpec) -> Archive {
    match &spec.manifest {
        Some(ManifestAt::StandardInput) => Archive::None,
        Some(ManifestAt::File(path)) => archive_by(spec, path),
        None => {
            let dir = spec.dir.as_deref().unwrap_or(Path::new("."));
            let ours = OwnManifests::look(dir, spec.state.as_deref());
            if spec.root.is_some() || ours.is_ok_and(|ours| !matches!(ours.valid(dir), Ok(None))) {
                return Archive::None;
            }
            let Ok(here) = Dir::open(dir) else { return Archive::None };
            let has = |here: &Dir, name: &str, kind| {
                here.stat(name.as_ref(), false).is_ok_and(|stat| stat.kind == kind)
            };
            match () {
                () if has(&here, DECLARATION, Kind::File) => Archive::Bag,
                () if has(&here, HISTORY, Kind::Dir) => Archive::History,
                () => Archive::None,
            }
        }
    }
}

/// What a file that was given stands for.
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
    if let Some(dir) = spec.root.as_ref().or(spec.dir.as_ref()) {
        // A chain lists what lies beside it; with any other directory, its history is held against that.
        let id = |dir: &Path| Dir::open(dir).and_then(|dir| dir.identity()).ok();
        return match is_chain && id(dir) != id(above) {
            true => Archive::History,
            false => Archive::None,
        };
    }
    if start.starts_with(START) && path.file_name().is_some_and(|name| name == DECLARATION) {
        return Archive::Bag;
    }
    match (is_in_history, is_chain) {
        (false, _) => Archive::None,
        (true, true) => Archive::History,
        (true, false) => Archive::Generation(directory_of(above).to_owned()),
    }
}
