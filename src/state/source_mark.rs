//! Which file systems the source was on when the last complete run ended: `source` in the private directory.
//!
//! A disk that is not mounted leaves an empty directory, or another one, in its place. A mirror that took it for
//! the source would remove what is on the disk. So a run notes by what the source's file system is known, and
//! those that were mounted below it, and a later mirror run compares. By the root itself it is known when source and
//! output have been exchanged.

use std::{collections::BTreeMap, fmt, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    path::RelPath, path::directory_of, state::Note, state::private_dir::mark_of, sys, sys::Dir,
};

/// The name for a file system of which the system tells nothing, or nothing now: it may have had no descriptor left to
/// ask with.
const UNKNOWN: &str = "unknown";

/// So many file systems below the source are noted.
const MOST_MOUNTS: usize = 1000;

/// By what a file system is known again after a restart: its UUID, or what kind it is where it has none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VolumeMark {
    uuid: Option<String>,
    kind: Option<String>,
}

impl VolumeMark {
    /// That of the file system which `dir` lies on.
    fn of(dir: &Dir) -> Self {
        // What cannot be asked now may have one.
        let Ok(uuid) = sys::volume_uuid(dir) else { return Self::default() };
        // Some virtual disks have one of noughts alone.
        let uuid = uuid.filter(|uuid| uuid.contains(|c| !matches!(c, '0' | '-')));
        Self { uuid: uuid.map(plain), kind: sys::volume_details(dir).file_system.map(plain) }
    }

    /// True if anything is known of it.
    pub fn is_known(&self) -> bool {
        self.uuid.is_some() || self.kind.is_some()
    }

    /// True if it is another than the one that was noted as `then`. A run that had only the kind to note may have been
    /// one of a system that tells no UUIDs.
    pub fn is_other_than(&self, then: &Self) -> bool {
        match then.uuid {
            Some(_) => self.uuid != then.uuid,
            None => self.kind != then.kind,
        }
    }

    /// True if both are known by the same, and that says that they are two.
    pub fn is_surely_other_than(&self, then: &Self) -> bool {
        match (&self.uuid, &then.uuid) {
            (Some(now), Some(then)) => now != then,
            _ => self.kind.is_some() && then.kind.is_some() && self.kind != then.kind,
        }
    }
}

impl fmt::Display for VolumeMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.uuid, &self.kind) {
            (Some(uuid), _) => write!(f, "uuid:{uuid}"),
            (None, Some(kind)) => write!(f, "kind:{kind}"),
            (None, None) => f.write_str(UNKNOWN),
        }
    }
}

impl PartialEq for VolumeMark {
    /// True if they are known by the same.
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid && (self.uuid.is_some() || self.kind == other.kind)
    }
}

impl Eq for VolumeMark {}

/// By what a source is known again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceMark {
    /// That of its root.
    pub root: VolumeMark,
    /// By what the root itself is known again there.
    dir: Option<String>,
    /// Where it was, without links; not in notes of earlier versions. Bytes that are no text are told alike.
    #[serde(default)]
    at: Option<String>,
    /// The same as the user gave it, with links.
    #[serde(default)]
    given: Option<String>,
    pub mounts: Mounts,
}

/// Where below the root of a source others were mounted, and what they are known by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounts(BTreeMap<RelPath, VolumeMark>);

impl Mounts {
    /// Notes that a file system was mounted at `path`.
    pub fn add(&mut self, path: RelPath, dir: &Dir) {
        if self.0.len() < MOST_MOUNTS {
            self.0.insert(path, VolumeMark::of(dir));
        }
    }

    /// Forgets those of other paths.
    pub fn keep_only(&mut self, mut stays: impl FnMut(&RelPath) -> bool) {
        self.0.retain(|path, _| stays(path));
    }

    /// Adds those of an earlier walk that this one did not come to.
    pub fn add_earlier(&mut self, earlier: Self) {
        for (path, id) in earlier.0.into_iter().take(MOST_MOUNTS - self.0.len()) {
            self.0.entry(path).or_insert(id);
        }
    }

    /// Where some were.
    pub fn paths(&self) -> impl Iterator<Item = &RelPath> {
        self.0.keys()
    }

    /// True if a file system was mounted at `path`.
    pub fn has(&self, path: &RelPath) -> bool {
        self.0.contains_key(path)
    }
}

impl Note for SourceMark {
    const FILE: &str = "source";
    const HEAD: &str = "dircopy source 3";
}

impl SourceMark {
    /// That of a source whose root is `root`, with these mounts below it.
    pub fn of(root: &Dir, mounts: Mounts) -> Self {
        Self { root: VolumeMark::of(root), dir: mark_of(root).ok(), at: None, given: None, mounts }
    }

