//! What earlier manifests in the open say of an output's files.
//!
//! A manifest in the open proves nothing: it may have been copied there, or written by hand. Its lines are
//! reasons to read a file and compare, and never to leave it unread. One whose name is of the future may have been made
//! up to hide the others: it is asked last.
//!
//! The newest finished manifest is of the whole output, but what it does not list may have been left out because it had
//! rotted. So a file that it does not list is looked for in the older ones, if this user's runs wrote them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::manifest::index::lookup::Index;
use crate::manifest::name::ManifestName;
use crate::manifest::read::{Entries, Parsed};
use crate::path::RelPath;
use crate::sys::stat::Kind;
use crate::sys::{Dir, DirListing};

/// The lines of the earlier manifests of an output: the newest finished one, unfinished ones
/// that are newer still, and those of the future; and what older ones list besides.
#[derive(Debug, Default)]
pub struct Carry {
    /// The newest first, and those of the future last.
    earlier: Vec<EarlierManifest>,
    /// Those before them, the newest first: each with the lines of files that no newer one lists.
    older: Vec<EarlierManifest>,
    unfinished: Vec<ManifestName>,
    newest: Option<ManifestName>,
}

#[derive(Debug)]
struct EarlierManifest {
    name: ManifestName,
    index: Index,
}

/// What a manifest in the open lists of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenDigest {
    pub digest: Digest,
    /// Whether that manifest is of the future, so that it may be older than a record.
    pub is_ahead: bool,
}

impl Carry {
    /// Reads the earlier manifests in the root of an output, whose path is `path`. Those that
    /// `is_copied` tell of another tree; what those up to `covered` say is known already. One that cannot
    /// be read is as good as none and is told as a warning. Once `is_to_stop` says so nothing more is
    /// read: the run comes to nothing anyway.
    pub fn load(
        root: &Dir,
        path: &Path,
        is_copied: impl Fn(&OsStr) -> bool,
        covered: Option<ManifestName>,
        is_to_stop: &dyn Fn() -> bool,
    ) -> (Self, Vec<Error>) {
        let mut warnings = Vec::new();
        let mut earlier = Vec::new();
        let mut names = ours(root, is_copied, covered).unwrap_or_else(|error| {
            warnings.push(Error::io("look for earlier manifests in", path, error));
            Vec::new()
        });
        let newest = names.first().copied();
        // Those that are known already were left by killed runs as well.
        let is_unfinished = |name: &ManifestName| !name.is_finished();
        let mut unfinished: Vec<_> = names.iter().copied().filter(is_unfinished).collect();
        // What came from a source is known by the record; what came later, or without one, by being listed here.
        names.retain(|name| Some(*name) > covered);
        let listed = listed_by_others(root, &names, is_to_stop);
        let is_listed = |name: &ManifestName| listed.contains(name);
        unfinished.retain(|name| !is_listed(name));
        // Those of runs do not list each other. Where nothing else is there, each may be the one that holds.
        let mut before = Vec::new();
        let is_finished = |name: &&ManifestName| name.is_finished();
        let are_all_listed = names.iter().filter(is_finished).all(is_listed) && !listed.is_empty();
        if covered.is_none() && are_all_listed {
            names.retain(|name| name.is_finished() || !is_listed(name));
        } else {
            names.retain(|name| !is_listed(name));
            // The newest finished one is of the whole output; what counts besides was begun after it.
            let (ahead, mut of_runs): (Vec<_>, Vec<_>) =
                names.into_iter().partition(ManifestName::is_ahead);
            if let Some(newest) = of_runs.iter().position(ManifestName::is_finished) {
                before = of_runs.split_off(newest + 1);
            }
            warnings.extend(ahead.iter().map(|name| of_the_future(path, name)));
            names = [of_runs, ahead].concat();
        }
        let mut failed = |name: ManifestName, error| {
            unfinished.retain(|other| *other != name);
            let path = path.join(name.to_string());
            warnings.push(Error::io("read the earlier manifest", path, error));
        };
        for name in names {
            match EarlierManifest::open(root, name, is_to_stop) {
                Ok(Some(opened)) => earlier.push(opened),
                // What is no regular file is none of ours.
                Ok(None) => {}
                Err(error) => failed(name, error),
            }
        }
        let mut older: Vec<EarlierManifest> = Vec::new();
        for name in before {
            let is_new = |path: &[u8]| !earlier.iter().chain(&older).any(|it| it.index.lists(path));
            match EarlierManifest::open_older(root, name, &is_new, is_to_stop) {
                Ok(opened) => older.extend(opened.filter(|opened| !opened.index.is_empty())),
                Err(error) => failed(name, error),
            }
        }
        (Self { earlier, older, unfinished, newest }, warnings)
    }

    fn all(&self) -> impl Iterator<Item = &EarlierManifest> {
        self.earlier.iter().chain(&self.older)
    }

    /// The digest that the newest manifest has for the file at `path`. Whatever the answer, the path's
    /// lines are settled.
    pub fn listed(&self, path: &[u8]) -> Option<OpenDigest> {
        let mut found = None;
        for earlier in self.all() {
            // A manifest that cannot be read back is as good as none.
            let listed = earlier.index.lookup(path).ok().flatten();
            let of_it = |digest| OpenDigest {
                digest: earlier.meaning_of(digest),
                is_ahead: earlier.name.is_ahead(),
            };
            found = found.or(listed.map(of_it));
        }
        found
    }