    /// The same, which is known to be at `path`.
    #[must_use]
    pub fn at(self, path: &Path) -> Self {
        Self { at: whole(path), given: given(path), ..self }
    }

    /// Where the source that was noted was, if that is known.
    pub fn place(&self) -> Option<&str> {
        self.at.as_deref()
    }

    /// True if the source that was noted, which is a directory, was at `path`.
    pub fn was_at(&self, path: &Path) -> bool {
        self.at.is_some() && self.at == whole(path)
    }

    /// True if the source that was noted was given by the same `path`, wherever links on it led.
    pub fn was_given_as(&self, path: &Path) -> bool {
        self.given.is_some() && self.given == given(path)
    }

    /// True if `dir` is the source that was noted, and not only on the same file system.
    pub fn is_of(&self, dir: &Dir) -> bool {
        let now = Self::of(dir, Mounts::default());
        self.is_known() && self.root == now.root && self.dir.is_some() && self.dir == now.dir
    }

    /// True if `dir` is surely another directory of the same file system.
    pub fn is_other_dir_than(&self, dir: &Dir) -> bool {
        let now = Self::of(dir, Mounts::default());
        let dirs = self.dir.as_ref().zip(now.dir.as_ref());
        dir.keeps_numbers()
            && self.root == now.root
            && dirs.is_some_and(|(one, other)| one != other)
    }

    /// Where it was, if that is another path than `path`, and `dir`, which is there, another directory.
    pub fn other_than(&self, dir: &Dir, path: &Path) -> Option<&str> {
        self.at.as_deref().filter(|_| self.is_known() && !self.was_at(path) && !self.is_of(dir))
    }

    /// True if it is known what file system the root is on.
    pub fn is_known(&self) -> bool {
        self.root.is_known()
    }
}

/// The directories that single files were copied from, by the paths that the user gave, as far as others may give these
/// names to other directories.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FileSources(BTreeMap<String, SourceMark>);

impl Note for FileSources {
    const FILE: &str = "file-sources";
    const HEAD: &str = "dircopy file sources 1";
}

impl FileSources {
    /// Adds `dir`, in which the file at `path` is; whether that changes anything.
    pub fn add(&mut self, path: &Path, dir: &Dir) -> bool {
        let Some(at) = given(directory_of(path)) else { return false };
        let mark = SourceMark::of(dir, Mounts::default());
        let is_new = self.0.get(&at) != Some(&mark)
            && (self.0.len() < MOST_MOUNTS || self.0.contains_key(&at));
        if is_new {
            self.0.insert(at, mark);
        }
        is_new
    }

    /// That in which the file at `path` was.
    pub fn of(mut self, path: &Path) -> Option<SourceMark> {
        self.0.remove(&given(directory_of(path))?)
    }
}

fn whole(path: &Path) -> Option<String> {
    Some(path.canonicalize().ok()?.to_string_lossy().into_owned())
}

/// As the user gave it, whatever is there.
fn given(path: &Path) -> Option<String> {
    Some(std::path::absolute(path).ok()?.to_string_lossy().into_owned())
}

/// Without blanks.
fn plain(text: String) -> String {
    text.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn it_is_read_as_it_was_written() {
        let (_root, dir, private) = scratch();
        assert_eq!(SourceMark::read(&private), None);
        let mut mark = SourceMark::of(&dir, Mounts::default());
        mark.mounts.add(RelPath::parse(b"a/b\n c").unwrap(), &dir);
        for _ in 0..2 {
            mark.write(&private, true).unwrap();
            assert_eq!(SourceMark::read(&private).as_ref(), Some(&mark));
        }
        assert!(mark.mounts.has(&RelPath::parse(b"a/b\n c").unwrap()));
    }

    #[test]
    fn a_kind_may_be_one_with_a_uuid() {
        let [a, b] =
            ["a", "b"].map(|uuid| VolumeMark { uuid: Some(uuid.into()), kind: Some("xfs".into()) });
        let [kind, other] =
            ["xfs", "ext4"].map(|kind| VolumeMark { uuid: None, kind: Some(kind.into()) });
        assert!(!a.is_other_than(&kind) && !a.is_other_than(&a));
        assert!(a.is_other_than(&b) && a.is_other_than(&other) && kind.is_other_than(&a));
        assert!(!VolumeMark::default().is_known() && kind.is_known());
        assert!(a.is_surely_other_than(&b) && a.is_surely_other_than(&other));
        assert!(!a.is_surely_other_than(&kind) && !kind.is_surely_other_than(&a));
    }
}