    /// Whether one of the newest manifests lists a file at `path`. What only older ones list may have left since, and
    /// another file have its name.
    pub fn lists(&self, path: &[u8]) -> bool {
        self.earlier.iter().any(|earlier| earlier.index.lists(path))
    }

    /// The lines of the file at `path` are settled: something else is known about it.
    pub fn settle(&self, path: &[u8]) {
        for earlier in self.all() {
            // A manifest that cannot be read back is found out when what is unasked is read.
            let _ = earlier.index.visit(path);
        }
    }

    /// The lines of the file at `path` are not settled, whatever was asked before.
    pub fn reopen(&self, path: &[u8]) {
        for earlier in self.all() {
            let _ = earlier.index.forget_visit(path);
        }
    }

    /// Hands to `keep` every line that is not settled: its path, its digest, and whether a newer manifest left it out;
    /// of several lines for a path, the newest. They end early once `is_to_stop` says so.
    pub fn unasked(
        &self,
        is_to_stop: &dyn Fn() -> bool,
        mut keep: impl FnMut(&RelPath, &Digest, bool) -> Result<()>,
    ) -> Result<()> {
        for (at, earlier) in self.all().enumerate() {
            let failed =
                |error| Error::io("read the earlier manifest", earlier.name.to_string(), error);
            for record in earlier.index.unvisited(is_to_stop) {
                if is_to_stop() {
                    return Ok(());
                }
                let (path, digest) = record.map_err(failed)?;
                for older in self.earlier.iter().skip(at + 1) {
                    older.index.visit(path.as_bytes()).map_err(failed)?;
                }
                keep(&path, &earlier.meaning_of(digest), at >= self.earlier.len())?;
            }
        }
        Ok(())
    }

    /// The newest, finished or not.
    pub fn newest(&self) -> Option<ManifestName> {
        self.newest
    }

    /// The names of all manifests of runs that were cut short.
    pub fn unfinished(&self) -> impl Iterator<Item = ManifestName> {
        self.unfinished.iter().copied()
    }
}

impl EarlierManifest {
    /// A digest that is listed in it.
    fn meaning_of(&self, digest: Digest) -> Digest {
        digest.in_list_of(self.name.algorithm())
    }

    fn open(
        root: &Dir,
        name: ManifestName,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        let file_name = name.to_string();
        if root.stat(file_name.as_ref(), false)?.kind != Kind::File {
            return Ok(None);
        }
        let file = root.open_file(file_name.as_ref(), false)?;
        let index = Index::build(file, is_to_stop)?;
        Ok(Some(Self { name, index }))
    }

    /// One that newer ones took the place of, with the lines whose names are `wanted`. It is believed only if no other
    /// user can have written it: nothing newer speaks against what it says.
    fn open_older(
        root: &Dir,
        name: ManifestName,
        wanted: &dyn Fn(&[u8]) -> bool,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        let file_name = name.to_string();
        if root.stat(file_name.as_ref(), false)?.kind != Kind::File {
            return Ok(None);
        }
        let file = root.open_file(file_name.as_ref(), false)?;
        let stat = Dir::stat_file(&file)?;
        if stat.kind != Kind::File || !Dir::is_kept_by_us(&stat) {
            return Ok(None);
        }
        let index = Index::build_of(file, wanted, is_to_stop)?;
        Ok(Some(Self { name, index }))
    }
}

/// That a manifest has a name that sorts behind those of all runs.
fn of_the_future(path: &Path, name: &ManifestName) -> Error {
    let finding = "its name is of the future, and sorts behind those of runs: a clock was wrong, or somebody made it up; \
                   remove it, or know the newest by its time";
    Error::finding("take for the newest manifest", path.join(name.to_string()), finding)
}

/// Which of these manifests in the root of an output another of them lists. One that cannot be read lists nothing.
fn listed_by_others(
    root: &Dir,
    names: &[ManifestName],
    is_to_stop: &dyn Fn() -> bool,
) -> BTreeSet<ManifestName> {
    let mut listed = BTreeSet::new();
    for by in names.iter().filter(|_| names.len() > 1) {
        let file_name = by.to_string();
        let is_file =
            root.stat(file_name.as_ref(), false).is_ok_and(|stat| stat.kind == Kind::File);
        let Some(file) = is_file.then(|| root.open_file(file_name.as_ref(), false).ok()).flatten()
        else {
            continue;
        };
        let mut entries = Entries::of_all(file);
        while let Ok(Some(entry)) = entries.next_entry()
            && !is_to_stop()
        {
            let Parsed::Record(record) = entry.parsed else { continue };
            let name = record.name.strip_prefix(b"./").unwrap_or(record.name);
            let name =
                str::from_utf8(name).ok().and_then(|name| ManifestName::parse(name.as_ref()));
            listed.extend(name.filter(|name| name != by && names.contains(name)));
        }
    }
    listed
}

/// The manifests in the root of an output, the newest first and those of the future last. One is known to be the
/// manifest of its run where it is `recorded`.
pub fn ours(
    root: &Dir,
    is_in_source: impl Fn(&OsStr) -> bool,
    recorded: Option<ManifestName>,
) -> io::Result<Vec<ManifestName>> {
    let mut names: Vec<ManifestName> = Vec::new();
    for entry in DirListing::of(root)? {
        let ours = Some(entry?.name).filter(|name| !is_in_source(name));
        names.extend(ours.and_then(|name| ManifestName::parse(&name)));
    }
    ManifestName::drop_lists(&mut names, recorded);
    ManifestName::newest_first(&mut names);
    Ok(names)
}
